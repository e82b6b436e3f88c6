"""The flags about checkpoints: of the programs for published ones, and what follows from one."""

import dataclasses
import os

from absl import flags, logging

from slim_mp.checkpoints import catalogue, checkpoint_defaults
from slim_mp.checkpoints.checkpoint_defaults import EVALUATE, RESUME, WARM_START
from slim_mp.checkpoints.checkpoint_files import latest_checkpoint
from slim_mp.errors import UsageError

FLAGS = flags.FLAGS

_MIRROR_VARIABLE = "SLIM_MP_MIRROR"


def define_checkpoints_folder_flag():
    """Defines --checkpoints_dir."""
    flags.DEFINE_string(
        "checkpoints_dir",
        None,
        f"Folder of published checkpoints; by default ${catalogue.FOLDER_VARIABLE}, or else "
        f"{catalogue.DEFAULT_FOLDER} in the current folder, which in a clone of the project holds "
        "mobilenet_v1.",
    )


def define_fetch_flags():
    """Defines the flags of slim_mp.fetch."""
    define_checkpoints_folder_flag()
    flags.DEFINE_string(
        "mirror",
        os.environ.get(_MIRROR_VARIABLE),
        "Address of a folder with the archives, in place of their published addresses; by default "
        f"${_MIRROR_VARIABLE}.",
    )
    flags.DEFINE_boolean("list", False, "List the published checkpoints and fetch none.")


def define_inspection_flags():
    """Defines the flags of slim_mp.inspect."""
    define_checkpoints_folder_flag()
    flags.DEFINE_string("model_name", None, "The network to restore into; by default its own.")
    flags.DEFINE_integer("num_classes", None, "Classes of that network; by default its own.")
    flags.DEFINE_string(
        "checkpoint_exclude_scopes",
        None,
        "Comma-separated scopes that are not restored, such as MobilenetV1/Logits; by default the "
        "head where the number of classes differs.",
    )


@dataclasses.dataclass(frozen=True)
class FetchRequest:
    """What slim_mp.fetch was asked for.

    Attributes:
      folder: where to put the checkpoints.
      mirror: address of a folder with the archives, or None.
      list_only: whether to list what there is and fetch nothing.
    """

    folder: str
    mirror: str | None
    list_only: bool


def fetch_request():
    """Returns the FetchRequest of the flags."""
    folder = catalogue.checkpoints_folder(FLAGS.checkpoints_dir)
    return FetchRequest(folder, FLAGS.mirror, FLAGS.list)


@dataclasses.dataclass(frozen=True)
class InspectionRequest:
    """What slim_mp.inspect was asked for.

    Attributes:
      folder: the folder of published checkpoints.
      model_name: the network to restore into, or None for the checkpoint's own.
      num_classes: the classes of that network, or None for the checkpoint's.
      exclude_scopes: scopes that are not restored, or None.
    """

    folder: str
    model_name: str | None = None
    num_classes: int | None = None
    exclude_scopes: str | None = None


def inspection_request():
    """Returns the InspectionRequest of the flags.

    Raises:
      UsageError: if the number of classes is none.
    """
    if FLAGS.num_classes is not None and FLAGS.num_classes < 1:
        raise UsageError(f"--num_classes is {FLAGS.num_classes}; it must be at least 1.")
    return InspectionRequest(
        catalogue.checkpoints_folder(FLAGS.checkpoints_dir),
        FLAGS.model_name,
        FLAGS.num_classes,
        FLAGS.checkpoint_exclude_scopes,
    )


def _given(is_training):
    def value(name):
        return FLAGS[name].value if FLAGS[name].present else None

    return checkpoint_defaults.Given(
        value("model_name"),
        value("preprocessing_name"),
        FLAGS.train_image_size if is_training else FLAGS.eval_image_size,
        value("labels_offset"),
        FLAGS.checkpoint_exclude_scopes if is_training else None,
    )


def _known_checkpoint(is_training):
    """What is known of the checkpoint that a program begins with, if any, and what for."""
    if is_training and "train_dir" in FLAGS and FLAGS.resume != "never":
        latest = latest_checkpoint(FLAGS.train_dir)
        if latest:
            return checkpoint_defaults.know(latest), RESUME
    if is_training and not FLAGS.checkpoint_path:
        return None, WARM_START
    folder = catalogue.checkpoints_folder(FLAGS.checkpoints_dir)
    known = checkpoint_defaults.know(*catalogue.resolve(FLAGS.checkpoint_path, folder))
    return known, WARM_START if is_training else EVALUATE


def follow_checkpoint(dataset, is_training):
    """Decides what the flags leave open by the checkpoint, and logs it.

    Args:
      dataset: the `Dataset`, for the number of classes.
      is_training: whether the program trains.

    Returns:
      `checkpoint_defaults.Choices`.

    Raises:
      CheckpointError, UsageError: as `checkpoint_defaults.choose` and `catalogue.resolve`.
    """
    known, purpose = _known_checkpoint(is_training)
    choices = checkpoint_defaults.choose(
        _given(is_training), known, dataset.num_classes, purpose, FLAGS.model_name
    )
    for line in choices.notices:
        logging.info("%s", line)
    for line in choices.warnings:
        logging.warning("%s", line)
    return choices
