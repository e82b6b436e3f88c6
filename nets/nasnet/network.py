"""What NASNet and PNASNet share: a stem, a row of cells, an auxiliary head and a final layer.

A network is a table of steps (`Network`); `build` walks it. Sources: arXiv:1707.07012 (figure 2,
appendix A), arXiv:1712.00559 (section 5).
"""

import dataclasses

from nets.nasnet import cells
from slim_mp.compat import slim, tf
from slim_mp.errors import UsageError

# The auxiliary head pools over windows of this many pixels.
_AUX_WINDOW = 5


@dataclasses.dataclass(frozen=True)
class Stem:
    """The first convolution, 3x3: its scope, its channels, its stride and padding."""

    scope: str
    norm_scope: str
    filters: int
    stride: int
    padding: str


def imagenet_stem(filters):
    """The stem for large images: halves them, without padding."""
    return Stem("conv0", "conv0_bn", filters, 2, "VALID")


def cifar_stem(filters):
    """The stem for small images: keeps their size."""
    return Stem("l1_stem_3x3", "l1_stem_bn", filters, 1, "SAME")


@dataclasses.dataclass(frozen=True)
class Step:
    """One cell of a network.

    Attributes:
      scope: its variable scope.
      cell: a `cells.Cell`.
      filters: channels of each of its states.
      stride: 1 or 2.
      previous: how many outputs back its second input lies (the first lies one back).
      end_point: the name of its output, or None.
      aux_scope: the variable scope of the auxiliary head on its output, or None for no head.
    """

    scope: str
    cell: cells.Cell
    filters: int
    stride: int = 1
    previous: int = 2
    end_point: str | None = None
    aux_scope: str | None = None


@dataclasses.dataclass(frozen=True)
class Network:
    """A network as a table.

    Attributes:
      stem: a `Stem`.
      steps: a tuple of `Step`s.
      dropout_keep_prob: of the dropout before the logits.
      drop_path_keep_prob: of the drop path in the last cell at the end of training.
      total_training_steps: global steps over which drop path grows to that.
    """

    stem: Stem
    steps: tuple
    dropout_keep_prob: float
    drop_path_keep_prob: float
    total_training_steps: int

    def with_drop_path(self, keep_prob=None, total_training_steps=None):
        """A copy with another drop path; None keeps what the table has."""
        keep_prob = self.drop_path_keep_prob if keep_prob is None else keep_prob
        steps = self.total_training_steps if total_training_steps is None else total_training_steps
        if not 0.0 < keep_prob <= 1.0:
            raise UsageError(
                f"drop_path_keep_prob is {keep_prob}; it must be above 0 and at most 1 "
                "(1 switches drop path off)."
            )
        if steps <= 0:
            raise UsageError(f"total_training_steps is {steps}; it must be above 0.")
        return dataclasses.replace(self, drop_path_keep_prob=keep_prob, total_training_steps=steps)


def imagenet_stem_steps(cell, filters):
    """The two cells that belong to the stem of the networks for large images."""
    return (
        Step("cell_stem_0", cell, filters // 4, stride=2),
        Step("cell_stem_1", cell, filters // 2, stride=2, end_point="Stem"),
    )


def reduction_places(num_cells, num_reductions=2):
    """The numbers of the cells at which size is halved: they part the cells evenly."""
    return [place * num_cells // (num_reductions + 1) for place in range(1, num_reductions + 1)]


def _may_train(is_training):
    static = tf.get_static_value(is_training) if tf.is_tensor(is_training) else is_training
    return static is None or bool(static)


def _schedule(network, is_training):
    """Progress of the drop path from 0 to 1: a float32 tensor, or None for no drop path."""
    if network.drop_path_keep_prob == 1.0 or not _may_train(is_training):
        return None
    step = tf.train.get_global_step()
    if step is None:
        progress = tf.constant(1.0)
    else:
        progress = tf.minimum(1.0, tf.cast(step, tf.float32) / network.total_training_steps)
    return tf.where(is_training, progress, 0.0) if tf.is_tensor(is_training) else progress


def _stem(images, stem):
    net = slim.conv2d(
        images, stem.filters, 3, stride=stem.stride, padding=stem.padding, scope=stem.scope
    )
    return slim.batch_norm(net, scope=stem.norm_scope)


def _aux_head(net, num_classes):
    """Logits `[batch, num_classes]` from `[batch, height, width, channels]` inside the network."""
    size = net.shape.as_list()[1:3]
    if None in size or min(size) < _AUX_WINDOW:
        raise UsageError(
            f"The auxiliary head gets a map of {size[0]}x{size[1]}; to train, it needs a "
            f"known size of at least {_AUX_WINDOW}x{_AUX_WINDOW}: use larger images of fixed size."
        )
    net = slim.avg_pool2d(tf.nn.relu(net), _AUX_WINDOW, stride=3, padding="VALID")
    net = slim.batch_norm(slim.conv2d(net, 128, 1, scope="proj"), scope="aux_bn0")
    net = tf.nn.relu(net)
    net = slim.conv2d(net, 768, net.shape.as_list()[1:3], padding="VALID", scope="Conv")
    net = tf.nn.relu(slim.batch_norm(net, scope="aux_bn1"))
    return slim.fully_connected(tf.squeeze(net, [1, 2]), num_classes, scope="FC")


def _cells(net, network, schedule):
    """Yields (step, output) of each cell in turn."""
    outputs = [(None, 1), (net, 1)]
    for number, step in enumerate(network.steps):
        net, shrunk = outputs[-1]
        previous, previous_shrunk = outputs[-step.previous]
        keep_prob = 1.0
        if schedule is not None:
            depth = (number + 1) / len(network.steps)
            keep_prob = 1.0 - schedule * depth * (1.0 - network.drop_path_keep_prob)
        with tf.variable_scope(step.scope):
            net = cells.apply_cell(
                step.cell,
                net,
                previous,
                step.filters,
                stride=step.stride,
                previous_is_larger=previous_shrunk < shrunk,
                keep_prob=keep_prob,
            )
        outputs.append((net, shrunk * step.stride))
        yield step, net


def _final_layer(net, num_classes, dropout_keep_prob):
    """Yields the end points after the last cell."""
    with tf.variable_scope("final_layer"):
        net = tf.reduce_mean(tf.nn.relu(net), axis=[1, 2], name="global_pool")
    yield "global_pool", net
    if not num_classes:
        return
    with tf.variable_scope("final_layer"):
        net = slim.dropout(net, dropout_keep_prob, scope="dropout")
        logits = slim.fully_connected(net, num_classes, scope="FC")
    yield "Logits", logits
    yield "Predictions", tf.nn.softmax(logits, name="final_layer/predictions")


def _end_points(images, network, num_classes, is_training):
    """Yields (name, tensor) of each end point in turn and builds no further than it is asked."""
    stem = _stem(images, network.stem)
    if all(step.end_point != "Stem" for step in network.steps):
        yield "Stem", stem
    for step, net in _cells(stem, network, _schedule(network, is_training)):
        if step.end_point:
            yield step.end_point, net
        if step.aux_scope and num_classes and _may_train(is_training):
            with tf.variable_scope(step.aux_scope), tf.variable_scope("aux_logits"):
                aux_logits = _aux_head(net, num_classes)
            yield "AuxLogits", aux_logits
    yield from _final_layer(net, num_classes, network.dropout_keep_prob)


def build(network, images, num_classes, is_training=True, final_endpoint=None, reuse=None):
    """Builds a network from its table.

    Args:
      network: a `Network`.
      images: `[batch, height, width, 3]`; to train with the auxiliary head, height and width must
        be known.
      num_classes: classes of the logits; 0 or None for features.
      is_training: a bool, or a scalar bool tensor. It switches batch norm, dropout, drop path and
        the auxiliary head, which is there unless it is known to be False.
      final_endpoint: the name of the end point at which to stop, or None.
      reuse: whether the variables exist already, as for tf.variable_scope.

    Returns:
      `(net, end_points)`: the logits `[batch, num_classes]`, the features `[batch, channels]`
      without classes, or the tensor of `final_endpoint`; and a dict of tensors by name.

    Raises:
      UsageError: if there is no such end point, or if images are too small for the auxiliary head.
    """
    layers = [slim.conv2d, slim.separable_conv2d]
    end_points = {}
    with (
        tf.variable_scope(tf.get_variable_scope(), reuse=reuse),
        slim.arg_scope(layers, activation_fn=None, biases_initializer=None),
        slim.arg_scope([slim.fully_connected], activation_fn=None),
        slim.arg_scope([slim.batch_norm], scale=True),
        slim.arg_scope([slim.batch_norm, slim.dropout], is_training=is_training),
    ):
        for name, net in _end_points(images, network, num_classes, is_training):
            end_points[name] = net
            if name == final_endpoint:
                return net, end_points
    if final_endpoint is not None:
        raise UsageError(
            f"No end point is called {final_endpoint!r}; there are {', '.join(end_points)}."
        )
    return end_points["Logits" if num_classes else "global_pool"], end_points


def arg_scope(weight_decay, batch_norm_decay, batch_norm_epsilon):
    """The arg_scope of both families.

    Args:
      weight_decay: factor of the L2 loss on all weights.
      batch_norm_decay: decay of the moving statistics.
      batch_norm_epsilon: what is added to the variance.

    Returns:
      An arg_scope.
    """
    with (
        slim.arg_scope(
            [slim.conv2d, slim.separable_conv2d, slim.fully_connected],
            weights_regularizer=slim.l2_regularizer(weight_decay),
            weights_initializer=slim.variance_scaling_initializer(mode="FAN_OUT"),
        ),
        slim.arg_scope(
            [slim.batch_norm], decay=batch_norm_decay, epsilon=batch_norm_epsilon, scale=True
        ) as scope,
    ):
        return scope
