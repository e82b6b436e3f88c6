"""Runs that are evaluated while they train: the same weights, and what the evaluations lead to."""

import contextlib
import dataclasses
import json
import os
import signal
import types

import programs
import pytest
import tiny_runs
from test_hooks import scalars

from slim_mp import distribution
from slim_mp.checkpoints import trained_with
from slim_mp.compat import tf
from slim_mp.errors import UsageError
from slim_mp.evaluation import metrics
from slim_mp.evaluation.evaluator import Evaluator, InferenceConfig
from slim_mp.files.json_lines import read_rows
from slim_mp.training import hooks
from slim_mp.training.train_config import ValidationConfig

STEPS = 7


class Killed(BaseException):
    """Ends a run as abruptly as a process can end itself."""


def validation_config(folder, every=2, **changes):
    dataset = tiny_runs.dataset(os.path.join(folder, "data"), 30, "validation", seed=1)
    inputs = dataclasses.replace(tiny_runs.input_config(), seed=None)
    network = tiny_runs.network(is_training=False)
    return ValidationConfig(every, network, dataset, inputs, **changes)


def run(folder, every=2, **changes):
    """Trains with evaluations; returns the TrainResult."""
    wanted = {name: changes.pop(name) for name in ("keep_best", "stop_at_top1") if name in changes}
    settings = {"max_number_of_steps": STEPS, "moving_average_decay": 0.5, **changes}
    return tiny_runs.run(folder, validation=validation_config(folder, every, **wanted), **settings)


def rows(folder):
    """The rows of evaluations.jsonl without what differs from run to run."""
    varying = ("images_per_second", "checkpoint", "checkpoint_time")
    found = read_rows(os.path.join(folder, "train", "evaluations.jsonl"))
    return [{k: v for k, v in row.items() if k not in varying} for row in found]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of seven steps that is evaluated at 2, 4, 6 and 7, and its result."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, run(folder, keep_best=True)


def test_the_weights_do_not_depend_on_evaluations(whole, tmp_path):
    folder, result = whole
    assert (result.step, result.stopped) == (STEPS, False)
    tiny_runs.run(tmp_path, max_number_of_steps=STEPS, moving_average_decay=0.5)
    tiny_runs.assert_equal_bits(tiny_runs.variables(folder), tiny_runs.variables(tmp_path))
    assert not (tmp_path / "train" / "evaluations.jsonl").exists()
    losses = [[row["loss"] for row in tiny_runs.metrics(path)] for path in (folder, tmp_path)]
    assert losses[0] == losses[1]


def test_each_row_is_what_an_evaluation_of_its_checkpoint_says(whole, tmp_path):
    folder, _ = whole
    wanted = validation_config(tmp_path)
    inference = InferenceConfig(wanted.input, distribution.local_clones(num_gpus=0))
    found = read_rows(folder / "train" / "evaluations.jsonl")
    assert [row["step"] for row in found] == [2, 4, 6, 7]
    with Evaluator.open(inference, wanted.network_fn, wanted.dataset) as evaluator:
        for row in found:
            assert row["moving_averages"] == "used"
            plan = evaluator.restore(str(folder / "train" / f"model.ckpt-{row['step']}"))
            assert plan.averages > 0
            expected = evaluator.evaluate().metrics
            expected.pop("per_class")
            assert row == {**expected, "images_per_second": row["images_per_second"]}
    assert len({row["loss"] for row in found}) == 4


def test_tensorboard_shows_the_evaluations_beside_the_training(whole):
    folder, _ = whole
    events = scalars(folder / "train" / "eval")
    found = {row["step"]: row["top1"] for row in rows(folder)}
    assert {step: values["evaluation/top1"] for step, values in events.items()} == pytest.approx(
        found
    )


def test_the_best_checkpoint_is_kept_with_its_metrics(whole):
    folder, _ = whole
    best = folder / "train" / "best"
    row = max(rows(folder), key=lambda row: (row["top1"], -row["loss"]))
    found = json.loads((best / "metrics.json").read_text())
    assert {name: found[name] for name in row} == row
    assert len(found["per_class"]) == tiny_runs.CLASSES
    prefix = tf.train.latest_checkpoint(str(best))
    assert prefix == found["checkpoint"] == str(best / f"model.ckpt-{row['step']}")
    reader = tf.train.NewCheckpointReader(prefix)
    kept = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    tiny_runs.assert_equal_bits(kept, tiny_runs.variables(folder, row["step"]))
    assert trained_with.read(prefix) is not None
    assert len(list(best.iterdir())) == 5


@pytest.mark.parametrize(("how", "step"), [("kill", 4), ("signal", STEPS)])
def test_an_evaluation_that_was_broken_off_is_made_up_for(whole, tmp_path, monkeypatch, how, step):
    folder, _ = whole
    add = metrics.Sums.add

    def broken_off(self, answers):
        if len(list((tmp_path / "train").glob(f"model.ckpt-{step}.index"))):
            if how == "kill":
                raise Killed
            os.kill(os.getpid(), signal.SIGTERM)
        add(self, answers)

    with monkeypatch.context() as patch:
        patch.setattr(metrics.Sums, "add", broken_off)
        with pytest.raises(Killed) if how == "kill" else contextlib.nullcontext():
            result = run(tmp_path, keep_best=True)
            assert (result.step, result.stopped) == (step, True)
    assert [row["step"] for row in rows(tmp_path)] == [n for n in (2, 4, 6, 7) if n < step]
    result = run(tmp_path, keep_best=True)
    assert (result.step, result.stopped) == (STEPS, False)
    assert rows(tmp_path) == rows(folder)
    tiny_runs.assert_equal_bits(tiny_runs.variables(tmp_path), tiny_runs.variables(folder))
    best = [json.loads((f / "train/best/metrics.json").read_text()) for f in (folder, tmp_path)]
    assert best[0]["step"] == best[1]["step"]


def test_a_run_ends_with_the_top1_that_is_good_enough_and_stays_ended(tmp_path, caplog):
    caplog.set_level("INFO")
    result = run(tmp_path, stop_at_top1=0.01, max_number_of_steps=50)
    assert (result.step, result.stopped) == (2, False)
    assert "Top-1 has reached --stop_at_top1=0.01 with step 2." in caplog.text
    # For whoever follows it.
    facts = trained_with.read(str(tmp_path / "train" / "model.ckpt-2"))
    assert facts.max_number_of_steps == 2
    result = run(tmp_path, stop_at_top1=0.01, max_number_of_steps=50)
    assert (result.step, result.stopped) == (2, False)
    result = run(tmp_path, stop_at_top1=1.0, max_number_of_steps=3)
    assert (result.step, result.stopped) == (3, False)
    assert [row["step"] for row in rows(tmp_path)] == [2, 3]


def test_an_evaluation_waits_for_a_step_that_is_applied(tmp_path):
    network = tiny_runs.network(gradient_factor=tiny_runs.bad_steps(2))
    tiny_runs.run(tmp_path, network, validation=validation_config(tmp_path), max_number_of_steps=4)
    assert [row["step"] for row in rows(tmp_path)] == [3, 4]


def test_statistics_that_lag_behind_are_warned_of_before_the_first_evaluation(tmp_path, caplog):
    caplog.set_level("INFO")
    run(tmp_path, batch_norm_decay=0.99, max_number_of_steps=4)
    texts = [
        text for text in caplog.messages if text.startswith(("Batch norm: after", "Evaluation:"))
    ]
    kinds = [" ".join(text.split()[:4]) for text in texts]
    assert kinds == [
        "Batch norm: after 2",
        "Evaluation: 30 images, top-1",
        "Evaluation: 30 images, top-1",
        "Batch norm: after 4",
    ]


def test_evaluation_does_not_count_as_time_of_training(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(hooks, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    evaluate_ = Evaluator.evaluate

    def slow(*arguments, **options):
        now[0] += 1000
        return evaluate_(*arguments, **options)

    monkeypatch.setattr(Evaluator, "evaluate", slow)
    # A row for steps 1, 2, 3 and 4; the evaluations are after 2 and 4.
    run(tmp_path, max_number_of_steps=4)
    assert now[0] == 2000
    speeds = [row["examples_per_second"] for row in tiny_runs.metrics(tmp_path)]
    assert len(speeds) == 4
    assert min(speeds) > 1e6


def test_a_new_run_does_not_take_the_best_of_another_for_its_own(whole, tmp_path):
    folder, _ = whole
    (tmp_path / "train").mkdir()
    os.rename(folder / "train" / "best", tmp_path / "train" / "best")
    try:
        with pytest.raises(UsageError, match=r"best holds a checkpoint of step \d.*move it away"):
            run(tmp_path, keep_best=True)
        assert not list((tmp_path / "train").glob("model.ckpt*"))
    finally:
        os.rename(tmp_path / "train" / "best", folder / "train" / "best")


def test_the_programs_evaluate_while_training_and_what_was_best(tmp_path):
    lenet = ["--model_name=lenet", "--batch_size=8", f"--train_dir={tmp_path}"]
    code, _, err = programs.call(
        programs.TRAIN,
        *lenet,
        "--max_number_of_steps=3",
        "--eval_every_n_steps=2",
        "--keep_best",
        "--dtype=fp16",
    )
    assert code == 0, err
    found = read_rows(tmp_path / "evaluations.jsonl")
    assert [row["step"] for row in found] == [2, 3]
    assert {(row["split"], row["num_examples"]) for row in found} == {("validation", 355)}
    code, out, err = programs.call(
        programs.EVALUATE, f"--checkpoint_path={tmp_path / 'best'}", f"--eval_dir={tmp_path}"
    )
    assert code == 0, err
    best = json.loads((tmp_path / "best" / "metrics.json").read_text())
    assert out.startswith(f"355 images, top-1 {best['top1']:.2%}")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--stop_at_top1=0.9"], 2, "--stop_at_top1 needs --eval_every_n_steps"),
        (["--keep_best"], 2, "--keep_best needs --eval_every_n_steps"),
        (["--eval_split_name=train"], 2, "--eval_split_name needs --eval_every_n_steps"),
        (["--eval_every_n_steps=-1"], 2, "--eval_every_n_steps is -1; it must be at least 0"),
        (["--eval_every_n_steps=5", "--stop_at_top1=93"], 2, "--stop_at_top1 is 93"),
        (["--eval_every_n_steps=5", "--stop_at_top1=nan"], 2, "--stop_at_top1 is nan"),
        (["--eval_every_n_steps=5", "--eval_split_name=test"], 3, "train and validation"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_the_work(tmp_path, arguments, code, words):
    found, out, err = programs.call(
        programs.TRAIN, "--model_name=lenet", f"--train_dir={tmp_path}", *arguments
    )
    assert (found, out) == (code, "")
    assert words in err
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == []
