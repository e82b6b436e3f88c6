"""The flags of slim_mp.predict, and what follows from them."""

import dataclasses
import os

from absl import flags

from slim_mp.errors import UsageError
from slim_mp.export import saved_model
from slim_mp.flags.program import check_unicode
from slim_mp.flags.subject_flags import define_subject_flags
from slim_mp.precision import PRECISIONS

FLAGS = flags.FLAGS


def define_predict_flags():
    """Defines the flags of slim_mp.predict."""
    flags.DEFINE_integer("top", 5, "How many of the best classes to print.", lower_bound=1)
    flags.DEFINE_boolean("json", False, "Print one JSON object a file.")
    flags.DEFINE_integer("batch_size", 16, "Files to answer at once.", lower_bound=1)
    flags.DEFINE_enum(
        "dtype", "fp32", list(PRECISIONS), "What the network of a checkpoint computes in."
    )
    define_subject_flags()


@dataclasses.dataclass(frozen=True)
class PredictRequest:
    """What slim_mp.predict was asked for.

    Attributes:
      model: a checkpoint, or an export.
      saved_model: folder of the SavedModel that this means, or None for a checkpoint.
      files: the image files.
      top: how many of the best classes are wanted.
      batch_size: files to answer at once.
      as_json: whether to print JSON.
      dtype: name of the precision of a checkpoint's network.
    """

    model: str
    saved_model: str | None
    files: tuple
    top: int
    batch_size: int
    as_json: bool
    dtype: str


def predict_request(operands):
    """Returns the PredictRequest of the command line.

    Args:
      operands: what is not a flag.

    Raises:
      UsageError: if there is no model that takes image files, or no file, or a flag is for a
        checkpoint and there is none.
    """
    if len(operands) < 2:
        raise UsageError(
            "Name a checkpoint or an export, and image files, such as: python -m slim_mp.predict "
            "mobilenet_v1 photo.jpg"
        )
    model, *files = operands
    check_unicode("The model", model)
    # Of a train_dir that has exports in it, the newest checkpoint is meant.
    has_checkpoints = os.path.exists(os.path.join(model, "checkpoint"))
    folder = None if has_checkpoints else saved_model.find(model)
    if not folder and model.endswith((".pb", ".tflite")) and os.path.isfile(model):
        raise UsageError(
            f"{model} takes pixels, not image files: give the folder of a SavedModel, or the "
            "checkpoint that it was exported from."
        )
    if folder:
        _refuse_flags_of_checkpoints(folder)
    return PredictRequest(
        model, folder, tuple(files), FLAGS.top, FLAGS.batch_size, FLAGS.json, FLAGS.dtype
    )


def _refuse_flags_of_checkpoints(folder):
    ours = FLAGS.flags_by_module_dict()["slim_mp.flags.subject_flags"]
    idle = [f"--{flag.name}" for flag in (*ours, FLAGS["dtype"]) if flag.present]
    if idle:
        raise UsageError(
            f"{', '.join(idle)}: for a checkpoint only; {folder} is an export, which has all of "
            "that in it. Leave it out."
        )
