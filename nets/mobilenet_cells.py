"""The inverted residual block and the walk over a table of blocks that MobileNet v2 and v3 share.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018
(https://arxiv.org/abs/1801.04381); squeeze-and-excite, hard swish and the head after the pooling:
Howard et al., "Searching for MobileNetV3", 2019 (https://arxiv.org/abs/1905.02244).
"""

import collections.abc
import dataclasses

from slim_mp.compat import slim, tf


@dataclasses.dataclass(frozen=True)
class Block:
    """One inverted residual block, a row of the papers' tables.

    `expansion` is the ratio of the inner channels to the input's; `depth` counts output channels
    at width 1.
    """

    expansion: float
    depth: int
    kernel: int = 3
    stride: int = 1
    activation: collections.abc.Callable = tf.nn.relu
    squeeze_excite: bool = False


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A MobileNet: stem and last convolutions with batch norm around a table of blocks.

    `head_depth` is the width of the biased 1x1 convolution after the pooling, None for none.
    """

    stem_depth: int
    blocks: tuple
    last_depth: int
    head_depth: int | None = None
    activation: collections.abc.Callable = tf.nn.relu6


def divisible(channels, divisor=8):
    """The multiple of `divisor` nearest to `channels`, but not more than a tenth below it.

    Args:
      channels: float number of channels.
      divisor: int; it is also the least result.

    Returns:
      int number of channels.
    """
    nearest = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return nearest if nearest >= 0.9 * channels else nearest + divisor


def hard_swish(net):
    """Hard swish, `x * relu6(x + 3) / 6` (Howard et al., section 5.2), in the dtype of its input.

    The gate is divided before the product, so the result overflows only where the input did.

    Args:
      net: tensor of any shape.

    Returns:
      A tensor of the same shape and dtype.
    """
    return net * (tf.nn.relu6(net + 3.0) / 6.0)


def global_average(net):
    """Averages over height and width, which stay as dimensions of 1.

    Args:
      net: `[batch, height, width, channels]` feature map.

    Returns:
      `[batch, 1, 1, channels]` feature map.
    """
    return tf.reduce_mean(net, axis=[1, 2], keepdims=True)


def squeeze_excite(net):
    """Scales each channel by a hard sigmoid of the global averages of all channels.

    A quarter of the channels (a multiple of 8) lies in the middle. Published weights were trained
    with 0.16667 in place of one sixth in the hard sigmoid.

    Args:
      net: `[batch, height, width, channels]` feature map.

    Returns:
      A feature map of the same shape.
    """
    channels = net.shape.as_list()[3]
    with (
        tf.variable_scope("squeeze_excite"),
        slim.arg_scope([slim.conv2d], kernel_size=[1, 1], normalizer_fn=None),
    ):
        gate = global_average(net)
        gate = slim.conv2d(gate, divisible(channels / 4), activation_fn=tf.nn.relu, scope="Conv")
        gate = slim.conv2d(gate, channels, activation_fn=None, scope="Conv_1")
        return net * (tf.nn.relu6(gate + 3.0) * 0.16667)


def inverted_residual(net, block, depth, scope):
    """Expansion, depthwise convolution and linear projection, with a shortcut where shapes agree.

    Args:
      net: `[batch, height, width, channels]` feature map.
      block: Block.
      depth: int number of output channels.
      scope: str variable scope.

    Returns:
      `[batch, ceil(height / stride), ceil(width / stride), depth]` feature map, and a dict of
      tensors: `expansion_output` (unless the expansion is 1), `depthwise_output`, `output`.
    """
    shortcut, channels = net, net.shape.as_list()[3]
    end_points = {}
    with tf.variable_scope(scope):
        inner = divisible(channels * block.expansion)
        if inner > channels:
            net = slim.conv2d(net, inner, [1, 1], activation_fn=block.activation, scope="expand")
            end_points["expansion_output"] = net
        net = slim.separable_conv2d(
            net,
            None,
            block.kernel,
            stride=block.stride,
            activation_fn=block.activation,
            scope="depthwise",
        )
        end_points["depthwise_output"] = net
        if block.squeeze_excite:
            net = squeeze_excite(net)
        net = slim.conv2d(net, depth, [1, 1], activation_fn=None, scope="project")
        if block.stride == 1 and depth == channels:
            net += shortcut
        end_points["output"] = net
    return net, end_points


def _body(images, architecture, multiplier):
    """Runs all layers; returns them with the tensors inside of the blocks, named by their layer."""
    act = architecture.activation
    widest = max(multiplier, 1.0)
    stem = divisible(architecture.stem_depth * multiplier)
    layers = [slim.conv2d(images, stem, 3, stride=2, activation_fn=act, scope="Conv")]
    inside = {}
    for index, block in enumerate(architecture.blocks):
        scope = f"expanded_conv_{index}" if index else "expanded_conv"
        depth = divisible(block.depth * multiplier)
        net, tensors = inverted_residual(layers[-1], block, depth, scope)
        layers.append(net)
        inside.update({f"layer_{len(layers)}/{name}": value for name, value in tensors.items()})
    last = divisible(architecture.last_depth * (multiplier if architecture.head_depth else widest))
    layers.append(slim.conv2d(layers[-1], last, 1, activation_fn=act, scope="Conv_1"))
    if architecture.head_depth:
        layers.append(global_average(layers[-1]))
        head = divisible(architecture.head_depth * widest)
        layers.append(
            slim.conv2d(layers[-1], head, 1, normalizer_fn=None, activation_fn=act, scope="Conv_2")
        )
    return layers, inside


def mobilenet(images, num_classes, architecture, multiplier, dropout_keep_prob):
    """Builds all of a MobileNet in the current variable scope.

    Args:
      images: `[batch, height, width, channels]` images.
      num_classes: int number of classes; 0 or None stops at the global average.
      architecture: Architecture.
      multiplier: float factor of the channel counts; the widest layer is not thinned by it.
      dropout_keep_prob: float share of the last features that training keeps.

    Returns:
      `[batch, num_classes]` logits or `[batch, 1, 1, channels]` features, and the end points: a
      dict of `layer_<i>`, `layer_<i>/expansion_output`, `layer_<i>/depthwise_output`,
      `layer_<i>/output`, `global_pool`, `Logits` and `Predictions`.
    """
    layers, end_points = _body(images, architecture, multiplier)
    end_points.update({f"layer_{index}": net for index, net in enumerate(layers, 1)})
    with tf.variable_scope("Logits"):
        net = end_points["global_pool"] = global_average(layers[-1])
        if not num_classes:
            return net, end_points
        net = slim.dropout(net, dropout_keep_prob, scope="Dropout")
        net = slim.conv2d(
            net, num_classes, 1, normalizer_fn=None, activation_fn=None, scope="Conv2d_1c_1x1"
        )
        logits = end_points["Logits"] = tf.squeeze(net, [1, 2])
    end_points["Predictions"] = slim.softmax(logits, scope="Predictions")
    return logits, end_points


def mobilenet_arg_scope(weight_decay, batch_norm_decay, stddev):
    """Defaults of the layers of both MobileNets: batch norm everywhere.

    Args:
      weight_decay: float factor of the L2 losses of all weights but the depthwise ones.
      batch_norm_decay: float decay of the moving statistics.
      stddev: float standard deviation of the initial weights, a truncated normal.

    Returns:
      An arg_scope.
    """
    with (
        slim.arg_scope(
            [slim.conv2d, slim.separable_conv2d],
            weights_initializer=tf.truncated_normal_initializer(stddev=stddev),
            normalizer_fn=slim.batch_norm,
        ),
        slim.arg_scope([slim.conv2d], weights_regularizer=slim.l2_regularizer(weight_decay)),
        slim.arg_scope([slim.batch_norm], decay=batch_norm_decay, center=True, scale=True) as scope,
    ):
        return scope
