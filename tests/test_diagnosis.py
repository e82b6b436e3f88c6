"""Which operation or gradient a diagnosis names, and what it takes to find it."""

import re

import numpy as np
import pytest
from alarm_runs import GOOD_STEPS, overflow, overflow_of_gradient, running, state
from fakes import tiny_arg_scope
from tiny_runs import assert_equal_bits

import slim_mp
from slim_mp.compat import slim, tf
from slim_mp.errors import NumericsError
from slim_mp.training import diagnosis


def network(body, dtype="fp32"):
    """A network function: what `body` makes of the images, pooled, and a dense layer."""

    def network_fn(images):
        with (
            tf.variable_scope("net", reuse=tf.AUTO_REUSE),
            slim.arg_scope(tiny_arg_scope()),
            slim_mp.arg_scope(slim_mp.get_precision(dtype).compute_dtype, float32_kernels=True),
        ):
            features = tf.reduce_mean(body(images), [1, 2])
            logits = slim.fully_connected(features, 3, activation_fn=None, scope="logits")
        return tf.cast(logits, tf.float32), {}

    return network_fn


def alarm(tmp_path, network_fn, **changes):
    """The message that ends a run of some good steps and two bad ones."""
    with running(tmp_path, network_fn, **changes) as (_, step):
        for _ in range(GOOD_STEPS + 1):
            step()
        with pytest.raises(NumericsError) as caught:
            step()
    return str(caught.value)


def conv1(images, **arguments):
    return slim.conv2d(images, 4, 3, scope="conv1", **arguments)


def test_a_convolution_whose_sum_leaves_float16_is_named_as_such(tmp_path):
    def body(images):
        factor = tf.where(tf.train.get_global_step() >= GOOD_STEPS, 6e4, 1.0)
        images = tf.sigmoid(images) * tf.cast(factor, images.dtype)
        return conv1(images, weights_initializer=tf.ones_initializer())

    message = alarm(tmp_path, network(body, "fp16"), dtype="fp16")
    assert "in graph order: net/conv1 (Conv2D, Cast)." in message


def test_a_constant_that_is_not_finite_is_no_finding(tmp_path):
    def body(images):
        images = tf.minimum(images, tf.constant(np.inf, images.dtype))
        with tf.name_scope("plant"):
            return overflow(conv1(images))

    assert "in graph order: net/plant (RealDiv)." in alarm(tmp_path, network(body))


def test_sparse_gradients_are_looked_at(tmp_path):
    def body(images):
        table = tf.get_variable("table", [5, 4])
        rows = tf.nn.embedding_lookup(table, [[[1, 2], [3, 1]]] * images.shape[0])
        return conv1(images)[:, :2, :2] + overflow_of_gradient(rows)

    message = alarm(tmp_path, network(body))
    assert "last layers first: net/table." in message


def test_little_memory_finds_the_same(tmp_path, monkeypatch):
    for at_once in (2**28, 1):
        monkeypatch.setattr(diagnosis, "_BYTES_AT_ONCE", at_once)
        forward = alarm(tmp_path, network(lambda images: overflow(conv1(images))))
        assert "in graph order: net (RealDiv)." in forward
        backward = alarm(tmp_path, network(lambda images: overflow_of_gradient(conv1(images))))
        first = re.search(r"last layers first: ([^.]*)\.", backward)[1].split(", ")
        assert first == [
            f"net/conv1/{name}" for name in ("BatchNorm/beta", "BatchNorm/gamma", "weights")
        ]


def test_a_diagnosis_that_fails_does_not_hide_the_alarm(tmp_path, monkeypatch):
    def fail(_):
        raise tf.errors.ResourceExhaustedError(None, None, "no memory\nmore lines")

    monkeypatch.setattr(diagnosis.Diagnosis, "first_output", fail)
    message = alarm(tmp_path, network(lambda images: overflow(conv1(images))))
    assert "2 steps in a row" in message
    assert "has failed (no memory)." in message
    assert "\n" not in message


def test_a_diagnosis_changes_nothing_and_a_run_goes_on_from_it(tmp_path):
    def body(images):
        step = tf.train.get_global_step()
        bad = tf.equal(step, GOOD_STEPS)
        noise = tf.random.normal(images.shape, dtype=images.dtype)
        return conv1(images + noise) / tf.cast(tf.where(bad, 0.0, 1.0), images.dtype)

    states = []
    for is_watched in (True, False):
        with running(tmp_path, network(body), is_watched=is_watched) as (session, step):
            steps = [step()["consecutive_skips"] for _ in range(GOOD_STEPS + 3)]
            states.append(state(session))
        assert steps == [0] * GOOD_STEPS + [1, 0, 0]
    assert_equal_bits(*states)
