"""The command-line flags in groups, with the names, defaults and help of each.

Flags of the former research/slim scripts keep their names, defaults and meaning. A program defines
its flags with one call; flags.py makes configs of them, flag_checks.py refuses what cannot be. The
flags of an update are in update_flags.py, those of an evaluation in eval_flags.py, and those of how
the input is read in input_flags.py.
"""

from absl import flags

from slim_mp.flags.checkpoint_flags import define_checkpoints_folder_flag
from slim_mp.flags.input_flags import define_input_flags, define_training_input_flags
from slim_mp.flags.update_flags import define_update_flags
from slim_mp.precision import PRECISIONS
from slim_mp.preprocessing import PREPROCESSINGS

# Flags that only make sense with several machines, and their defaults.
CLUSTER_DEFAULTS = {
    "master": "",
    "worker_replicas": 1,
    "num_ps_tasks": 0,
    "task": 0,
    "sync_replicas": False,
    "replicas_to_aggregate": 1,
}
CLUSTER_ONLY = "[Several machines: not supported yet, leave it out.]"


def define_network_flags():
    """Defines the flags that choose the network and what it computes in."""
    flags.DEFINE_string(
        "model_name",
        "inception_v3",
        "The network; a wrong name lists them all. If it is not given and there is a checkpoint, "
        "the checkpoint's network takes the place of the default.",
    )
    flags.DEFINE_enum("dtype", "fp32", list(PRECISIONS), "What the network computes in.")
    flags.DEFINE_boolean(
        "cpu_half_kernels",
        False,
        "On a CPU, use TensorFlow's own half-precision kernels for convolutions and matrix "
        "products, instead of float32 ones between casts, which are faster.",
    )


def define_dataset_flags(split):
    """Defines the flags of the input, with the split that is read by default."""
    flags.DEFINE_string(
        "dataset_name",
        "imagenet",
        "flowers, cifar10, mnist, imagenet or visualwakewords, as slim's tools write them; any "
        "other name N of record files N_SPLIT*.tfrecord or SPLIT-*-of-* with a labels.txt; "
        "tfds:NAME, prepared by TFDS; digits, which ships with slim_mp; or synthetic. If it is not "
        "given, what --dataset_dir holds takes the place of the default, and digits without one.",
    )
    flags.DEFINE_string(
        "dataset_split_name",
        split,
        "The split. Digits, and images that are not divided, have train and validation; if the "
        "flag is not given, digits and image files are evaluated on validation, whatever the "
        "default.",
    )
    flags.DEFINE_string(
        "dataset_dir",
        None,
        "The folder of the record files and labels.txt; a folder with one sub-folder of images a "
        "class, perhaps in folders train and validation; a .csv or .jsonl list of file, label and "
        "perhaps split; or the data_dir of TFDS.",
    )
    flags.DEFINE_string(
        "file_pattern",
        None,
        "Pattern of the record files in --dataset_dir; %s is the split, as in 'birds-%s-*.rec'.",
    )
    flags.DEFINE_integer("num_classes", None, "Classes of a dataset without a labels.txt.")
    flags.DEFINE_integer(
        "labels_offset",
        0,
        "Is subtracted from the labels; 1 drops the background class of ImageNet for the published "
        "VGG and ResNet v1 checkpoints. If it is not given, what fits the checkpoint, if there is "
        "one, takes the place of the default.",
    )
    flags.DEFINE_enum(
        "preprocessing_name",
        None,
        list(PREPROCESSINGS),
        "The preprocessing, by default that of the checkpoint, or else that of the network's "
        "published one.",
    )
    define_input_flags()


def _define_cluster_flags():
    def define(define_flag, name, words):
        define_flag(name, CLUSTER_DEFAULTS[name], f"{CLUSTER_ONLY} {words}")

    define(flags.DEFINE_string, "master", "Address of the session's server.")
    define(flags.DEFINE_integer, "worker_replicas", "Number of workers.")
    define(flags.DEFINE_integer, "num_ps_tasks", "Number of parameter servers.")
    define(flags.DEFINE_integer, "task", "Index of this worker.")
    define(flags.DEFINE_boolean, "sync_replicas", "Whether workers step together.")
    define(flags.DEFINE_integer, "replicas_to_aggregate", "Workers that a step waits for.")


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
    flags.DEFINE_boolean(
        "prefetch_to_device",
        True,
        "Copy the next batch to the GPUs while a step computes; each holds two batches more.",
    )
    flags.DEFINE_integer("log_every_n_steps", 10, "Steps between two log lines.")
    flags.DEFINE_integer(
        "gradient_report_every_n_steps",
        0,
        "Steps between two reports of the share of the gradient that is zero in half, by layer; 0 "
        "for none.",
    )
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
        "metrics_file",
        None,
        "JSON-lines file of metrics, which holds nothing else; by default metrics.jsonl in "
        "--train_dir.",
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
        "Comma-separated scopes that are not restored from it, such as MobilenetV1/Logits; if it "
        "is not given, the head where the number of classes differs.",
    )
    flags.DEFINE_string(
        "trainable_scopes",
        None,
        "Comma-separated scopes to train, such as resnet_v1_50/block4,resnet_v1_50/logits; by "
        "default all variables.",
    )
    flags.DEFINE_boolean(
        "freeze_batch_norm",
        False,
        "Keep the statistics of batch norm outside --trainable_scopes as they are, and compute "
        "with them there.",
    )
    words = "Initialise variables that the checkpoint lacks."
    flags.DEFINE_boolean("ignore_missing_vars", False, words)


def define_training_flags():
    """Defines the flags of train_image_classifier."""
    define_network_flags()
    define_dataset_flags(split="train")
    define_training_input_flags()
    define_update_flags()
    _define_run_flags()
    _define_warm_start_flags()
    _define_cluster_flags()
