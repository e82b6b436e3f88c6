"""Layers, branches and heads that Inception v4 and Inception-ResNet v2 share.

A network is a table of nodes. Each node is a frozen value that maps a feature map
`[batch, height, width, channels]` to the next one and that owns the variable scope it is named by,
so a table reads like the figures of Szegedy et al., "Inception-v4, Inception-ResNet and the Impact
of Residual Connections on Learning" (https://arxiv.org/abs/1602.07261).
"""

import dataclasses

from slim_mp.compat import slim, tf

_OPS = {"Conv2d": slim.conv2d, "MaxPool": slim.max_pool2d, "AvgPool": slim.avg_pool2d}


@dataclasses.dataclass(frozen=True)
class Layer:
    """A convolution or a pooling; its scope says which and how large, as in `Conv2d_0b_1x7`."""

    scope: str
    depth: int | None = None
    stride: int = 1
    padding: str = "SAME"

    def __call__(self, net):
        parts = self.scope.split("_")
        kernel = [int(side) for side in parts[-1].split("x")]
        depth = () if self.depth is None else (self.depth,)
        return _OPS[parts[0]](
            net, *depth, kernel, stride=self.stride, padding=self.padding, scope=self.scope
        )


@dataclasses.dataclass(frozen=True)
class Fork:
    """Layers side by side on one input, concatenated, without a scope of their own."""

    layers: tuple

    def __call__(self, net):
        return tf.concat([layer(net) for layer in self.layers], axis=3)


@dataclasses.dataclass(frozen=True)
class Mixed:
    """Branches (chains of nodes) side by side on one input, concatenated along the channels."""

    scope: str
    branches: tuple

    def __call__(self, net):
        with tf.variable_scope(self.scope):
            return concat_branches(net, self.branches)


def reducing(scope, depth=None):
    """A layer that halves height and width: stride 2 over the positions that fit.

    Args:
      scope: str, as for Layer.
      depth: int number of filters of a convolution, or None for a pooling.

    Returns:
      A Layer.
    """
    return Layer(scope, depth, stride=2, padding="VALID")


def concat_branches(net, branches):
    """Runs each branch in `Branch_<i>` of the current scope and concatenates their outputs.

    Args:
      net: `[batch, height, width, channels]` feature map.
      branches: tuple of tuples of nodes; all end at the same height and width.

    Returns:
      `[batch, height', width', sum of the branches' channels]` feature map.
    """
    outputs = []
    for index, branch in enumerate(branches):
        with tf.variable_scope(f"Branch_{index}"):
            outputs.append(chain(net, branch))
    return tf.concat(outputs, axis=3)


def chain(net, nodes, end_points=None):
    """Runs nodes one after the other.

    Args:
      net: `[batch, height, width, channels]` feature map.
      nodes: sequence of nodes.
      end_points: dict that takes each node's output under the node's scope, or None.

    Returns:
      The last node's feature map.
    """
    for node in nodes:
        net = node(net)
        if end_points is not None:
            end_points[node.scope] = net
    return net


def auxiliary_logits(net, num_classes, conv_scope, logits_scope):
    """The auxiliary classifier of the grid in the middle of the network, in scope `AuxLogits`.

    The pooling window shrinks with maps of fewer than 5x5 positions; the last convolution covers
    all that is left, so the shape of its weights follows the image size (5x5 at 299 pixels).

    Args:
      net: `[batch, height, width, channels]` feature map of static height and width.
      num_classes: int.
      conv_scope: str, scope of the convolution over the whole map.
      logits_scope: str, scope of the fully connected layer.

    Returns:
      `[batch, num_classes]` logits.
    """
    with tf.variable_scope("AuxLogits"), slim.arg_scope([slim.conv2d], padding="VALID"):
        window = [min(5, side) for side in net.shape.as_list()[1:3]]
        net = slim.avg_pool2d(net, window, stride=3, padding="VALID")
        net = slim.conv2d(net, 128, [1, 1], scope="Conv2d_1b_1x1")
        net = slim.conv2d(net, 768, net.shape.as_list()[1:3], scope=conv_scope)
        return slim.fully_connected(
            slim.flatten(net), num_classes, activation_fn=None, scope=logits_scope
        )


def classifier(net, num_classes, dropout_keep_prob, end_points):
    """Global average, dropout and the fully connected layer, in scope `Logits`.

    Args:
      net: `[batch, height, width, channels]` last feature map.
      num_classes: int; 0 or None stops at the global average.
      dropout_keep_prob: float share of the features that training keeps.
      end_points: dict that takes `global_pool`, `PreLogitsFlatten`, `Logits` and `Predictions`.

    Returns:
      `[batch, num_classes]` logits, or the `[batch, 1, 1, channels]` features.
    """
    with tf.variable_scope("Logits"):
        net = tf.reduce_mean(net, axis=[1, 2], keepdims=True, name="global_pool")
        end_points["global_pool"] = net
        if not num_classes:
            return net
        net = slim.dropout(net, dropout_keep_prob, scope="Dropout_1b")
        net = end_points["PreLogitsFlatten"] = slim.flatten(net, scope="PreLogitsFlatten")
        logits = slim.fully_connected(net, num_classes, activation_fn=None, scope="Logits")
        end_points["Logits"] = logits
        end_points["Predictions"] = tf.nn.softmax(logits, name="Predictions")
    return logits
