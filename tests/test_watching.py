"""An evaluation that follows a run: each checkpoint once, until the run is over."""

import os
import signal
import threading
import time

import programs
import pytest
import table_runs
from table_runs import COUNT, table
from test_hooks import scalars

from slim_mp.checkpoints import checkpoint_files, trained_with
from slim_mp.errors import CheckpointError, UsageError
from slim_mp.evaluation import eval_graph, watching
from slim_mp.evaluation.evaluator import LEFT_OUT, is_alike, settings
from slim_mp.evaluation.watching import WatchConfig
from slim_mp.files.json_lines import read_rows


@pytest.fixture(autouse=True)
def log_everything(caplog):
    caplog.set_level("INFO")


def write(folder, *steps, last_step=None, **values):
    """Writes checkpoints as a run does, and at which step it is to end."""
    for step in steps:
        table_runs.write_checkpoint(folder, step, **(values or {"factor": 1.0}))
    if last_step:
        facts = trained_with.TrainedWith("table", 7, 0, "lenet", 4, None, last_step)
        trained_with.write(str(folder), facts)


def follow(folder, report=lambda metrics: None, timeout_secs=0.0, outputs=None, **changes):
    """Follows folder/train; returns the steps that were evaluated."""
    train_dir = os.path.join(folder, "train")
    config = table_runs.config(folder, train_dir, outputs, **changes)
    steps = []

    def note(metrics):
        steps.append(metrics["step"])
        report(metrics)

    watching.follow(
        WatchConfig(train_dir, timeout_secs, poll_secs=0.01),
        config,
        table_runs.network(table()),
        table_runs.numbered_dataset(os.path.join(folder, "data")),
        note,
    )
    return steps


def rows(folder):
    return read_rows(os.path.join(folder, "eval", "evaluations.jsonl"))


def test_each_new_checkpoint_is_evaluated_once_until_the_run_ends(tmp_path, monkeypatch, caplog):
    builds = []
    build = eval_graph.build
    monkeypatch.setattr(eval_graph, "build", lambda *args: builds.append(1) or build(*args))
    train = tmp_path / "train"
    write(train, 10, 5, last_step=30)

    def go_on(metrics):
        if metrics["step"] == 10:
            # From another thread, while the other waits.
            later = threading.Timer(0.5, write, [train, 20])
            later.start()
        if metrics["step"] == 20:
            write(train, 30, factor=-1.0)

    # The timeout would fail the test, which ends long before.
    assert follow(tmp_path, go_on, timeout_secs=100) == [5, 10, 20, 30]
    assert "The run has ended, with step 30." in caplog.text
    assert len(builds) == 1
    found = rows(tmp_path)
    assert [row["step"] for row in found] == [5, 10, 20, 30]
    assert {row["num_examples"] for row in found} == {COUNT}
    assert found[0]["top1"] == found[1]["top1"] == found[2]["top1"]
    # The weights are those of each checkpoint.
    assert found[3]["loss"] != found[2]["loss"]
    assert "per_class" not in found[0]
    events = scalars(tmp_path / "eval")
    assert {step: values["evaluation/top1"] for step, values in events.items()} == pytest.approx(
        {row["step"]: row["top1"] for row in found}
    )


def test_what_was_evaluated_so_is_not_evaluated_again(tmp_path):
    train = tmp_path / "train"
    write(train, 1, 2, factor=1.0, factor__ExponentialMovingAverage=2.0)
    assert follow(tmp_path) == [1, 2]
    # Another checkpoint of the same step is another one; the clock has seconds.
    time.sleep(1.1)
    write(train, 2)
    assert follow(tmp_path, batch_size=3) == [2]
    assert follow(tmp_path, use_moving_averages=False) == [1, 2]
    assert len(rows(tmp_path)) == 5


@pytest.mark.parametrize("name", ["dataset", "split", "dtype", "crops", "max_num_batches"])
def test_a_row_of_other_images_or_another_way_is_not_alike(tmp_path, name):
    config = table_runs.inference()
    dataset = table_runs.numbered_dataset(tmp_path)
    row = {"step": 1, "moving_averages": "used", **settings(config, dataset)}
    assert is_alike(row, config, dataset)
    assert is_alike({**row, "moving_averages": "none"}, config, dataset)
    assert not is_alike({**row, "moving_averages": LEFT_OUT}, config, dataset)
    assert not is_alike({**row, name: "other"}, config, dataset)


def test_a_checkpoint_that_the_run_removes_is_skipped(tmp_path, monkeypatch, caplog):
    train = tmp_path / "train"
    write(train, 1, 2, 3)
    restore = watching.evaluate_checkpoint

    def removed_first(evaluator, config, checkpoint):
        if checkpoint.endswith("-2"):
            for path in train.glob("model.ckpt-2.*"):
                path.unlink()
        return restore(evaluator, config, checkpoint)

    monkeypatch.setattr(watching, "evaluate_checkpoint", removed_first)
    assert follow(tmp_path) == [1, 3]
    assert "model.ckpt-2 was removed before it could be read; skipped." in caplog.text


def test_a_checkpoint_that_is_removed_while_it_is_evaluated_counts(tmp_path, monkeypatch):
    train = tmp_path / "train"
    write(train, 1)
    add = table_runs.evaluate.Evaluator.evaluate

    def removed_meanwhile(self, *arguments):
        for path in train.glob("model.ckpt-1.*"):
            path.unlink()
        return add(self, *arguments)

    monkeypatch.setattr(table_runs.evaluate.Evaluator, "evaluate", removed_meanwhile)
    assert follow(tmp_path) == [1]


def test_a_checkpoint_that_is_not_whole_yet_is_waited_for(tmp_path):
    train = tmp_path / "train"
    write(train, 1, 2)
    [data] = train.glob("model.ckpt-1.data-*")
    whole = data.read_bytes()
    data.write_bytes(whole[:3])

    def finish(metrics):
        data.write_bytes(whole)

    assert follow(tmp_path, finish) == [2, 1]


def test_a_checkpoint_of_something_else_ends_it(tmp_path):
    write(tmp_path / "train", 1, other=1.0)
    with pytest.raises(CheckpointError, match="another network"):
        follow(tmp_path)


def test_a_row_that_a_killed_run_cut_short_is_done_again(tmp_path):
    write(tmp_path / "train", 1, 2)
    assert follow(tmp_path) == [1, 2]
    path = tmp_path / "eval" / "evaluations.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert follow(tmp_path) == [2]
    assert [row["step"] for row in rows(tmp_path)] == [1, 2]


def test_what_else_is_asked_for_is_of_the_last_checkpoint(tmp_path):
    write(tmp_path / "train", 1, 2)
    path = tmp_path / "p.csv"
    follow(tmp_path, outputs={"predictions_csv": str(path)})
    assert len(path.read_text().splitlines()) == COUNT + 1
    assert '"step": 2,' in (tmp_path / "eval" / "metrics.json").read_text()


def test_the_first_checkpoint_is_waited_for(tmp_path, caplog):
    train = tmp_path / "train"
    later = threading.Timer(0.3, write, [train, 7])
    later.start()
    watching.wait_for_checkpoint(WatchConfig(str(train), 100, poll_secs=0.01))
    assert f"Waiting for a checkpoint in {train}." in caplog.text
    later.join()
    assert checkpoint_files.numbered_checkpoints(str(train)) == [str(train / "model.ckpt-7")]
    with pytest.raises(UsageError, match=r"--watch follows a run by the folder"):
        watching.wait_for_checkpoint(WatchConfig(str(train / "model.ckpt-7"), 0))


def test_a_run_that_never_writes_is_given_up(tmp_path):
    with pytest.raises(CheckpointError, match=r"No checkpoint came to .*none within 0.1 seconds"):
        watching.wait_for_checkpoint(WatchConfig(str(tmp_path / "none"), 0.1, poll_secs=0.01))


def test_checkpoints_are_listed_by_their_steps(tmp_path):
    for name in ("model.ckpt-9.index", "model.ckpt-10.index", "model.ckpt-11.data-00000-of-00001"):
        (tmp_path / name).write_text("")
    (tmp_path / "checkpoint").write_text("")
    found = checkpoint_files.numbered_checkpoints(str(tmp_path))
    assert [os.path.basename(path) for path in found] == ["model.ckpt-9", "model.ckpt-10"]


def test_the_program_follows_a_run_and_ends_with_a_signal(tmp_path, monkeypatch):
    code, _, err = programs.call(
        programs.TRAIN,
        "--model_name=lenet",
        "--max_number_of_steps=2",
        "--save_interval_secs=0",
        f"--train_dir={tmp_path}",
    )
    assert code == 0, err
    arguments = [
        "--watch",
        f"--checkpoint_path={tmp_path}",
        f"--eval_dir={tmp_path}",
        f"--predictions_csv={tmp_path / 'eval' / 'p.csv'}",
    ]
    add = table_runs.evaluate.Evaluator.evaluate

    def stopped_in_the_second(self, each_batch):
        if self._restored["step"] == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return add(self, each_batch)

    with monkeypatch.context() as patch:
        patch.setattr(table_runs.evaluate.Evaluator, "evaluate", stopped_in_the_second)
        code, out, err = programs.call(programs.EVALUATE, *arguments)
    assert code == 75, err
    assert out.startswith("355 images, top-1 ")
    assert ", step 1, " in out
    assert out.count("\n") == 1
    assert os.listdir(tmp_path / "eval") == ["p.csv"]
    # metrics.jsonl of the run is as it was, and the same command goes on.
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2
    code, out, err = programs.call(programs.EVALUATE, *arguments)
    assert code == 0, err
    assert ", step 2, " in out
    assert out.count("\n") == 1
    assert [row["step"] for row in read_rows(tmp_path / "evaluations.jsonl")] == [1, 2]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--watch_timeout_secs=-1", "--watch_timeout_secs is -1.0; it must be at least 0"),
        ("--watch_timeout_secs=5", "--watch_timeout_secs needs --watch"),
    ],
)
def test_flags_that_make_no_sense_are_refused(tmp_path, argument, words):
    code, out, err = programs.call(programs.EVALUATE, f"--eval_dir={tmp_path}", argument)
    assert (code, out) == (2, "")
    assert words in err
