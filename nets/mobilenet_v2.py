"""MobileNet v2: Sandler, Howard, Zhu, Zhmoginov and Chen, "MobileNetV2: Inverted Residuals and
Linear Bottlenecks", 2018 (https://arxiv.org/abs/1801.04381), table 2.

Variables and end points carry the names of TF-Slim's published checkpoints.
"""

import functools

from nets.mobilenet_cells import Architecture, Block, mobilenet, mobilenet_arg_scope
from slim_mp.compat import slim, tf

# (expansion, output channels, repetitions, stride of the first)
_TABLE = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_ARCHITECTURE = Architecture(
    stem_depth=32,
    blocks=tuple(
        Block(expansion, depth, stride=stride if index == 0 else 1, activation=tf.nn.relu6)
        for expansion, depth, count, stride in _TABLE
        for index in range(count)
    ),
    last_depth=1280,
    activation=tf.nn.relu6,
)


def mobilenet_v2(
    images,
    num_classes=1001,
    is_training=True,
    dropout_keep_prob=0.8,
    reuse=None,
    scope="MobilenetV2",
    depth_multiplier=1.0,
):
    """Builds MobileNet v2; call it under `mobilenet_v2_arg_scope`.

    Args:
      images: `[batch, height, width, channels]` images in [-1, 1]; the network reduces them by 32
        and published weights are for 96 to 224 pixels and 3 channels.
      num_classes: int number of classes; 0 or None gives features.
      is_training: bool or boolean scalar tensor, for batch norm and dropout.
      dropout_keep_prob: float share of the last features that training keeps.
      reuse: whether to take the variables of an earlier call with the same scope.
      scope: str variable scope.
      depth_multiplier: float factor of all channel counts (published: 0.35 to 1.4); below 1 the
        last convolution keeps its 1280 channels (section 6.1 of the paper).

    Returns:
      `[batch, num_classes]` logits, or `[batch, 1, 1, 1280]` features without classes; and the end
      points, a dict of tensors: `layer_1` ... `layer_19` (7x7x1280 at 224 pixels), with
      `/expansion_output`, `/depthwise_output` and `/output` inside of blocks, `global_pool`,
      `Logits` and `Predictions`.
    """
    with (
        tf.variable_scope(scope, "MobilenetV2", [images], reuse=reuse),
        slim.arg_scope([slim.batch_norm, slim.dropout], is_training=is_training),
    ):
        return mobilenet(images, num_classes, _ARCHITECTURE, depth_multiplier, dropout_keep_prob)


mobilenet_v2_140 = functools.partial(mobilenet_v2, depth_multiplier=1.4)
mobilenet_v2_035 = functools.partial(mobilenet_v2, depth_multiplier=0.35)


def mobilenet_v2_arg_scope(weight_decay=0.00004, batch_norm_decay=0.997, stddev=0.09):
    """Defaults of the layers of MobileNet v2.

    Args:
      weight_decay: float factor of the L2 losses of all weights but the depthwise ones.
      batch_norm_decay: float decay of the moving statistics.
      stddev: float standard deviation of the initial weights.

    Returns:
      An arg_scope.
    """
    return mobilenet_arg_scope(weight_decay, batch_norm_decay, stddev)
