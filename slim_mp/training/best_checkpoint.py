"""The best checkpoint of a run, kept in a folder of its own.

The folder holds one checkpoint, metrics.json of its evaluation, and what the run was trained with:
it can be evaluated, exported and gone on from like any other. A run that is killed at any moment
leaves it whole: files appear under their names when they are complete, and metrics.json, which
names the checkpoint, decides which one it is.
"""

import contextlib
import glob
import json
import math
import os
import shutil

from slim_mp.checkpoints import trained_with
from slim_mp.checkpoints.checkpoint_files import read_contents
from slim_mp.errors import CheckpointError
from slim_mp.evaluation.evaluation_files import METRICS_NAME, write_metrics
from slim_mp.files.output_files import write_whole

FOLDER_NAME = "best"
_PART = ".part"


class BestCheckpoint:
    """The folder `best` in the folder of a run."""

    def __init__(self, train_dir):
        """Opens it, and finishes what a killed run left undone; nothing is made yet.

        Args:
          train_dir: the folder of the run.

        Raises:
          CheckpointError: if something was left undone and cannot be written.
        """
        self._train_dir = train_dir
        self.folder = os.path.join(train_dir, FOLDER_NAME)
        self.metrics = self._read_metrics()
        if self.metrics:
            try:
                self._settle(self.metrics["checkpoint"])
            except OSError as error:
                raise CheckpointError(
                    f"{self.folder} is not as a run that ended leaves it, and cannot be put in "
                    f"order ({error.strerror}); make it writable, or leave out --keep_best."
                ) from error

    def _read_metrics(self):
        """The metrics of the checkpoint that is there, or None if there is none."""
        try:
            with open(os.path.join(self.folder, METRICS_NAME), encoding="utf-8") as file:
                metrics = json.load(file)
            name = os.path.basename(metrics["checkpoint"])
            read_contents(os.path.join(self.folder, name))
            _rank(metrics)
            return {"checkpoint": name, **_facts(metrics)}
        except (OSError, ValueError, KeyError, TypeError):
            # No folder, no metrics, or no checkpoint: a CheckpointError is a ValueError.
            return None

    def is_worse_than(self, metrics):
        """Whether other metrics have a higher top-1, or the same with a lower loss."""
        return self.metrics is None or _rank(metrics) > _rank(self.metrics)

    def keep(self, metrics):
        """Puts a checkpoint in the place of the one that is there.

        Args:
          metrics: of its `evaluator.Evaluation`.

        Raises:
          CheckpointError: if it cannot be written; the old one is then as it was.
        """
        checkpoint = metrics["checkpoint"]
        name = os.path.basename(checkpoint)
        try:
            os.makedirs(self.folder, exist_ok=True)
            # The index last: without it there is no checkpoint.
            data = sorted(glob.glob(f"{glob.escape(checkpoint)}.data-*"))
            for path in (*data, f"{checkpoint}.index"):
                _link_or_copy(path, os.path.join(self.folder, os.path.basename(path)))
            facts = os.path.join(self._train_dir, trained_with.FILE_NAME)
            with contextlib.suppress(FileNotFoundError):
                _link_or_copy(facts, os.path.join(self.folder, trained_with.FILE_NAME))
            write_metrics(self.folder, {**metrics, "checkpoint": os.path.join(self.folder, name)})
            self._settle(name)
        except OSError as error:
            raise CheckpointError(
                f"The best checkpoint {checkpoint} cannot be kept in {self.folder} "
                f"({error.strerror}). It is also in --train_dir still: make room, and give the "
                "same command to go on."
            ) from error
        self.metrics = {"checkpoint": name, **_facts(metrics)}

    def _settle(self, name):
        """Points TensorFlow to the checkpoint that metrics.json names and removes all others."""
        state = f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n'
        path = os.path.join(self.folder, "checkpoint")
        if _content(path) != state.encode("utf-8"):
            write_whole(path, state)
        kind = f"{name.rpartition('-')[0]}-*"
        for path in glob.glob(os.path.join(glob.escape(self.folder), kind)):
            base = os.path.basename(path)
            if not base.startswith(f"{name}.") or base.endswith(_PART):
                os.remove(path)


def _content(path):
    """The bytes of a file, or None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _facts(metrics):
    """What two checkpoints are compared by, and the step."""
    return {name: metrics[name] for name in ("step", "top1", "loss")}


def _rank(metrics):
    """Orders checkpoints, the best last; a loss that is not finite is written as null."""
    loss = metrics["loss"]
    return float(metrics["top1"]), -math.inf if loss is None else -float(loss)


def _link_or_copy(source, target):
    """Makes a file appear under another name too, without a copy of it where that is possible."""
    if os.path.exists(target) and os.path.samefile(source, target):
        return
    part = target + _PART
    # What a killed run has left may be a link to a file that must not be written to.
    with contextlib.suppress(FileNotFoundError):
        os.remove(part)
    try:
        os.link(source, part)
    except OSError:
        shutil.copy2(source, part)
    os.replace(part, target)
