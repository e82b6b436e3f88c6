import fakes
import numpy as np
import pytest

import slim_mp
from slim_mp.compat import tf
from slim_mp.errors import UsageError

INF = np.inf


def dynamic(scale=8.0, **rule):
    return slim_mp.ExponentialUpdateLossScaleManager(scale, 2, 1, decr_ratio=0.5, **rule)


MANAGERS = {"fixed": lambda: slim_mp.FixedLossScaleManager(8), "dynamic": dynamic}


def wrapped(optimizer=None, manager=None):
    return slim_mp.LossScaleOptimizer(
        optimizer or tf.train.GradientDescentOptimizer(0.1),
        manager or slim_mp.FixedLossScaleManager(8),
    )


@pytest.mark.parametrize("manager", MANAGERS)
def test_steps_are_counted(manager, tmp_path):
    """T18, with a restart after the fourth step."""
    gradients = [1, INF, 1, INF, 1, 1]
    seen = {"fixed": [8] * 6, "dynamic": [8, 4, 4, 2, 2, 4]}[manager]
    skips_in_a_row = [0, 1, 0, 1, 0, 0]
    for start, end in ((0, 4), (4, 6)):
        with fakes.fresh_graph(), tf.Session() as session:
            loss, _, gradient = fakes.one_weight_loss()
            step = tf.train.get_or_create_global_step()
            optimizer = wrapped(manager=MANAGERS[manager]())
            train_op = optimizer.minimize(loss, global_step=step)
            saver = tf.train.Saver()
            session.run(tf.global_variables_initializer())
            if start:
                saver.restore(session, str(tmp_path / "model"))
            for number in range(start, end):
                session.run(train_op, {gradient: gradients[number]})
                assert session.run(optimizer._manager.get_loss_scale()) == seen[number]
                assert session.run(optimizer.consecutive_skips) == skips_in_a_row[number]
                assert session.run([step, optimizer.attempted_steps]) == [number + 1] * 2
            saver.save(session, str(tmp_path / "model"))
            counts = session.run([optimizer.applied_steps, optimizer.skipped_steps])
            assert counts == ([2, 2] if end == 4 else [4, 2])
    with fakes.fresh_graph(), tf.Session():
        assert tf.train.load_variable(str(tmp_path / "model"), "weight") == pytest.approx(0.6)


@pytest.mark.parametrize("scale", [2.0**-4, 1, 2, 128, 2.0**15, 2.0**40])
def test_a_power_of_two_leaves_no_trace_in_float32_gradients(scale):
    def gradients(optimizer):
        with fakes.fresh_graph(), tf.Session() as session:
            logits = fakes.tiny_network(fakes.inputs(tf.float32))
            loss = tf.losses.sparse_softmax_cross_entropy([0, 1], logits)
            pairs = optimizer().compute_gradients(loss)
            fakes.set_variables(session)
            return session.run([gradient for gradient, _ in pairs])

    plain = gradients(lambda: tf.train.GradientDescentOptimizer(0.1))
    scaled = gradients(lambda: wrapped(manager=slim_mp.FixedLossScaleManager(scale)))
    for actual, expected in zip(scaled, plain, strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_gradients_keep_their_kind():
    """T17: None stays None, sparse stays sparse, both unscaled."""
    with fakes.fresh_graph(), tf.Session() as session:
        loss, _ = fakes.dense_and_sparse_loss()
        pairs = wrapped().compute_gradients(loss)
        by_name = {variable.op.name: gradient for gradient, variable in pairs}
        assert by_name["unused"] is None
        assert isinstance(by_name["table"], tf.IndexedSlices)
        session.run(tf.global_variables_initializer())
        sparse = session.run(by_name["table"])
        np.testing.assert_array_equal(sparse.values, np.full((3, 2), 2.0))
        np.testing.assert_array_equal(sparse.indices, [1, 3, 1])
        assert list(session.run(by_name["dense"])) == [2, -4, 1]


def test_it_passes_for_the_optimizer_it_wraps():
    with fakes.fresh_graph():
        inner = tf.train.AdamOptimizer(0.1, name="Mine")
        optimizer = wrapped(inner)
        loss, _ = fakes.dense_and_sparse_loss()
        optimizer.minimize(loss)
        assert optimizer.get_name() == "Mine"
        assert optimizer.get_slot_names() == inner.get_slot_names() == ["m", "v"]
        assert optimizer.variables() == inner.variables() != []
        dense = tf.trainable_variables()[0]
        assert optimizer.get_slot(dense, "m") is inner.get_slot(dense, "m")
        assert optimizer.get_slot(dense, "nothing") is None
        assert [v.op.name for v in optimizer.state_variables()] == [
            "loss_scale/applied_steps",
            "loss_scale/skipped_steps",
            "loss_scale/consecutive_skips",
        ]
        assert not set(optimizer.state_variables()) & set(tf.trainable_variables())


def clip_by_value(gradients):
    return [tf.clip_by_value(gradient, -1.0, 1.0) for gradient in gradients]


def clip_by_global_norm(gradients):
    return tf.clip_by_global_norm(gradients, 1.0)[0]


@pytest.mark.parametrize("clip", [clip_by_value, clip_by_global_norm])
def test_clipping_sees_unscaled_gradients_and_hides_no_overflow(clip):
    with fakes.fresh_graph(), tf.Session() as session:
        loss, weight, gradient = fakes.one_weight_loss()
        optimizer = wrapped(tf.train.GradientDescentOptimizer(1.0), dynamic())
        gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
        train_op = optimizer.apply_gradients(zip(clip(gradients), variables, strict=True))
        session.run(tf.global_variables_initializer())
        for value, expected in ((0.25, 0.75), (INF, 0.75), (np.nan, 0.75), (-3.0, 1.75)):
            session.run(train_op, {gradient: value})
            assert session.run(weight) == expected
        assert session.run(optimizer.skipped_steps) == 2


def test_gradients_of_its_own_making_are_checked_too():
    with fakes.fresh_graph(), tf.Session() as session:
        value = tf.placeholder(tf.float32, [])
        weight = tf.get_variable("weight", initializer=1.0)
        optimizer = wrapped()
        train_op = optimizer.apply_gradients([(value, weight)])
        session.run(tf.global_variables_initializer())
        for fed, expected in ((INF, 1.0), (5.0, 0.5)):
            session.run(train_op, {value: fed})
            assert session.run(weight) == expected


@pytest.mark.parametrize("bad_clone", [0, 1, None])
def test_an_overflow_in_one_clone_skips_the_step(bad_clone):
    with fakes.fresh_graph(), tf.Session() as session:
        weight = tf.get_variable("weight", initializer=1.0)
        optimizer = wrapped(manager=dynamic())
        gradients = []
        for clone in range(2):
            factor = INF if clone == bad_clone else 1.0
            loss = fakes.with_gradient_factor(weight * (clone + 1), factor)
            ((gradient, _),) = optimizer.compute_gradients(loss, [weight])
            # Averaging that drops the bad value must not hide it.
            gradients.append(tf.minimum(gradient, 10.0))
        train_op = optimizer.apply_gradients([(tf.add_n(gradients) / 2, weight)])
        session.run(tf.global_variables_initializer())
        session.run(train_op)
        skipped = bad_clone is not None
        assert session.run(weight) == (1.0 if skipped else np.float32(0.85))
        assert session.run(optimizer.skipped_steps) == skipped


def test_finite_gradients_whose_squares_overflow_count_as_finite():
    with fakes.fresh_graph(), tf.Session() as session:
        loss, weight, gradient = fakes.one_weight_loss()
        optimizer = wrapped(
            tf.train.GradientDescentOptimizer(1e-30), slim_mp.FixedLossScaleManager(1)
        )
        train_op = optimizer.minimize(loss)
        session.run(tf.global_variables_initializer())
        session.run(train_op, {gradient: 2e30})
        assert session.run(optimizer.applied_steps) == 1
        assert session.run(weight) == pytest.approx(-1)


def test_a_half_loss_is_scaled_in_float32():
    """Times 128 the loss would not fit into float16; its gradient does."""
    with fakes.fresh_graph(), tf.Session() as session:
        weight = tf.get_variable("weight", initializer=60000.0)
        optimizer = wrapped(manager=slim_mp.FixedLossScaleManager(128))
        for loss in (tf.cast(weight, tf.float16), lambda: tf.cast(weight, tf.float16)):
            ((gradient, _),) = optimizer.compute_gradients(loss)
            session.run(tf.global_variables_initializer())
            assert session.run(gradient) == 1
            assert gradient.dtype == tf.float32


def test_the_scale_saves_small_half_gradients():
    """2**-30 vanishes in float16; times 2**15 it does not."""

    def gradient(scale):
        with fakes.fresh_graph(), tf.Session() as session:
            weight = tf.get_variable("weight", initializer=1.0)
            loss = tf.cast(tf.identity(tf.cast(weight, tf.float16)), tf.float32) * 2.0**-30
            manager = slim_mp.FixedLossScaleManager(scale)
            pairs = wrapped(manager=manager).compute_gradients(loss)
            session.run(tf.global_variables_initializer())
            return session.run(pairs[0][0])

    assert gradient(1) == 0
    assert gradient(2.0**15) == 2.0**-30


def test_the_scale_never_falls_below_its_floor():
    """T19: gradients that are never finite."""
    with fakes.fresh_graph(), tf.Session() as session:
        loss, weight, gradient = fakes.one_weight_loss()
        optimizer = wrapped(manager=dynamic(min_loss_scale=0.5))
        train_op = optimizer.minimize(loss)
        session.run(tf.global_variables_initializer())
        scales = [
            session.run([optimizer.loss_scale, train_op], {gradient: INF})[0] for _ in "1234567"
        ]
        assert scales == [8, 4, 2, 1, 0.5, 0.5, 0.5]
        assert session.run([weight, optimizer.consecutive_skips]) == [1, 7]


def test_the_sample_of_the_documentation():
    with fakes.fresh_graph(), tf.Session() as session:
        loss, _ = fakes.dense_and_sparse_loss()

        manager = slim_mp.ExponentialUpdateLossScaleManager(
            init_loss_scale=2.0**15, incr_every_n_steps=2000
        )
        optimizer = slim_mp.LossScaleOptimizer(tf.train.AdamOptimizer(1e-3), manager)
        train_op = optimizer.minimize(loss)

        session.run(tf.global_variables_initializer())
        before = session.run(loss)
        for _ in range(3):
            session.run(train_op)
        assert session.run(loss) < before


def test_further_operations_run_only_if_the_step_counts():
    with fakes.fresh_graph(), tf.Session() as session:
        loss, weight, gradient = fakes.one_weight_loss()
        average = tf.Variable(0.0, trainable=False)
        optimizer = wrapped()
        train_op = optimizer.apply_gradients(
            optimizer.compute_gradients(loss),
            if_applied=lambda: [average.assign(weight.read_value())],
        )
        session.run(tf.global_variables_initializer())
        for value, expected in ((INF, 0.0), (1.0, 0.9), (INF, 0.9)):
            session.run(train_op, {gradient: value})
            assert session.run(average) == np.float32(expected)


def test_no_gradient_at_all_is_an_error():
    with fakes.fresh_graph():
        tf.get_variable("weight", initializer=1.0)
        with pytest.raises(ValueError, match="No gradients provided"):
            wrapped().minimize(tf.constant(1.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("adam", slim_mp.FixedLossScaleManager(1)), "opt is a str"),
        ((None, slim_mp.FixedLossScaleManager(1)), "opt is a NoneType"),
        ((tf.train.AdamOptimizer(), 128), "loss_scale_manager is a int"),
        ((tf.train.AdamOptimizer(), None), "FixedLossScaleManager"),
    ],
)
def test_other_arguments_of_the_optimizer_are_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        slim_mp.LossScaleOptimizer(*arguments)
