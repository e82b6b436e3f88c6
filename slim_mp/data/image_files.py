"""Images that are files of their own: in a folder with one sub-folder a class, or in a list.

The same paths and labels go into training, evaluation and the conversion to record files.
"""

import dataclasses
import os
from multiprocessing.pool import ThreadPool

from absl import logging

from slim_mp.data import image_folders
from slim_mp.data.image_lists import classes_of, is_list, read_rows
from slim_mp.data.image_split import TRAIN, VALIDATION, split_by_content
from slim_mp.data.label_names import number_classes, plain_name
from slim_mp.errors import DataError
from slim_mp.files.input_files import few, reading, shown

_THREADS = 16
_SIZES_TO_LOOK_AT = 200


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

    def estimated_bytes(self):
        """Returns about how many bytes all files hold together, from the sizes of some of them.

        Raises:
          DataError: if a file that is looked at does not exist.
        """
        some = self.paths[:: max(1, len(self.paths) // _SIZES_TO_LOOK_AT)]
        total = 0
        for path in some:
            with reading(path):
                total += os.path.getsize(path)
        return total * len(self.paths) // len(some)


def splits_of(source):
    """Returns the splits that the images of a folder or a list are divided into, a list.

    Args:
      source: a folder as for `from_folder`, or a list as for `from_list`.

    Raises:
      DataError: if it cannot be read.
    """
    if is_list(source) and not os.path.isdir(source):
        named = {row.split for row in read_rows(source)} - {None}
        splits = set(map(image_folders.split_of, named))
    else:
        splits = set(image_folders.split_folders(source))
        if splits == {TRAIN}:
            splits = set()
    return sorted(splits or {TRAIN, VALIDATION}, key=_usual_order)


def _usual_order(split):
    return (split != TRAIN, split == image_folders.TEST, split)


def from_folder(directory, split):
    """Finds the images of a folder with one sub-folder a class, as torchvision's ImageFolder does.

    The folder may be divided into folders of splits first: `train`, `validation` (also `val` or
    `valid`) and `test`, see `image_folders.split_folders`. Those with images for training give the
    classes. Otherwise the images are divided into `train` and `validation` by their content.

    Args:
      directory: the folder.
      split: `train`, `validation` or `test`.

    Returns:
      The `ImageFiles`, class after class, of all images at any depth below the folders of the
      classes. The classes are the sub-folders, sorted by name.

    Raises:
      DataError: if there are fewer than two classes, two that are told apart by case only, classes
        in one split that are not in the other, or no images of the split, or what is there cannot
        be read.
    """
    directory, split = os.fspath(directory), image_folders.split_of(split)
    folders = image_folders.split_folders(directory)
    if folders and set(folders) != {TRAIN}:
        return _from_split_folder(directory, folders, split)
    base = folders.get(TRAIN, directory)
    label_names = _classes_in(base)
    images = _images_in(base, label_names)
    return _chosen(images, split_by_content(images.paths, images.labels, split, base), base)


def _from_split_folder(directory, folders, split):
    if split not in folders:
        raise DataError(
            f"{directory} has no folder for the split {split!r}; it has {few(sorted(folders))} "
            "(--dataset_split_name)."
        )
    label_names = _classes_in(folders.get(TRAIN, folders[split]))
    if TRAIN in folders:
        _check_unknown_classes(folders, split, label_names)
    images = _images_in(folders[split], label_names)
    return _chosen(images, range(len(images.paths)), folders[split])


def _classes_in(folder):
    """The names of the classes, of which there are at least two."""
    label_names = _class_names_in(folder)
    if not label_names:
        raise DataError(
            f"{folder} has no sub-folders; put the images of each class into a sub-folder of its "
            "own, or list files and labels in a .csv file (--dataset_dir)."
        )
    if len(label_names) == 1:
        only = os.path.join(folder, label_names[0])
        raise DataError(
            f"{folder} has a single class, {shown(label_names[0])}, and there is nothing to learn "
            f"from it; add folders of other classes, or, if the classes are in {only}, give that "
            "folder (--dataset_dir)."
        )
    return label_names


def _class_names_in(folder):
    return tuple(map(plain_name, number_classes(image_folders.sub_folders(folder), folder)))


def _check_unknown_classes(folders, split, label_names):
    """Refuses classes that training would not know of."""
    # That of validation now, rather than after the training.
    for folder in {folders[split], folders.get(VALIDATION, folders[split])}:
        unknown = sorted(set(_class_names_in(folder)) - set(label_names))
        if unknown:
            raise DataError(
                f"{folder} has classes that {folders[TRAIN]} lacks: {few(unknown)}; both must have "
                "the same sub-folders. Rename them, or add the missing ones."
            )


def _images_in(folder, label_names):
    numbers = {name: label for label, name in enumerate(label_names)}
    paths, labels, others = [], [], image_folders.files_beside(folder)
    for name in sorted(image_folders.sub_folders(folder), key=plain_name):
        found, ignored = image_folders.images_below(os.path.join(folder, name))
        paths += found
        labels += [numbers[plain_name(name)]] * len(found)
        others += ignored
    image_folders.say_what_is_left_out(folder, others)
    if not paths:
        raise DataError(
            f"{folder} has no images in its sub-folders; put the images of each class into a "
            "sub-folder of its own."
        )
    return ImageFiles(tuple(paths), tuple(labels), label_names)


def _chosen(images, indices, source):
    """The part of some images that is a split; warns of classes that the split lacks."""
    labels = tuple(images.labels[index] for index in indices)
    there = set(labels)
    lacking = [name for label, name in enumerate(images.label_names) if label not in there]
    if lacking:
        logging.warning(
            "%s has no images for this split of these classes: %s.", source, few(lacking)
        )
    paths = tuple(images.paths[index] for index in indices)
    return dataclasses.replace(images, paths=paths, labels=labels)


def from_list(path, split):
    """Finds the images of a list.

    Args:
      path: a .csv or .jsonl file, see `image_lists.read_rows`. Files are relative to its folder. If
        all labels are numbers, they are the labels; otherwise they are the names of the classes,
        numbered as in the labels.txt beside the list, or else in their order.
      split: a split that the list names, or, if it names none, `train` or `validation`.

    Returns:
      The `ImageFiles`, in the order of the list.

    Raises:
      DataError: if the list cannot be used, has no such split, or files are missing.
    """
    path, split = os.fspath(path), image_folders.split_of(split)
    rows = read_rows(path)
    labels, label_names, only_numbers = classes_of(rows, path)
    _check_classes(label_names, only_numbers, path)
    paths = [os.path.normpath(os.path.join(os.path.dirname(path), row.file)) for row in rows]
    _check_files(paths, labels, rows, path)
    images = ImageFiles(tuple(paths), tuple(labels), label_names, only_numbers)
    if rows[0].split is None:
        return _chosen(images, split_by_content(paths, labels, split, path), path)
    splits = [image_folders.split_of(row.split) for row in rows]
    if split not in splits:
        raise DataError(
            f"{path} has no images of the split {split!r}; its splits are: "
            f"{few(sorted(set(splits)))} (--dataset_split_name)."
        )
    return _chosen(images, [index for index, one in enumerate(splits) if one == split], path)


def _check_classes(label_names, only_numbers, path):
    # Where there are only numbers, there may be classes that this list has no image of.
    if len(label_names) < 2 and not only_numbers:
        raise DataError(
            f"{path} has a single class, {shown(label_names[0])}, and there is nothing to learn "
            "from it; add images of other classes."
        )


def _check_files(paths, labels, rows, path):
    first = {}
    for row, file, label in zip(rows, paths, labels, strict=True):
        before, other = first.setdefault(file, (row, label))
        if other != label or before.split != row.split:
            what = "labels" if other != label else "splits"
            raise DataError(
                f"Lines {before.line} and {row.line} of {path} give {shown(row.file)} different "
                f"{what}; correct one of them."
            )
    with ThreadPool(_THREADS) as pool:
        exist = pool.map(os.path.isfile, paths)
    missing = [row for row, there in zip(rows, exist, strict=True) if not there]
    if missing:
        raise DataError(
            f"{len(missing)} of the {len(rows)} files of {path} do not exist: "
            f"{few([shown(row.file, most=78) for row in missing])}; the first is in line "
            f"{missing[0].line}. Correct their paths, which begin at the folder of the list."
        )
