"""Dropout that depends on the seed and the global step alone.

TensorFlow's random operations keep a state in the session, so that a run that is killed and goes on
draws other numbers than one that was not. Inside this scope they draw from the stateless generator,
keyed by the seed of the graph, the number of the operation in it and the global step.
"""

from slim_mp.compat import tf
from slim_mp.op_outputs import replaced_outputs


def _uniform(shape, key, dtype):
    return tf.random.stateless_uniform(shape, key, dtype=dtype)


def _normal(shape, key, dtype):
    return tf.random.stateless_normal(shape, key, dtype=dtype)


def _truncated_normal(shape, key, dtype):
    return tf.random.stateless_truncated_normal(shape, key, dtype=dtype)


_STATELESS = {
    "RandomUniform": _uniform,
    "RandomStandardNormal": _normal,
    "TruncatedNormal": _truncated_normal,
}


def repeatable_random_ops(step):
    """While open, random operations of a network are functions of the seed and the global step.

    Initial values of variables are not touched. The graph must have a seed (tf.set_random_seed).

    Args:
      step: int64 scalar tensor, the global step.

    Returns:
      A context manager.
    """

    def replace(operation, attrs):
        draw = _STATELESS.get(operation.type)
        if draw is None or "/Initializer/" in operation.name:
            return None
        key = tf.stack([attrs["seed"].i + (attrs["seed2"].i << 32), tf.cast(step, tf.int64)])
        return draw(operation.inputs[0], key, operation.outputs[0].dtype)

    return replaced_outputs(replace)
