"""An evaluation and its files: what is counted, which weights it is of, what is written when."""

import json
import os

import numpy as np
import pytest
import table_runs
import tiny_runs
from table_runs import CLASSES, COUNT, STEP, labels, table

from slim_mp import distribution
from slim_mp.checkpoints import warm_start
from slim_mp.compat import tf
from slim_mp.errors import CheckpointError, DataError, UsageError
from slim_mp.evaluation import evaluate
from slim_mp.evaluation.evaluator import InferenceConfig

# In the order of metrics.json.
KEYS = [
    "step",
    "checkpoint",
    "checkpoint_time",
    "moving_averages",
    "dataset",
    "split",
    "dtype",
    "image_size",
    "crops",
    "central_fraction",
    "max_num_batches",
    "num_examples",
    "top1",
    "top5",
    "loss",
    "expected_calibration_error",
    "no_answer",
    "images_per_second",
    "per_class",
]


@pytest.fixture(autouse=True)
def log_everything(caplog):
    caplog.set_level("INFO")


def expected_figures(logits, true):
    """The figures that do not need the answers of a class, by the shortest way in numpy."""
    order = np.argsort(-logits, axis=1, kind="stable")
    log_sum = np.log(np.exp(logits.astype(np.float64)).sum(1))
    return {
        "num_examples": len(true),
        "top1": (order[:, 0] == true).mean(),
        "top5": (order[:, :5] == true[:, np.newaxis]).any(1).mean(),
        "loss": (log_sum - logits[np.arange(len(true)), true]).mean(),
    }


def figures(metrics):
    return {name: metrics[name] for name in ("num_examples", "top1", "top5", "loss")}


def without_speed(metrics):
    return {name: value for name, value in metrics.items() if name != "images_per_second"}


def test_each_example_counts_once_whatever_the_batch_and_the_devices(tmp_path):
    first, checkpoint = None, table_runs.write_checkpoint(tmp_path)
    for batch_size, clones in ((COUNT, 1), (1, 1), (7, 1), (100, 2), (4, 3)):
        settings = {"batch_size": batch_size, "clones": clones, "checkpoint": checkpoint}
        metrics = table_runs.run(tmp_path, table(), **settings)
        first = first or metrics
        # Bit for bit, the loss too.
        assert without_speed(metrics) == without_speed(first)
        assert (metrics["images_per_second"] is None) == (batch_size * clones >= COUNT)
    assert figures(first) == pytest.approx(expected_figures(table(), labels()), rel=1e-6)
    assert 0 < first["top1"] < first["top5"] < 1


def test_the_metrics_are_written_as_they_are_returned(tmp_path):
    metrics = table_runs.run(tmp_path, table(), batch_size=5)
    text = (tmp_path / "eval" / "metrics.json").read_text()
    assert json.loads(text) == metrics
    assert list(metrics) == KEYS
    assert metrics["step"] == STEP
    assert metrics["checkpoint"] == str(tmp_path / f"model.ckpt-{STEP}")
    assert (metrics["dataset"], metrics["split"], metrics["crops"]) == ("toy", "test", 1)
    assert metrics["images_per_second"] > 0
    # A line for each class, and for each other figure.
    assert len(text.splitlines()) == len(KEYS) + CLASSES + 3


@pytest.mark.parametrize("clones", [1, 3])
def test_some_batches_are_the_first_ones(tmp_path, clones):
    metrics = table_runs.run(tmp_path, table(), batch_size=5, max_num_batches=2, clones=clones)
    assert figures(metrics) == pytest.approx(
        expected_figures(table()[:10], labels()[:10]), rel=1e-6
    )


def test_a_labels_offset_moves_the_labels(tmp_path):
    dataset = table_runs.numbered_dataset(tmp_path / "data", 5, first_label=1)
    config = table_runs.config(tmp_path, batch_size=9, labels_offset=1)
    metrics = evaluate.evaluate(config, table_runs.network(table(5)), dataset)
    assert figures(metrics) == pytest.approx(expected_figures(table(5), labels(5)), rel=1e-6)
    assert [row["label"] for row in metrics["per_class"]] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("classes", [2, 4, 5])
def test_top5_is_left_out_under_five_classes_and_that_is_said(tmp_path, classes, caplog):
    metrics = table_runs.run(tmp_path, table(classes))
    assert ("top5" in metrics) == (classes >= 5)
    assert (f"{classes} classes: top-5 says nothing, left out." in caplog.text) == (classes < 5)
    assert metrics["num_examples"] == COUNT


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_answer_that_is_not_finite_is_a_wrong_one(tmp_path, value, caplog):
    logits = np.eye(CLASSES, dtype=np.float32)[labels()]
    wrong = [3, 8, 22]
    logits[wrong, labels()[wrong]] = value
    metrics = table_runs.run(tmp_path, logits, batch_size=7)
    assert metrics["top1"] == metrics["top5"] == pytest.approx(1 - len(wrong) / COUNT)
    assert metrics["no_answer"] == len(wrong)
    assert "3 of 23 images have logits that are not finite" in caplog.text
    text = (tmp_path / "eval" / "metrics.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert json.loads(text)["loss"] is None


def test_moving_averages_are_used_where_there_are_any(tmp_path, caplog):
    checkpoint = table_runs.write_checkpoint(
        tmp_path, factor=1.0, factor__ExponentialMovingAverage=-1.0
    )
    averaged = table_runs.run(tmp_path, table(), checkpoint=checkpoint)
    assert figures(averaged) == pytest.approx(expected_figures(-table(), labels()), rel=1e-6)
    assert averaged["moving_averages"] == "used"
    assert "Moving averages used for 1 variables." in caplog.text
    caplog.clear()
    plain = table_runs.run(tmp_path, table(), checkpoint=checkpoint, use_moving_averages=False)
    assert figures(plain) == pytest.approx(expected_figures(table(), labels()), rel=1e-6)
    assert plain["moving_averages"] == "left out"
    assert "Moving averages" not in caplog.text


def test_a_run_with_moving_averages_is_evaluated_by_them(tmp_path):
    tiny_runs.run(tmp_path, moving_average_decay=0.5, max_number_of_steps=4)
    dataset = tiny_runs.dataset(tmp_path / "data")
    losses = {}
    for use in (True, False):
        config = evaluate.EvalConfig(
            InferenceConfig(
                tiny_runs.input_config(),
                distribution.local_clones(num_gpus=0),
                use_moving_averages=use,
            ),
            str(tmp_path / "train"),
            str(tmp_path / "eval"),
        )
        metrics = evaluate.evaluate(config, tiny_runs.network(), dataset)
        assert metrics["step"] == 4
        losses[use] = metrics["loss"]
    assert losses[True] != losses[False]


def test_a_checkpoint_without_a_step_has_none(tmp_path):
    checkpoint = table_runs.write_checkpoint(tmp_path, step=None, factor=1.0)
    metrics = table_runs.run(tmp_path, table(), checkpoint=checkpoint)
    assert metrics["step"] is None


def test_tensorboard_gets_the_figures_at_their_step(tmp_path):
    metrics = table_runs.run(tmp_path, table(), batch_size=5)
    [path] = (tmp_path / "eval").glob("events.*")
    [event] = [e for e in tf.train.summary_iterator(str(path)) if e.summary.value]
    assert event.step == STEP
    shown = {value.tag: value.simple_value for value in event.summary.value}
    names = [*KEYS[KEYS.index("num_examples") : KEYS.index("per_class")]]
    assert shown == pytest.approx({f"evaluation/{name}": metrics[name] for name in names})


def test_metrics_are_whole_or_absent(tmp_path, monkeypatch):
    table_runs.run(tmp_path, table())
    before = (tmp_path / "eval" / "metrics.json").read_text()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(UsageError, match=r"--eval_dir=.*No space left"):
        table_runs.run(tmp_path, table(seed=2), checkpoint=str(tmp_path))
    assert (tmp_path / "eval" / "metrics.json").read_text() == before
    assert not [n for n in os.listdir(tmp_path / "eval") if n.startswith("tmp")]


def test_an_eval_dir_that_cannot_be_made_is_found_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "eval").write_text("")
    monkeypatch.setattr(warm_start, "plan_evaluation", None)
    with pytest.raises(UsageError, match=r"--eval_dir="):
        table_runs.run(tmp_path, table())


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    checkpoint = table_runs.write_checkpoint(tmp_path, other=1.0)
    with pytest.raises(CheckpointError, match="another network"):
        table_runs.run(tmp_path, table(), checkpoint=checkpoint)


def test_a_bad_label_is_named(tmp_path):
    table_runs.numbered_dataset(tmp_path / "data")
    dataset = table_runs.data.open_dataset(
        "toy", "test", tmp_path / "data", num_classes=CLASSES - 1
    )
    with pytest.raises(DataError, match=rf"Record \d+ .*toy_test_\d.*label {CLASSES - 1}"):
        evaluate.evaluate(
            table_runs.config(tmp_path, batch_size=7), table_runs.network(table()), dataset
        )
    assert not (tmp_path / "eval" / "metrics.json").exists()
