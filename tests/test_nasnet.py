"""Drop path and its schedule, the cells, and the arguments of NASNet and PNASNet."""

import dataclasses

import numpy as np
import pytest

from nets.nasnet import cells, nasnet_cifar, nasnet_cifar_arg_scope, nasnet_mobile, network
from nets.nasnet.nasnet import NASNET_CIFAR
from slim_mp.compat import slim, tf
from slim_mp.errors import UsageError
from slim_mp.precision import arg_scope

_HALVES = (tf.float16, tf.bfloat16)
_SIZE = 9


def _images(batch_size=2, size=_SIZE):
    pixels = np.random.default_rng(0).uniform(-1, 1, [batch_size, size, size, 3])
    return tf.constant(pixels, tf.float32)


def _tiny(**changes):
    """The first two cells of nasnet_cifar: a whole network, quick to build."""
    first, second = NASNET_CIFAR.steps[:2]
    steps = (first, dataclasses.replace(second, aux_scope="aux_1"))
    return dataclasses.replace(NASNET_CIFAR, steps=steps, **changes)


def _build(table, *args, **kwargs):
    with slim.arg_scope(nasnet_cifar_arg_scope()):
        return network.build(table, *args, **kwargs)


@pytest.mark.parametrize("dtype", (tf.float32, *_HALVES))
def test_drop_path_drops_whole_images_and_scales_the_others(dtype):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        net = tf.ones([4000, 2, 3, 2], dtype)
        dropped = cells.drop_path(net, tf.constant(0.8))
        assert dropped.dtype == dtype
        got = session.run(tf.cast(dropped, tf.float32)).reshape(4000, -1)
    assert (got == got[:, :1]).all()
    kept = got[:, 0] != 0
    np.testing.assert_allclose(got[kept], 1.25, rtol=4e-3)
    # Four standard deviations of a mean of 4,000 draws.
    assert abs(kept.mean() - 0.8) < 4 * np.sqrt(0.8 * 0.2 / 4000)


def test_drop_path_with_nothing_to_drop_is_the_identity():
    with tf.Graph().as_default(), tf.Session() as session:
        net = tf.random_normal([64, 1, 1, 3])
        assert cells.drop_path(net, 1.0) is net
        before, after = session.run([net, cells.drop_path(net, tf.constant(1.0))])
    np.testing.assert_array_equal(before, after)


def _keep_probs(monkeypatch, table, is_training=True, step=None, feed=None):
    """The probabilities that the cells of a network hand to drop_path, in order of depth."""
    seen = []
    monkeypatch.setattr(cells, "drop_path", lambda net, keep: (seen.append(keep), net)[1])
    with tf.Graph().as_default(), tf.Session() as session:
        if step is not None:
            counter = tf.train.create_global_step()
        is_training = is_training() if callable(is_training) else is_training
        _build(table, _images(), 10, is_training)
        if step is not None:
            session.run(counter.initializer, {counter.initializer.inputs[1]: step})
        return [
            session.run(keep, feed) if tf.is_tensor(keep) else keep for keep in dict.fromkeys(seen)
        ]


@pytest.mark.parametrize(("step", "progress"), [(0, 0.0), (250, 0.25), (1000, 1.0), (5000, 1.0)])
def test_keep_probability_falls_with_depth_and_with_the_global_step(monkeypatch, step, progress):
    table = _tiny(drop_path_keep_prob=0.6, total_training_steps=1000)
    got = _keep_probs(monkeypatch, table, step=step)
    np.testing.assert_allclose(got, [1 - progress * 0.5 * 0.4, 1 - progress * 0.4], rtol=1e-6)


def test_keep_probability_is_the_last_of_the_schedule_without_a_global_step(monkeypatch):
    got = _keep_probs(monkeypatch, _tiny(drop_path_keep_prob=0.6))
    np.testing.assert_allclose(got, [0.8, 0.6], rtol=1e-6)


def test_a_tensor_switches_drop_path(monkeypatch):
    table = _tiny(drop_path_keep_prob=0.6)
    for value, expected in ((True, [0.8, 0.6]), (False, [1.0, 1.0])):
        got = _keep_probs(
            monkeypatch,
            table,
            lambda: tf.placeholder(tf.bool, [], "is_training"),
            feed={"is_training:0": value},
        )
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("is_training", [False, lambda: tf.constant(False)])
def test_nothing_is_drawn_without_training(monkeypatch, is_training):
    assert _keep_probs(monkeypatch, _tiny(), is_training) == [1.0]


def test_a_false_tensor_gives_the_logits_of_evaluation():
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        switch = tf.placeholder(tf.bool, [])
        by_tensor, with_aux = _build(_tiny(), _images(), 10, switch)
        by_bool, without_aux = _build(_tiny(), _images(), 10, False, reuse=True)
        session.run(tf.global_variables_initializer())
        expected, got = session.run([by_bool, by_tensor], {switch: False})
    assert set(with_aux) - set(without_aux) == {"AuxLogits"}
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_factorized_reduction_keeps_every_corner(size):
    """With weights of ones, path 1 reads the even pixels and path 2 the odd ones, then zeros."""
    pixels = np.arange(1, size * size + 1, dtype=np.float32).reshape(1, size, size, 1)
    with (
        tf.Graph().as_default(),
        tf.Session() as session,
        slim.arg_scope(
            [slim.conv2d],
            activation_fn=None,
            biases_initializer=None,
            weights_initializer=tf.ones_initializer(),
        ),
        slim.arg_scope([slim.batch_norm], is_training=False, epsilon=0.0),
    ):
        reduced = cells.factorized_reduction(tf.constant(pixels), 3)
        session.run(tf.global_variables_initializer())
        got = session.run(reduced)[0]
    shifted = np.pad(pixels[0, :, :, 0], [[0, 1], [0, 1]])[1:, 1:][::2, ::2]
    np.testing.assert_allclose(got[:, :, 0], pixels[0, ::2, ::2, 0])
    for channel in (1, 2):
        np.testing.assert_allclose(got[:, :, channel], shifted)


@pytest.mark.parametrize("num_classes", [0, None])
def test_without_classes_it_gives_features_and_no_heads(num_classes):
    with tf.Graph().as_default():
        net, end_points = _build(_tiny(), _images(), num_classes)
        assert net is end_points["global_pool"]
        assert net.shape.as_list() == [2, 192]
        assert not {"Logits", "AuxLogits", "Predictions"} & end_points.keys()
        assert not [v for v in tf.global_variables() if "FC" in v.op.name]


def test_final_endpoint_stops_there():
    with tf.Graph().as_default():
        net, end_points = nasnet_cifar(_images(), final_endpoint="Cell_0")
        assert list(end_points) == ["Stem", "Cell_0"]
        assert net is end_points["Cell_0"]
        assert net.shape.as_list() == [2, _SIZE, _SIZE, 192]
        assert not [v for v in tf.global_variables() if v.op.name.startswith("cell_1")]


def test_an_unknown_endpoint_lists_those_there_are():
    with tf.Graph().as_default(), pytest.raises(UsageError, match=r"'Cell_7'.*Stem, Cell_0"):
        _build(_tiny(), _images(), 10, final_endpoint="Cell_7")


@pytest.mark.parametrize("size", [4, None])
def test_images_too_small_or_of_unknown_size_to_train_are_refused(size):
    with tf.Graph().as_default():
        images = tf.placeholder(tf.float32, [2, size, size, 3])
        with pytest.raises(UsageError, match=f"map of {size}x{size}.*at least 5x5"):
            _build(_tiny(), images, 10)


def test_evaluation_takes_images_of_unknown_size():
    with tf.Graph().as_default(), tf.Session() as session:
        images = tf.placeholder(tf.float32, [None, None, None, 3])
        reduction = dataclasses.replace(NASNET_CIFAR.steps[6], end_point="Cell_2")
        table = dataclasses.replace(_tiny(), steps=(*_tiny().steps, reduction))
        logits, _ = _build(table, images, 10, is_training=False)
        session.run(tf.global_variables_initializer())
        for size in (1, 8, 13):
            got = session.run(logits, {images: np.ones([1, size, size, 3])})
            assert got.shape == (1, 10)
            assert np.isfinite(got).all()


@pytest.mark.parametrize("arguments", [{"drop_path_keep_prob": 0.0}, {"total_training_steps": 0}])
def test_a_drop_path_that_makes_no_sense_is_refused(arguments):
    with tf.Graph().as_default(), pytest.raises(UsageError, match=f"{next(iter(arguments))} is 0"):
        nasnet_mobile(_images(), **arguments)


@pytest.mark.parametrize("dtype", _HALVES)
def test_trains_in_half_with_drop_path(dtype):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        step = tf.train.create_global_step()
        table = _tiny(drop_path_keep_prob=0.6, total_training_steps=2)
        with slim.arg_scope(nasnet_cifar_arg_scope()), arg_scope(dtype, float32_kernels=True):
            logits, end_points = network.build(table, tf.cast(_images(8), dtype), 10)
        assert {t.dtype for t in end_points.values()} == {dtype}
        labels = tf.range(8)
        loss = tf.losses.sparse_softmax_cross_entropy(labels, tf.cast(logits, tf.float32))
        train = tf.train.GradientDescentOptimizer(0.01).minimize(loss, step)
        session.run(tf.global_variables_initializer())
        losses = [session.run([loss, train])[0] for _ in range(3)]
        weights = session.run(tf.trainable_variables())
    assert np.isfinite(losses).all()
    assert all(np.isfinite(value).all() and value.dtype == np.float32 for value in weights)
