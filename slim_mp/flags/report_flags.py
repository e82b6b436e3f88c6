"""The flags of slim_mp.precision_report, and the config made of them."""

import dataclasses

from absl import flags

from slim_mp.errors import UsageError
from slim_mp.flags.checkpoint_flags import define_checkpoints_folder_flag
from slim_mp.flags.flag_groups import define_dataset_flags
from slim_mp.flags.flags import input_config
from slim_mp.number_range import RANGES, NumberRange
from slim_mp.report.measurement import MeasurementConfig
from slim_mp.training.train_config import WarmStartConfig

FLAGS = flags.FLAGS

_HALVES = [name for name in RANGES if name != "fp32"]


def define_report_flags():
    """Defines the flags of slim_mp.precision_report."""
    flags.DEFINE_string("model_name", None, "The network; by default that of the checkpoint.")
    flags.DEFINE_enum("dtype", "fp16", _HALVES, "The dtype to report on.")
    flags.DEFINE_string(
        "checkpoint_path",
        None,
        "Checkpoint to measure with: a file, a prefix, a folder, or the name of a published one; "
        "by default the initial weights.",
    )
    define_checkpoints_folder_flag()
    flags.DEFINE_string(
        "checkpoint_exclude_scopes",
        None,
        "Comma-separated scopes that are not restored from it, such as MobilenetV1/Logits; if it "
        "is not given, the head where the number of classes differs.",
    )
    flags.DEFINE_boolean(
        "ignore_missing_vars", False, "Initialise variables that the checkpoint lacks."
    )
    define_dataset_flags(split="train")
    flags.DEFINE_integer("batch_size", 32, "Images in a batch, as in training.", lower_bound=1)
    flags.DEFINE_integer("num_batches", 4, "Batches to measure.", lower_bound=1)
    flags.DEFINE_integer(
        "train_image_size", None, "Pixels; by default the checkpoint's or the network's own size."
    )
    flags.DEFINE_integer("seed", 0, "Of initial weights, input and dropout.", lower_bound=0)
    flags.DEFINE_string("output_dir", "precision_report", "Folder for the report.")


@dataclasses.dataclass(frozen=True)
class ReportRequest:
    """What slim_mp.precision_report was asked for.

    Attributes:
      output_dir: folder for the report.
      number_range: the `NumberRange` of the dtype to report on.
    """

    output_dir: str
    number_range: NumberRange


def report_request():
    """Returns the ReportRequest of the flags.

    Raises:
      UsageError: if neither a network nor a checkpoint is given.
    """
    if not FLAGS.model_name and not FLAGS.checkpoint_path:
        raise UsageError(
            "Name a network with --model_name, or give a checkpoint with --checkpoint_path."
        )
    return ReportRequest(FLAGS.output_dir, RANGES[FLAGS.dtype])


def measurement_config(network_fn, choices, clones):
    """Returns the MeasurementConfig of the flags.

    Args:
      network_fn: what nets_factory.get_network_fn made.
      choices: of `checkpoint_flags.follow_checkpoint`.
      clones: the `Clones`.

    Raises:
      UsageError: if a value is out of its range; the message names the flag.
    """
    return MeasurementConfig(
        input=input_config(network_fn, choices),
        clones=clones,
        warm_start=WarmStartConfig(
            choices.checkpoint, choices.exclude_scopes, FLAGS.ignore_missing_vars
        ),
        num_batches=FLAGS.num_batches,
        seed=FLAGS.seed,
    )
