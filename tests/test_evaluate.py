"""Metrics against a plain computation in numpy, and which weights they are of."""

import json
import os

import numpy as np
import pytest
import tiny_runs
from toy_records import make_record, plain_image, write_records

from slim_mp import data, distribution, evaluate, warm_start
from slim_mp.compat import tf
from slim_mp.errors import CheckpointError, DataError, UsageError

CLASSES = 7
COUNT = 23


@pytest.fixture(autouse=True)
def log_everything(caplog):
    caplog.set_level("INFO")


def table(classes=CLASSES, seed=0):
    """Logits of each example."""
    return np.random.RandomState(seed).normal(size=(COUNT, classes)).astype(np.float32)


def labels(classes=CLASSES):
    return np.random.RandomState(1).randint(0, classes, COUNT)


def numbered_dataset(folder, classes=CLASSES):
    """Example n is a plain image of grey n, so that a network can tell it."""
    records = [make_record(plain_image(n), int(label)) for n, label in enumerate(labels(classes))]
    os.makedirs(folder, exist_ok=True)
    for part in (0, 1):
        write_records(folder / f"toy_test_{part}.tfrecord", records[part::2])
    return data.open_dataset("toy", "test", folder, num_classes=classes)


def table_network(logits):
    """A network function that looks the logits of an example up, times a variable."""

    def network_fn(images):
        numbers = tf.cast(tf.rint(images[:, 0, 0, 0] * 128 + 128), tf.int32)
        factor = tf.get_variable("factor", [], initializer=tf.ones_initializer())
        return tf.gather(tf.constant(logits), numbers) * factor, {}

    return network_fn


def write_checkpoint(folder, step=12, **values):
    """Writes a checkpoint of scalars; a name with two underscores stands for one with a slash."""
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [
            tf.Variable(np.float32(value), name=name.replace("__", "/"))
            for name, value in values.items()
        ]
        if step is not None:
            variables.append(tf.Variable(np.int64(step), name="global_step"))
        session.run(tf.global_variables_initializer())
        path = str(folder / "model.ckpt")
        tf.train.Saver(variables).save(session, path, write_meta_graph=False)
    return str(folder)


def run(folder, logits, batch_size=100, classes=CLASSES, checkpoint=None, **changes):
    dataset = numbered_dataset(folder / "data", classes)
    config = evaluate.EvalConfig(
        checkpoint_path=checkpoint or write_checkpoint(folder, factor=1.0),
        eval_dir=str(folder / "eval"),
        input=data.InputConfig("lenet", 4, 1, batch_size, tf.float32),
        clones=distribution.local_clones(num_gpus=0),
        **changes,
    )
    return evaluate.evaluate(config, table_network(logits), dataset)


def expected_metrics(logits, true):
    order = np.argsort(-logits, axis=1, kind="stable")
    log_sum = np.log(np.exp(logits.astype(np.float64)).sum(1))
    return {
        "num_examples": len(true),
        "top1": (order[:, 0] == true).mean(),
        "top5": (order[:, :5] == true[:, np.newaxis]).any(1).mean(),
        "loss": (log_sum - logits[np.arange(len(true)), true]).mean(),
        "step": 12,
    }


@pytest.mark.parametrize("batch_size", [1, 7, 100])
def test_each_example_counts_once_whatever_the_batch(tmp_path, batch_size):
    metrics = run(tmp_path, table(), batch_size)
    assert metrics == pytest.approx(expected_metrics(table(), labels()), rel=1e-6)
    assert 0 < metrics["top1"] < metrics["top5"] < 1
    written = json.loads((tmp_path / "eval" / "metrics.json").read_text())
    assert written == metrics
    assert set(written) == {"num_examples", "top1", "top5", "loss", "step"}


def test_some_batches_are_the_first_ones(tmp_path):
    # The files hold the even numbers, then the odd ones.
    first = np.r_[0:COUNT:2, 1:COUNT:2][:10]
    metrics = run(tmp_path, table(), batch_size=5, max_num_batches=2)
    assert metrics == pytest.approx(expected_metrics(table()[first], labels()[first]), rel=1e-6)


def test_a_labels_offset_moves_the_labels(tmp_path):
    (tmp_path / "data").mkdir()
    records = [make_record(plain_image(n), int(label) + 1) for n, label in enumerate(labels(5))]
    write_records(tmp_path / "data" / "toy_test_0.tfrecord", records[::2])
    write_records(tmp_path / "data" / "toy_test_1.tfrecord", records[1::2])
    config = evaluate.EvalConfig(
        write_checkpoint(tmp_path, factor=1.0),
        str(tmp_path / "eval"),
        data.InputConfig("lenet", 4, 1, 9, tf.float32, labels_offset=1),
        distribution.local_clones(num_gpus=0),
    )
    dataset = data.open_dataset("toy", "test", tmp_path / "data", num_classes=6)
    metrics = evaluate.evaluate(config, table_network(table(5)), dataset)
    assert metrics == pytest.approx(expected_metrics(table(5), labels(5)), rel=1e-6)


@pytest.mark.parametrize("classes", [2, 4, 5])
def test_top5_is_left_out_under_five_classes_and_that_is_said(tmp_path, classes, caplog):
    metrics = run(tmp_path, table(classes), classes=classes)
    assert ("top5" in metrics) == (classes >= 5)
    assert (f"{classes} classes: top-5 says nothing, left out." in caplog.text) == (classes < 5)
    assert "top-5" not in evaluate.describe(metrics) or classes >= 5
    assert metrics["num_examples"] == COUNT


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_answer_that_is_not_finite_is_a_wrong_one(tmp_path, value):
    logits = np.eye(CLASSES, dtype=np.float32)[labels()]
    wrong = [3, 8, 22]
    logits[wrong, labels()[wrong]] = value
    metrics = run(tmp_path, logits, batch_size=7)
    assert metrics["top1"] == metrics["top5"] == pytest.approx(1 - len(wrong) / COUNT)
    text = (tmp_path / "eval" / "metrics.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert json.loads(text)["loss"] is None


def test_moving_averages_are_used_where_there_are_any(tmp_path, caplog):
    checkpoint = write_checkpoint(tmp_path, factor=1.0, factor__ExponentialMovingAverage=-1.0)
    averaged = run(tmp_path, table(), checkpoint=checkpoint)
    assert averaged == pytest.approx(expected_metrics(-table(), labels()), rel=1e-6)
    assert "Moving averages used for 1 variables." in caplog.text
    caplog.clear()
    plain = run(tmp_path, table(), checkpoint=checkpoint, use_moving_averages=False)
    assert plain == pytest.approx(expected_metrics(table(), labels()), rel=1e-6)
    assert "Moving averages" not in caplog.text


def test_a_run_with_moving_averages_is_evaluated_by_them(tmp_path):
    tiny_runs.run(tmp_path, moving_average_decay=0.5, max_number_of_steps=4)
    dataset = tiny_runs.dataset(tmp_path / "data")
    losses = {}
    for use in (True, False):
        config = evaluate.EvalConfig(
            str(tmp_path / "train"),
            str(tmp_path / "eval"),
            tiny_runs.input_config(),
            distribution.local_clones(num_gpus=0),
            use_moving_averages=use,
        )
        metrics = evaluate.evaluate(config, tiny_runs.network(), dataset)
        assert metrics["step"] == 4
        losses[use] = metrics["loss"]
    assert losses[True] != losses[False]


def test_a_checkpoint_without_a_step_has_none(tmp_path):
    metrics = run(tmp_path, table(), checkpoint=write_checkpoint(tmp_path, step=None, factor=1.0))
    assert metrics["step"] is None
    assert "step" not in evaluate.describe(metrics)


def test_the_line_for_people_has_all_of_it():
    values = {"num_examples": 50, "top1": 0.5, "top5": 0.985, "loss": 1.25, "step": 7}
    expected = "50 images, top-1 50.00%, top-5 98.50%, loss 1.2500, step 7"
    assert evaluate.describe(values) == expected


def test_tensorboard_gets_the_metrics_at_their_step(tmp_path):
    metrics = run(tmp_path, table())
    [path] = (tmp_path / "eval").glob("events.*")
    [event] = [e for e in tf.train.summary_iterator(str(path)) if e.summary.value]
    assert event.step == 12
    shown = {value.tag: value.simple_value for value in event.summary.value}
    expected = {f"evaluation/{k}": v for k, v in metrics.items() if k != "step"}
    assert shown == pytest.approx(expected)


def test_metrics_are_whole_or_absent(tmp_path, monkeypatch):
    metrics = run(tmp_path, table())
    before = (tmp_path / "eval" / "metrics.json").read_text()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(UsageError, match=r"--eval_dir=.*No space left"):
        run(tmp_path, table(seed=2))
    assert (tmp_path / "eval" / "metrics.json").read_text() == before
    assert json.loads(before) == metrics
    assert not [n for n in os.listdir(tmp_path / "eval") if n.startswith("tmp")]


def test_an_eval_dir_that_cannot_be_made_is_found_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "eval").write_text("")
    monkeypatch.setattr(warm_start, "plan_evaluation", None)
    with pytest.raises(UsageError, match=r"--eval_dir="):
        run(tmp_path, table())


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="another network"):
        run(tmp_path, table(), checkpoint=write_checkpoint(tmp_path, other=1.0))


def test_a_bad_label_is_named(tmp_path):
    numbered_dataset(tmp_path / "data")
    dataset = data.open_dataset("toy", "test", tmp_path / "data", num_classes=CLASSES - 1)
    config = evaluate.EvalConfig(
        write_checkpoint(tmp_path, factor=1.0),
        str(tmp_path / "eval"),
        data.InputConfig("lenet", 4, 1, 7, tf.float32),
        distribution.local_clones(num_gpus=0),
    )
    with pytest.raises(DataError, match=rf"Record \d+ .*toy_test_\d.*label {CLASSES - 1}"):
        evaluate.evaluate(config, table_network(table()), dataset)
    assert not (tmp_path / "eval" / "metrics.json").exists()
