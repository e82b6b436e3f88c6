"""What happens around the steps of a training run: checkpoints and reports."""

import contextlib
import os
import re
import shutil
import sys
import time

from absl import logging
from tqdm import tqdm

from slim_mp.compat import tf
from slim_mp.errors import CheckpointError, UsageError, reason
from slim_mp.files.json_lines import check_rows, drop_rows_after
from slim_mp.files.output_files import to_json

CHECKPOINT_NAME = "model.ckpt"
METRICS_NAME = "metrics.jsonl"
# Names that TensorFlow gives to what it will rename.
_UNFINISHED = re.compile(rf"{CHECKPOINT_NAME}-.*temp|checkpoint\.tmp")


class CheckpointWriter:
    """Writes the variables of the default graph to `model.ckpt-STEP` in a folder.

    TensorFlow writes a checkpoint under a temporary name and renames it when it is whole, so that
    a run that is killed leaves the previous one.
    """

    def __init__(self, directory, interval_secs):
        """Makes the writer; call it when the graph has all of its variables.

        Args:
          directory: folder of the checkpoints, which exists.
          interval_secs: seconds after a checkpoint until the next `is_due`.
        """
        self._directory = directory
        self._interval_secs = interval_secs
        self._saver = tf.train.Saver(max_to_keep=5, save_relative_paths=True)
        self._saved_step = None
        self._saved_at = time.monotonic()
        state = tf.train.get_checkpoint_state(directory)
        if state:
            self._saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        self._remove_unfinished()

    def is_due(self):
        """Whether the interval has passed since the last checkpoint."""
        return time.monotonic() - self._saved_at >= self._interval_secs

    def path_of(self, step):
        """Returns the prefix of the checkpoint of a step."""
        return f"{os.path.join(self._directory, CHECKPOINT_NAME)}-{step}"

    def save(self, session, step):
        """Saves the variables as those of `step`, unless that has been done.

        Raises:
          CheckpointError: if the checkpoint cannot be written; earlier ones are as they were.
        """
        if step == self._saved_step:
            return
        path = os.path.join(self._directory, CHECKPOINT_NAME)
        try:
            self._saver.save(session, path, global_step=step, write_meta_graph=False)
        except (tf.errors.OpError, OSError) as error:
            self._remove_unfinished()
            free = shutil.disk_usage(self._directory).free
            raise CheckpointError(
                f"The checkpoint {path}-{step} cannot be written ({reason(error)}); "
                f"{free / 2**20:.0f} MiB are free there. Earlier checkpoints are as they were: "
                "make room and give the same command to go on from the last one."
            ) from error
        self._saved_step = step
        self._saved_at = time.monotonic()

    def _remove_unfinished(self):
        """Removes what a write that was interrupted has left."""
        for name in os.listdir(self._directory):
            if _UNFINISHED.match(name):
                path = os.path.join(self._directory, name)
                with contextlib.suppress(OSError):
                    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def check_metrics_file(config):
    """Refuses to put the metrics of a `TrainConfig` into a file of something else.

    Raises:
      UsageError: if there is such a file, or it cannot be read.
    """
    path = _metrics_path(config)
    with _writing_metrics(path):
        check_rows(path, "learning_rate", "metrics_file")


def _metrics_path(config):
    return config.metrics_file or os.path.join(config.train_dir, METRICS_NAME)


@contextlib.contextmanager
def _writing_metrics(path):
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"The metrics file {path} cannot be written ({error.strerror}): give another "
            "--metrics_file."
        ) from error


def _open_metrics(path, start_step):
    """Opens a JSON-lines file to append to, without lines of steps that will be run again."""
    drop_rows_after(path, start_step)
    return open(path, "a", encoding="utf-8")


def _close(file):
    """Closes a file whose last lines may not have found room."""
    with contextlib.suppress(OSError):
        file.close()


class Reporter:
    """Reports steps: a progress bar or log lines, event files for TensorBoard, metrics.jsonl."""

    def __init__(self, config, start_step, metrics_file, event_writer, bar):
        self._config = config
        self._start_step = start_step
        self._metrics_file = metrics_file
        self._events = event_writer
        self._bar = bar
        self._events_due = 0.0
        self._reported_step = start_step
        self._reported_at = time.monotonic()

    @classmethod
    @contextlib.contextmanager
    def open(cls, config, start_step):
        """Opens the files of a run.

        Args:
          config: a `TrainConfig`.
          start_step: global step that the run goes on from.

        Yields:
          The `Reporter`.

        Raises:
          UsageError: if the metrics file cannot be written.
        """
        path = _metrics_path(config)
        with contextlib.ExitStack() as stack:
            with _writing_metrics(path):
                metrics_file = _open_metrics(path, start_step)
            stack.callback(_close, metrics_file)
            events = tf.summary.FileWriter(config.train_dir)
            stack.callback(events.close)
            bar = tqdm(
                total=config.max_number_of_steps,
                initial=start_step,
                unit="step",
                dynamic_ncols=True,
                disable=not (sys.stderr and sys.stderr.isatty()),
            )
            stack.enter_context(bar)
            yield cls(config, start_step, metrics_file, events, bar)

    @contextlib.contextmanager
    def paused(self):
        """While open, time does not count as that of training."""
        begin = time.monotonic()
        yield
        self._reported_at += time.monotonic() - begin
        self._bar.unpause()

    def wants_gradients(self, step):
        """Whether the report of a step has the shares of the gradient that are zero in half."""
        every = self._config.gradient_report_every_n_steps
        return bool(every) and step % every == 0

    def wants(self, step):
        """Whether a step is reported, and its metrics are needed: the first, the last, every n."""
        return (
            self.wants_gradients(step)
            or step == self._start_step + 1
            or step == self._config.max_number_of_steps
            or step % self._config.log_every_n_steps == 0
        )

    def report(self, step, values):
        """Reports a step.

        Args:
          step: the global step after it.
          values: dict of name to number, with the metrics of the step if it is wanted.
        """
        self._bar.update()
        if not self.wants(step):
            return
        now = time.monotonic()
        images = (step - self._reported_step) * self._config.images_per_step
        row = {
            "step": step,
            "loss": float(values["loss"]),
            "learning_rate": float(values["learning_rate"]),
            "examples_per_second": images / max(now - self._reported_at, 1e-9),
            "loss_scale": float(values["loss_scale"]),
            "applied_steps": int(values["applied_steps"]),
            "skipped_steps": int(values["skipped_steps"]),
            "gradient_norm": float(values["gradient_norm"]),
        }
        if "bad_records" in values:
            row["bad_records"] = values["bad_records"]
        if "zero_in_half" in values:
            row["zero_in_half"] = {name: float(v) for name, v in values["zero_in_half"].items()}
        self._reported_step, self._reported_at = step, now
        self._write_metrics(row)
        self._write_events(row, now)
        self._show(row)

    def _write_metrics(self, row):
        try:
            self._metrics_file.write(to_json(row) + "\n")
            self._metrics_file.flush()
        except OSError as error:
            # The lines wait in the buffer of the file.
            logging.warning(
                "The metrics file cannot be written (%s); trying again later.", error.strerror
            )

    def _write_events(self, row, now):
        shares = row.get("zero_in_half", {})
        is_last = row["step"] == self._config.max_number_of_steps
        if now < self._events_due and not is_last and not shares:
            return
        self._events_due = now + self._config.save_summaries_secs
        scalars = {key: value for key, value in row.items() if key not in ("step", "zero_in_half")}
        scalars.update({f"zero_in_half/{name}": share for name, share in shares.items()})
        summary = tf.Summary()
        for key, value in scalars.items():
            summary.value.add(tag=key, simple_value=value)
        self._events.add_summary(summary, row["step"])
        self._events.flush()

    def _show(self, row):
        text = (
            "loss {loss:.5g}, learning rate {learning_rate:.3g}, {examples_per_second:.1f} "
            "examples/s, loss scale {loss_scale:g}, {skipped_steps} skipped"
        ).format(**row)
        if self._bar.disable:
            logging.info("step %d: %s", row["step"], text)
        else:
            # Above the bar, which is too narrow for it.
            self._bar.write(f"step {row['step']}: {text}", file=sys.stderr)
