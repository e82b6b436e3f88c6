"""The cells of NASNet-A and PNASNet-5 as tables, and the functions that lay one into a graph.

Zoph et al., "Learning Transferable Architectures for Scalable Image Recognition"
(arXiv:1707.07012), figure 4; Liu et al., "Progressive Neural Architecture Search"
(arXiv:1712.00559), figure 1; drop path after Larsson et al., "FractalNet" (arXiv:1605.07648).

Names of variables are those of the published checkpoints.
"""

import dataclasses
import functools

from slim_mp.compat import slim, tf


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell as the search found it.

    Its states are numbered: 0 is the output of the cell before, 1 that of the one before it,
    2 the sum of the first block, 3 that of the second, and so on.

    Attributes:
      blocks: one ((operation, state), (operation, state)) a block, left and right; a block adds
        the two.
      output: the states that are concatenated to the output of the cell.
    """

    blocks: tuple
    output: tuple


NASNET_A_NORMAL = Cell(
    blocks=(
        (("sep5", 0), ("sep3", 1)),
        (("sep5", 1), ("sep3", 1)),
        (("avg3", 0), ("skip", 1)),
        (("avg3", 1), ("avg3", 1)),
        (("sep3", 0), ("skip", 0)),
    ),
    output=(1, 2, 3, 4, 5, 6),
)
NASNET_A_REDUCTION = Cell(
    blocks=(
        (("sep5", 0), ("sep7", 1)),
        (("max3", 0), ("sep7", 1)),
        (("avg3", 0), ("sep5", 1)),
        (("skip", 3), ("avg3", 2)),
        (("sep3", 2), ("max3", 0)),
    ),
    output=(3, 4, 5, 6),
)
PNASNET_5 = Cell(
    blocks=(
        (("sep5", 1), ("max3", 1)),
        (("sep7", 0), ("max3", 0)),
        (("sep5", 0), ("sep3", 0)),
        (("sep3", 4), ("max3", 0)),
        (("sep3", 1), ("skip", 0)),
    ),
    output=(2, 3, 4, 5, 6),
)


def _channels(net):
    return int(net.shape[-1])


def _conv_1x1(net, filters, scope, norm_scope, stride=1):
    net = slim.conv2d(net, filters, 1, stride=stride, scope=scope)
    return slim.batch_norm(net, scope=norm_scope)


def _separable(net, filters, stride, kernel):
    """Two separable convolutions; the first of them strides."""
    size = f"{kernel}x{kernel}"
    for number in (1, 2):
        net = slim.separable_conv2d(
            tf.nn.relu(net),
            filters,
            kernel,
            depth_multiplier=1,
            stride=stride if number == 1 else 1,
            scope=f"separable_{size}_{number}",
        )
        net = slim.batch_norm(net, scope=f"bn_sep_{size}_{number}")
    return net


def _pool(net, filters, stride, layer):
    net = layer(net, 3, stride=stride, padding="SAME")
    return net if _channels(net) == filters else _conv_1x1(net, filters, "1x1", "bn_1")


def _skip(net, filters, stride):
    if stride == 1 and _channels(net) == filters:
        return net
    return _conv_1x1(tf.nn.relu(net), filters, "1x1", "bn_1", stride)


# By the name in the tables: (net, filters, stride) -> net.
_OPERATIONS = {
    "sep3": functools.partial(_separable, kernel=3),
    "sep5": functools.partial(_separable, kernel=5),
    "sep7": functools.partial(_separable, kernel=7),
    "avg3": functools.partial(_pool, layer=slim.avg_pool2d),
    "max3": functools.partial(_pool, layer=slim.max_pool2d),
    "skip": _skip,
}


def factorized_reduction(net, filters):
    """Halves height and width without losing every other pixel: two subsampled paths, one shifted.

    Args:
      net: `[batch, height, width, channels]`.
      filters: channels of the result; the shifted path gets the odd one.

    Returns:
      `[batch, ceil(height / 2), ceil(width / 2), filters]`.
    """
    shifted = tf.pad(net, [[0, 0], [0, 1], [0, 1], [0, 0]])[:, 1:, 1:, :]
    halves = ((1, net, filters // 2), (2, shifted, filters - filters // 2))
    paths = []
    for number, path, width in halves:
        path = slim.avg_pool2d(path, 1, stride=2, padding="VALID")
        paths.append(slim.conv2d(path, width, 1, scope=f"path{number}_conv"))
    return slim.batch_norm(tf.concat(paths, axis=3), scope="final_path_bn")


def drop_path(net, keep_prob):
    """Drops a whole path for some images of the batch and scales it up for the others.

    Args:
      net: `[batch, height, width, channels]`, of any floating dtype.
      keep_prob: the probability to keep the path of an image; 1.0, or a scalar float32 tensor.

    Returns:
      A tensor of the shape and dtype of `net`; `net` itself if `keep_prob` is the number 1.0.
    """
    if not tf.is_tensor(keep_prob) and keep_prob == 1.0:
        return net
    # Drawn in float32: half has too few values below one to draw a small probability well.
    draw = tf.random_uniform([tf.shape(net)[0], 1, 1, 1], dtype=tf.float32)
    factor = tf.floor(keep_prob + draw) / keep_prob
    return net * tf.cast(factor, net.dtype)


def _fit_previous(previous, net, filters, is_larger):
    """Brings state 1 to the size of state 0 and to the width of the cell."""
    if previous is None:
        return net
    if is_larger:
        return factorized_reduction(tf.nn.relu(previous), filters)
    if _channels(previous) == filters:
        return previous
    return _conv_1x1(tf.nn.relu(previous), filters, "prev_1x1", "prev_bn")


def _apply(branch, states, filters, stride, keep_prob):
    operation, state = branch
    # The sums inside a cell have its output size already.
    net = _OPERATIONS[operation](states[state], filters, stride if state < 2 else 1)
    return net if operation == "skip" else drop_path(net, keep_prob)


def _concat(states, output, filters):
    parts = []
    for number in output:
        net = states[number]
        if _channels(net) != filters:
            with tf.variable_scope(f"reduction_{number}"):
                net = _conv_1x1(net, filters, "path_conv", "path_bn")
        parts.append(net)
    return tf.concat(parts, axis=3)


def apply_cell(cell, net, previous, filters, stride=1, previous_is_larger=False, keep_prob=1.0):
    """Lays one cell into the graph, in the current variable scope.

    Args:
      cell: a `Cell`.
      net: `[batch, height, width, channels]`, the output of the cell before.
      previous: the output of the cell before that, of the same size or, if `previous_is_larger`,
        of twice the size; None takes `net` for it.
      filters: channels of each state.
      stride: 1, or 2 to halve height and width.
      previous_is_larger: whether `previous` is of twice the height and width.
      keep_prob: of the drop path, as for `drop_path`.

    Returns:
      `[batch, ceil(height / stride), ceil(width / stride), filters * len(cell.output)]`.
    """
    previous = _fit_previous(previous, net, filters, previous_is_larger)
    states = [_conv_1x1(tf.nn.relu(net), filters, "1x1", "beginning_bn"), previous]
    for number, (left, right) in enumerate(cell.blocks):
        with tf.variable_scope(f"comb_iter_{number}"):
            with tf.variable_scope("left"):
                left = _apply(left, states, filters, stride, keep_prob)
            with tf.variable_scope("right"):
                right = _apply(right, states, filters, stride, keep_prob)
            states.append(left + right)
    with tf.variable_scope("cell_output"):
        return _concat(states, cell.output, filters)
