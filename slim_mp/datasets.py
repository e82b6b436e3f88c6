"""Which files make up a dataset: names, splits, classes and numbers of examples.

Record sets follow the conventions of TF-Slim's dataset tools, so that what those wrote is found
by name and folder alone, and any other record set needs no Python.
"""

import dataclasses
import fnmatch
import os
import re

from slim_mp import record_files
from slim_mp.compat import tf
from slim_mp.errors import DataError, UsageError
from slim_mp.input_files import few, reading
from slim_mp.label_names import LABELS_FILE, MOST_CLASSES, read_label_names

# The features of slim's records.
IMAGE_KEY = "image/encoded"
LABEL_KEY = "image/class/label"

DIGITS = "digits"
SYNTHETIC = "synthetic"

_DIGITS_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "digits")
_SYNTHETIC_CLASSES = 1000
_SYNTHETIC_EXAMPLES = 1000


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A split of a dataset.

    Attributes:
      name: the name it was opened by.
      split: the split it was opened by.
      files: paths of its TFRecord files, in order; none for a set of image files and for the
        synthetic set.
      examples_per_file: the number of examples of each file; that of all where there are no files.
      num_bytes: the size of all files together; of image files, an estimate.
      num_classes: labels in the files are below it.
      label_names: the name of each class, or None if there is no labels.txt.
      images: paths of its image files, class after class; none for record files.
      labels: the label of each of them.
      image_key: the feature of a record that holds the encoded image.
      label_key: the feature of a record that holds the label.
    """

    name: str
    split: str
    files: tuple
    examples_per_file: tuple
    num_bytes: int
    num_classes: int
    label_names: tuple | None = None
    images: tuple = ()
    labels: tuple = ()
    image_key: str = IMAGE_KEY
    label_key: str = LABEL_KEY

    @property
    def num_examples(self):
        """The number of examples of the split."""
        return sum(self.examples_per_file)


@dataclasses.dataclass(frozen=True)
class _Convention:
    """How a dataset tool names its files; `%s` in a pattern stands for the split."""

    patterns: tuple
    splits: tuple | None = None
    num_classes: int | None = None


_CONVENTIONS = {
    DIGITS: _Convention(("digits_%s.tfrecord",), ("train", "validation"), 10),
    "flowers": _Convention(("flowers_%s_*.tfrecord",), ("train", "validation"), 5),
    "cifar10": _Convention(("cifar10_%s.tfrecord",), ("train", "test"), 10),
    "mnist": _Convention(("mnist_%s.tfrecord",), ("train", "test"), 10),
    "imagenet": _Convention(("%s-*",), ("train", "validation"), 1001),
}


def _convention(name, file_pattern):
    if file_pattern:
        return _Convention((file_pattern,))
    if name in _CONVENTIONS:
        return _CONVENTIONS[name]
    return _Convention((f"{name}_%s_*.tfrecord", f"{name}_%s.tfrecord", "%s-*-of-*"))


def open_dataset(name=DIGITS, split="train", directory=None, num_classes=None, file_pattern=None):
    """Finds the files of a dataset, its classes and its number of examples.

    Args:
      name: `digits` (ships with slim_mp), `synthetic` (no files, for measurements of speed),
        `flowers`, `cifar10`, `mnist`, `imagenet` as TF-Slim's tools write them, or any other
        name NAME: files NAME_SPLIT_*.tfrecord, NAME_SPLIT.tfrecord or SPLIT-*-of-*.
      split: the split, such as `train` or `validation`.
      directory: the folder of the files; not needed for `digits` and `synthetic`.
      num_classes: the number of classes, where there is no labels.txt (lines `0:daisy`).
      file_pattern: a pattern in place of those above; `%s` stands for the split.

    Returns:
      A `Dataset`.

    Raises:
      UsageError: if num_classes is not positive, or absurdly large.
      DataError: if the folder or files of the split are missing, files are unreadable,
        damaged or without examples, or the number of classes is unknown or contradicts labels.txt.
    """
    if num_classes is not None and not 1 <= num_classes <= MOST_CLASSES:
        raise UsageError(
            f"The number of classes is {num_classes} (--num_classes); it must be 1 to "
            f"{MOST_CLASSES}."
        )
    if name == SYNTHETIC:
        return Dataset(
            name, split, (), (_SYNTHETIC_EXAMPLES,), 0, num_classes or _SYNTHETIC_CLASSES
        )
    is_bundled = name == DIGITS and not directory
    directory = _DIGITS_FOLDER if is_bundled else _existing_directory(name, directory)
    convention = _convention(name, file_pattern)
    files = _find_files(name, split, directory, convention)
    label_names = read_label_names(os.path.join(directory, LABELS_FILE))
    num_classes = _number_of_classes(name, directory, num_classes, label_names, convention)
    counts = record_files.examples_per_file(files, cached=not is_bundled)
    num_bytes = record_files.total_bytes(files)
    return Dataset(name, split, files, counts, num_bytes, num_classes, label_names)


def _existing_directory(name, directory):
    if not directory:
        raise DataError(
            f"The dataset '{name}' needs the folder of its record files (--dataset_dir). Without "
            f"a folder there are '{DIGITS}' and '{SYNTHETIC}'."
        )
    directory = os.path.expanduser(os.fspath(directory))
    if not tf.io.gfile.isdir(directory):
        raise DataError(
            f"The dataset folder {directory} does not exist or is not a folder; give the folder of "
            "the record files (--dataset_dir)."
        )
    return directory


def _names_in(folder):
    with reading(folder):
        return sorted(tf.io.gfile.listdir(folder))


def _glob(directory, pattern, split):
    # Not gfile.glob: the name of the folder itself may hold brackets.
    folder, pattern = os.path.split(os.path.join(directory, pattern.replace("%s", split)))
    names = _names_in(folder) if tf.io.gfile.isdir(folder) else ()
    paths = [os.path.join(folder, name) for name in names if fnmatch.fnmatchcase(name, pattern)]
    return tuple(path for path in paths if not tf.io.gfile.isdir(path))


def _splits_that_exist(directory, convention):
    """The splits whose files are there, read off the file names."""
    for pattern in convention.patterns:
        before, _, after = os.path.basename(pattern).partition("%s")
        end = after.split("*")[0]
        names = [os.path.basename(path) for path in _glob(directory, pattern, "*")]
        if names:
            rests = [name[len(before) :] for name in names]
            return sorted({rest.split(end)[0] if end else rest for rest in rests})
    return []


def _find_files(name, split, directory, convention):
    if convention.splits and split not in convention.splits:
        raise DataError(
            f"The dataset '{name}' has no split '{split}'; its splits are "
            f"{' and '.join(convention.splits)} (--dataset_split_name)."
            + _other_sets(name, split, directory)
        )
    for pattern in convention.patterns:
        files = _glob(directory, pattern, split)
        if files:
            return files
    wanted = " or ".join(pattern.replace("%s", split) for pattern in convention.patterns)
    there = few(_splits_that_exist(directory, convention))
    hint = f"there are files of the splits: {there}" if there else _listing(directory)
    raise DataError(
        f"{directory} has no files {wanted} for the split '{split}' of '{name}'; {hint}. Choose "
        "another --dataset_split_name, --dataset_dir, --dataset_name or --file_pattern."
        + _other_sets(name, split, directory)
    )


def _other_sets(name, split, directory):
    """A sentence on which other sets a folder holds, by the names of their files; else nothing."""
    pattern = re.compile(rf"(.+?)_(?:train|validation|test|{re.escape(split)})(_.*)?\.tfrecord")
    found = map(pattern.fullmatch, _names_in(directory))
    names = sorted({match[1] for match in found if match and match[1].isprintable()} - {name})
    if len(names) == 1:
        return f" The folder holds files of '{names[0]}': --dataset_name={names[0]} reads them."
    return f" The folder holds files of {few(names)}: give --dataset_name." if names else ""


def _listing(directory):
    names = _names_in(directory)
    if not names:
        return "the folder is empty"
    return f"the folder holds {few(names)}"


def _number_of_classes(name, directory, num_classes, label_names, convention):
    labels_file = os.path.join(directory, LABELS_FILE)
    known = len(label_names) if label_names else convention.num_classes
    if label_names is not None and num_classes not in (None, known):
        if directory == _DIGITS_FOLDER:
            raise DataError(
                f"The bundled '{name}' has {known} classes, but --num_classes={num_classes} asks "
                "for others; leave --num_classes out."
            )
        raise DataError(
            f"{labels_file} has {known} classes, but {num_classes} were asked for "
            "(--num_classes); correct one of them or leave --num_classes out."
        )
    if num_classes is None and known is None:
        raise DataError(
            f"The number of classes of '{name}' is unknown: there is no {labels_file}. Write one "
            "with lines such as 0:daisy, or give --num_classes."
        )
    return num_classes or known
