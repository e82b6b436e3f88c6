"""What the training graph of a network holds in half precision, counted without running it."""

import collections
import math
import re

from slim_mp.compat import tf
from slim_mp.training.train_graph import classification_loss

HALF = (tf.float16, tf.bfloat16)

_CONVOLUTIONS = frozenset(
    {
        "Conv2D",
        "Conv2DBackpropFilter",
        "Conv2DBackpropInput",
        "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropFilter",
        "DepthwiseConv2dNativeBackpropInput",
    }
)
# They move, name or shape values and compute none.
_PLUMBING = frozenset(
    {
        "BroadcastTo",
        "Cast",
        "ConcatV2",
        "Const",
        "Fill",
        "Identity",
        "Pad",
        "Placeholder",
        "ReadVariableOp",
        "Reshape",
        "Squeeze",
        "StridedSlice",
        "Transpose",
        "VarHandleOp",
    }
)
# Patterns of names of operations; the first that matches counts. The schedule of the drop path is
# outside every scope.
_REASONS = (
    ("moving averages", "/AssignMovingAvg"),
    ("weight decay", "Regularizer/"),
    ("reductions", "/float32/"),
    ("drop path", r"/comb_iter_|^(mul|sub)(_\d+)?$"),
    ("predictions", "^Predictions"),
)


def sparse_loss(logits, end_points):
    """The loss that the programs train with, for images whose labels are 0, 1, 2 and so on.

    Args:
      logits: float32 [batch, num_classes].
      end_points: dict, perhaps with "AuxLogits".

    Returns:
      float32 scalar, with the weight decay of the graph.
    """
    batch_size, num_classes = logits.shape.as_list()
    labels = tf.constant([index % num_classes for index in range(batch_size)], tf.int64)
    decay = tf.losses.get_regularization_loss()
    return classification_loss(labels, logits, end_points) + decay


def multiply_adds(operation):
    """Counts the multiply-adds of an operation from its static shapes.

    Args:
      operation: a tf.Operation.

    Returns:
      Their number; 0 for anything but convolutions, matrix products and their gradients.
    """
    if operation.type == "MatMul":
        inner = operation.inputs[0].shape[0 if operation.get_attr("transpose_a") else 1]
        return operation.outputs[0].shape.num_elements() * int(inner)
    if operation.type not in _CONVOLUTIONS:
        return 0
    if operation.type.endswith("BackpropFilter"):
        kernel, images = operation.outputs[0], operation.inputs[2]
    elif operation.type.endswith("BackpropInput"):
        kernel, images = operation.inputs[1], operation.inputs[2]
    else:
        kernel, images = operation.inputs[1], operation.outputs[0]
    height, width, channels, _ = kernel.shape.as_list()
    of_one_output = height * width * (1 if operation.type.startswith("Depthwise") else channels)
    return images.shape.num_elements() * of_one_output


def count_multiply_adds(operations):
    """Counts multiply-adds.

    Args:
      operations: list of tf.Operation.

    Returns:
      A pair: their number, and the share of them in half precision, 0.0 to 1.0 (nan for none).
    """
    total = in_half = 0
    for operation in operations:
        if count := multiply_adds(operation):
            total += count
            in_half += count if operation.outputs[0].dtype in HALF else 0
    return total, in_half / total if total else math.nan


def count_casts(operations):
    """Counts the casts from float32 to half precision or back among some operations."""
    count = 0
    for operation in operations:
        if operation.type == "Cast":
            dtypes = {operation.inputs[0].dtype, operation.outputs[0].dtype}
            count += tf.float32 in dtypes and bool(dtypes.intersection(HALF))
    return count


def _reason(operation):
    if operation.type == "LRN":
        return "local response normalization"
    for reason, pattern in _REASONS:
        if re.search(pattern, operation.name):
            return reason
    return f"other ({operation.type})"


def float32_operations(operations):
    """Tells which operations of a forward pass compute in float32, and why.

    Args:
      operations: list of tf.Operation that a network in half precision added to its graph.

    Returns:
      A dict from the reason to the number of operations, the largest number first. Initial values
      of variables do not count, nor do operations that move values only, nor fused batch norm,
      whose images are half and whose scale, offset and statistics are float32.
    """
    reasons = collections.Counter(
        _reason(operation)
        for operation in operations
        if operation.type not in _PLUMBING
        and "/Initializer/" not in operation.name
        and operation.outputs
        and operation.outputs[0].dtype == tf.float32
    )
    return dict(reasons.most_common())


def batch_statistics():
    """Finds the tensors that the update operations of the graph move batch norm's averages to.

    Returns:
      A dict from the name of each moving mean and variance to the float32 tensor of the batch.

    Raises:
      ValueError: if an update is not that of TF-Slim's batch norm.
    """
    statistics = {}
    for update in tf.get_collection(tf.GraphKeys.UPDATE_OPS):
        operation = getattr(update, "op", update)
        # variable -= (variable - batch) * (1 - decay)
        difference = operation.inputs[1].op.inputs[0].op
        if operation.type != "AssignSubVariableOp" or difference.type != "Sub":
            raise ValueError(f"{operation.name} is not an update of batch norm's moving averages.")
        statistics[operation.inputs[0].op.name] = difference.inputs[1]
    return statistics
