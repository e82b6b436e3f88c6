import fakes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slim_mp
from slim_mp.compat import tf
from slim_mp.errors import UsageError

INF = np.inf


def rule_in_python(finite, scale, incr_every, decr_every, incr_ratio, decr_ratio, floor):
    """The rule of the dynamic scale as its description says it."""
    scales, good, bad = [], 0, 0
    for is_finite in finite:
        good, bad = (good + 1, bad) if is_finite else (0, bad + 1)
        if is_finite and good >= incr_every:
            grown = np.float32(scale) * np.float32(incr_ratio)
            scale, good, bad = (grown if np.isfinite(grown) else scale), 0, 0
        elif not is_finite and bad >= decr_every:
            shrunk = np.float32(scale) * np.float32(decr_ratio)
            scale, good, bad = max(shrunk, np.float32(floor)), 0, 0
        scales.append(np.float32(scale))
    return scales


@settings(max_examples=25, deadline=None)
@given(
    finite=st.lists(st.booleans(), min_size=1, max_size=40),
    scale=st.sampled_from([1.0, 2.0, 3.7, 2.0**15, 2.0**126, 3e38]),
    incr_every=st.integers(1, 4),
    decr_every=st.integers(1, 3),
    incr_ratio=st.sampled_from([1.5, 2, 1000]),
    decr_ratio=st.sampled_from([0.8, 0.5, 0.01]),
    floor=st.sampled_from([1.0, 2.0**-10]),
)
def test_the_dynamic_scale_follows_its_rule(
    finite, scale, incr_every, decr_every, incr_ratio, decr_ratio, floor
):
    rule = (scale, incr_every, decr_every, incr_ratio, decr_ratio, floor)
    with fakes.fresh_graph(), tf.Session() as session:
        manager = slim_mp.ExponentialUpdateLossScaleManager(*rule)
        is_finite = tf.placeholder(tf.bool, [])
        update = manager.update_loss_scale(is_finite)
        session.run(tf.global_variables_initializer())
        scales = []
        with np.errstate(over="ignore"):
            expected = rule_in_python(finite, *rule)
        for value in finite:
            session.run(update, {is_finite: value})
            scales.append(session.run(manager.get_loss_scale()))
        np.testing.assert_array_equal(scales, expected)


@pytest.mark.parametrize("scale", [0, -1, INF, np.nan, "128", None, True])
def test_other_scales_are_refused(scale):
    with pytest.raises(UsageError, match="loss_scale is"):
        slim_mp.FixedLossScaleManager(scale)
    with pytest.raises(UsageError, match="init_loss_scale is"):
        slim_mp.ExponentialUpdateLossScaleManager(scale, 10)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("incr_every_n_steps", 0),
        ("incr_every_n_steps", 1.5),
        ("decr_every_n_nan_or_inf", -1),
        ("decr_every_n_nan_or_inf", True),
        ("incr_ratio", 1),
        ("incr_ratio", INF),
        ("decr_ratio", 0),
        ("decr_ratio", 1),
        ("min_loss_scale", 0),
        ("min_loss_scale", 9),
    ],
)
def test_other_rules_are_refused(name, value):
    rule = {"init_loss_scale": 8.0, "incr_every_n_steps": 2, name: value}
    with pytest.raises(UsageError, match=name):
        slim_mp.ExponentialUpdateLossScaleManager(**rule)
