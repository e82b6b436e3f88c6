"""The best checkpoint: whole at every moment, and not to be confused with another."""

import json
import os
import shutil

import pytest
import table_runs

from slim_mp.checkpoints import trained_with
from slim_mp.checkpoints.checkpoint_files import find_checkpoint
from slim_mp.compat import tf
from slim_mp.errors import CheckpointError
from slim_mp.training import best_checkpoint
from slim_mp.training.best_checkpoint import BestCheckpoint


class Killed(BaseException):
    """Ends a run as abruptly as a process can end itself."""


def make(folder, step):
    """A checkpoint of a step, whose factor is that step; returns the metrics of an evaluation."""
    table_runs.write_checkpoint(folder, step, factor=float(step))
    facts = trained_with.TrainedWith("lenet", 3, 0, "lenet", 28)
    trained_with.write(str(folder), facts)
    prefix = str(folder / f"model.ckpt-{step}")
    figures = {"step": step, "checkpoint": prefix, "top1": step / 100, "loss": 1.0}
    return {**figures, "per_class": [{"label": 0}]}


def factor_in(folder):
    prefix = find_checkpoint(str(folder))
    return tf.train.NewCheckpointReader(prefix).get_tensor("factor")


def names(folder):
    return sorted(os.listdir(folder))


EXPECTED = [
    "checkpoint",
    "metrics.json",
    "model.ckpt-20.data-00000-of-00001",
    "model.ckpt-20.index",
    "trained_with.json",
]


def test_the_better_one_takes_the_place_of_the_other(tmp_path):
    best = BestCheckpoint(str(tmp_path))
    assert best.is_worse_than({"top1": 0.0, "loss": 1.0})
    for step in (10, 20):
        metrics = make(tmp_path, step)
        assert best.is_worse_than(metrics)
        best.keep(metrics)
        assert not best.is_worse_than(metrics)
    assert names(tmp_path / "best") == EXPECTED
    assert factor_in(tmp_path / "best") == 20
    found = json.loads((tmp_path / "best" / "metrics.json").read_text())
    assert found == {**metrics, "checkpoint": str(tmp_path / "best" / "model.ckpt-20")}
    # A run that goes on knows it.
    again = BestCheckpoint(str(tmp_path))
    assert again.metrics == {"checkpoint": "model.ckpt-20", "step": 20, "top1": 0.2, "loss": 1.0}
    assert again.is_worse_than({"top1": 0.21, "loss": 9.0})
    assert again.is_worse_than({"top1": 0.2, "loss": 0.9})
    for loss in (1.0, 1.1, None):
        assert not again.is_worse_than({"top1": 0.2, "loss": loss})


@pytest.mark.parametrize("links", [True, False])
def test_it_stays_when_the_run_removes_or_replaces_its_own(tmp_path, monkeypatch, links):
    if not links:

        def refuse(*_):
            raise OSError(95, "Operation not supported")

        monkeypatch.setattr(os, "link", refuse)
    BestCheckpoint(str(tmp_path)).keep(make(tmp_path, 20))
    assert names(tmp_path / "best") == EXPECTED
    table_runs.write_checkpoint(tmp_path, 20, factor=-1.0)
    assert factor_in(tmp_path / "best") == 20
    for path in tmp_path.glob("model.ckpt*"):
        path.unlink()
    assert factor_in(tmp_path / "best") == 20


@pytest.mark.parametrize("function", ["link", "replace", "remove"])
def test_a_run_that_is_killed_at_any_place_leaves_one_whole(tmp_path, monkeypatch, function):
    real = getattr(os, function)
    for place in range(20):
        folder = tmp_path / str(place)
        BestCheckpoint(str(folder)).keep(make(folder, 10))
        metrics = make(folder, 20)
        calls = []

        def killed_there(*arguments, place=place, calls=calls, **options):
            calls.append(arguments)
            if len(calls) == place + 1:
                raise Killed
            return real(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(os, function, killed_there)
            try:
                BestCheckpoint(str(folder)).keep(metrics)
            except Killed:
                pass
            else:
                assert place > 0
                return
        # Whoever reads it in the meantime finds one or the other; so does the run that goes on.
        assert factor_in(folder / "best") in (10, 20)
        again = BestCheckpoint(str(folder))
        assert again.metrics["step"] == factor_in(folder / "best")
        again.keep(metrics)
        assert names(folder / "best") == EXPECTED
        assert factor_in(folder / "best") == 20
        shutil.rmtree(folder)
    raise AssertionError("there is no end")


def test_a_full_disk_is_an_error_that_leaves_the_old_one(tmp_path, monkeypatch):
    best = BestCheckpoint(str(tmp_path))
    best.keep(make(tmp_path, 10))
    metrics = make(tmp_path, 20)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(best_checkpoint, "write_metrics", full)
    with pytest.raises(CheckpointError, match=r"model.ckpt-20 cannot be kept.*No space left"):
        best.keep(metrics)
    assert factor_in(tmp_path / "best") == 10
    assert BestCheckpoint(str(tmp_path)).metrics["step"] == 10


@pytest.mark.parametrize("name", ["checkpoint", "model.ckpt-20.index"])
def test_a_folder_that_cannot_be_written_matters_only_if_it_must_be(tmp_path, monkeypatch, name):
    BestCheckpoint(str(tmp_path)).keep(make(tmp_path, 10))

    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    for function in ("remove", "replace"):
        monkeypatch.setattr(os, function, refuse)
    assert BestCheckpoint(str(tmp_path)).metrics["step"] == 10
    (tmp_path / "best" / name).write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"be put in order \(Read-only file system\); make"):
        BestCheckpoint(str(tmp_path))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"step": 1}', '{"checkpoint": 3, "top1": 1}'])
def test_metrics_that_are_none_are_those_of_no_checkpoint(tmp_path, text):
    BestCheckpoint(str(tmp_path)).keep(make(tmp_path, 10))
    (tmp_path / "best" / "metrics.json").write_text(text)
    assert BestCheckpoint(str(tmp_path)).metrics is None


def test_files_of_others_are_left_alone(tmp_path):
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "notes-2026.txt").write_text("mine")
    best = BestCheckpoint(str(tmp_path))
    for step in (10, 20):
        best.keep(make(tmp_path, step))
    assert names(tmp_path / "best") == sorted([*EXPECTED, "notes-2026.txt"])
