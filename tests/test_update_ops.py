import fakes
import numpy as np
import pytest

import slim_mp
from slim_mp.compat import slim, tf

FORMS = {
    "fused": {},
    "unfused": {"fused": False},
    "own collection": {"updates_collections": "own"},
    "unfused, own collection": {"updates_collections": "own", "fused": False},
    "renorm": {"renorm": True},
}
BATCHES = [3 + fakes.images((4, 3, 3, 2), seed) for seed in range(3)]


def statistics_after_steps(dtype, form, applied=None):
    """Moving averages after each batch; `applied` says which steps count, None that all do."""
    with fakes.fresh_graph(), tf.Session() as session:
        x = tf.placeholder(dtype, BATCHES[0].shape)
        with slim_mp.arg_scope(dtype):
            y = slim.batch_norm(x, decay=0.8, **form)
        updates = tf.get_collection(form.get("updates_collections", tf.GraphKeys.UPDATE_OPS))
        assert updates
        # Renorm has further statistics, which change in the forward pass.
        names = ("BatchNorm/moving_mean", "BatchNorm/moving_variance")
        moving = [v for v in tf.global_variables() if v.op.name in names]
        is_applied = tf.placeholder_with_default(True, [])
        if applied is None:
            step = tf.group(updates)
        else:
            with tf.control_dependencies([y]):
                step = tf.cond(
                    is_applied, lambda: tf.group(slim_mp.repeat_updates(updates)), tf.no_op
                )
        session.run(tf.global_variables_initializer())
        states = []
        for number, batch in enumerate(BATCHES):
            feed = {x: batch, is_applied: applied is None or applied[number]}
            session.run([step, y], feed)
            states.append(session.run(moving))
        return states


@pytest.mark.parametrize("v2", [False, True], ids=["control flow v1", "control flow v2"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("dtype", [tf.float32, tf.float16], ids=["fp32", "fp16"])
def test_statistics_move_if_and_only_if_the_step_counts(form, dtype, v2):
    if v2:
        tf.enable_control_flow_v2()
    try:
        repeated = statistics_after_steps(dtype, form, [True, True, True])
        skipping = statistics_after_steps(dtype, form, [True, False, True])
    finally:
        tf.disable_control_flow_v2()
    ordinary = statistics_after_steps(dtype, form)
    for actual, expected in zip(repeated, ordinary, strict=True):
        np.testing.assert_equal(actual, expected)
    np.testing.assert_equal(skipping[1], skipping[0])
    assert not np.array_equal(skipping[2][-1], skipping[1][-1])


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda variable: variable.assign([5.0, 6.0]), [5, 6]),
        (lambda variable: variable.assign_add([1.0, 2.0]), [2, 4]),
        (lambda variable: variable.assign_sub([1.0, 2.0]), [0, 0]),
    ],
)
def test_each_kind_of_assignment(resource, change, expected):
    with fakes.fresh_graph(), tf.Session() as session:
        variable = tf.Variable([1.0, 2.0], use_resource=resource)
        update = change(variable)
        taken = tf.placeholder(tf.bool, [])
        step = tf.cond(taken, lambda: tf.group(slim_mp.repeat_updates([update])), tf.no_op)
        session.run(tf.global_variables_initializer())
        session.run(step, {taken: False})
        assert list(session.run(variable)) == [1, 2]
        session.run(step, {taken: True})
        assert list(session.run(variable)) == expected


def test_other_operations_are_returned_as_they_are():
    with fakes.fresh_graph():
        variable = tf.Variable(0.0)
        group = tf.group(variable.assign(1.0))
        conditional = tf.cond(tf.constant(True), lambda: variable.assign(1.0), lambda: 0.0)
        assert slim_mp.repeat_updates([group, conditional]) == [group, conditional.op]
        assert slim_mp.repeat_updates([]) == []
