"""The flags that say which network a checkpoint is, for the programs that make it answer."""

import dataclasses
import os

from absl import flags, logging

from slim_mp.checkpoints import catalogue, checkpoint_defaults, checkpoint_labels
from slim_mp.checkpoints.weights import Weights
from slim_mp.data.label_names import LABELS_FILE, read_label_names
from slim_mp.data.record_sets import known_classes
from slim_mp.errors import CheckpointError, UsageError
from slim_mp.export.serving_graph import InputSpec
from slim_mp.flags.checkpoint_flags import define_checkpoints_folder_flag
from slim_mp.preprocessing import PREPROCESSINGS

FLAGS = flags.FLAGS


def define_subject_flags():
    """Defines the flags of the network, its input and its classes."""
    flags.DEFINE_string(
        "model_name", "inception_v3", "The network; by default that of the checkpoint, if any."
    )
    define_checkpoints_folder_flag()
    flags.DEFINE_float(
        "moving_average_decay",
        None,
        "Moving averages are used when the checkpoint has them; 0 uses the weights themselves.",
    )
    flags.DEFINE_integer(
        "image_size",
        None,
        "Pixels; by default the checkpoint's or the network's own size.",
        lower_bound=1,
    )
    flags.DEFINE_enum(
        "preprocessing_name",
        None,
        list(PREPROCESSINGS),
        "The preprocessing, by default that of the checkpoint, or else that of the network's "
        "published one.",
    )
    _define_class_flags()


def _define_class_flags():
    flags.DEFINE_string(
        "dataset_name",
        "imagenet",
        "Says the number of classes where neither a checkpoint nor labels.txt nor --num_classes "
        "does: imagenet, flowers, cifar10, mnist, visualwakewords or digits.",
    )
    flags.DEFINE_string(
        "dataset_dir",
        "",
        "Folder of a labels.txt that names the classes, in place of what is known of the "
        "checkpoint.",
    )
    flags.DEFINE_integer(
        "num_classes", None, "Classes of the dataset, --labels_offset included.", lower_bound=1
    )
    flags.DEFINE_integer(
        "labels_offset",
        0,
        "Classes of the dataset that the network leaves out: 1 for the published VGG and ResNet "
        "v1, which have no background class.",
        lower_bound=0,
    )


@dataclasses.dataclass(frozen=True)
class Subject:
    """What is exported.

    Attributes:
      choices: a `checkpoint_defaults.Choices`.
      num_classes: classes of the network.
      known: the `checkpoint_defaults.Known` of the checkpoint, or None without one.
    """

    choices: checkpoint_defaults.Choices
    num_classes: int
    known: checkpoint_defaults.Known | None = None


def subject(path):
    """Returns the `Subject` of the flags; what follows from the checkpoint is logged.

    Args:
      path: what `catalogue.resolve` takes, or None without a checkpoint.

    Raises:
      CheckpointError: if there is no such checkpoint, or it cannot be used.
      UsageError: if nothing says the number of classes, or the labels offset leaves none.
      DataError: if labels.txt cannot be read.
    """
    known = None
    if path:
        folder = catalogue.checkpoints_folder(FLAGS.checkpoints_dir)
        known = checkpoint_defaults.know(*catalogue.resolve(path, folder))
    given = _given()
    classes = _dataset_classes(given, known)
    choices = checkpoint_defaults.choose(
        given, known, classes, checkpoint_defaults.EVALUATE, FLAGS.model_name
    )
    for line in choices.notices:
        logging.info("%s", line)
    for line in choices.warnings:
        logging.warning("%s", line)
    if not 0 <= choices.labels_offset < classes:
        raise UsageError(
            f"--labels_offset is {choices.labels_offset}; with {classes} classes it must be 0 to "
            f"{classes - 1}."
        )
    return Subject(choices, classes - choices.labels_offset, known)


def _given():
    def value(name):
        return FLAGS[name].value if FLAGS[name].present else None

    return checkpoint_defaults.Given(
        value("model_name"), FLAGS.preprocessing_name, FLAGS.image_size, value("labels_offset")
    )


def _dataset_classes(given, known):
    """Classes of the dataset: as the flags say, else as the head of the checkpoint has them."""
    names = None
    if FLAGS.dataset_dir:
        names = read_label_names(os.path.join(os.path.expanduser(FLAGS.dataset_dir), LABELS_FILE))
    by_name = None
    if known is None or FLAGS["dataset_name"].present:
        by_name = known_classes(FLAGS.dataset_name)
    said = FLAGS.num_classes or (names and len(names)) or by_name
    if said:
        return said
    head = known and known.identity.num_classes
    if head is None:
        raise UsageError(
            "Nothing says how many classes the network has: give --num_classes, the folder of a "
            "labels.txt (--dataset_dir) or a --dataset_name whose classes are known."
        )
    return head + _offset(given, known)


def _offset(given, known):
    if given.labels_offset is not None:
        return given.labels_offset
    if known.published:
        return catalogue.get_entry(known.published).labels_offset
    return known.labels_offset or 0


def input_spec(network_fn, choices, batch_size=None, channels=None):
    """Returns the InputSpec of a network.

    Args:
      network_fn: what nets_factory.get_network_fn made.
      choices: of the `Subject`.
      batch_size: images that are answered at once, or None.
      channels: in place of the network's own.
    """
    size = choices.image_size
    return InputSpec(
        choices.preprocessing or network_fn.preprocessing,
        network_fn.default_image_size if size is None else size,
        channels or network_fn.channels,
        batch_size,
    )


def weights(which):
    """Returns the `Weights` of a `Subject` with a checkpoint.

    Raises:
      CheckpointError: if the checkpoint has no last layer.
    """
    known = which.known
    if known.identity.networks and known.identity.num_classes is None:
        raise CheckpointError(
            f"{known.checkpoint} holds no last layer of {which.choices.model_name}, and tells no "
            "classes apart; train one first."
        )
    return Weights(known.checkpoint, FLAGS.moving_average_decay != 0)


def label_names(which):
    """Returns the name of each class of a `Subject` with a checkpoint, a tuple of str.

    Raises:
      DataError: if a labels.txt cannot be used.
    """
    return checkpoint_labels.label_names(
        which.known, which.num_classes, which.choices.labels_offset, FLAGS.dataset_dir or None
    )
