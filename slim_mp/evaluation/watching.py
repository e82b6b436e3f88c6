"""Follows a training run from beside it: each checkpoint that it writes is evaluated, once."""

import dataclasses
import os
import time

from absl import logging

from slim_mp.checkpoints import trained_with
from slim_mp.checkpoints.checkpoint_files import numbered_checkpoints, read_contents
from slim_mp.compat import tf
from slim_mp.errors import CheckpointError, UsageError
from slim_mp.evaluation.evaluate import evaluate_checkpoint, open_evaluator
from slim_mp.evaluation.evaluation_files import ROWS_NAME, add_events, row_of
from slim_mp.evaluation.evaluator import is_alike, modification_time
from slim_mp.files.json_lines import append_row, read_rows
from slim_mp.files.output_files import writing


@dataclasses.dataclass(frozen=True)
class WatchConfig:
    """How to follow a run.

    Attributes:
      train_dir: the folder that it writes its checkpoints to; it need not be there yet.
      timeout_secs: seconds without a new checkpoint after which it is given up.
      poll_secs: seconds between two looks into the folder.
    """

    train_dir: str
    timeout_secs: float = 3600.0
    poll_secs: float = 2.0


def wait_for_checkpoint(watch):
    """Waits until a run has written a checkpoint.

    Args:
      watch: a `WatchConfig`.

    Raises:
      UsageError: if train_dir is the path of a checkpoint, not of a folder.
      CheckpointError: if none comes in time.
    """
    folder = watch.train_dir
    if os.path.isfile(folder) or os.path.isfile(f"{folder}.index"):
        raise UsageError(
            f"--watch follows a run by the folder of its checkpoints, but --checkpoint_path="
            f"{folder} is a single one: give the --train_dir of the run."
        )
    if not any(map(_is_readable, numbered_checkpoints(folder))):
        logging.info("Waiting for a checkpoint in %s.", folder)
    if not _wait_for_next(watch, done=()):
        raise CheckpointError(
            f"No checkpoint came to {folder} within {watch.timeout_secs:g} seconds: check "
            "--checkpoint_path, or wait longer with --watch_timeout_secs."
        )


def follow(watch, config, network_fn, dataset, report):
    """Evaluates each checkpoint of a run, until the run is over or writes no more.

    The figures are appended to evaluations.jsonl in eval_dir, and metrics.json and what else the
    config asks for are always of the last checkpoint. What evaluations.jsonl tells of already, of
    the same images in the same way, is not evaluated again.

    Args:
      watch: a `WatchConfig`.
      config: an `evaluate.EvalConfig`.
      network_fn: as for `evaluate.evaluate`.
      dataset: a `data.Dataset`.
      report: function that is called with the metrics of each checkpoint.

    Raises:
      CheckpointError, DataError, UsageError: as `evaluate.evaluate`.
    """
    with (
        open_evaluator(config, network_fn, dataset) as evaluator,
        tf.summary.FileWriter(config.eval_dir) as events,
    ):
        rows_path = os.path.join(config.eval_dir, ROWS_NAME)
        done = _done(rows_path, config.inference, dataset)
        while not _has_ended(watch.train_dir, done):
            checkpoint = _wait_for_next(watch, done)
            if checkpoint is None:
                logging.info(
                    "No new checkpoint in %s for %g seconds (--watch_timeout_secs).",
                    watch.train_dir,
                    watch.timeout_secs,
                )
                return
            done.add(_identity(checkpoint))
            metrics = _evaluate_unless_gone(evaluator, config, checkpoint)
            if metrics:
                with writing("eval_dir", config.eval_dir):
                    append_row(rows_path, row_of(metrics))
                add_events(events, metrics)
                report(metrics)


def _identity(checkpoint):
    """Tells a checkpoint from another one of the same name."""
    return os.path.basename(checkpoint), modification_time(checkpoint)


def _done(rows_path, inference, dataset):
    """The identities of the checkpoints that have been evaluated so."""
    return {
        (os.path.basename(str(row.get("checkpoint"))), row.get("checkpoint_time"))
        for row in read_rows(rows_path)
        if is_alike(row, inference, dataset)
    }


def _wait_for_next(watch, done):
    """The oldest checkpoint that can be read and is not done, or None if there is none in time."""
    begin = time.monotonic()
    while True:
        for checkpoint in numbered_checkpoints(watch.train_dir):
            if _identity(checkpoint) not in done and _is_readable(checkpoint):
                return checkpoint
        if time.monotonic() - begin >= watch.timeout_secs:
            return None
        time.sleep(watch.poll_secs)


def _is_readable(checkpoint):
    """Whether all of a checkpoint is there; it may be about to be written, or to be removed."""
    try:
        read_contents(checkpoint)
    except CheckpointError:
        return False
    return True


def _evaluate_unless_gone(evaluator, config, checkpoint):
    """The metrics, or None if the run has removed the checkpoint meanwhile."""
    try:
        return evaluate_checkpoint(evaluator, config, checkpoint)
    except CheckpointError:
        if modification_time(checkpoint):
            raise
        logging.info("%s was removed before it could be read; skipped.", checkpoint)
        return None


def _has_ended(train_dir, done):
    """Whether the last checkpoint that a run is to write is done."""
    checkpoints = numbered_checkpoints(train_dir)
    last = checkpoints[-1] if checkpoints else None
    if last is None or _identity(last) not in done:
        return False
    facts = trained_with.read(last)
    has_ended = bool(facts) and last.endswith(f"-{facts.max_number_of_steps}")
    if has_ended:
        logging.info("The run has ended, with step %d.", facts.max_number_of_steps)
    return has_ended
