"""Runs the two command-line programs, inside this process or as processes of their own."""

import contextlib
import importlib
import io
import os
import pathlib
import subprocess
import sys

from absl import flags

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRAIN = "train_image_classifier"
EVALUATE = "eval_image_classifier"


@contextlib.contextmanager
def without_new_flags():
    """Takes the flags that are defined meanwhile off absl's global table again."""
    before = set(flags.FLAGS)
    try:
        yield
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)
        flags.FLAGS.unparse_flags()


def call(program, *arguments):
    """Runs a program in this process, from its command line to its exit code.

    Args:
      program: TRAIN or EVALUATE.
      *arguments: what follows its name on the command line.

    Returns:
      The exit code, and what it wrote to stdout and to stderr without its log.
    """
    argv, sys.argv = sys.argv, [f"{program}.py", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    try:
        with (
            without_new_flags(),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            importlib.import_module(program).run()
    except SystemExit as exit_:
        return exit_.code or 0, out.getvalue(), err.getvalue()
    finally:
        sys.argv = argv
    raise AssertionError("the program did not exit")


def command(program, *arguments):
    """Returns the command line that runs a program as a process, as a list."""
    return [sys.executable, str(ROOT / f"{program}.py"), *map(str, arguments)]


def start(program, *arguments, **options):
    """Starts a program as a process of its own; returns the subprocess.Popen."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    return subprocess.Popen(
        command(program, *arguments),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(process, timeout=300):
    """Waits for a process; returns its exit code, stdout and stderr."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out, err


def run(program, *arguments, **options):
    """Runs a program as a process of its own; returns its exit code, stdout and stderr."""
    return finish(start(program, *arguments, **options))
