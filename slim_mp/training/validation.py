"""Evaluation of a run while it trains: by a network of its own, from the checkpoint just saved.

Nothing that the training computes depends on it. A run that is killed during an evaluation makes up
for it when it goes on.
"""

import contextlib
import os

from absl import logging

from slim_mp.compat import tf
from slim_mp.errors import UsageError
from slim_mp.evaluation.evaluation_files import ROWS_NAME, add_events, row_of
from slim_mp.evaluation.evaluator import Evaluator, InferenceConfig, is_alike
from slim_mp.evaluation.metrics import describe
from slim_mp.files.json_lines import append_row, check_rows, drop_rows_after, read_rows
from slim_mp.training.best_checkpoint import BestCheckpoint

EVENTS_FOLDER = "eval"


class NoValidation:
    """Of a run that is not evaluated."""

    is_reached = False

    def is_due(self, step):
        """Never."""
        return False

    def is_owed(self, step):
        """Never."""
        return False

    def prepare(self):
        """Does nothing."""


class Validation:
    """The evaluations of a run, of which evaluations.jsonl in its folder tells.

    Attributes:
      is_reached: whether the last evaluation reached the top-1 at which the run ends.
    """

    def __init__(self, config, last_row, stack):
        self._config = config
        self._stack = stack
        self._evaluator = self._events = None
        self._best = BestCheckpoint(config.train_dir) if config.validation.keep_best else None
        self._evaluated_step = last_row["step"]
        self.is_reached = self._reaches(last_row)

    @classmethod
    @contextlib.contextmanager
    def open(cls, config, start_step):
        """Reads what a run has been evaluated for before it goes on.

        Args:
          config: a `TrainConfig`.
          start_step: global step that the run goes on from.

        Yields:
          The `Validation`, or a `NoValidation`.

        Raises:
          UsageError: if evaluations.jsonl cannot be written or holds something else, or a new run
            finds the best checkpoint of another one.
        """
        if not config.validation:
            yield NoValidation()
            return
        path = os.path.join(config.train_dir, ROWS_NAME)
        try:
            check_rows(path, "top1", "train_dir")
            drop_rows_after(path, start_step)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be written ({error.strerror}): correct its permissions, or give "
                "another --train_dir."
            ) from error
        inference, dataset = _inference(config), config.validation.dataset
        rows = [row for row in read_rows(path) if is_alike(row, inference, dataset)]
        with contextlib.ExitStack() as stack:
            validation = cls(config, rows[-1] if rows else {"step": 0}, stack)
            validation._check_best(start_step)
            if validation.is_reached:
                validation._say_reached(start_step)
            yield validation

    def prepare(self):
        """Builds the network of the evaluation, unless that has been done."""
        if self._evaluator:
            return
        validation, train_dir = self._config.validation, self._config.train_dir
        logging.info(
            "Building the graph of the evaluation: %d images (%s, split %s) every %d steps.",
            validation.dataset.num_examples,
            validation.dataset.name,
            validation.dataset.split,
            validation.every_n_steps,
        )
        opened = Evaluator.open(_inference(self._config), validation.network_fn, validation.dataset)
        self._evaluator = self._stack.enter_context(opened)
        events = tf.summary.FileWriter(os.path.join(train_dir, EVENTS_FOLDER))
        self._events = self._stack.enter_context(events)

    def is_due(self, step):
        """Whether a multiple of every_n_steps has come since the last evaluation."""
        every = self._config.validation.every_n_steps
        return step // every > self._evaluated_step // every

    def is_owed(self, step):
        """Whether a run that ends with a step has to evaluate it, or to make up for it."""
        is_last = step == self._config.max_number_of_steps and step != self._evaluated_step
        return is_last or self.is_due(step)

    def evaluate(self, step, checkpoint, is_stopped=None):
        """Evaluates a checkpoint, says what came out, and keeps it if it is the best.

        Args:
          step: its step.
          checkpoint: its prefix.
          is_stopped: function that says whether to give up, or None.

        Raises:
          StopRequested: if `is_stopped` said so.
          CheckpointError: if the best checkpoint cannot be kept.
          DataError: if a record cannot be used.
        """
        self.prepare()
        plan = self._evaluator.restore(checkpoint)
        metrics = self._evaluator.evaluate(is_stopped=is_stopped).metrics
        is_best = bool(self._best) and self._best.is_worse_than(metrics)
        if is_best:
            self._best.keep(metrics)
        self._append(metrics)
        add_events(self._events, metrics)
        logging.info(
            "Evaluation: %s%s%s.",
            describe(metrics),
            ", with moving averages" if plan.averages else "",
            ", the best so far" if is_best else "",
        )
        self._evaluated_step = step
        self.is_reached = self._reaches(metrics)
        if self.is_reached:
            self._say_reached(step)

    def _say_reached(self, step):
        goal = self._config.validation.stop_at_top1
        logging.info("Top-1 has reached --stop_at_top1=%g with step %d.", goal, step)

    def _append(self, metrics):
        path = os.path.join(self._config.train_dir, ROWS_NAME)
        try:
            append_row(path, row_of(metrics))
        except OSError as error:
            logging.warning("%s cannot be written (%s).", path, error.strerror)

    def _reaches(self, row):
        goal = self._config.validation.stop_at_top1
        return goal is not None and row.get("top1", 0) >= goal

    def _check_best(self, start_step):
        metrics = self._best.metrics if self._best else None
        if metrics and start_step == 0:
            raise UsageError(
                f"{self._best.folder} holds a checkpoint of step {metrics['step']}, but this run "
                "begins at step 0: move it away, or give another --train_dir."
            )


def _inference(config):
    return InferenceConfig(config.validation.input, config.clones)
