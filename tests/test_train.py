"""Runs over their whole life: start, stop, resume in another dtype, trouble with numbers."""

import itertools
import os
import re

import numpy as np
import pytest
import tiny_runs

from slim_mp.compat import tf
from slim_mp.errors import CheckpointError, NumericsError, UsageError
from slim_mp.training import optimizers, train_config

DTYPES = ["fp32", "fp16", "bf16"]
DYNAMIC = train_config.LossScaleConfig(init=64.0, incr_every_n_steps=3, decr_every_n_nan_or_inf=1)


@pytest.fixture(autouse=True)
def log_everything(caplog):
    caplog.set_level("INFO")


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_seed_repeats_a_run_bit_for_bit_also_when_it_is_interrupted(tmp_path, dtype):
    changes = {"dtype": dtype, "optimizer": optimizers.OptimizerConfig("momentum")}
    # Seven steps of four images pass the end of an epoch of 24.
    for name, steps in (("one", [7]), ("two", [7]), ("stopped", [2, 7])):
        for last in steps:
            tiny_runs.run(tmp_path / name, max_number_of_steps=last, **changes)
    expected = tiny_runs.variables(tmp_path / "one")
    assert expected["global_step"] == 7
    tiny_runs.assert_equal_bits(tiny_runs.variables(tmp_path / "two"), expected)
    tiny_runs.assert_equal_bits(tiny_runs.variables(tmp_path / "stopped"), expected)
    rows = {name: tiny_runs.metrics(tmp_path / name) for name in ("one", "stopped")}
    for row in itertools.chain(*rows.values()):
        del row["examples_per_second"]
    assert rows["stopped"] == rows["one"]


def test_another_seed_gives_other_weights(tmp_path):
    for seed in (1, 2, None):
        tiny_runs.run(tmp_path / str(seed), seed=seed, max_number_of_steps=1)
    weights = [tiny_runs.variables(tmp_path / s)["tiny/conv1/weights"] for s in ("1", "2", "None")]
    assert not np.array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])


def test_a_run_changes_its_dtype_and_loss_scale_from_resume_to_resume(tmp_path, caplog):
    fixed = train_config.LossScaleConfig(fixed=1.0)
    states = []
    for last, dtype, scale in (
        (2, "fp32", fixed),
        (4, "fp16", DYNAMIC),
        (5, "fp16", DYNAMIC),
        (7, "fp32", fixed),
        (9, "bf16", fixed),
    ):
        result = tiny_runs.run(tmp_path, dtype=dtype, loss_scale=scale, max_number_of_steps=last)
        assert (result.step, result.stopped) == (last, False)
        states.append(tiny_runs.variables(tmp_path, last))
    assert [row["step"] for row in tiny_runs.metrics(tmp_path)] == list(range(1, 10))
    [line] = [r.getMessage() for r in caplog.records if "left as initialised" in r.getMessage()]
    fresh = ", ".join(f"loss_scale/{name}" for name in ("scale", "good_steps", "bad_steps"))
    assert line.endswith(f"model.ckpt-2, left as initialised: {fresh}")
    # The dynamic scale starts at its default, and its count of good steps passes the restart.
    assert states[1]["loss_scale/scale"] == 64.0
    assert states[1]["loss_scale/good_steps"] == 2
    assert states[2]["loss_scale/scale"] == 128.0
    assert "loss_scale/scale" not in states[3]
    assert [state["loss_scale/applied_steps"] for state in states] == [2, 4, 5, 7, 9]
    assert all(v.dtype in (np.float32, np.int64) for state in states for v in state.values())


@pytest.mark.parametrize("kind", ["fixed", "dynamic"])
def test_skips_are_counted_over_a_restart(tmp_path, kind):
    inf = np.inf
    scale = {
        "fixed": train_config.LossScaleConfig(fixed=8.0),
        "dynamic": train_config.LossScaleConfig(
            init=8.0, incr_every_n_steps=2, decr_every_n_nan_or_inf=1, decr_ratio=0.5
        ),
    }[kind]
    for last in (3, 6):
        network_fn = tiny_runs.one_weight([1, inf, 1, inf, 1, 1])
        tiny_runs.run(tmp_path, network_fn, loss_scale=scale, max_number_of_steps=last)
    state = tiny_runs.variables(tmp_path)
    assert state["weight"] == pytest.approx(0.6)
    assert state["global_step"] == 6
    assert state["loss_scale/applied_steps"] == 4
    assert state["loss_scale/skipped_steps"] == 2
    assert state["loss_scale/consecutive_skips"] == 0
    rows = tiny_runs.metrics(tmp_path)
    assert [row["skipped_steps"] for row in rows] == [0, 1, 1, 2, 2, 2]
    assert [row["applied_steps"] for row in rows] == [1, 1, 2, 2, 3, 4]
    scales = [8.0, 8.0, 4.0, 4.0, 2.0, 2.0] if kind == "dynamic" else [8.0] * 6
    assert [row["loss_scale"] for row in rows] == scales
    if kind == "dynamic":
        assert state["loss_scale/scale"] == 4.0
        assert state["loss_scale/good_steps"] == 0


def test_gradients_that_are_never_finite_end_the_run_with_all_as_it_was(tmp_path):
    scale = train_config.LossScaleConfig(init=8.0, decr_every_n_nan_or_inf=1, minimum=0.5)
    tiny_runs.run(tmp_path, loss_scale=scale, max_number_of_steps=2)
    before = tiny_runs.variables(tmp_path)
    with pytest.raises(NumericsError) as caught:
        tiny_runs.run(
            tmp_path,
            tiny_runs.network(gradient_factor=tiny_runs.bad_steps(*range(3, 100))),
            loss_scale=scale,
            max_number_of_steps=None,
            max_consecutive_skips=20,
            save_interval_secs=0,
        )
    message = str(caught.value)
    for part in ("20 steps in a row", "up to step 22", "2 steps applied", "learning rate 0.1"):
        assert part in message
    assert "loss scale 0.5" in message
    # Nothing was saved while steps were skipped, and nothing is broken.
    tiny_runs.assert_equal_bits(tiny_runs.variables(tmp_path), before)
    rows = tiny_runs.metrics(tmp_path)
    assert [row["step"] for row in rows] == list(range(1, 23))
    scales = [row["loss_scale"] for row in rows]
    assert scales == sorted(scales, reverse=True)
    assert scales[-1] == 0.5
    assert rows[-1]["gradient_norm"] is None
    assert np.isfinite(rows[-1]["loss"])


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_learning_rate_that_destroys_the_weights_is_reported_as_such(tmp_path, dtype):
    tiny_runs.run(tmp_path, dtype=dtype, max_number_of_steps=2)
    before = tiny_runs.variables(tmp_path)
    with pytest.raises(NumericsError, match=r"learning rate 1e\+38 and loss scale 1;"):
        tiny_runs.run(
            tmp_path,
            dtype=dtype,
            learning_rate=optimizers.LearningRateConfig(1e38, "fixed"),
            max_number_of_steps=50,
            max_consecutive_skips=3,
            save_summaries_secs=0,
        )
    assert tiny_runs.metrics(tmp_path)[-1]["gradient_norm"] is None
    tiny_runs.assert_equal_bits(tiny_runs.variables(tmp_path), before)


def test_a_loss_of_nan_in_one_step_ends_nothing(tmp_path):
    network_fn = tiny_runs.network(loss_factor=tiny_runs.bad_steps(2, factor=np.nan))
    tiny_runs.run(tmp_path, network_fn, save_summaries_secs=0)
    losses = [row["loss"] for row in tiny_runs.metrics(tmp_path)]
    assert losses[1] is None
    assert np.isfinite([losses[0], losses[2]]).all()
    assert all(np.isfinite(v).all() for v in tiny_runs.variables(tmp_path).values())


def test_a_train_dir_with_a_checkpoint_goes_before_checkpoint_path(tmp_path, caplog):
    tiny_runs.run(tmp_path / "other", max_number_of_steps=1, seed=5)
    tiny_runs.run(tmp_path / "this", max_number_of_steps=2)
    expected = tiny_runs.variables(tmp_path / "this")
    other = str(tmp_path / "other" / "train")
    tiny_runs.run(
        tmp_path / "this",
        max_number_of_steps=3,
        learning_rate=optimizers.LearningRateConfig(0.0, "fixed"),
        warm_start=train_config.WarmStartConfig(other),
    )
    name = "tiny/conv1/weights"
    np.testing.assert_array_equal(tiny_runs.variables(tmp_path / "this")[name], expected[name])
    [warning] = [r.getMessage() for r in caplog.records if "is ignored" in r.getMessage()]
    for part in (str(tmp_path / "this" / "train" / "model.ckpt-2"), "at step 2", other, "ignored"):
        assert part in warning


def test_resume_never_keeps_off_a_train_dir_in_use(tmp_path):
    tiny_runs.run(tmp_path, resume="never")
    files = sorted(os.listdir(tmp_path / "train"))
    with pytest.raises(UsageError, match=r"--resume=never.*model\.ckpt-3"):
        tiny_runs.run(tmp_path, resume="never")
    assert sorted(os.listdir(tmp_path / "train")) == files


def test_resume_must_insists_on_a_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match=r"--resume=must.*no complete checkpoint"):
        tiny_runs.run(tmp_path, resume="must")
    tiny_runs.run(tmp_path, max_number_of_steps=1)
    assert tiny_runs.run(tmp_path, resume="must", max_number_of_steps=2).step == 2


def test_a_run_that_is_done_says_so_and_does_nothing(tmp_path, caplog):
    tiny_runs.run(tmp_path)
    before = {path: os.stat(path).st_mtime_ns for path in (tmp_path / "train").iterdir()}
    result = tiny_runs.run(tmp_path, max_number_of_steps=2)
    assert (result.step, result.stopped) == (3, False)
    assert "Already trained to step 3" in caplog.text
    assert {path: os.stat(path).st_mtime_ns for path in (tmp_path / "train").iterdir()} == before


def test_a_damaged_last_checkpoint_is_passed_over(tmp_path, caplog):
    for last in (1, 2):
        tiny_runs.run(tmp_path, max_number_of_steps=last)
    with open(tmp_path / "train" / "model.ckpt-2.data-00000-of-00001", "r+b") as file:
        file.truncate(100)
    assert tiny_runs.run(tmp_path, max_number_of_steps=3).step == 3
    assert "starting at step 1." in caplog.text
    assert [row["step"] for row in tiny_runs.metrics(tmp_path)] == [1, 2, 3]


def test_another_optimizer_cannot_go_on_but_can_start_from_the_weights(tmp_path):
    tiny_runs.run(tmp_path / "sgd")
    with pytest.raises(CheckpointError, match=r"Slots.*--optimizer(.|\n)*--checkpoint_path="):
        tiny_runs.run(
            tmp_path / "sgd",
            max_number_of_steps=5,
            optimizer=optimizers.OptimizerConfig("adam"),
        )
    start = train_config.WarmStartConfig(str(tmp_path / "sgd" / "train"))
    tiny_runs.run(
        tmp_path / "adam",
        warm_start=start,
        max_number_of_steps=1,
        optimizer=optimizers.OptimizerConfig("adam"),
        learning_rate=optimizers.LearningRateConfig(0.0, "fixed"),
    )
    weights = [n for n in tiny_runs.variables(tmp_path / "sgd") if re.match("tiny/.*weights", n)]
    tiny_runs.assert_equal_bits(
        tiny_runs.variables(tmp_path / "adam"), tiny_runs.variables(tmp_path / "sgd"), weights
    )


def test_a_warm_start_takes_the_statistics_of_batch_norm(tmp_path):
    tiny_runs.run(tmp_path / "one", max_number_of_steps=5)
    start = train_config.WarmStartConfig(str(tmp_path / "one" / "train"))
    nothing = tiny_runs.network(gradient_factor=tiny_runs.bad_steps(1))
    tiny_runs.run(tmp_path / "two", nothing, warm_start=start, max_number_of_steps=1)
    expected = tiny_runs.variables(tmp_path / "one")
    names = [name for name in expected if name.startswith("tiny/")]
    assert "tiny/conv2/BatchNorm/moving_variance" in names
    tiny_runs.assert_equal_bits(tiny_runs.variables(tmp_path / "two"), expected, names)


def test_a_train_dir_that_cannot_be_made_is_refused(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    for path in (blocked, blocked / "folder"):
        config = tiny_runs.config(path)
        with pytest.raises(UsageError, match=rf"--train_dir={path} cannot be written"):
            tiny_runs.train.train(config, tiny_runs.network(), tiny_runs.dataset(tmp_path / "data"))


def test_the_log_says_what_runs_where(tmp_path, caplog):
    tiny_runs.run(tmp_path, clones=2, dtype="fp16", seed=7, loss_scale=DYNAMIC)
    for part in (
        "2 clones on /device:CPU:0, /device:CPU:1; no GPU is used.",
        "Compute dtype float16, dynamic loss scale 64; variables, losses and updates float32.",
        "24 images of 3 classes (toy, split train); 8 images a step; ",
        "; fixed learning rate 0.1; seed 7; starting at step 0.",
    ):
        assert part in caplog.text


def test_training_needs_no_session_or_graph_of_the_caller(tmp_path):
    graph = tf.get_default_graph()
    operations = len(graph.get_operations())
    tiny_runs.run(tmp_path, max_number_of_steps=1)
    assert tf.get_default_graph() is graph
    assert len(graph.get_operations()) == operations
