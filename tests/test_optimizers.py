"""Schedules and optimizers against the same rules in a few lines of numpy."""

import dataclasses

import numpy as np
import pytest

from slim_mp.compat import tf
from slim_mp.errors import UsageError
from slim_mp.training import optimizers
from slim_mp.training.optimizers import LearningRateConfig, OptimizerConfig

RATE = 0.1
START = np.array([1.0, -2.0, 0.5, 0.0])
GRADIENTS = np.array([[0.3, -0.1, 2.0, 0.0], [0.2, 0.4, -1.0, 1e-3], [-0.5, 0.1, 0.0, 5.0]])


def sgd(w, g, t, s):
    return w - RATE * g


def momentum(w, g, t, s):
    s["m"] = 0.9 * s.get("m", 0) + g
    return w - RATE * s["m"]


def adam(w, g, t, s):
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0) + 0.001 * g**2
    rate = RATE * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return w - rate * s["m"] / (np.sqrt(s["v"]) + 1.0)


def rmsprop(w, g, t, s):
    s["ms"] = 0.9 * s.get("ms", 1) + 0.1 * g**2
    s["mom"] = 0.9 * s.get("mom", 0) + RATE * g / np.sqrt(s["ms"] + 1.0)
    return w - s["mom"]


def adagrad(w, g, t, s):
    s["a"] = s.get("a", 0.1) + g**2
    return w - RATE * g / np.sqrt(s["a"])


def adadelta(w, g, t, s):
    s["a"] = 0.95 * s.get("a", 0) + 0.05 * g**2
    update = np.sqrt(s.get("u", 0) + 1.0) / np.sqrt(s["a"] + 1.0) * g
    s["u"] = 0.95 * s.get("u", 0) + 0.05 * update**2
    return w - RATE * update


def ftrl(w, g, t, s):
    old = s.get("n", 0.1)
    s["n"] = old + g**2
    s["z"] = s.get("z", 0) + g - (np.sqrt(s["n"]) - np.sqrt(old)) / RATE * w
    return -s["z"] / (np.sqrt(s["n"]) / RATE)


MODELS = {f.__name__: f for f in (sgd, momentum, adam, rmsprop, adagrad, adadelta, ftrl)}


def test_every_optimizer_has_a_model():
    assert set(MODELS) == set(optimizers.OPTIMIZERS)


@pytest.mark.parametrize("name", optimizers.OPTIMIZERS)
def test_three_steps_follow_the_published_rule(name):
    expected, state = START, {}
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("w", initializer=START.astype(np.float32))
        gradient = tf.placeholder(tf.float32, [4])
        optimizer = optimizers.make_optimizer(OptimizerConfig(name=name), RATE)
        step = optimizer.apply_gradients([(gradient, variable)])
        session.run(tf.global_variables_initializer())
        for count, value in enumerate(GRADIENTS, start=1):
            expected = MODELS[name](expected, value, count, state)
            session.run(step, {gradient: value})
            np.testing.assert_allclose(session.run(variable), expected, rtol=2e-5, atol=1e-6)
        assert all(v.dtype.base_dtype == tf.float32 for v in optimizer.variables())


# Every parameter, away from its default, with a value that must change the third step.
@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        ("adadelta", "adadelta_rho", 0.5),
        ("adadelta", "opt_epsilon", 0.1),
        ("adagrad", "adagrad_initial_accumulator_value", 0.5),
        ("adam", "adam_beta1", 0.5),
        ("adam", "adam_beta2", 0.5),
        ("adam", "opt_epsilon", 1e-8),
        ("ftrl", "ftrl_learning_rate_power", -0.25),
        ("ftrl", "ftrl_initial_accumulator_value", 0.5),
        ("ftrl", "ftrl_l1", 0.5),
        ("ftrl", "ftrl_l2", 0.5),
        ("momentum", "momentum", 0.5),
        ("rmsprop", "rmsprop_momentum", 0.5),
        ("rmsprop", "rmsprop_decay", 0.5),
        ("rmsprop", "opt_epsilon", 0.1),
    ],
)
def test_every_parameter_reaches_its_optimizer(name, parameter, value):
    ends = []
    for config in (OptimizerConfig(name=name), OptimizerConfig(name=name, **{parameter: value})):
        with tf.Graph().as_default(), tf.Session() as session:
            variable = tf.get_variable("w", initializer=START.astype(np.float32))
            gradient = tf.placeholder(tf.float32, [4])
            step = optimizers.make_optimizer(config, RATE).apply_gradients([(gradient, variable)])
            session.run(tf.global_variables_initializer())
            for values in GRADIENTS:
                session.run(step, {gradient: values})
            ends.append(session.run(variable))
    assert np.abs(ends[0] - ends[1]).max() > 1e-4


def rates(config, steps, num_examples, images_per_step):
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.placeholder(tf.int64, [])
        rate = optimizers.learning_rate(config, step, num_examples, images_per_step)
        assert rate.dtype == tf.float32 and rate.shape.rank == 0
        return np.array([session.run(rate, {step: value}) for value in steps])


STEPS = np.array([0, 1, 9, 10, 19, 20, 21, 40, 1000])


@pytest.mark.parametrize(("num_examples", "batch"), [(40, 8), (3, 32), (1, 10**6), (40, 4)])
def test_schedules_follow_numpy_and_stay_finite_for_tiny_data(num_examples, batch):
    config = LearningRateConfig()
    length = max(1, int(num_examples * 2.0 / batch))
    assert optimizers.decay_steps(config, num_examples, batch) == length
    got = rates(config, STEPS, num_examples, batch)
    np.testing.assert_allclose(got, 0.01 * 0.94 ** (STEPS // length), rtol=1e-5)
    got = rates(LearningRateConfig(decay_type="polynomial"), STEPS, num_examples, batch)
    done = np.minimum(STEPS, length) / length
    np.testing.assert_allclose(got, 0.01 + done * (0.0001 - 0.01), rtol=1e-4)
    got = rates(LearningRateConfig(decay_type="fixed"), STEPS, num_examples, batch)
    np.testing.assert_allclose(got, 0.01, rtol=1e-6)


def test_published_decay_length_of_imagenet():
    # Slim's inception recipes: 1,281,167 images, 2 epochs, batch 32.
    assert optimizers.decay_steps(LearningRateConfig(), 1281167, 32) == 80072


def test_a_fixed_rate_is_described_without_a_decay():
    described = {
        kind: optimizers.LearningRateConfig(0.1, kind).describe(7)
        for kind in optimizers.DECAY_TYPES
    }
    assert described == {
        "fixed": "fixed learning rate 0.1",
        "exponential": "exponential learning rate from 0.1, 7 steps a decay",
        "polynomial": "polynomial learning rate from 0.1, 7 steps a decay",
    }


def test_defaults_are_those_of_slims_flags():
    assert dataclasses.asdict(LearningRateConfig()) == {
        "learning_rate": 0.01,
        "decay_type": "exponential",
        "end_learning_rate": 0.0001,
        "decay_factor": 0.94,
        "num_epochs_per_decay": 2.0,
    }
    assert dataclasses.asdict(OptimizerConfig()) == {
        "name": "rmsprop",
        "adadelta_rho": 0.95,
        "adagrad_initial_accumulator_value": 0.1,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "opt_epsilon": 1.0,
        "ftrl_learning_rate_power": -0.5,
        "ftrl_initial_accumulator_value": 0.1,
        "ftrl_l1": 0.0,
        "ftrl_l2": 0.0,
        "momentum": 0.9,
        "rmsprop_momentum": 0.9,
        "rmsprop_decay": 0.9,
    }


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: OptimizerConfig(name="lamb"), ["--optimizer", "'lamb'", *optimizers.OPTIMIZERS]),
        (lambda: OptimizerConfig(opt_epsilon=0.0), ["--opt_epsilon is 0.0", "1.17"]),
        (lambda: OptimizerConfig(opt_epsilon=1e-40), ["--opt_epsilon"]),
        (lambda: OptimizerConfig(momentum=1.0), ["--momentum is 1.0", "below 1"]),
        (lambda: OptimizerConfig(adam_beta2=float("nan")), ["--adam_beta2 is nan"]),
        (lambda: OptimizerConfig(ftrl_learning_rate_power=0.5), ["--ftrl_learning_rate_power"]),
        (lambda: OptimizerConfig(adagrad_initial_accumulator_value=0), ["above 0"]),
        (lambda: LearningRateConfig(learning_rate=-0.1), ["--learning_rate is -0.1"]),
        (lambda: LearningRateConfig(learning_rate=float("inf")), ["--learning_rate is inf"]),
        (lambda: LearningRateConfig(decay_factor=0.0), ["--learning_rate_decay_factor is 0.0"]),
        (lambda: LearningRateConfig(num_epochs_per_decay=0), ["--num_epochs_per_decay is 0"]),
        (
            lambda: LearningRateConfig(decay_type="cosine"),
            ["--learning_rate_decay_type", "'cosine'", "fixed, exponential, polynomial"],
        ),
        (lambda: optimizers.decay_steps(LearningRateConfig(), 0, 32), ["num_examples", "got 0"]),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(make, words):
    with pytest.raises(UsageError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)
