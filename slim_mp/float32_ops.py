"""Operations that compute in float32 inside a half-precision graph, between casts.

Two kinds need it. Reductions over many values overflow or lose their small terms in half on any
device (49 values of 2,000 sum to infinity in float16).
Convolutions and matrix products have half kernels on a CPU, but slow ones, whose accumulation
differs from a tensor core's: between casts they round the same values and accumulate in float32.

No network has to know of it. Local response normalization takes another way (`float32_lrn`): it
has no bfloat16 kernel, and a session refuses a graph that holds an operation without a kernel even
where nothing reads it.
"""

import contextlib
import functools
import importlib

from slim_mp.compat import tf
from slim_mp.op_outputs import replaced_outputs

REDUCTIONS = frozenset({"AvgPool", "LogSoftmax", "Mean", "Softmax", "Sum"})
# MaxPool is exact in any dtype; its half gradient kernel is what is slow.
SLOW_ON_CPU = frozenset(
    {
        "BatchMatMulV2",
        "Conv2D",
        "Conv2DBackpropInput",
        "DepthwiseConv2dNative",
        "MatMul",
        "MaxPool",
    }
)

_HALF = (tf.float16, tf.bfloat16)
_LRN_NAMES = ("local_response_normalization", "lrn")
_LRN_HOMES = (tf.nn, tf.compat.v2.nn, importlib.import_module("tensorflow").nn)


def _widened(tensor):
    return tf.cast(tensor, tf.float32) if tensor.dtype in _HALF else tensor


def _create_in_float32(operation, attrs):
    attrs["T"] = type(attrs["T"])(type=tf.float32.as_datatype_enum)
    with operation.graph.name_scope(operation.name + "/float32/"):
        wide = operation.graph.create_op(
            operation.type,
            [_widened(value) for value in operation.inputs],
            [tf.float32],
            attrs=attrs,
            name=operation.type,
        )
        return tf.cast(wide.outputs[0], operation.outputs[0].dtype)


def float32_ops(op_types):
    """While open, new half-precision operations of some types compute in float32.

    Args:
      op_types: a set of TensorFlow operation types with one output and the type attribute `T`,
        such as `REDUCTIONS`.

    Returns:
      A context manager. Names of variables do not change; the float32 operation is called
      `<name of the operation>/float32/<type>`.
    """

    def replace(operation, attrs):
        if operation.type in op_types and operation.outputs[0].dtype in _HALF:
            return _create_in_float32(operation, attrs)
        return None

    return replaced_outputs(replace)


@contextlib.contextmanager
def float32_lrn():
    """While open, `tf.nn.lrn` computes in float32 and returns the dtype of its input."""
    original = tf.nn.lrn

    @functools.wraps(original)
    def widened(input, *args, **kwargs):
        tensor = tf.convert_to_tensor(input)
        return tf.cast(original(_widened(tensor), *args, **kwargs), tensor.dtype)

    def put(function):
        for home in _LRN_HOMES:
            for name in _LRN_NAMES:
                setattr(home, name, function)

    put(widened)
    try:
        yield
    finally:
        put(original)
