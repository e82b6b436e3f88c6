import fakes
import numpy as np
import pytest

import slim_mp
from slim_mp.compat import slim, tf


def rows(x):
    return x[:, 0]


def volume(x):
    return x[:, None]


LAYERS = {
    "conv2d": lambda x: slim.conv2d(x, 4, 3),
    "conv2d without bias": lambda x: slim.conv2d(x, 4, 3, biases_initializer=None),
    "dilated conv2d": lambda x: slim.conv2d(x, 4, 3, rate=2),
    "conv2d with batch norm": lambda x: slim.conv2d(x, 4, 3, normalizer_fn=slim.batch_norm),
    "conv1d": lambda x: slim.convolution1d(rows(x), 4, 3),
    "conv3d": lambda x: slim.conv3d(volume(x), 4, [1, 3, 3]),
    "conv2d_transpose": lambda x: slim.conv2d_transpose(x, 4, 3, stride=2),
    "conv3d_transpose": lambda x: slim.conv3d_transpose(volume(x), 4, [1, 2, 2], stride=1),
    "conv2d_in_plane": lambda x: slim.conv2d_in_plane(x, 3),
    "separable_conv2d": lambda x: slim.separable_conv2d(x, 4, 3, 2),
    "separable_conv2d with batch norm": lambda x: slim.separable_conv2d(
        x, 4, 3, 1, normalizer_fn=slim.batch_norm
    ),
    "depthwise": lambda x: slim.separable_conv2d(x, None, 3, 1),
    "dilated depthwise": lambda x: slim.separable_conv2d(x, None, 3, 1, rate=2),
    "depthwise with batch norm": lambda x: slim.separable_conv2d(
        x, None, 3, 2, normalizer_fn=slim.batch_norm
    ),
    "fully_connected": lambda x: slim.fully_connected(slim.flatten(x), 5),
    "fully_connected of rank 4": lambda x: slim.fully_connected(x, 5),
    "bias_add": lambda x: slim.bias_add(x, initializer=tf.ones_initializer()),
    "batch_norm": lambda x: slim.batch_norm(x, scale=True),
    "layer_norm": lambda x: slim.layer_norm(x),
    "group_norm": lambda x: slim.group_norm(x, groups=2),
    "instance_norm": lambda x: slim.instance_norm(x),
    "fully_connected with layer norm": lambda x: slim.fully_connected(
        slim.flatten(x), 5, normalizer_fn=slim.layer_norm
    ),
    "get_variable": lambda x: x * tf.get_variable("scale", [4], x.dtype),
    "repeat": lambda x: slim.repeat(x, 2, slim.conv2d, 4, 3),
    "stack": lambda x: slim.stack(slim.flatten(x), slim.fully_connected, [5, 6]),
}


def layer_and_gradients(layer, dtype, float32_kernels=False):
    """What a layer looks like in a dtype: variables, values and gradients."""
    with fakes.fresh_graph():
        x = fakes.inputs(dtype)
        with slim_mp.arg_scope(dtype, float32_kernels=float32_kernels):
            y = layer(x)
        gradients = tf.gradients(fakes.scalar(y), [x, *tf.trainable_variables()])
        with tf.Session() as session:
            fakes.set_variables(session)
            values = session.run([y, *gradients])
        return (
            fakes.variable_signatures(),
            [tensor.dtype for tensor in (y, *gradients)],
            [value.astype(np.float32) for value in values],
        )


@pytest.mark.parametrize("name", LAYERS)
def test_layers_have_the_variables_and_values_of_float32(name):
    variables, _, expected = layer_and_gradients(LAYERS[name], tf.float32)
    assert {dtype for _, dtype in variables.values()} == {"float32"}
    for dtype, float32_kernels in ((tf.float16, False), (tf.bfloat16, True)):
        half_variables, dtypes, actual = layer_and_gradients(LAYERS[name], dtype, float32_kernels)
        assert half_variables == variables
        assert dtypes[:2] == [dtype, dtype]
        assert set(dtypes[2:]) == {tf.float32}
        for a, e in zip(actual, expected, strict=True):
            fakes.assert_close(a, e, 4 * fakes.TOLERANCE[dtype])


def default_names(x, scope):
    """Layers without names, in two scopes one after the other."""
    with scope():
        x = slim.conv2d(x, 4, 3)
        x = slim.conv2d(x, 4, 3)
    with scope():
        return slim.fully_connected(slim.conv2d(x, 4, 3), 2)


def nested(x, scope):
    with scope(), tf.variable_scope("outer"):
        x = slim.conv2d(x, 4, 3)
        with scope(), tf.variable_scope("inner"):
            x = slim.conv2d(x, 4, 3, normalizer_fn=slim.batch_norm)
        return slim.conv2d(x, 4, 3)


def reused(x, scope):
    for reuse in (None, True):
        with scope(), tf.variable_scope("shared", reuse=reuse):
            x = slim.conv2d(x, 4, 3, scope="conv", normalizer_fn=slim.batch_norm)
    return x


def reused_inside(x, scope):
    with scope(), tf.variable_scope("shared", reuse=tf.AUTO_REUSE):
        for _ in range(2):
            x = slim.separable_conv2d(x, 4, 3, 1, scope="conv")
    return x


def clones(x, scope):
    outputs = []
    for clone in range(2):
        reuse = tf.variable_scope(tf.get_variable_scope(), reuse=clone > 0)
        with tf.name_scope(f"clone_{clone}"), scope(), reuse:
            outputs.append(slim.conv2d(x, 4, 3, scope="conv"))
    return tf.add_n(outputs)


def under_name_scopes(x, scope):
    with tf.name_scope("model"), scope():
        for _ in range(2):
            with tf.name_scope("block"):
                x = slim.conv2d(x, 4, 3)
    return x


def opened_in_a_variable_scope(x, scope):
    with tf.variable_scope("net", "default"):
        with scope():
            x = slim.conv2d(x, 4, 3)
        with tf.variable_scope(None, "block"), scope():
            return slim.conv2d(x, 4, 3)


def own_getter(x, scope):
    """A custom getter of the user's own, which renames, around and within."""

    def renamed(getter, name, *args, **kwargs):
        return getter(name.replace("weights", "kernel"), *args, **kwargs)

    with tf.variable_scope("around", custom_getter=renamed), scope():
        x = slim.conv2d(x, 4, 3, scope="conv")
    with scope(), tf.variable_scope("within", custom_getter=renamed):
        return slim.conv2d(x, 4, 3, scope="conv")


def partitioned(x, scope):
    with scope(), tf.variable_scope("net", partitioner=tf.fixed_size_partitioner(2)):
        return slim.conv2d(x, 4, 3, scope="conv")


def nested_with_decay(x, scope):
    with scope(), slim.arg_scope(fakes.tiny_arg_scope(1e-3)), scope():
        return fakes.tiny_network(x)


def arg_scope_around(x, scope):
    with slim.arg_scope(fakes.tiny_arg_scope(1e-3)), scope():
        return fakes.tiny_network(x)


def arg_scope_inside(x, scope):
    with scope(), slim.arg_scope(fakes.tiny_arg_scope(1e-3)):
        return fakes.tiny_network(x)


def arg_scope_made_before(x, scope):
    before = fakes.tiny_arg_scope(1e-3)
    with scope(), slim.arg_scope(before):
        return fakes.tiny_network(x)


NETWORKS = (
    default_names,
    nested,
    reused,
    reused_inside,
    clones,
    under_name_scopes,
    opened_in_a_variable_scope,
    own_getter,
    partitioned,
    nested_with_decay,
    arg_scope_around,
    arg_scope_inside,
    arg_scope_made_before,
)


def network_and_gradients(network, dtype):
    with fakes.fresh_graph():
        x = fakes.inputs(dtype)
        y = network(x, lambda: slim_mp.arg_scope(dtype))
        losses = tf.losses.get_regularization_losses()
        gradients = tf.gradients(fakes.scalar(y), tf.trainable_variables())
        with tf.Session() as session:
            fakes.set_variables(session)
            return (
                fakes.variable_signatures(),
                [variable.op.name for variable in tf.model_variables()],
                session.run(losses),
                y.dtype,
                session.run([tf.cast(y, tf.float32), *gradients]),
            )


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_scopes_make_the_variables_and_decay_of_float32(network):
    variables, model, losses, _, expected = network_and_gradients(network, tf.float32)
    for dtype in fakes.HALVES:
        half_variables, half_model, half_losses, out, actual = network_and_gradients(network, dtype)
        assert half_variables == variables
        assert half_model == model
        assert out == dtype
        assert [loss.dtype for loss in half_losses] == ["float32"] * len(losses)
        np.testing.assert_allclose(half_losses, losses, rtol=1e-6)
        for a, e in zip(actual, expected, strict=True):
            fakes.assert_close(a, e, 4 * fakes.TOLERANCE[dtype])
