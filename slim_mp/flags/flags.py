"""The translation of the command-line flags into configs.

No other part of the library knows of flags but the files that are named after them, and program.py.
"""

import math

from absl import flags, logging

from slim_mp import data, distribution
from slim_mp.data.datasets import DIGITS, FOLDER, LIST, kind_of
from slim_mp.errors import UsageError
from slim_mp.flags.flag_checks import check_flags
from slim_mp.flags.input_flags import input_fields
from slim_mp.flags.update_flags import OPTIMIZER_FIELDS
from slim_mp.precision import get_precision
from slim_mp.training import optimizers
from slim_mp.training.train_config import LossScaleConfig, TrainConfig, WarmStartConfig

FLAGS = flags.FLAGS

_DYNAMIC, _AUTO = "dynamic", "auto"
# Flags of the rule of a dynamic loss scale, and the fields of LossScaleConfig that they set.
_DYNAMIC_RULE = {
    "init_loss_scale": "init",
    "incr_every_n_steps": "incr_every_n_steps",
    "decr_every_n_nan_or_inf": "decr_every_n_nan_or_inf",
    "incr_ratio": "incr_ratio",
    "decr_ratio": "decr_ratio",
    "min_loss_scale": "minimum",
}


def _was_given(*names):
    return any(FLAGS[name].present for name in names)


def open_dataset(bundled_split):
    """Opens the dataset of the flags; the bundled digits where none is named.

    Args:
      bundled_split: split of the digits, and of images in folders and lists, where
        --dataset_split_name is not given.

    Returns:
      A `Dataset`.

    Raises:
      UsageError, DataError: as `datasets.open_dataset`.
    """
    name, place = _place_of_dataset()
    split = FLAGS.dataset_split_name
    if not _was_given("dataset_split_name"):
        kind = DIGITS if name == DIGITS else kind_of(name, **place)
        split = bundled_split if kind in (DIGITS, FOLDER, LIST) else split
    dataset = open_split(split)
    _warn_of_a_large_batch(dataset)
    return dataset


def open_split(split):
    """Opens a split of the dataset of the flags.

    Args:
      split: its name, whatever --dataset_split_name says.

    Returns:
      A `Dataset`.

    Raises:
      UsageError, DataError: as `datasets.open_dataset`.
    """
    name, place = _place_of_dataset()
    return data.open_dataset(name, split, num_classes=FLAGS.num_classes, **place)


def _place_of_dataset():
    name = FLAGS.dataset_name if _was_given("dataset_name") else None
    return name, {"directory": FLAGS.dataset_dir, "file_pattern": FLAGS.file_pattern}


def _warn_of_a_large_batch(dataset):
    """Says where a step of training takes more images than there are, and perhaps all memory."""
    images = FLAGS.batch_size * (FLAGS.num_clones if "num_clones" in FLAGS else 1)
    is_training = "train_image_size" in FLAGS
    if is_training and not dataset.is_synthetic and images > dataset.num_examples:
        logging.warning(
            "A step takes %d images (--batch_size times --num_clones), more than the %d of the "
            "split '%s': images repeat within a step, and memory may run out.",
            images,
            dataset.num_examples,
            dataset.split,
        )


def network_classes(dataset, choices):
    """Returns the number of classes of a network, without those that the labels offset drops.

    Args:
      dataset: the `Dataset`.
      choices: of `checkpoint_flags.follow_checkpoint`.

    Raises:
      UsageError: if --labels_offset leaves no class.
    """
    if not 0 <= FLAGS.labels_offset < dataset.num_classes:
        raise UsageError(
            f"--labels_offset is {FLAGS.labels_offset}; with the {dataset.num_classes} classes of "
            f"{dataset.name} it must be 0 to {dataset.num_classes - 1}."
        )
    return dataset.num_classes - choices.labels_offset


def network_arguments(dataset, choices, clones, is_training):
    """Returns what nets_factory.get_network_fn takes, as a dict, from the flags.

    Args:
      dataset: the `Dataset`, for the number of classes.
      choices: of `checkpoint_flags.follow_checkpoint`.
      clones: the `Clones`; on a CPU half precision uses float32 kernels.
      is_training: whether the network is built for training.

    Raises:
      UsageError: if --labels_offset leaves no class.
    """
    arguments = {
        "name": choices.model_name,
        "num_classes": network_classes(dataset, choices),
        "is_training": is_training,
        "precision": get_precision(FLAGS.dtype),
        "float32_kernels": clones.on_cpu and not FLAGS.cpu_half_kernels,
    }
    if is_training:
        arguments["weight_decay"] = FLAGS.weight_decay
    return arguments


def local_clones():
    """Returns the `Clones` of the flags, or a single one. A program calls it first.

    Raises:
      UsageError: if a flag asks for what slim_mp does not support or is out of its range, or for
        too many GPUs.
    """
    check_flags()
    if "num_clones" in FLAGS:
        return distribution.local_clones(FLAGS.num_clones, FLAGS.clone_on_cpu)
    return distribution.local_clones()


def input_config(network_fn, choices):
    """Returns the InputConfig of the flags.

    Args:
      network_fn: what nets_factory.get_network_fn made.
      choices: of `checkpoint_flags.follow_checkpoint`.

    Raises:
      UsageError: if a value is out of its range.
    """
    size = choices.image_size
    return data.InputConfig(
        preprocessing=choices.preprocessing or network_fn.preprocessing,
        image_size=network_fn.default_image_size if size is None else size,
        channels=network_fn.channels,
        batch_size=FLAGS.batch_size,
        compute_dtype=get_precision(FLAGS.dtype).compute_dtype,
        labels_offset=choices.labels_offset,
        **input_fields(),
    )


def loss_scale_config():
    """Returns the LossScaleConfig of the flags.

    Raises:
      UsageError: if --loss_scale is neither a positive number nor `dynamic` or `auto`, or a flag
        of the dynamic rule is given with a fixed scale.
    """
    if FLAGS.loss_scale in (_DYNAMIC, _AUTO):
        return LossScaleConfig(
            auto=FLAGS.loss_scale == _AUTO,
            **{field: FLAGS[name].value for name, field in _DYNAMIC_RULE.items()},
        )
    idle = [f"--{name}" for name in _DYNAMIC_RULE if _was_given(name)]
    if idle:
        raise UsageError(f"{', '.join(idle)} needs --loss_scale={_DYNAMIC} or {_AUTO}.")
    if FLAGS.loss_scale is None:
        return LossScaleConfig(fixed=get_precision(FLAGS.dtype).default_loss_scale)
    try:
        scale = float(FLAGS.loss_scale)
    except ValueError:
        scale = math.nan
    # The scale and its reciprocal are float32.
    if not 2.0**-126 <= scale <= 2.0**126:
        raise UsageError(
            f"--loss_scale={FLAGS.loss_scale}: give a positive number from 2**-126 to 2**126, "
            f"'{_DYNAMIC}' or '{_AUTO}'."
        )
    return LossScaleConfig(fixed=scale)


def train_config(network_fn, choices, clones):
    """Returns the TrainConfig of the flags.

    Args:
      network_fn: what nets_factory.get_network_fn made.
      choices: of `checkpoint_flags.follow_checkpoint`.
      clones: the `Clones`.

    Raises:
      UsageError: if a value is out of its range; the message names the flag.
    """
    return TrainConfig(
        train_dir=FLAGS.train_dir,
        precision=get_precision(FLAGS.dtype),
        input=input_config(network_fn, choices),
        clones=clones,
        prefetch_to_device=FLAGS.prefetch_to_device,
        loss_scale=loss_scale_config(),
        optimizer=optimizers.OptimizerConfig(
            name=FLAGS.optimizer, **{name: FLAGS[name].value for name in OPTIMIZER_FIELDS}
        ),
        learning_rate=optimizers.LearningRateConfig(
            learning_rate=FLAGS.learning_rate,
            decay_type=FLAGS.learning_rate_decay_type,
            end_learning_rate=FLAGS.end_learning_rate,
            decay_factor=FLAGS.learning_rate_decay_factor,
            num_epochs_per_decay=FLAGS.num_epochs_per_decay,
        ),
        per_clone_schedule=FLAGS.per_clone_schedule,
        warm_start=WarmStartConfig(
            choices.checkpoint or FLAGS.checkpoint_path,
            choices.exclude_scopes,
            FLAGS.ignore_missing_vars,
        ),
        label_smoothing=FLAGS.label_smoothing,
        moving_average_decay=FLAGS.moving_average_decay,
        clip_gradient_norm=FLAGS.clip_gradient_norm,
        clip_gradient_value=FLAGS.clip_gradient_value,
        trainable_scopes=FLAGS.trainable_scopes,
        freeze_batch_norm=FLAGS.freeze_batch_norm,
        batch_norm_decay=FLAGS.batch_norm_decay,
        max_number_of_steps=FLAGS.max_number_of_steps,
        max_consecutive_skips=FLAGS.max_consecutive_skips,
        log_every_n_steps=FLAGS.log_every_n_steps,
        gradient_report_every_n_steps=FLAGS.gradient_report_every_n_steps,
        save_summaries_secs=FLAGS.save_summaries_secs,
        save_interval_secs=FLAGS.save_interval_secs,
        seed=FLAGS.seed,
        resume=FLAGS.resume,
        metrics_file=FLAGS.metrics_file,
    )
