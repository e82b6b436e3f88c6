"""The README's program runs, and its commands have only flags that exist."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
AFTER_THE_PROGRAM = "print(*{variable.dtype.name for variable in tf.model_variables()})"


def test_the_program_of_the_readme_runs_three_steps_without_noise(tmp_path):
    program = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    path = tmp_path / "program.py"
    path.write_text(program + AFTER_THE_PROGRAM)
    output = subprocess.run(
        [sys.executable, path],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    *steps, dtypes = output.stdout.splitlines()
    assert len(steps) == 3, output.stderr
    assert dtypes == "float32"
    assert output.stderr == ""


@pytest.mark.parametrize("program", ["train_image_classifier", "eval_image_classifier"])
def test_commands_of_the_readme_have_only_flags_that_exist(program):
    commands = [
        command
        for line in README.splitlines()
        if line.startswith("    ")
        for command in line.split(" && ")
        if re.search(rf"\b{program}(\.py)? ", command)
    ]
    used = set(re.findall(r"--(\w+)", " ".join(commands)))
    help_text = subprocess.run(
        [sys.executable, f"{program}.py", "--helpfull"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    ).stdout
    assert used
    assert not {flag for flag in used if not re.search(rf"--(\[no\])?{flag}\b", help_text)}
