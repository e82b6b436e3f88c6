"""Inception-ResNet v2: Szegedy, Ioffe, Vanhoucke and Alemi, "Inception-v4, Inception-ResNet and the
Impact of Residual Connections on Learning", 2016 (https://arxiv.org/abs/1602.07261).

Built as TF-Slim's published checkpoint is: its stem is that of Inception v3, the residual branches
are scaled by 0.17, 0.10 and 0.20 (section 3.3 of the paper), and names are those of its variables.
"""

import dataclasses

from nets.inception_cells import (
    Layer,
    Mixed,
    auxiliary_logits,
    chain,
    classifier,
    concat_branches,
    reducing,
)
from slim_mp.compat import slim, tf

_STEM = (
    reducing("Conv2d_1a_3x3", 32),
    Layer("Conv2d_2a_3x3", 32, padding="VALID"),
    Layer("Conv2d_2b_3x3", 64),
    reducing("MaxPool_3a_3x3"),
    Layer("Conv2d_3b_1x1", 80, padding="VALID"),
    Layer("Conv2d_4a_3x3", 192, padding="VALID"),
    reducing("MaxPool_5a_3x3"),
    Mixed(
        "Mixed_5b",
        (
            (Layer("Conv2d_1x1", 96),),
            (Layer("Conv2d_0a_1x1", 48), Layer("Conv2d_0b_5x5", 64)),
            (Layer("Conv2d_0a_1x1", 64), Layer("Conv2d_0b_3x3", 96), Layer("Conv2d_0c_3x3", 96)),
            (Layer("AvgPool_0a_3x3"), Layer("Conv2d_0b_1x1", 64)),
        ),
    ),
)
_REDUCTION_A = Mixed(
    "Mixed_6a",
    (
        (reducing("Conv2d_1a_3x3", 384),),
        (Layer("Conv2d_0a_1x1", 256), Layer("Conv2d_0b_3x3", 256), reducing("Conv2d_1a_3x3", 384)),
        (reducing("MaxPool_1a_3x3"),),
    ),
)
_REDUCTION_B = Mixed(
    "Mixed_7a",
    (
        (Layer("Conv2d_0a_1x1", 256), reducing("Conv2d_1a_3x3", 384)),
        (Layer("Conv2d_0a_1x1", 256), reducing("Conv2d_1a_3x3", 288)),
        (Layer("Conv2d_0a_1x1", 256), Layer("Conv2d_0b_3x3", 288), reducing("Conv2d_1a_3x3", 320)),
        (reducing("MaxPool_1a_3x3"),),
    ),
)
_BLOCK35 = (
    (Layer("Conv2d_1x1", 32),),
    (Layer("Conv2d_0a_1x1", 32), Layer("Conv2d_0b_3x3", 32)),
    (Layer("Conv2d_0a_1x1", 32), Layer("Conv2d_0b_3x3", 48), Layer("Conv2d_0c_3x3", 64)),
)
_BLOCK17 = (
    (Layer("Conv2d_1x1", 192),),
    (Layer("Conv2d_0a_1x1", 128), Layer("Conv2d_0b_1x7", 160), Layer("Conv2d_0c_7x1", 192)),
)
_BLOCK8 = (
    (Layer("Conv2d_1x1", 192),),
    (Layer("Conv2d_0a_1x1", 192), Layer("Conv2d_0b_1x3", 224), Layer("Conv2d_0c_3x1", 256)),
)


@dataclasses.dataclass(frozen=True)
class Residual:
    """Adds the scaled linear projection of concatenated branches to the input.

    Without `activate` the sum is handed on as it is.
    """

    scope: str
    branches: tuple
    scale: float
    activate: bool = True

    def __call__(self, net):
        with tf.variable_scope(self.scope):
            update = slim.conv2d(
                concat_branches(net, self.branches),
                net.shape.as_list()[3],
                [1, 1],
                normalizer_fn=None,
                activation_fn=None,
                scope="Conv2d_1x1",
            )
            net += update * self.scale
            return tf.nn.relu(net) if self.activate else net


def _repeated(scope, count, branches, scale):
    return [Residual(f"{scope}_{index}", branches, scale) for index in range(1, count + 1)]


def _features(images, end_points):
    """Runs everything up to the last convolution, [batch, 8, 8, 1536] at 299 pixels."""
    net = chain(images, _STEM, end_points)
    net = chain(net, _repeated("Repeat/block35", 10, _BLOCK35, 0.17))
    net = chain(net, [_REDUCTION_A], end_points)
    net = chain(net, _repeated("Repeat_1/block17", 20, _BLOCK17, 0.10))
    end_points["PreAuxLogits"] = net
    net = chain(net, [_REDUCTION_B], end_points)
    net = chain(net, _repeated("Repeat_2/block8", 9, _BLOCK8, 0.20))
    net = Residual("Block8", _BLOCK8, 1.0, activate=False)(net)
    return chain(net, [Layer("Conv2d_7b_1x1", 1536)], end_points)


def inception_resnet_v2(
    images,
    num_classes=1001,
    is_training=True,
    dropout_keep_prob=0.8,
    reuse=None,
    scope="InceptionResnetV2",
    create_aux_logits=True,
):
    """Builds Inception-ResNet v2; call it under `inception_resnet_v2_arg_scope`.

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
      points, a dict of tensors: `Conv2d_1a_3x3` ... `Mixed_7a`, `PreAuxLogits` (17x17x1088 at 299
      pixels), `Conv2d_7b_1x1`, `global_pool`, `PreLogitsFlatten`, `Logits`, `Predictions` and
      `AuxLogits`.
    """
    end_points = {}
    with (
        tf.variable_scope(scope, "InceptionResnetV2", [images], reuse=reuse),
        slim.arg_scope([slim.batch_norm, slim.dropout], is_training=is_training),
    ):
        net = _features(images, end_points)
        if create_aux_logits and num_classes:
            end_points["AuxLogits"] = auxiliary_logits(
                end_points["PreAuxLogits"], num_classes, "Conv2d_2a_5x5", "Logits"
            )
        return classifier(net, num_classes, dropout_keep_prob, end_points), end_points


def inception_resnet_v2_arg_scope(
    weight_decay=0.00004,
    batch_norm_decay=0.9997,
    batch_norm_epsilon=0.001,
    activation_fn=tf.nn.relu,
):
    """Defaults of the layers of Inception-ResNet v2: batch norm without scale, biases decayed too.

    Args:
      weight_decay: float factor of the L2 losses of the weights and biases of all layers.
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
            biases_regularizer=slim.l2_regularizer(weight_decay),
        ),
        slim.arg_scope(
            [slim.conv2d],
            activation_fn=activation_fn,
            normalizer_fn=slim.batch_norm,
            normalizer_params={"decay": batch_norm_decay, "epsilon": batch_norm_epsilon},
        ) as scope,
    ):
        return scope
