"""The command-line flags, in groups, and their translation into configs.

Flags of the former research/slim scripts keep their names, defaults and meaning. A program defines
its flags with one call, and nothing but this file, checkpoint_flags.py and program.py reads them.
"""

import math

from absl import flags

from slim_mp import data, distribution, optimizers
from slim_mp.checkpoint_flags import define_checkpoints_folder_flag
from slim_mp.datasets import DIGITS
from slim_mp.errors import UsageError
from slim_mp.evaluate import EvalConfig
from slim_mp.precision import PRECISIONS, get_precision
from slim_mp.preprocessing import PREPROCESSINGS
from slim_mp.train_config import LossScaleConfig, TrainConfig, WarmStartConfig

FLAGS = flags.FLAGS

_DYNAMIC = "dynamic"
_LOWEST = {
    "max_number_of_steps": 1,
    "max_num_batches": 1,
    "max_consecutive_skips": 1,
    "num_classes": 1,
    "log_every_n_steps": 1,
    "save_summaries_secs": 0,
    "save_interval_secs": 0,
}
_SHARES = ("label_smoothing", "moving_average_decay")
# Flags of the rule of a dynamic loss scale, and the fields of LossScaleConfig that they set.
_DYNAMIC_RULE = {
    "init_loss_scale": "init",
    "incr_every_n_steps": "incr_every_n_steps",
    "decr_every_n_nan_or_inf": "decr_every_n_nan_or_inf",
    "incr_ratio": "incr_ratio",
    "decr_ratio": "decr_ratio",
    "min_loss_scale": "minimum",
}
_OPTIMIZER_FIELDS = (
    "adadelta_rho",
    "adagrad_initial_accumulator_value",
    "adam_beta1",
    "adam_beta2",
    "opt_epsilon",
    "ftrl_learning_rate_power",
    "ftrl_initial_accumulator_value",
    "ftrl_l1",
    "ftrl_l2",
    "momentum",
    "rmsprop_momentum",
    "rmsprop_decay",
)
# Flags that only make sense with several machines, and their defaults.
_CLUSTER_DEFAULTS = {
    "master": "",
    "worker_replicas": 1,
    "num_ps_tasks": 0,
    "task": 0,
    "sync_replicas": False,
    "replicas_to_aggregate": 1,
}


def _define_network_flags():
    flags.DEFINE_string(
        "model_name",
        "inception_v3",
        "The network; a wrong name lists them all. If it is not given, that of the checkpoint.",
    )
    flags.DEFINE_enum("dtype", "fp32", list(PRECISIONS), "What the network computes in.")
    flags.DEFINE_boolean(
        "cpu_half_kernels",
        False,
        "On a CPU, use TensorFlow's own half-precision kernels for convolutions and matrix "
        "products, instead of float32 ones between casts, which are faster.",
    )


def _define_dataset_flags(split):
    flags.DEFINE_string(
        "dataset_name",
        "imagenet",
        "flowers, cifar10, mnist or imagenet, as slim's tools write them; digits, which ships with "
        "slim_mp and is used where neither this flag nor --dataset_dir is given; synthetic; or any "
        "other name N of record files N_SPLIT*.tfrecord or SPLIT-*-of-* with a labels.txt.",
    )
    flags.DEFINE_string(
        "dataset_split_name", split, "The split of the dataset; of digits, train or validation."
    )
    flags.DEFINE_string("dataset_dir", None, "The folder of the record files and labels.txt.")
    flags.DEFINE_string(
        "file_pattern", None, "Pattern of the record files in --dataset_dir; %s is the split."
    )
    flags.DEFINE_integer("num_classes", None, "Classes of a dataset without a labels.txt.")
    flags.DEFINE_integer(
        "labels_offset",
        0,
        "Is subtracted from the labels; 1 drops the background class of ImageNet for the published "
        "VGG and ResNet v1 checkpoints. If it is not given, it follows from the checkpoint.",
    )
    flags.DEFINE_enum(
        "preprocessing_name",
        None,
        list(PREPROCESSINGS),
        "The preprocessing, by default that of the checkpoint, or else that of the network's "
        "published one.",
    )
    flags.DEFINE_integer("num_preprocessing_threads", 4, "Threads that decode and preprocess.")


def _define_cluster_flags():
    note = "For training on several machines, which slim_mp does not do yet."
    flags.DEFINE_string("master", _CLUSTER_DEFAULTS["master"], note)
    flags.DEFINE_integer("worker_replicas", _CLUSTER_DEFAULTS["worker_replicas"], note)
    flags.DEFINE_integer("num_ps_tasks", _CLUSTER_DEFAULTS["num_ps_tasks"], note)
    flags.DEFINE_integer("task", _CLUSTER_DEFAULTS["task"], note)
    flags.DEFINE_boolean("sync_replicas", _CLUSTER_DEFAULTS["sync_replicas"], note)
    flags.DEFINE_integer("replicas_to_aggregate", _CLUSTER_DEFAULTS["replicas_to_aggregate"], note)


def _define_loss_scale_flags():
    rule = LossScaleConfig()
    flags.DEFINE_string(
        "loss_scale",
        None,
        "A positive number, or 'dynamic'. By default "
        + ", ".join(f"{row.default_loss_scale:g} for {name}" for name, row in PRECISIONS.items())
        + ".",
    )
    flags.DEFINE_float("init_loss_scale", rule.init, "Dynamic loss scale of the first step.")
    flags.DEFINE_integer(
        "incr_every_n_steps",
        rule.incr_every_n_steps,
        "Finite steps in a row after which a dynamic loss scale grows.",
    )
    flags.DEFINE_integer(
        "decr_every_n_nan_or_inf",
        rule.decr_every_n_nan_or_inf,
        "Steps with a gradient that is not finite after which a dynamic loss scale shrinks.",
    )
    flags.DEFINE_float("incr_ratio", rule.incr_ratio, "Growth of a dynamic loss scale.")
    flags.DEFINE_float("decr_ratio", rule.decr_ratio, "Shrinkage of a dynamic loss scale.")
    flags.DEFINE_float("min_loss_scale", rule.minimum, "Floor of a dynamic loss scale.")
    flags.DEFINE_integer(
        "max_consecutive_skips",
        200,
        "End the run after this many steps in a row whose gradients are not finite.",
    )


def _define_optimizer_flags():
    defaults = optimizers.OptimizerConfig()
    flags.DEFINE_enum("optimizer", defaults.name, list(optimizers.OPTIMIZERS), "The optimizer.")
    for name in _OPTIMIZER_FIELDS:
        flags.DEFINE_float(name, getattr(defaults, name), f"Parameter {name} of the optimizer.")
    flags.DEFINE_float("weight_decay", 0.00004, "Scale of the L2 loss of the weights.")
    flags.DEFINE_float("label_smoothing", 0.0, "Share of the label that goes to all classes.")
    flags.DEFINE_float(
        "moving_average_decay", None, "Decay of moving averages of the weights; unset, none."
    )
    flags.DEFINE_integer("quantize_delay", -1, "Not supported; see --dtype.")


def _define_learning_rate_flags():
    defaults = optimizers.LearningRateConfig()
    flags.DEFINE_enum(
        "learning_rate_decay_type",
        defaults.decay_type,
        list(optimizers.DECAY_TYPES),
        "How the learning rate decays.",
    )
    flags.DEFINE_float("learning_rate", defaults.learning_rate, "Learning rate of the first step.")
    flags.DEFINE_float(
        "end_learning_rate", defaults.end_learning_rate, "Last learning rate, if polynomial."
    )
    flags.DEFINE_float(
        "learning_rate_decay_factor", defaults.decay_factor, "Factor of a decay, if exponential."
    )
    flags.DEFINE_float(
        "num_epochs_per_decay",
        defaults.num_epochs_per_decay,
        "Epochs between decays; an epoch counts the images of all clones.",
    )


def _define_run_flags():
    flags.DEFINE_string("train_dir", "/tmp/tfmodel/", "Folder for checkpoints and logs.")
    flags.DEFINE_enum(
        "resume",
        "auto",
        ["auto", "never", "must"],
        "Whether to go on from a checkpoint in --train_dir: if there is one, never, or only so.",
    )
    flags.DEFINE_integer("num_clones", 1, "GPUs (or CPU devices) that each compute a batch.")
    flags.DEFINE_boolean("clone_on_cpu", False, "Compute on the CPU even if there are GPUs.")
    flags.DEFINE_integer("num_readers", 4, "Record files that are read in parallel.")
    flags.DEFINE_integer("log_every_n_steps", 10, "Steps between two log lines.")
    flags.DEFINE_float("save_summaries_secs", 600, "Seconds between entries of the event file.")
    flags.DEFINE_float("save_interval_secs", 600, "Seconds between checkpoints.")
    flags.DEFINE_integer("batch_size", 32, "Images in the batch of one clone.")
    flags.DEFINE_integer(
        "train_image_size", None, "Pixels; by default the checkpoint's or the network's own size."
    )
    flags.DEFINE_integer("max_number_of_steps", None, "Last step; unset, train until stopped.")
    flags.DEFINE_integer(
        "seed",
        None,
        "Makes initial weights, input and dropout repeatable.",
        lower_bound=0,
        upper_bound=2**63 - 1,
    )
    flags.DEFINE_string(
        "metrics_file", None, "JSON-lines file of metrics; by default metrics.jsonl in --train_dir."
    )


def _define_warm_start_flags():
    flags.DEFINE_string(
        "checkpoint_path",
        None,
        "Checkpoint to take the weights from: a file, a prefix, a folder, or the name of a "
        "published one that python -m slim_mp.fetch has fetched.",
    )
    define_checkpoints_folder_flag()
    flags.DEFINE_string(
        "checkpoint_exclude_scopes",
        None,
        "Comma-separated scopes that are not restored from it; if it is not given, the head where "
        "the number of classes differs.",
    )
    flags.DEFINE_string(
        "trainable_scopes", None, "Comma-separated scopes to train; by default all variables."
    )
    flags.DEFINE_boolean(
        "ignore_missing_vars", False, "Initialise variables that the checkpoint lacks."
    )


def define_training_flags():
    """Defines the flags of train_image_classifier."""
    _define_network_flags()
    _define_dataset_flags(split="train")
    _define_loss_scale_flags()
    _define_optimizer_flags()
    _define_learning_rate_flags()
    _define_run_flags()
    _define_warm_start_flags()
    _define_cluster_flags()


def define_evaluation_flags():
    """Defines the flags of eval_image_classifier."""
    _define_network_flags()
    _define_dataset_flags(split="test")
    flags.DEFINE_integer("batch_size", 100, "Images in a batch; the metrics do not depend on it.")
    flags.DEFINE_integer("max_num_batches", None, "Batches to evaluate; by default all.")
    flags.DEFINE_string("master", "", "For several machines, which slim_mp does not do yet.")
    flags.DEFINE_string(
        "checkpoint_path",
        "/tmp/tfmodel/",
        "Checkpoint file or prefix, folder (its newest), or the name of a published one that "
        "python -m slim_mp.fetch has fetched.",
    )
    define_checkpoints_folder_flag()
    flags.DEFINE_string("eval_dir", "/tmp/tfmodel/", "Folder for metrics.json and event files.")
    flags.DEFINE_float(
        "moving_average_decay",
        None,
        "Moving averages are used when the checkpoint has them; 0 uses the weights themselves.",
    )
    flags.DEFINE_integer(
        "eval_image_size", None, "Pixels; by default the checkpoint's or the network's own size."
    )
    flags.DEFINE_boolean("quantize", False, "Not supported; see --dtype.")


def _was_given(*names):
    return any(FLAGS[name].present for name in names)


def _refuse_unsupported():
    for name, unused in (("quantize_delay", -1), ("quantize", False)):
        if name in FLAGS and FLAGS[name].value != unused:
            raise UsageError(
                f"--{name} needs tf.contrib.quantize, which TensorFlow 2 does not have, and is not "
                f"supported; leave it out. --dtype chooses among {', '.join(PRECISIONS)}."
            )
    for name, default in _CLUSTER_DEFAULTS.items():
        if name in FLAGS and FLAGS[name].value != default:
            raise UsageError(
                f"--{name}={FLAGS[name].value}: training on several machines is not supported yet; "
                "leave it out. --num_clones uses several GPUs of this machine."
            )


def _check_values():
    for name, low in _LOWEST.items():
        value = FLAGS[name].value if name in FLAGS else None
        if value is not None and not value >= low:
            raise UsageError(f"--{name} is {value}; it must be at least {low}.")
    for name in _SHARES:
        value = FLAGS[name].value if name in FLAGS else None
        if value is not None and not 0 <= value < 1:
            raise UsageError(f"--{name} is {value}; it must be at least 0 and below 1.")


def open_dataset(bundled_split):
    """Opens the dataset of the flags; the bundled digits where none is named.

    Args:
      bundled_split: split of the digits where --dataset_split_name is not given.

    Returns:
      A `Dataset`.

    Raises:
      UsageError, DataError: as `datasets.open_dataset`.
    """
    name, split = FLAGS.dataset_name, FLAGS.dataset_split_name
    if not _was_given("dataset_name") and FLAGS.dataset_dir is None:
        name = DIGITS
    if name == DIGITS and not _was_given("dataset_split_name"):
        split = bundled_split
    return data.open_dataset(
        name,
        split,
        directory=FLAGS.dataset_dir,
        num_classes=FLAGS.num_classes,
        file_pattern=FLAGS.file_pattern,
    )


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
    if not 0 <= FLAGS.labels_offset < dataset.num_classes:
        raise UsageError(
            f"--labels_offset is {FLAGS.labels_offset}; with the {dataset.num_classes} classes of "
            f"{dataset.name} it must be 0 to {dataset.num_classes - 1}."
        )
    arguments = {
        "name": choices.model_name,
        "num_classes": dataset.num_classes - choices.labels_offset,
        "is_training": is_training,
        "precision": get_precision(FLAGS.dtype),
        "float32_kernels": clones.on_cpu and not FLAGS.cpu_half_kernels,
    }
    if is_training:
        arguments["weight_decay"] = FLAGS.weight_decay
    return arguments


def local_clones():
    """Returns the `Clones` of the flags; an evaluation has one. A program calls it first.

    Raises:
      UsageError: if a flag asks for what slim_mp does not support or is out of its range, or for
        too many GPUs.
    """
    _refuse_unsupported()
    _check_values()
    if "num_clones" in FLAGS:
        return distribution.local_clones(FLAGS.num_clones, FLAGS.clone_on_cpu)
    return distribution.local_clones()


def _input_config(network_fn, choices):
    size = choices.image_size
    return data.InputConfig(
        preprocessing=choices.preprocessing or network_fn.preprocessing,
        image_size=network_fn.default_image_size if size is None else size,
        channels=network_fn.channels,
        batch_size=FLAGS.batch_size,
        compute_dtype=get_precision(FLAGS.dtype).compute_dtype,
        labels_offset=choices.labels_offset,
        num_readers=FLAGS.num_readers if "num_readers" in FLAGS else 4,
        num_preprocessing_threads=FLAGS.num_preprocessing_threads,
    )


def loss_scale_config():
    """Returns the LossScaleConfig of the flags.

    Raises:
      UsageError: if --loss_scale is neither a positive number nor `dynamic`, or a flag of the
        dynamic rule is given with a fixed scale.
    """
    if FLAGS.loss_scale == _DYNAMIC:
        return LossScaleConfig(
            **{field: FLAGS[name].value for name, field in _DYNAMIC_RULE.items()}
        )
    idle = [f"--{name}" for name in _DYNAMIC_RULE if _was_given(name)]
    if idle:
        raise UsageError(f"{', '.join(idle)} needs --loss_scale=dynamic.")
    if FLAGS.loss_scale is None:
        return LossScaleConfig(fixed=get_precision(FLAGS.dtype).default_loss_scale)
    try:
        scale = float(FLAGS.loss_scale)
    except ValueError:
        scale = math.nan
    # The scale and its reciprocal are float32.
    if not 2.0**-126 <= scale <= 2.0**126:
        raise UsageError(
            f"--loss_scale={FLAGS.loss_scale}: give a positive number from 2**-126 to 2**126, or "
            f"'{_DYNAMIC}'."
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
        input=_input_config(network_fn, choices),
        clones=clones,
        loss_scale=loss_scale_config(),
        optimizer=optimizers.OptimizerConfig(
            name=FLAGS.optimizer, **{name: FLAGS[name].value for name in _OPTIMIZER_FIELDS}
        ),
        learning_rate=optimizers.LearningRateConfig(
            learning_rate=FLAGS.learning_rate,
            decay_type=FLAGS.learning_rate_decay_type,
            end_learning_rate=FLAGS.end_learning_rate,
            decay_factor=FLAGS.learning_rate_decay_factor,
            num_epochs_per_decay=FLAGS.num_epochs_per_decay,
        ),
        warm_start=WarmStartConfig(
            choices.checkpoint or FLAGS.checkpoint_path,
            choices.exclude_scopes,
            FLAGS.ignore_missing_vars,
        ),
        label_smoothing=FLAGS.label_smoothing,
        moving_average_decay=FLAGS.moving_average_decay,
        trainable_scopes=FLAGS.trainable_scopes,
        max_number_of_steps=FLAGS.max_number_of_steps,
        max_consecutive_skips=FLAGS.max_consecutive_skips,
        log_every_n_steps=FLAGS.log_every_n_steps,
        save_summaries_secs=FLAGS.save_summaries_secs,
        save_interval_secs=FLAGS.save_interval_secs,
        seed=FLAGS.seed,
        resume=FLAGS.resume,
        metrics_file=FLAGS.metrics_file,
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
    return EvalConfig(
        checkpoint_path=choices.checkpoint,
        eval_dir=FLAGS.eval_dir,
        input=_input_config(network_fn, choices),
        clones=clones,
        max_num_batches=FLAGS.max_num_batches,
        use_moving_averages=FLAGS.moving_average_decay != 0,
    )
