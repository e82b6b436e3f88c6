"""TF-Slim's batch norm, made safe for half-precision inputs in all of its forms.

The fused kernel takes half inputs with float32 scale, offset and statistics. The unfused code asks
for all four in the dtype of its inputs and updates the moving averages in that dtype, so with half
inputs it neither builds nor counts to a thousand. It is given float32 inputs here.
"""

import contextlib
import functools
import importlib

from slim_mp.compat import slim, tf

_HOMES = tuple(
    importlib.import_module(name) for name in ("tf_slim", "tf_slim.layers", "tf_slim.layers.layers")
)


def _is_fused(inputs, fused=None, batch_weights=None, renorm=False, adjustment=None, **_):
    """Whether tf_slim.batch_norm takes a fused kernel for these arguments."""
    plain = batch_weights is None and not renorm and adjustment is None
    return fused is not False and plain and inputs.shape.ndims in (2, 4)


def _widening(batch_norm):
    """Wraps a batch norm so that half inputs reach its unfused code in float32."""
    key = slim.arg_scope_func_key(batch_norm)

    @functools.wraps(batch_norm)
    def widened(inputs, *args, **kwargs):
        inputs = tf.convert_to_tensor(inputs)
        arguments = {**slim.current_arg_scope().get(key, {}), **kwargs}
        if inputs.dtype not in (tf.float16, tf.bfloat16) or _is_fused(inputs, **arguments):
            return batch_norm(inputs, *args, **kwargs)
        outputs = batch_norm(tf.cast(inputs, tf.float32), *args, **kwargs)
        return tf.cast(outputs, inputs.dtype)

    # TF-Slim finds the arguments of an arg_scope under this attribute.
    widened._key_op = key
    return widened


@contextlib.contextmanager
def half_safe_batch_norm():
    """While open, `slim.batch_norm` takes half inputs in every form.

    Yields:
      A function that maps a normalizer function to the one to use in its place: TF-Slim's batch
      norm to the safe one, any other to itself.
    """
    original = slim.batch_norm
    safe = _widening(original)
    key = slim.arg_scope_func_key(original)
    for module in _HOMES:
        module.batch_norm = safe
    try:
        yield lambda function: safe if slim.arg_scope_func_key(function) == key else function
    finally:
        for module in _HOMES:
            module.batch_norm = original
