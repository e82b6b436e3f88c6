import fakes
import numpy as np
import pytest

import slim_mp
from slim_mp.compat import slim, tf


def decay():
    return slim.l2_regularizer(0.01)


def decay_of_each_layer(x):
    x = slim.conv2d(x, 4, 3, weights_regularizer=decay(), biases_regularizer=decay())
    x = slim.conv2d_transpose(x, 4, 3, weights_regularizer=decay())
    x = slim.separable_conv2d(x, 4, 3, 1, weights_regularizer=decay())
    x = slim.separable_conv2d(x, None, 3, 1, weights_regularizer=decay())
    x = slim.bias_add(x, regularizer=decay())
    return slim.fully_connected(x, 5, weights_regularizer=slim.l1_regularizer(0.1))


def decay_by_nested_arg_scopes(x):
    with slim.arg_scope([slim.conv2d, slim.fully_connected], weights_regularizer=decay()):
        x = slim.conv2d(x, 4, 3)
        with slim.arg_scope([slim.conv2d], weights_regularizer=slim.l1_regularizer(0.1)):
            x = slim.conv2d(x, 4, 3)
            x = slim.conv2d(x, 4, 3, weights_regularizer=None)
        return slim.fully_connected(x, 5)


def decay_of_batch_norm(x):
    regularizers = {"beta": decay(), "gamma": decay()}
    parameters = {"param_regularizers": regularizers, "scale": True}
    x = slim.conv2d(x, 4, 3, normalizer_fn=slim.batch_norm, normalizer_params=parameters)
    x = slim.batch_norm(x, updates_collections=None, **parameters)
    return slim.batch_norm(x, fused=False, **parameters)


def decay_of_reused_layers(x):
    for reuse in (None, True, True):
        with tf.variable_scope("shared", reuse=reuse):
            x = slim.conv2d(x, 4, 3, weights_regularizer=decay(), scope="conv")
            x = slim.separable_conv2d(x, None, 3, 1, weights_regularizer=decay(), scope="depth")
    return x


def decay_of_a_variable_scope(x):
    with tf.variable_scope("net", regularizer=decay()):
        return x * tf.get_variable("scale", [4], x.dtype)


REGULARIZED = (
    decay_of_each_layer,
    decay_by_nested_arg_scopes,
    decay_of_batch_norm,
    decay_of_reused_layers,
    decay_of_a_variable_scope,
)


def regularization(network, dtype):
    """The regularization losses of a network and the gradients of their sum."""
    with fakes.fresh_graph():
        with slim_mp.arg_scope(dtype):
            network(fakes.inputs(dtype))
        losses = tf.losses.get_regularization_losses()
        gradients = tf.gradients(tf.losses.get_regularization_loss(), tf.trainable_variables())
        gradients = [gradient for gradient in gradients if gradient is not None]
        with tf.Session() as session:
            fakes.set_variables(session)
            return session.run([losses, gradients])


@pytest.mark.parametrize("network", REGULARIZED, ids=lambda network: network.__name__)
def test_weight_decay_acts_on_the_float32_variable_once(network):
    losses, gradients = regularization(network, tf.float32)
    assert losses
    for dtype in fakes.HALVES:
        half_losses, half_gradients = regularization(network, dtype)
        assert [loss.dtype for loss in half_losses] == ["float32"] * len(losses)
        np.testing.assert_allclose(sorted(half_losses), sorted(losses), rtol=1e-6)
        for half_gradient, gradient in zip(half_gradients, gradients, strict=True):
            np.testing.assert_array_equal(half_gradient, gradient)


def test_weight_decay_of_two_clones_counts_once():
    with fakes.fresh_graph():
        x = fakes.inputs(tf.float16)
        for clone in range(2):
            with tf.variable_scope("net", reuse=clone > 0), slim_mp.arg_scope(tf.float16):
                slim.conv2d(x, 4, 3, scope="conv", weights_regularizer=decay())
        assert len(tf.losses.get_regularization_losses()) == 1


def test_weight_decay_of_a_large_layer_does_not_overflow():
    with fakes.fresh_graph(), tf.Session() as session:
        with slim_mp.arg_scope(tf.float16):
            slim.fully_connected(
                tf.zeros([1, 512], tf.float16),
                512,
                weights_initializer=tf.ones_initializer(),
                weights_regularizer=slim.l2_regularizer(0.5),
            )
        session.run(tf.global_variables_initializer())
        assert session.run(tf.losses.get_regularization_loss()) == 0.5 * 131072
