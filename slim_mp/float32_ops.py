"""Operations that compute in float32 inside a half-precision graph, between casts.

Two kinds need it. Reductions over many values overflow or lose their small terms in half on any
device (49 values of 2,000 sum to infinity in float16).
Convolutions and matrix products have half kernels on a CPU, but slow ones, whose accumulation
differs from a tensor core's: between casts they round the same values and accumulate in float32.

The seam is TensorFlow's op callback, which may put other outputs in the place of those of an
operation that was just created. No network has to know of it, autodiff differentiates the float32
operation, and the operation it stands for is never run, since nothing reads it. It must have a
kernel all the same, as a session places whatever its graph holds; hence the other way for local
response normalization, which has none for bfloat16.
"""

import contextlib
import functools
import importlib

from tensorflow.python.framework import op_callbacks

from slim_mp.compat import tf

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


def _create_in_float32(op_type, inputs, attrs, output, graph):
    attrs = dict(zip(attrs[::2], attrs[1::2], strict=True))
    attrs["T"] = type(attrs["T"])(type=tf.float32.as_datatype_enum)
    with graph.name_scope(output.op.name + "/float32/"):
        operation = graph.create_op(
            op_type, [_widened(value) for value in inputs], [tf.float32], attrs=attrs, name=op_type
        )
        return tf.cast(operation.outputs[0], output.dtype)


@contextlib.contextmanager
def float32_ops(op_types):
    """While open, new half-precision operations of some types compute in float32.

    Args:
      op_types: a set of TensorFlow operation types with one output and the type attribute `T`,
        such as `REDUCTIONS`.

    Yields:
      Nothing. Names of variables do not change; the float32 operation is called
      `<name of the operation>/float32/<type>`.
    """

    def replace_outputs(op_type, inputs, attrs, outputs, op_name=None, graph=None):
        del op_name
        # Another open scope may already have replaced this output.
        replaceable = op_type in op_types and graph is not None and outputs[0].op.type == op_type
        if replaceable and outputs[0].dtype in _HALF:
            return (_create_in_float32(op_type, inputs, attrs, outputs[0], graph),)
        return outputs

    op_callbacks.add_op_callback(replace_outputs)
    try:
        yield
    finally:
        op_callbacks.remove_op_callback(replace_outputs)


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
