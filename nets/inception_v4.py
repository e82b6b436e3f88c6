"""Inception v4: Szegedy, Ioffe, Vanhoucke and Alemi, "Inception-v4, Inception-ResNet and the Impact
of Residual Connections on Learning", 2016 (https://arxiv.org/abs/1602.07261), figures 3 to 9.

Variables and end points carry the names of TF-Slim's published checkpoint.
"""

from nets.inception_cells import Fork, Layer, Mixed, auxiliary_logits, chain, classifier, reducing
from slim_mp.compat import slim, tf

_BLOCK_A = (
    (Layer("Conv2d_0a_1x1", 96),),
    (Layer("Conv2d_0a_1x1", 64), Layer("Conv2d_0b_3x3", 96)),
    (Layer("Conv2d_0a_1x1", 64), Layer("Conv2d_0b_3x3", 96), Layer("Conv2d_0c_3x3", 96)),
    (Layer("AvgPool_0a_3x3"), Layer("Conv2d_0b_1x1", 96)),
)
_REDUCTION_A = (
    (reducing("Conv2d_1a_3x3", 384),),
    (Layer("Conv2d_0a_1x1", 192), Layer("Conv2d_0b_3x3", 224), reducing("Conv2d_1a_3x3", 256)),
    (reducing("MaxPool_1a_3x3"),),
)
_BLOCK_B = (
    (Layer("Conv2d_0a_1x1", 384),),
    (Layer("Conv2d_0a_1x1", 192), Layer("Conv2d_0b_1x7", 224), Layer("Conv2d_0c_7x1", 256)),
    (
        Layer("Conv2d_0a_1x1", 192),
        Layer("Conv2d_0b_7x1", 192),
        Layer("Conv2d_0c_1x7", 224),
        Layer("Conv2d_0d_7x1", 224),
        Layer("Conv2d_0e_1x7", 256),
    ),
    (Layer("AvgPool_0a_3x3"), Layer("Conv2d_0b_1x1", 128)),
)
_REDUCTION_B = (
    (Layer("Conv2d_0a_1x1", 192), reducing("Conv2d_1a_3x3", 192)),
    (
        Layer("Conv2d_0a_1x1", 256),
        Layer("Conv2d_0b_1x7", 256),
        Layer("Conv2d_0c_7x1", 320),
        reducing("Conv2d_1a_3x3", 320),
    ),
    (reducing("MaxPool_1a_3x3"),),
)
_BLOCK_C = (
    (Layer("Conv2d_0a_1x1", 256),),
    (
        Layer("Conv2d_0a_1x1", 384),
        Fork((Layer("Conv2d_0b_1x3", 256), Layer("Conv2d_0c_3x1", 256))),
    ),
    (
        Layer("Conv2d_0a_1x1", 384),
        Layer("Conv2d_0b_3x1", 448),
        Layer("Conv2d_0c_1x3", 512),
        Fork((Layer("Conv2d_0d_1x3", 256), Layer("Conv2d_0e_3x1", 256))),
    ),
    (Layer("AvgPool_0a_3x3"), Layer("Conv2d_0b_1x1", 256)),
)
_STEM = (
    reducing("Conv2d_1a_3x3", 32),
    Layer("Conv2d_2a_3x3", 32, padding="VALID"),
    Layer("Conv2d_2b_3x3", 64),
    Mixed("Mixed_3a", ((reducing("MaxPool_0a_3x3"),), (reducing("Conv2d_0a_3x3", 96),))),
    Mixed(
        "Mixed_4a",
        (
            (Layer("Conv2d_0a_1x1", 64), Layer("Conv2d_1a_3x3", 96, padding="VALID")),
            (
                Layer("Conv2d_0a_1x1", 64),
                Layer("Conv2d_0b_1x7", 64),
                Layer("Conv2d_0c_7x1", 64),
                Layer("Conv2d_1a_3x3", 96, padding="VALID"),
            ),
        ),
    ),
    Mixed("Mixed_5a", ((reducing("Conv2d_1a_3x3", 192),), (reducing("MaxPool_1a_3x3"),))),
)
_BODY = (
    *_STEM,
    *(Mixed(f"Mixed_5{letter}", _BLOCK_A) for letter in "bcde"),
    Mixed("Mixed_6a", _REDUCTION_A),
    *(Mixed(f"Mixed_6{letter}", _BLOCK_B) for letter in "bcdefgh"),
    Mixed("Mixed_7a", _REDUCTION_B),
    *(Mixed(f"Mixed_7{letter}", _BLOCK_C) for letter in "bcd"),
)


def inception_v4(
    images,
    num_classes=1001,
    is_training=True,
    dropout_keep_prob=0.8,
    reuse=None,
    scope="InceptionV4",
    create_aux_logits=True,
):
    """Builds Inception v4; call it under `inception_v4_arg_scope`.

    Args:
      images: `[batch, height, width, channels]` images in [-1, 1] of at least 75x75 pixels;
        published weights are for 299x299x3.
      num_classes: int number of classes; 0 or None leaves both classifiers out.
      is_training: bool or boolean scalar tensor, for batch norm and dropout.
      dropout_keep_prob: float share of the last features that training keeps.
      reuse: whether to take the variables of an earlier call with the same scope.
      scope: str variable scope.
      create_aux_logits: whether to build the auxiliary classifier; it wants a static image size.

    Returns:
      `[batch, num_classes]` logits, or `[batch, 1, 1, 1536]` features without classes; and the end
      points, a dict of tensors: `Conv2d_1a_3x3` ... `Mixed_7d` (8x8x1536 at 299 pixels),
      `global_pool`, `PreLogitsFlatten`, `Logits`, `Predictions` and `AuxLogits`.
    """
    end_points = {}
    with (
        tf.variable_scope(scope, "InceptionV4", [images], reuse=reuse),
        slim.arg_scope([slim.batch_norm, slim.dropout], is_training=is_training),
    ):
        net = chain(images, _BODY, end_points)
        if create_aux_logits and num_classes:
            end_points["AuxLogits"] = auxiliary_logits(
                end_points["Mixed_6h"], num_classes, "Conv2d_2a", "Aux_logits"
            )
        return classifier(net, num_classes, dropout_keep_prob, end_points), end_points


def inception_v4_arg_scope(
    weight_decay=0.00004,
    batch_norm_decay=0.9997,
    batch_norm_epsilon=0.001,
    activation_fn=tf.nn.relu,
):
    """Defaults of the layers of Inception v4: batch norm without scale, He initialisation.

    Args:
      weight_decay: float factor of the L2 losses of the weights of all layers.
      batch_norm_decay: float decay of the moving statistics.
      batch_norm_epsilon: float added to the variance.
      activation_fn: activation of the convolutions.

    Returns:
      An arg_scope.
    """
    with (
        slim.arg_scope(
            [slim.conv2d, slim.fully_connected],
            weights_regularizer=slim.l2_regularizer(weight_decay),
        ),
        slim.arg_scope(
            [slim.conv2d],
            weights_initializer=slim.variance_scaling_initializer(),
            activation_fn=activation_fn,
            normalizer_fn=slim.batch_norm,
            normalizer_params={"decay": batch_norm_decay, "epsilon": batch_norm_epsilon},
        ) as scope,
    ):
        return scope
