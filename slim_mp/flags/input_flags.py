"""The flags of the input: how it is read, what may be wrong with it, how images are augmented."""

from absl import flags

from slim_mp.data.augmentation import RANGES, AugmentationConfig
from slim_mp.errors import UsageError
from slim_mp.preprocessing.colours import DISTORTIONS, FULL

FLAGS = flags.FLAGS

_WHILE_TRAINING = ("num_readers", "cache", "dataset_service", "distortion")


def define_input_flags():
    """Defines the flags of the input that every program with a dataset has."""
    flags.DEFINE_integer(
        "num_preprocessing_threads",
        None,
        "Threads that decode and preprocess; by default as many as it takes to keep up, at most "
        "one a core.",
    )
    flags.DEFINE_integer(
        "max_bad_records",
        0,
        "How many distinct records or image files may be left out because they cannot be used; "
        "the log names each. By default the first one ends the run.",
        lower_bound=0,
    )


def define_training_input_flags():
    """Defines the flags of the input that only a training run has."""
    flags.DEFINE_integer(
        "num_readers",
        None,
        "Record files that are read in parallel, 16 at most; by default as many as it takes.",
    )
    flags.DEFINE_boolean(
        "cache",
        False,
        "Read the records or image files once and keep them in memory, as they are on disk; "
        "refused where they do not fit.",
    )
    flags.DEFINE_string(
        "dataset_service",
        None,
        "Address of the dispatcher of a tf.data service, such as grpc://host:5000, whose workers "
        "make the training batches. They must run this TensorFlow and see the files at the same "
        "paths. Each epoch is read by one worker; the order of the batches is not repeatable, "
        "whatever --seed is.",
    )
    _define_augmentation_flags()


def _define_augmentation_flags():
    def define(name, words):
        low, high = RANGES[name]
        flags.DEFINE_float(name, 0.0, words, lower_bound=low, upper_bound=high)

    flags.DEFINE_enum(
        "distortion",
        FULL,
        DISTORTIONS,
        "How much the preprocessing distorts training images: `full`, for the Inception style by a "
        "random method of resizing and in brightness, saturation, hue and contrast; `bilinear`, "
        "the same but always resized bilinearly, which is quicker; `fast`, as slim's scripts did, "
        "bilinearly and in brightness and saturation; `crop`, cropped and mirrored only.",
    )
    define(
        "random_erasing",
        "Probability that a rectangle of a training image, 2 to 40 % of it, becomes noise.",
    )
    define(
        "mixup",
        "Mix each training image with another one of its batch, and their labels alike, by a share "
        "from the Beta distribution of this alpha, such as 0.2; 0 does not.",
    )
    define(
        "cutmix",
        "Paste a rectangle of another image of the batch into each training image, of an area from "
        "the Beta distribution of this alpha, such as 1; 0 does not. With --mixup, a batch has one "
        "of them at random.",
    )
    flags.DEFINE_string(
        "randaugment",
        None,
        "N,M: change each training image by N random operations (1 to 10) of magnitude M (0 to "
        "10), in place of the changes of colours of the preprocessing; such as 2,9.",
    )


def input_fields():
    """Returns the fields of an InputConfig that these flags set, as a dict.

    Raises:
      UsageError: if a value cannot be.
    """
    fields = {name: FLAGS[name].value for name in _WHILE_TRAINING if name in FLAGS}
    if "randaugment" in FLAGS:
        fields["augmentation"] = _augmentation()
    return {
        "num_preprocessing_threads": FLAGS.num_preprocessing_threads,
        "max_bad_records": FLAGS.max_bad_records,
        **fields,
    }


def _augmentation():
    layers, magnitude = _randaugment(FLAGS.randaugment)
    return AugmentationConfig(
        random_erasing=FLAGS.random_erasing,
        mixup=FLAGS.mixup,
        cutmix=FLAGS.cutmix,
        randaugment_layers=layers,
        randaugment_magnitude=magnitude,
    )


def _randaugment(text):
    """The number of operations and their magnitude in "N,M"; zeros for None."""
    if text is None:
        return 0, 0.0
    try:
        layers, magnitude = text.split(",")
        layers, magnitude = int(layers), float(magnitude)
    except ValueError:
        layers, magnitude = 0, 0.0
    lowest, highest = RANGES["randaugment_magnitude"]
    if not (1 <= layers <= RANGES["randaugment_layers"][1] and lowest <= magnitude <= highest):
        raise UsageError(
            f"--randaugment={text}: give the number of operations, 1 to 10, and their magnitude, 0 "
            "to 10, such as 2,9."
        )
    return layers, magnitude
