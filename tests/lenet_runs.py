"""The programs called for a small lenet, and what a refusal of them looks like."""

import programs


def train(tmp_path, *arguments):
    """Calls the training program for two small steps of lenet with some more flags."""
    return programs.call(
        programs.TRAIN,
        "--model_name=lenet",
        "--train_image_size=8",
        "--batch_size=4",
        "--max_number_of_steps=2",
        f"--train_dir={tmp_path / 'train'}",
        *arguments,
    )


def evaluate(tmp_path, *arguments):
    return programs.call(
        programs.EVALUATE,
        "--model_name=lenet",
        "--eval_image_size=8",
        f"--checkpoint_path={tmp_path / 'train'}",
        f"--eval_dir={tmp_path / 'eval'}",
        *arguments,
    )


def assert_refused(result, exit_code, *words):
    """The exit code, and an error that says some words as all there is on stderr."""
    code, out, err = result
    assert code == exit_code, err
    assert out == ""
    assert err.count(": error: ") == 1
    assert err.startswith(("train_image_classifier.py: error:", "eval_image_classifier.py: error:"))
    assert "Traceback" not in err
    for word in words:
        assert word in err
