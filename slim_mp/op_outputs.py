"""The seam between TensorFlow and what slim_mp changes in a network without touching its file.

TensorFlow's op callback may put other outputs in the place of those of an operation that was just
created. Autodiff and every later operation see the new outputs only; the operation they stand for
is never run, since nothing reads it, though it must have a kernel, as a session places whatever its
graph holds.
"""

import contextlib

from tensorflow.python.framework import op_callbacks


@contextlib.contextmanager
def replaced_outputs(replace):
    """While open, lets a function replace the output of each operation that is added to a graph.

    Args:
      replace: function of the operation and a dict of its attributes (AttrValue protos by name)
        that returns the tensor to use in the place of its only output, or None to keep it.

    Yields:
      Nothing.
    """

    def callback(op_type, inputs, attrs, outputs, op_name=None, graph=None):
        del inputs, op_name
        # Another open scope may already have replaced these outputs.
        if graph is None or len(outputs) != 1 or outputs[0].op.type != op_type:
            return outputs
        replacement = replace(outputs[0].op, dict(zip(attrs[::2], attrs[1::2], strict=True)))
        return outputs if replacement is None else (replacement,)

    op_callbacks.add_op_callback(callback)
    try:
        yield
    finally:
        op_callbacks.remove_op_callback(callback)
