import fakes
import numpy as np
import pytest

import slim_mp
from slim_mp.compat import tf

INF = np.inf
OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adagrad_da": lambda: tf.train.AdagradDAOptimizer(0.1, tf.train.get_or_create_global_step()),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.1),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.9),
    "centered rmsprop": lambda: tf.train.RMSPropOptimizer(0.1, centered=True),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=1e-3),
    "proximal adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1),
    "proximal sgd": lambda: tf.train.ProximalGradientDescentOptimizer(0.1),
}
MANAGERS = {
    "fixed": lambda: slim_mp.FixedLossScaleManager(8),
    "dynamic": lambda: slim_mp.ExponentialUpdateLossScaleManager(8, 2, 1, decr_ratio=0.5),
}


def run_problem(optimizer, factors):
    """All variables of the problem but those of the loss scale, after each step."""
    with fakes.fresh_graph(), tf.Session() as session:
        tf.train.get_or_create_global_step()
        loss, factor = fakes.dense_and_sparse_loss()
        with tf.name_scope("train"):
            train_op = optimizer().minimize(loss)
        variables = [v for v in tf.global_variables() if not v.op.name.startswith("loss_scale/")]
        session.run(tf.global_variables_initializer())
        states = []
        for value in factors:
            session.run(train_op, {factor: value})
            states.append({v.op.name: session.run(v) for v in variables})
        return states


def assert_same_bits(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_skipped_step_changes_no_weight_and_no_slot(name, manager):
    def optimizer():
        return slim_mp.LossScaleOptimizer(OPTIMIZERS[name](), MANAGERS[manager]())

    states = run_problem(optimizer, [1, INF, np.nan, 1])
    assert_same_bits(states[1], states[0])
    assert_same_bits(states[2], states[0])
    plain = run_problem(OPTIMIZERS[name], [1, 1])
    assert_same_bits(states[0], plain[0])
    assert_same_bits(states[3], plain[1])
    assert not np.array_equal(states[3]["dense"], states[0]["dense"])


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize("manager", MANAGERS)
def test_kinds_of_variables(resource, manager):
    with fakes.fresh_graph(), tf.Session() as session:
        with tf.variable_scope("", use_resource=resource):
            loss, weight, gradient = fakes.one_weight_loss()
        optimizer = slim_mp.LossScaleOptimizer(
            tf.train.MomentumOptimizer(0.1, 0.9), MANAGERS[manager]()
        )
        step = tf.train.get_or_create_global_step()
        train_op = optimizer.minimize(loss, global_step=step)
        session.run(tf.global_variables_initializer())
        for value in (1.0, INF):
            session.run(train_op, {gradient: value})
        assert session.run([weight, step]) == [np.float32(0.9), 2]


@pytest.fixture
def control_flow_v2():
    tf.enable_control_flow_v2()
    yield
    tf.disable_control_flow_v2()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_control_flow_v2(control_flow_v2, name):
    del control_flow_v2
    states = run_problem(
        lambda: slim_mp.LossScaleOptimizer(OPTIMIZERS[name](), MANAGERS["dynamic"]()), [1, INF, 1]
    )
    assert_same_bits(states[1], states[0])
    plain = run_problem(OPTIMIZERS[name], [1, 1])
    assert_same_bits(states[2], plain[1])
