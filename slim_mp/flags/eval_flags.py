"""The flags of an evaluation, by its own program or while a network is trained."""

import dataclasses
import os

from absl import flags

from slim_mp.data.record_sets import evaluation_split
from slim_mp.errors import DataError, UsageError
from slim_mp.evaluation.evaluate import EvalConfig
from slim_mp.evaluation.evaluator import InferenceConfig
from slim_mp.evaluation.watching import WatchConfig
from slim_mp.flags.checkpoint_flags import define_checkpoints_folder_flag
from slim_mp.flags.flag_groups import CLUSTER_ONLY, define_dataset_flags, define_network_flags
from slim_mp.flags.flags import input_config, open_split
from slim_mp.training.train_config import ValidationConfig

FLAGS = flags.FLAGS

_NEED_EVALUATIONS = ("eval_split_name", "keep_best", "stop_at_top1")


def define_evaluation_flags():
    """Defines the flags of eval_image_classifier."""
    define_network_flags()
    define_dataset_flags(split="test")
    _define_run_flags()
    _define_input_flags()
    _define_output_flags()
    _define_watch_flags()


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
        "with their probabilities. A file that is there is replaced only if it is such a one, or "
        "empty, and not the list of images (--dataset_dir).",
    )
    flags.DEFINE_boolean(
        "plots",
        False,
        "Draw confusion_matrix.png and reliability.png in --eval_dir, with matplotlib.",
    )


def _define_watch_flags():
    flags.DEFINE_boolean(
        "watch",
        False,
        "Follow a run: evaluate each checkpoint that comes to the folder --checkpoint_path, and "
        "append the metrics to evaluations.jsonl in --eval_dir, until the run has reached its "
        "--max_number_of_steps.",
    )
    flags.DEFINE_float(
        "watch_timeout_secs",
        WatchConfig.timeout_secs,
        "Seconds without a new checkpoint after which --watch ends; 0 evaluates what there is.",
    )


def define_validation_flags():
    """Defines the flags of an evaluation while a network is trained."""
    flags.DEFINE_integer(
        "eval_every_n_steps",
        0,
        "Steps between two evaluations of the run, each with the checkpoint that is saved for it; "
        "the last step is evaluated too. 0 for none.",
    )
    flags.DEFINE_string(
        "eval_split_name",
        None,
        "The split that is evaluated while training; by default test of cifar10 and mnist, val of "
        "visualwakewords, and else validation.",
    )
    flags.DEFINE_boolean(
        "keep_best",
        False,
        "Keep the checkpoint with the highest top-1, of equal ones that with the lowest loss, in "
        "the folder `best` in --train_dir.",
    )
    flags.DEFINE_float(
        "stop_at_top1",
        None,
        "End the run when an evaluation reaches this share of right answers, such as 0.93.",
    )


def open_validation_dataset(dataset):
    """Opens the split that is evaluated while training, or returns None if there is none.

    Args:
      dataset: the `Dataset` that is trained on.

    Raises:
      UsageError: if a flag needs --eval_every_n_steps, or is out of its range.
      DataError: as `datasets.open_dataset`.
    """
    goal = FLAGS.stop_at_top1
    if goal is not None and not 0 < goal <= 1:
        raise UsageError(f"--stop_at_top1 is {goal}; it must be a share above 0 and at most 1.")
    if FLAGS.eval_every_n_steps:
        by_name = evaluation_split(dataset.name) if dataset.files else "validation"
        found = open_split(FLAGS.eval_split_name or by_name)
        _check_classes(found, dataset)
        return found
    idle = [f"--{name}" for name in _NEED_EVALUATIONS if FLAGS[name].value not in (None, False)]
    if idle:
        raise UsageError(f"{', '.join(idle)} needs --eval_every_n_steps.")
    return None


def _check_classes(found, dataset):
    if (found.num_classes, found.label_names) != (dataset.num_classes, dataset.label_names):
        raise DataError(
            f"The split {found.split} of {dataset.name} has {found.num_classes} classes, the split "
            f"{dataset.split} has {dataset.num_classes}, or their names differ: give another "
            "--eval_split_name, or the same classes to both."
        )


def with_validation(config, network_fn, dataset):
    """Adds the evaluation of the flags to a TrainConfig.

    Args:
      config: a `TrainConfig`.
      network_fn: the network, built for inference.
      dataset: of `open_validation_dataset`, and not None.
    """
    validation = ValidationConfig(
        every_n_steps=FLAGS.eval_every_n_steps,
        network_fn=network_fn,
        dataset=dataset,
        input=dataclasses.replace(config.input, seed=None),
        keep_best=FLAGS.keep_best,
        stop_at_top1=FLAGS.stop_at_top1,
    )
    return dataclasses.replace(config, validation=validation)


def watch_config():
    """Returns the WatchConfig of the flags, or None without --watch.

    Raises:
      UsageError: if there is nothing to follow.
    """
    if FLAGS.watch:
        return WatchConfig(os.path.expanduser(FLAGS.checkpoint_path), FLAGS.watch_timeout_secs)
    if FLAGS["watch_timeout_secs"].present:
        raise UsageError("--watch_timeout_secs needs --watch.")
    return None


def _check_predictions_csv():
    """Refuses the list of images, which may be a file of predictions itself."""
    paths = [FLAGS.predictions_csv or "", os.path.expanduser(FLAGS.dataset_dir or "")]
    if all(map(os.path.exists, paths)) and os.path.samefile(*paths):
        raise UsageError(
            f"--predictions_csv={FLAGS.predictions_csv} is the list of images in --dataset_dir, "
            "and would be replaced: give another path."
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
    _check_predictions_csv()
    crops = {"crops": int(FLAGS.eval_crops), "central_fraction": FLAGS.central_fraction}
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
