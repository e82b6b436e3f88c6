"""Measurement in the graph: what counts as a layer, and counts that agree with numpy."""

import fakes
import numpy as np
import pytest

import slim_mp
from slim_mp.compat import slim, tf
from slim_mp.exponents import LayerExponents, Meter, Product, layers_of, logits_of
from slim_mp.number_range import RANGES, Exponents

LAYERS = ["tiny/conv1", "tiny/conv2", "tiny/logits"]


def tiny(dtype="fp32"):
    """The logits of the tiny network in a precision, and the layers of it."""
    precision = slim_mp.get_precision(dtype)
    with slim.arg_scope(fakes.tiny_arg_scope()), slim_mp.arg_scope(dtype, float32_kernels=True):
        images = tf.cast(tf.constant(fakes.images()), precision.compute_dtype)
        logits = tf.cast(fakes.tiny_network(images), tf.float32)
    return logits, layers_of([logits], precision.compute_dtype)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_layers_have_the_names_of_their_variables_in_every_dtype(dtype):
    with fakes.fresh_graph():
        _, layers = tiny(dtype)
    assert [layer.name for layer in layers] == LAYERS
    assert [product for layer in layers for product in layer.products] == [
        Product("Conv2D", 3, 6),
        Product("Conv2D", 6, 8),
        Product("MatMul", 8, 3),
    ]
    # Batch norm has no bias, and its own parameters are float32 in every precision.
    assert [len(layer.parameters) for layer in layers] == [1, 1, 2]
    for layer in layers:
        assert {tensor.dtype for tensor in layer.outputs} == {
            slim_mp.get_precision(dtype).compute_dtype
        }
    # What the last convolution hands on is the mean that follows it.
    assert layers[1].outputs[-1].shape.as_list() == [4, 8]


@pytest.mark.parametrize("scale", [1.0, 1024.0])
def test_counts_agree_with_numpy_and_leave_as_numbers_only(scale):
    with fakes.fresh_graph(), tf.Session() as session:
        logits, layers = tiny()
        loss = fakes.scalar(logits) * scale
        meter = Meter(layers, loss)
        session.run(tf.global_variables_initializer())
        fetched = session.run(meter.fetches)
        sizes = {np.size(value) for parts in fetched.values() for part in parts for value in part}
        assert sizes == {1, 256}
        counted = meter.read(fetched)
        for layer in layers:
            tensors = layer.outputs
            weights = [
                v
                for v in tf.trainable_variables()
                if v.op.name.startswith(layer.name) and "BatchNorm" not in v.op.name
            ]
            expected = [tensors, tf.gradients(loss, tensors), tf.gradients(loss, weights)]
            parts = [counted[layer.name].activations]
            parts += [counted[layer.name].gradients, counted[layer.name].weight_gradients]
            for part, values in zip(parts, session.run(expected), strict=True):
                wanted = Exponents.of(np.concatenate([value.ravel() for value in values]))
                np.testing.assert_array_equal(part.counts, wanted.counts)
                assert part.largest == wanted.largest
                assert part.nonzero


def test_infinities_and_nan_are_counted_apart():
    with fakes.fresh_graph(), tf.Session() as session:
        logits, layers = tiny()
        meter = Meter(layers, fakes.scalar(logits) * np.inf)
        session.run(tf.global_variables_initializer())
        counted = meter.read(session.run(meter.fetches))["tiny/logits"]
    assert counted.gradients.not_finite == counted.gradients.total > 0
    assert counted.gradients.largest == 0.0
    assert not counted.activations.not_finite


def test_half_precision_is_measured_where_it_rounds():
    with fakes.fresh_graph(), tf.Session() as session:
        logits, layers = tiny("fp16")
        meter = Meter(layers, fakes.scalar(logits))
        fakes.set_variables(session)
        half = meter.read(session.run(meter.fetches))
    with fakes.fresh_graph(), tf.Session() as session:
        logits, layers = tiny("fp32")
        meter = Meter(layers, fakes.scalar(logits))
        fakes.set_variables(session)
        wide = meter.read(session.run(meter.fetches))
    for name in LAYERS:
        for part in ("activations", "gradients", "weight_gradients"):
            one, other = getattr(half[name], part), getattr(wide[name], part)
            assert one.largest == pytest.approx(other.largest, rel=0.02), (name, part)
        assert half[name].all_gradients.share_below(RANGES["fp16"].subnormal) == 0


def shared_shortcut(images):
    """A residual unit, a depthwise-separable layer in one scope, and a branch that is joined."""
    net = slim.conv2d(images, 4, 3, scope="first")
    net += slim.conv2d(net, 4, 1, scope="unit")
    net = slim.separable_conv2d(net, 8, 3, scope="separable")
    left = slim.conv2d(net, 2, 1, scope="left")
    net = tf.concat([left, slim.conv2d(net, 3, 1, scope="right")], 3)
    net = slim.flatten(net)
    return slim.fully_connected(net, 3, activation_fn=None, scope="logits")


def test_shortcuts_branches_and_separable_layers_belong_to_the_last_kernel_before_them():
    with fakes.fresh_graph() as graph:
        logits = shared_shortcut(tf.constant(fakes.images()))
        layers = {layer.name: layer for layer in layers_of([logits], tf.float32)}
        assert list(layers) == ["first", "unit", "separable", "left", "right", "logits"]
        assert layers["unit"].outputs[-1].op.type == "AddV2"
        assert layers["right"].outputs[-1].op.type == "ConcatV2"
        assert layers["left"].outputs[-1].op.type == "Relu"
        kinds = [product.is_depthwise for product in layers["separable"].products]
        assert kinds == [True, False]
        assert layers["separable"].products[0] == Product("DepthwiseConv2dNative", 4, 4)
        # Nothing after the logits, such as a loss, and no reshaped copy of values.
        outputs = [tensor.op.type for layer in layers.values() for tensor in layer.outputs]
        assert "Reshape" not in outputs
        meter = Meter(list(layers.values()), fakes.scalar(logits))
        assert list(meter.zero_in_half) == list(layers)
        assert graph is logits.graph


def test_auxiliary_logits_are_measured_too():
    with fakes.fresh_graph():
        net = slim.conv2d(tf.constant(fakes.images()), 4, 3, scope="body")
        aux = slim.fully_connected(tf.reduce_mean(net, [1, 2]), 3, scope="aux")
        logits = slim.fully_connected(slim.flatten(net), 3, scope="logits")
        both = logits_of(logits, {"AuxLogits": aux, "body": net})
        assert [item is wanted for item, wanted in zip(both, (logits, aux), strict=True)] == [
            True,
            True,
        ]
        names = [layer.name for layer in layers_of(both, tf.float32)]
        assert names == ["body", "aux", "logits"]
        assert [layer.name for layer in layers_of([logits], tf.float32)] == ["body", "logits"]


def test_the_share_of_zeros_is_that_of_the_cast_to_half():
    values = np.array([[0.0, 2.0**-25, -(2.0**-25) * 1.001, 2.0**-24, 1.0, -1e-9]], np.float32)
    with fakes.fresh_graph(), tf.Session() as session:
        weights = tf.get_variable("layer/weights", initializer=np.ones((1, 6), np.float32))
        logits = tf.matmul(tf.ones([1, 1]), weights)
        layers = layers_of([logits], tf.float32)
        meter = Meter(layers, tf.reduce_sum(logits * values))
        session.run(tf.global_variables_initializer())
        share = session.run(meter.zero_in_half)["layer"]
    assert share == pytest.approx(np.mean(values.astype(np.float16) == 0))


def test_a_network_without_layers_has_nothing_to_measure():
    with fakes.fresh_graph(), tf.Session() as session:
        logits = tf.zeros([4, 3])
        meter = Meter(layers_of([logits], tf.float32), tf.reduce_sum(logits))
        assert meter.read(session.run(meter.fetches) if meter.fetches else {}) == {}


def test_measurements_add_up():
    one = LayerExponents(Exponents.of([1.0]), Exponents.of([2.0]), Exponents.of([4.0, 0.0]))
    both = one + one
    assert both.activations.total == 2
    assert both.all_gradients.total == 6
    assert both.all_gradients.largest == 4.0
