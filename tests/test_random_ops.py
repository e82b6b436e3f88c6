"""Random operations that are functions of the seed and the global step."""

import fakes
import numpy as np
import pytest

from slim_mp.compat import slim, tf
from slim_mp.random_ops import repeatable_random_ops


def draws(steps, seed=1, dtype=tf.float32):
    """Two dropout layers, at some global steps of one session."""
    with tf.Graph().as_default():
        tf.set_random_seed(seed)
        step = tf.placeholder(tf.int64, [])
        with repeatable_random_ops(step):
            ones = tf.ones([40, 50], dtype)
            layers = [slim.dropout(ones, 0.5), slim.dropout(ones, 0.5)]
        with tf.Session() as session:
            return [session.run(layers, {step: number}) for number in steps]


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.bfloat16], ids=lambda d: d.name)
def test_a_step_draws_the_same_wherever_a_session_begins(dtype):
    whole, resumed = draws(range(4), dtype=dtype), draws(range(2, 4), dtype=dtype)
    np.testing.assert_array_equal(np.array(whole[2:], np.float32), np.array(resumed, np.float32))


def test_steps_layers_and_seeds_draw_differently():
    (first, other), (later, _) = draws([0, 1])
    ((seeded, _),) = draws([0], seed=2)
    for different in (other, later, seeded):
        assert 0.4 < np.mean(first == different) < 0.6


def test_half_of_the_values_are_dropped():
    ((dropped, _),) = draws([7])
    assert 0.45 < np.mean(dropped == 0) < 0.55
    assert set(np.unique(dropped)) == {0.0, 2.0}


def test_initial_values_do_not_depend_on_the_step():
    def initial(scope):
        with fakes.fresh_graph():
            tf.set_random_seed(1)
            with scope():
                weights = slim.conv2d(tf.ones([1, 4, 4, 3]), 5, 3).graph.get_collection(
                    tf.GraphKeys.MODEL_VARIABLES
                )[0]
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                return session.run(weights)

    never_fed = lambda: repeatable_random_ops(tf.placeholder(tf.int64, []))  # noqa: E731
    assert initial(never_fed).shape == (3, 3, 3, 5)


def test_draws_inside_a_condition():
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        is_training = tf.placeholder(tf.bool, [])
        step = tf.placeholder(tf.int64, [])
        with repeatable_random_ops(step):
            dropped = slim.dropout(tf.ones([100]), 0.5, is_training=is_training)
        with tf.Session() as session:
            first, again = (session.run(dropped, {is_training: True, step: 3}) for _ in range(2))
            kept = session.run(dropped, {is_training: False, step: 3})
    np.testing.assert_array_equal(first, again)
    assert (kept == 1).all()
    assert (first == 0).any()
