"""Images that are files of their own: in a folder with one sub-folder a class, or in a list.

The same paths and labels go into training, evaluation and the conversion to record files.
"""

import dataclasses
import os
import re
from multiprocessing.pool import ThreadPool

from slim_mp.errors import DataError
from slim_mp.image_lists import read_rows
from slim_mp.image_split import split_by_content
from slim_mp.input_files import few, reading, shown
from slim_mp.label_names import (
    LABELS_FILE,
    MOST_CLASSES,
    number_classes,
    plain_name,
    read_label_names,
)

# Endings of the files that TensorFlow decodes; the content then decides which decoder it is.
IMAGE_ENDINGS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp")

_THREADS = 16


@dataclasses.dataclass(frozen=True)
class ImageFiles:
    """The image files of a split.

    Attributes:
      paths: the path of each file.
      labels: the class of each file, a number from 0 on.
      label_names: the name of each class; its number, where a list has numbers and no names.
      only_numbers: whether the classes have no names, so that there may be more of them.
    """

    paths: tuple
    labels: tuple
    label_names: tuple
    only_numbers: bool = False


def from_folder(directory, split):
    """Finds the images of a folder with one sub-folder a class.

    Args:
      directory: the folder.
      split: `train` or `validation`.

    Returns:
      The `ImageFiles`, class after class, of all images below the folders of the classes.

    Raises:
      DataError: if there are no classes or no images of the split, or what is there cannot be read.
    """
    classes = number_classes(_class_folders(directory), directory)
    paths, labels = [], []
    for name, label in classes.items():
        found = _images_below(os.path.join(directory, name))
        paths += found
        labels += [label] * len(found)
    chosen = split_by_content(paths, labels, split, directory)
    return ImageFiles(
        tuple(paths[index] for index in chosen),
        tuple(labels[index] for index in chosen),
        tuple(map(plain_name, classes)),
    )


def _class_folders(directory):
    with reading(directory), os.scandir(directory) as entries:
        return [entry.name for entry in entries if entry.is_dir() and entry.name[0] != "."]


def _images_below(folder):
    found = []
    for parent, folders, names in os.walk(folder):
        folders.sort()
        names = [name for name in names if name.lower().endswith(IMAGE_ENDINGS)]
        found += [os.path.join(parent, name) for name in sorted(names) if name[0] != "."]
    return found


def from_list(path, split):
    """Finds the images of a list.

    Args:
      path: a .csv or .jsonl file, see `image_lists.read_rows`. Files are relative to its folder.
      split: a split that the list names, or, if it names none, `train` or `validation`.

    Returns:
      The `ImageFiles`, in the order of the list.

    Raises:
      DataError: if the list cannot be used, has no such split, or files are missing.
    """
    rows = read_rows(path)
    labels, label_names, only_numbers = _classes_of(rows, path)
    folder = os.path.dirname(path)
    paths = [os.path.normpath(os.path.join(folder, row.file)) for row in rows]
    _check_files(paths, labels, rows, path)
    if rows[0].split is None:
        chosen = split_by_content(paths, labels, split, path)
    else:
        chosen = [index for index, row in enumerate(rows) if row.split == split]
        if not chosen:
            there = few(sorted({row.split for row in rows}))
            raise DataError(
                f"{path} has no images of the split {split!r}; its splits are: {there} "
                "(--dataset_split_name)."
            )
    return ImageFiles(
        tuple(paths[index] for index in chosen),
        tuple(labels[index] for index in chosen),
        label_names,
        only_numbers,
    )


def _classes_of(rows, path):
    """The label of each row, the names of the classes, and whether they are numbers only."""
    labels_file = os.path.join(os.path.dirname(path), LABELS_FILE)
    names = read_label_names(labels_file)
    if all(re.fullmatch(r"-?[0-9]+", row.label) for row in rows):
        most = len(names) if names else MOST_CLASSES
        labels = [_number(row, most, path) for row in rows]
        numbers = tuple(map(str, range(max(labels) + 1)))
        return labels, names or numbers, names is None
    classes = number_classes({row.label for row in rows}, path)
    if names is None:
        return [classes[row.label] for row in rows], tuple(map(plain_name, classes)), False
    known = {plain_name(name): label for label, name in enumerate(names)}
    for row in rows:
        if plain_name(row.label) not in known:
            raise DataError(
                f"Line {row.line} of {path} has the class {shown(row.label)}, which {labels_file} "
                "does not name; add it there, correct it, or remove that file."
            )
    return [known[plain_name(row.label)] for row in rows], names, False


def _number(row, most, path):
    # Python refuses to make an int of thousands of digits.
    digits = row.label.lstrip("0") or "0"
    if len(digits) > len(str(MOST_CLASSES)) or not 0 <= int(digits) < most:
        raise DataError(
            f"Line {row.line} of {path} has the label {shown(row.label)}; it must be 0 to "
            f"{most - 1}."
        )
    return int(digits)


def _check_files(paths, labels, rows, source):
    first = {}
    for row, file, label in zip(rows, paths, labels, strict=True):
        before, other = first.setdefault(file, (row, label))
        if other != label:
            raise DataError(
                f"Lines {before.line} and {row.line} of {source} give {shown(row.file)} different "
                "labels; correct one of them."
            )
    with ThreadPool(_THREADS) as pool:
        exist = pool.map(os.path.isfile, paths)
    missing = [row for row, there in zip(rows, exist, strict=True) if not there]
    if missing:
        raise DataError(
            f"{len(missing)} files of {source} do not exist: "
            f"{few([row.file for row in missing])} (line {missing[0].line}); files are relative to "
            "the folder of the list."
        )
