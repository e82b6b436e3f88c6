"""What a run appends rows to: files of its own rows, whole or cut short, and nothing else."""

import pytest
import tiny_runs

from slim_mp.errors import UsageError
from slim_mp.training import hooks, train, validation

ROW = '{"step": 2, "loss": 1.0, "learning_rate": 0.1}\n'


@pytest.mark.parametrize(
    "text",
    [
        "file,label\na.png,cat\n",
        '{"file": "a.png", "label": "cat"}\n',
        '{"step": 2, "loss": 1.0, "top1": 0.5}\n',
        "an only copy without a line feed",
        ROW + "a note\n",
        "\x00\x01",
    ],
)
def test_a_metrics_file_of_something_else_is_refused_before_the_work(tmp_path, text):
    path = tmp_path / "mine"
    path.write_text(text)
    config = tiny_runs.config(tmp_path / "train", metrics_file=str(path))
    with pytest.raises(UsageError, match=r"mine holds '.*give another --metrics_file, or move"):
        train.train(config, None, None)
    assert path.read_text() == text


@pytest.mark.parametrize("end", ["", "{", ROW[:9], ROW[:-2], ROW[:20] + "\n" + ROW])
def test_a_metrics_file_of_a_killed_run_is_gone_on_with(tmp_path, end):
    path = tmp_path / "rows"
    path.write_text(ROW + end)
    hooks.check_metrics_file(tiny_runs.config(tmp_path / "train", metrics_file=str(path)))
    with hooks._open_metrics(str(path), 2):
        assert path.read_text().startswith(ROW)


def test_evaluations_of_something_else_are_refused_too(tmp_path):
    config = tiny_runs.config(tmp_path, validation="some")
    path = tmp_path / "evaluations.jsonl"
    path.write_text("notes\n")
    with (
        pytest.raises(UsageError, match=r"evaluations\.jsonl holds 'notes"),
        validation.Validation.open(config, 0),
    ):
        pass
    assert path.read_text() == "notes\n"
