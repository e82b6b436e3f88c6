"""Small networks and operations that stand for real ones in tests."""

import contextlib

import numpy as np

from slim_mp.compat import slim, tf

HALVES = [tf.float16, tf.bfloat16]
# Relative to the largest value; a few roundings of each dtype.
TOLERANCE = {tf.float16: 4e-3, tf.bfloat16: 3e-2}


def tiny_arg_scope(weight_decay=0.0):
    """An arg_scope as the networks of TF-Slim have it: batch norm and weight decay.

    Args:
      weight_decay: the factor of the L2 regularizer.

    Returns:
      The arg_scope, a dict.
    """
    with (
        slim.arg_scope(
            [slim.conv2d, slim.fully_connected],
            weights_regularizer=slim.l2_regularizer(weight_decay),
        ),
        slim.arg_scope(
            [slim.conv2d],
            normalizer_fn=slim.batch_norm,
            normalizer_params={"decay": 0.9, "scale": True},
        ) as scope,
    ):
        return scope


def tiny_network(images, num_classes=3, is_training=True, reuse=None):
    """Two convolutions with batch norm, global pooling and a dense layer.

    Args:
      images: `[batch, height, width, channels]`, any floating dtype.
      num_classes: length of the logits.
      is_training: Python bool or bool scalar tensor, for batch norm.
      reuse: whether the variables exist already.

    Returns:
      Logits `[batch, num_classes]` in the dtype of the images.
    """
    with (
        tf.variable_scope("tiny", reuse=reuse),
        slim.arg_scope([slim.batch_norm], is_training=is_training),
    ):
        net = slim.conv2d(images, 6, 3, stride=2, scope="conv1")
        net = slim.conv2d(net, 8, 3, scope="conv2")
        net = tf.reduce_mean(net, [1, 2], name="pool")
        return slim.fully_connected(net, num_classes, activation_fn=None, scope="logits")


def images(shape=(4, 8, 8, 3), seed=0):
    """Random float32 images that half precision holds exactly, so that inputs do not differ."""
    values = np.random.RandomState(seed).randint(-128, 129, shape)
    return (values / 64.0).astype(np.float32)


@tf.custom_gradient
def with_gradient_factor(value, factor):
    """The identity, whose gradient is multiplied by `factor` (infinity or NaN, say)."""

    def gradient(upstream):
        return upstream * tf.cast(factor, upstream.dtype), None

    return tf.identity(value), gradient


def variable_signatures():
    """Returns `{name: (shape, dtype)}` of all variables of the current graph."""
    return {
        variable.op.name: (tuple(variable.shape.as_list()), variable.dtype.base_dtype.name)
        for variable in tf.global_variables()
    }


def set_variables(session, seed=0, scale=0.5):
    """Gives all variables of the current graph values that depend on their names alone.

    Args:
      session: a tf.Session.
      seed: of the random values.
      scale: of the random values of trainable variables; statistics keep their initial values.
    """
    session.run(tf.global_variables_initializer())
    for variable in tf.trainable_variables():
        name_seed = sum(ord(char) * (i + 1) for i, char in enumerate(variable.op.name))
        random = np.random.RandomState((seed + name_seed) % 2**31)
        variable.load(scale * random.standard_normal(variable.shape.as_list()), session)


@contextlib.contextmanager
def fresh_graph():
    """A graph of its own with a fixed seed."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        yield graph


def inputs(dtype):
    """Two small images, exact in every dtype."""
    return tf.cast(tf.constant(images((2, 6, 6, 4))), dtype)


def scalar(outputs):
    """A loss whose gradient is no constant, also where a norm fixes the sum of squares."""
    outputs = tf.cast(outputs, tf.float32)
    weights = np.sin(np.arange(np.prod(outputs.shape.as_list()))).reshape(outputs.shape)
    return tf.reduce_sum(tf.square(outputs + weights))


def assert_close(actual, expected, tolerance):
    """Compares arrays up to a part of the largest expected value."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def dense_and_sparse_loss():
    """A loss with a dense and a sparse gradient; `factor` multiplies both.

    Returns:
      The loss and the placeholder of the factor.
    """
    factor = tf.placeholder_with_default(1.0, [])
    dense = tf.get_variable("dense", initializer=[1.0, -2.0, 0.5])
    table = tf.get_variable("table", initializer=np.ones((5, 2), np.float32))
    tf.get_variable("unused", initializer=1.0)
    rows = tf.nn.embedding_lookup(table, [1, 3, 1])
    loss = tf.reduce_sum(tf.square(dense)) + tf.reduce_sum(tf.square(rows))
    return with_gradient_factor(loss, factor), factor


def one_weight_loss():
    """One weight of 1 whose gradient is fed.

    Returns:
      The loss, the variable `weight` and the placeholder of its gradient.
    """
    gradient = tf.placeholder(tf.float32, [])
    weight = tf.get_variable("weight", initializer=1.0)
    return with_gradient_factor(weight, gradient), weight, gradient
