"""The seam at TF-Slim's batch norm, which makes it safe for half inputs in all of its forms.

The fused kernel takes half inputs with float32 scale, offset and statistics. The unfused code asks
for all four in the dtype of its inputs and updates the moving averages in that dtype, so with half
inputs it neither builds nor counts to a thousand. It is given float32 inputs here.
"""

import contextlib
import functools
import importlib
import inspect

from slim_mp.compat import slim, tf

_HALF = (tf.float16, tf.bfloat16)
_HOMES = tuple(
    importlib.import_module(name) for name in ("tf_slim", "tf_slim.layers", "tf_slim.layers.layers")
)


def _is_fused(inputs, fused=None, batch_weights=None, renorm=False, adjustment=None, **_):
    """Whether tf_slim.batch_norm takes a fused kernel for these arguments."""
    plain = batch_weights is None and not renorm and adjustment is None
    return fused is not False and plain and inputs.shape.ndims in (2, 4)


@contextlib.contextmanager
def replaced_batch_norm(call):
    """While open, a function stands for `slim.batch_norm`, under the name that arg_scopes know.

    Args:
      call: function of the batch norm to call, its inputs, and a dict of its other arguments, that
        returns the outputs. The dict holds those that an arg_scope gives as well.

    Yields:
      A function that maps a normalizer function to the one to use in its place: TF-Slim's batch
      norm to the replacement, any other to itself.
    """
    original = slim.batch_norm
    key = slim.arg_scope_func_key(original)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def replacement(*args, **kwargs):
        given = signature.bind_partial(*args, **kwargs).arguments
        arguments = {**slim.current_arg_scope().get(key, {}), **given}
        return call(original, tf.convert_to_tensor(arguments.pop("inputs")), arguments)

    # TF-Slim finds the arguments of an arg_scope under this attribute.
    replacement._key_op = key
    for module in _HOMES:
        module.batch_norm = replacement
    try:
        yield lambda function: replacement if slim.arg_scope_func_key(function) == key else function
    finally:
        for module in _HOMES:
            module.batch_norm = original


def half_safe_batch_norm():
    """While open, `slim.batch_norm` takes half inputs in every form.

    Returns:
      A context manager, as `replaced_batch_norm`.
    """

    def widened(batch_norm, inputs, arguments):
        if inputs.dtype not in _HALF or _is_fused(inputs, **arguments):
            return batch_norm(inputs, **arguments)
        outputs = batch_norm(tf.cast(inputs, tf.float32), **arguments)
        return tf.cast(outputs, inputs.dtype)

    return replaced_batch_norm(widened)
