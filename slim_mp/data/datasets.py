"""Which files make up a dataset: names, splits, classes and numbers of examples.

No set needs Python: records in the layouts of TF-Slim's dataset tools are found by name and folder
alone, and images by folder or list.
"""

import dataclasses
import os

from absl import logging

from slim_mp.compat import tf
from slim_mp.data import imagenet_names, record_files, record_sets, tfds_sets
from slim_mp.data.image_files import from_folder, from_list
from slim_mp.data.image_folders import holds_images
from slim_mp.data.image_lists import CSV, JSON_LINES, is_list
from slim_mp.data.label_names import LABELS_FILE, MOST_CLASSES, read_label_names
from slim_mp.errors import DataError, UsageError

# The features of slim's records.
IMAGE_KEY = "image/encoded"
LABEL_KEY = "image/class/label"

DIGITS = "digits"
SYNTHETIC = "synthetic"
# Kinds of datasets besides these two.
TFDS = "TFDS folder"
RECORDS = "folder of record files"
FOLDER = "folder with one sub-folder a class"
LIST = "list of image files"

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
      label_names: the name of each class, or None if there is no labels.txt and it is not ImageNet.
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
    def is_synthetic(self):
        """Whether there are no files at all, and images are made up."""
        return not self.files and not self.images

    @property
    def num_examples(self):
        """The number of examples of the split."""
        return sum(self.examples_per_file)


def kind_of(name, directory, file_pattern=None):
    """Tells what kind of dataset is meant, by its name and what is in its folder.

    Args:
      name: as for `open_dataset`.
      directory: as for `open_dataset`.
      file_pattern: as for `open_dataset`.

    Returns:
      `DIGITS`, `SYNTHETIC`, `TFDS`, `LIST`, `FOLDER` or `RECORDS`; the last also where there is
      nothing that fits.

    Raises:
      DataError: if a folder cannot be read.
    """
    if name == SYNTHETIC:
        return SYNTHETIC
    if not directory and name in (None, DIGITS):
        return DIGITS
    if name and name.startswith(tfds_sets.PREFIX):
        return TFDS
    if not directory:
        return RECORDS
    directory = os.path.expanduser(os.fspath(directory))
    if is_list(directory) and not os.path.isdir(directory):
        return LIST
    # Images are read from the disks of this machine, records from wherever TensorFlow can.
    if not os.path.isdir(directory) or record_sets.are_there(name, directory, file_pattern):
        return RECORDS
    return FOLDER if holds_images(directory) else RECORDS


def open_dataset(name=None, split="train", directory=None, num_classes=None, file_pattern=None):
    """Finds the files of a dataset, its classes and its number of examples.

    Args:
      name: `digits` (ships with slim_mp), `synthetic` (no files, for measurements of speed),
        `flowers`, `cifar10`, `mnist`, `imagenet`, `visualwakewords` as TF-Slim's tools write them,
        any other name NAME of record files NAME_SPLIT_*.tfrecord, NAME_SPLIT.tfrecord or
        SPLIT-*-of-*, or `tfds:NAME`. By default what the folder holds, or the digits without one.
      split: the split, such as `train` or `validation`.
      directory: the folder of the record files, a folder with one sub-folder of images a class, a
        .csv or .jsonl list of images, or the data_dir of TFDS; not needed for `digits` and
        `synthetic`.
      num_classes: the number of classes, where there is no labels.txt (lines `0:daisy`).
      file_pattern: a pattern in place of those above; `%s` stands for the split.

    Returns:
      A `Dataset`.

    Raises:
      UsageError: if num_classes is not positive, or absurdly large, or there is a file pattern but
        no record files.
      DataError: if the folder or files of the split are missing, files are unreadable,
        damaged or without examples, or the number of classes is unknown or contradicts labels.txt.
    """
    if num_classes is not None and not 1 <= num_classes <= MOST_CLASSES:
        raise UsageError(
            f"The number of classes is {num_classes} (--num_classes); it must be 1 to "
            f"{MOST_CLASSES}."
        )
    kind = kind_of(name, directory, file_pattern)
    if kind == SYNTHETIC:
        count = num_classes or _SYNTHETIC_CLASSES
        return Dataset(name, split, (), (_SYNTHETIC_EXAMPLES,), 0, count)
    if kind == DIGITS:
        return _open_records(DIGITS, split, _DIGITS_FOLDER, num_classes, file_pattern)
    if kind == LIST:
        directory = os.path.expanduser(os.fspath(directory))
    else:
        directory = _existing_directory(name, directory)
    if kind == RECORDS:
        return _open_records(name, split, directory, num_classes, file_pattern)
    if file_pattern:
        raise UsageError(
            f"--file_pattern={file_pattern} is for record files, but {directory} is a {kind}; "
            "leave it out."
        )
    if kind == TFDS:
        return _open_tfds(name, split, directory, num_classes)
    return _open_images(kind, name, split, directory, num_classes)


def _existing_directory(name, directory):
    if not directory:
        raise DataError(
            f"The dataset '{name}' needs the folder of its files (--dataset_dir). Without "
            f"a folder there are '{DIGITS}' and '{SYNTHETIC}'."
        )
    directory = os.path.expanduser(os.fspath(directory))
    if not tf.io.gfile.isdir(directory):
        raise DataError(
            f"The dataset folder {directory} does not exist or is not a folder; give a folder of "
            f"record files or of images, or a list of images that ends in {CSV} or {JSON_LINES} "
            "(--dataset_dir)."
        )
    return directory


def _open_records(name, split, directory, num_classes, file_pattern):
    if not name and not file_pattern:
        name = record_sets.recognise(directory)
        logging.info("%s holds record files of '%s'.", directory, name)
    name = name or _name_by_place(directory)
    files = record_sets.find_files(name, split, directory, file_pattern)
    label_names = read_label_names(os.path.join(directory, LABELS_FILE))
    known = record_sets.known_classes(name, file_pattern)
    num_classes = _number_of_classes(name, directory, num_classes, label_names, known)
    if label_names is None and name == imagenet_names.DATASET:
        label_names = imagenet_names.names_of_head(num_classes)
    counts = record_files.examples_per_file(files, cached=directory != _DIGITS_FOLDER)
    num_bytes = record_files.total_bytes(files)
    return Dataset(name, split, files, counts, num_bytes, num_classes, label_names)


def _open_images(kind, name, split, directory, num_classes):
    if name and kind == FOLDER:
        logging.info("%s holds no record files of '%s'; its sub-folders are read.", directory, name)
    images = (from_list if kind == LIST else from_folder)(directory, split)
    count, known = len(images.paths), len(images.label_names)
    if not images.only_numbers or (num_classes or known) < known:
        _check_number_of_classes(directory, num_classes, known)
    num_classes = num_classes or known
    if num_classes < 2:
        raise DataError(
            f"All labels of {directory} are 0, and there is nothing to learn from a single class; "
            "say how many classes there are (--num_classes), or add images of others."
        )
    logging.info(
        "%s is read as a %s: %d images of %d classes for '%s'.",
        directory,
        kind,
        count,
        num_classes,
        split,
    )
    return Dataset(
        name or _name_by_place(directory),
        split,
        (),
        (count,),
        images.estimated_bytes(),
        num_classes,
        None if images.only_numbers else images.label_names,
        images.paths,
        images.labels,
    )


def _open_tfds(name, split, directory, num_classes):
    found = tfds_sets.find_files(name, split, directory)
    _check_number_of_classes(directory, num_classes, len(found.label_names))
    counts = record_files.examples_per_file(found.paths)
    if sum(counts) != found.num_examples:
        raise DataError(
            f"The files of the split '{split}' of '{name}' in {directory} hold {sum(counts)} "
            f"examples, but TFDS has written {found.num_examples}; prepare or copy it again."
        )
    return Dataset(
        name,
        split,
        found.paths,
        counts,
        record_files.total_bytes(found.paths),
        len(found.label_names),
        found.label_names,
        image_key=found.image_key,
        label_key=found.label_key,
    )


def _check_number_of_classes(directory, asked, known):
    if asked not in (None, known):
        raise DataError(
            f"{directory} has {known} classes, but {asked} were asked for (--num_classes); leave "
            "--num_classes out."
        )


def _name_by_place(directory):
    """A name for what has none: that of its folder or list."""
    return os.path.basename(os.path.abspath(directory))


def _number_of_classes(name, directory, num_classes, label_names, known):
    labels_file = os.path.join(directory, LABELS_FILE)
    known = len(label_names) if label_names else known
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
