"""Gradient clipping: on unscaled gradients, after the verdict on the step and after the log."""

import numpy as np
import pytest
import tiny_runs

from slim_mp.training import train_config

RATE = 0.1  # of tiny_runs.config
START = 1.0  # of the weight of tiny_runs.one_weight


def weight_after_each(folder, gradients, **changes):
    """The weight after each step of gradients that do not depend on it, and the metrics."""
    tiny_runs.run(
        folder,
        tiny_runs.one_weight(gradients),
        max_number_of_steps=len(gradients),
        save_interval_secs=0,
        **changes,
    )
    steps = range(1, len(gradients) + 1)
    weights = [tiny_runs.variables(folder, step)["weight"] for step in steps]
    return np.array(weights), tiny_runs.metrics(folder)


@pytest.mark.parametrize("kind", ["norm", "value"])
@pytest.mark.parametrize("scale", [1.0, 128.0])
def test_clipping_acts_on_unscaled_gradients_and_the_log_shows_them_before(tmp_path, kind, scale):
    gradients = [3.0, -0.25, -40.0]
    weights, rows = weight_after_each(
        tmp_path,
        gradients,
        loss_scale=train_config.LossScaleConfig(fixed=scale),
        **{f"clip_gradient_{kind}": 0.5},
    )
    moves = -np.diff([START, *weights]) / RATE
    np.testing.assert_allclose(moves, [0.5, -0.25, -0.5], rtol=1e-5)
    assert [row["gradient_norm"] for row in rows] == np.abs(gradients).tolist()


@pytest.mark.parametrize("kind", ["norm", "value"])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_clipping_does_not_hide_an_overflow(tmp_path, kind, bad):
    weights, rows = weight_after_each(tmp_path, [1.0, bad], **{f"clip_gradient_{kind}": 0.5})
    assert weights[1] == weights[0]
    assert [row["skipped_steps"] for row in rows] == [0, 1]


def test_the_norm_is_that_of_all_gradients_together(tmp_path):
    for name, bound in (("free", None), ("clipped", 1e-3)):
        tiny_runs.run(
            tmp_path / name,
            tiny_runs.network(norm=False),
            clip_gradient_norm=bound,
            max_number_of_steps=1,
        )
    [free] = tiny_runs.metrics(tmp_path / "free")
    [clipped] = tiny_runs.metrics(tmp_path / "clipped")
    assert clipped["gradient_norm"] == free["gradient_norm"] > 0.01
    before = tiny_runs.variables(tmp_path / "free")
    after = tiny_runs.variables(tmp_path / "clipped")
    names = [name for name in before if name.startswith("tiny/")]
    # Both moved along the same line from the same start.
    distance = np.sqrt(sum(np.square(before[n] - after[n]).sum() for n in names))
    np.testing.assert_allclose(distance, RATE * (free["gradient_norm"] - 1e-3), rtol=1e-4)
