"""The flags of an evaluation, by its own program or while a network is trained."""

import dataclasses

from absl import flags

from slim_mp.checkpoint_flags import define_checkpoints_folder_flag
from slim_mp.errors import UsageError
from slim_mp.evaluate import EvalConfig
from slim_mp.evaluator import InferenceConfig
from slim_mp.flag_groups import CLUSTER_ONLY, define_dataset_flags, define_network_flags
from slim_mp.flags import input_config

FLAGS = flags.FLAGS


def define_evaluation_flags():
    """Defines the flags of eval_image_classifier."""
    define_network_flags()
    define_dataset_flags(split="test")
    _define_run_flags()
    _define_input_flags()
    _define_output_flags()


def _define_run_flags():
    flags.DEFINE_string(
        "checkpoint_path",
        "/tmp/tfmodel/",
        "Checkpoint file or prefix, folder (its newest), or the name of a published one that "
        "python -m slim_mp.fetch has fetched.",
    )
    define_checkpoints_folder_flag()
    flags.DEFINE_float(
        "moving_average_decay",
        None,
        "Moving averages are used when the checkpoint has them; 0 uses the weights themselves.",
    )
    flags.DEFINE_integer("num_clones", 1, "GPUs (or CPU devices) that share the images.")
    flags.DEFINE_boolean("clone_on_cpu", False, "Compute on the CPU even if there are GPUs.")
    flags.DEFINE_string("master", "", CLUSTER_ONLY)
    flags.DEFINE_boolean("quantize", False, "Not supported; see --dtype.")


def _define_input_flags():
    flags.DEFINE_integer(
        "batch_size", 100, "Images in the batch of one clone; the metrics do not depend on it."
    )
    flags.DEFINE_integer("max_num_batches", None, "Batches to evaluate; by default all.")
    flags.DEFINE_integer(
        "eval_image_size", None, "Pixels; by default the checkpoint's or the network's own size."
    )
    flags.DEFINE_enum(
        "eval_crops",
        "1",
        ["1", "10"],
        "Crops of each image: the central one; or the four corners, the centre and their mirror "
        "images, whose probabilities are averaged.",
    )
    flags.DEFINE_float(
        "central_fraction",
        None,
        "Share of each side that the central crop keeps; by default that of the preprocessing.",
    )


def _define_output_flags():
    flags.DEFINE_string("eval_dir", "/tmp/tfmodel/", "Folder for metrics.json and event files.")
    flags.DEFINE_string(
        "predictions_csv",
        None,
        "CSV file to write the answer to each image to: file, label, and the five best classes "
        "with their probabilities.",
    )
    flags.DEFINE_boolean(
        "plots",
        False,
        "Draw confusion_matrix.png and reliability.png in --eval_dir, with matplotlib.",
    )


def eval_config(network_fn, choices, clones):
    """Returns the EvalConfig of the flags.

    Args:
      network_fn: what nets_factory.get_network_fn made.
      choices: of `checkpoint_flags.follow_checkpoint`.
      clones: the `Clones`.

    Raises:
      UsageError: if a value is out of its range; the message names the flag.
    """
    fraction = FLAGS.central_fraction
    if fraction is not None and not 0 < fraction <= 1:
        raise UsageError(f"--central_fraction is {fraction}; it must be above 0 and at most 1.")
    crops = {"crops": int(FLAGS.eval_crops), "central_fraction": fraction}
    return EvalConfig(
        inference=InferenceConfig(
            input=dataclasses.replace(input_config(network_fn, choices), **crops),
            clones=clones,
            max_num_batches=FLAGS.max_num_batches,
            use_moving_averages=FLAGS.moving_average_decay != 0,
        ),
        checkpoint_path=choices.checkpoint,
        eval_dir=FLAGS.eval_dir,
        predictions_csv=FLAGS.predictions_csv,
        plots=FLAGS.plots,
    )
