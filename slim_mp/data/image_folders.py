"""Folders of images as they lie on a disk: what is a class, a split, an image or none of these."""

import os
import pathlib

from absl import logging

from slim_mp.data.image_split import TRAIN, VALIDATION
from slim_mp.errors import DataError
from slim_mp.files.input_files import few, reading, shown

TEST = "test"

# Endings of the files that TensorFlow decodes; the content then decides which decoder it is.
_IMAGE_ENDINGS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp")
# What such files begin with, for those whose name has no ending.
_IMAGE_STARTS = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM")
# Endings of images that TensorFlow does not decode.
_OTHER_IMAGE_ENDINGS = (".webp", ".tif", ".tiff", ".heic", ".heif", ".avif", ".jp2", ".svg", ".psd")
# What desktops and archives leave behind, besides names that begin with a dot.
_LEFT_BEHIND = {"thumbs.db", "ehthumbs.db", "desktop.ini", "__macosx", "@eadir", "lost+found"}
_SPLIT_NAMES = {
    TRAIN: TRAIN,
    "training": TRAIN,
    VALIDATION: VALIDATION,
    "val": VALIDATION,
    "valid": VALIDATION,
    TEST: TEST,
    "testing": TEST,
}


def split_of(name):
    """Returns the split that a folder, a list or a user calls by this name: val is validation."""
    return _SPLIT_NAMES.get(name.lower(), name)


def sub_folders(directory):
    """Returns the names of the folders in a folder, sorted, without what is hidden.

    Raises:
      DataError: if it cannot be read.
    """
    return [name for name, _, is_folder in _entries(directory) if is_folder]


def files_beside(directory):
    """Returns the names of the files that lie in a folder itself, sorted.

    Raises:
      DataError: if it cannot be read.
    """
    return [name for name, _, is_folder in _entries(directory) if not is_folder]


def _entries(folder):
    """Name, path and whether it is a folder, of what lies in a folder, sorted by name."""
    with reading(folder), os.scandir(folder) as entries:
        visible = [entry for entry in entries if not _is_left_behind(entry.name)]
    for entry in visible:
        if entry.is_symlink():
            _identity(entry.path)
    # A pipe or a socket would be waited for without end.
    visible = [entry for entry in visible if entry.is_dir() or entry.is_file()]
    return sorted((entry.name, entry.path, entry.is_dir()) for entry in visible)


def _is_left_behind(name):
    return name[0] == "." or name.lower() in _LEFT_BEHIND


def _identity(path):
    """Device and inode of what a path leads to; a DataError if it leads nowhere."""
    with reading(path):
        status = os.stat(path)
    return status.st_dev, status.st_ino


def _files_below(folder):
    """Name and path of each file below a folder; what links lead back to is not entered again."""
    above = pathlib.Path(folder).resolve().parents
    waiting, seen = [folder], set(map(_identity, above))
    while waiting:
        parent = waiting.pop()
        if _identity(parent) in seen:
            continue
        seen.add(_identity(parent))
        entries = _entries(parent)
        waiting += [path for _, path, is_folder in reversed(entries) if is_folder]
        yield from ((name, path) for name, path, is_folder in entries if not is_folder)


def _is_image(name, path):
    ending = os.path.splitext(name)[1].lower()
    if ending:
        return ending in _IMAGE_ENDINGS
    with reading(path), open(path, "rb") as file:
        return file.read(4).startswith(_IMAGE_STARTS)


def images_below(folder):
    """Finds the images at any depth below a folder, by their names.

    Args:
      folder: the folder. Links are followed; loops of links end.

    Returns:
      The paths of the images, sorted, and the names of the other files.

    Raises:
      DataError: if a folder cannot be read, or the name of an image is not text.
    """
    images, others = [], []
    for name, path in _files_below(folder):
        if _is_image(name, path):
            _check_text(path)
            images.append(path)
        else:
            others.append(name)
    return sorted(images), others


def _check_text(path):
    try:
        path.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"The name of the image {shown(os.fsencode(path), most=400)} is not UTF-8; rename it."
        ) from error


def holds_images(directory):
    """Returns whether there is an image below a sub-folder of a folder.

    Raises:
      DataError: if a folder cannot be read.
    """
    folders = (os.path.join(directory, name) for name in sub_folders(directory))
    return any(_is_image(*file) for folder in folders for file in _files_below(folder))


def split_folders(directory):
    """Finds the folders of the splits, where a folder holds those, and they hold the classes.

    That is so if there are folders of splits alone. With others beside them there must be one for
    training, which holds folders but no images, and one for another split: a class may be called
    `train`, too.

    Args:
      directory: the folder.

    Returns:
      A dict of split to path, empty if the folder is not divided.

    Raises:
      DataError: if a folder cannot be read, or two are for the same split.
    """
    names = sub_folders(directory)
    splits = [name for name in names if name.lower() in _SPLIT_NAMES]
    found = {split_of(name): os.path.join(directory, name) for name in splits}
    beside = [name for name in names if name not in splits]
    if beside and not (TRAIN in found and len(found) > 1 and _holds_classes(found[TRAIN])):
        return {}
    rivals = [name for name in splits if os.path.join(directory, name) not in found.values()]
    if rivals:
        other = os.path.basename(found[split_of(rivals[0])])
        raise DataError(
            f"{directory} has two folders for the same split, {rivals[0]} and {other}; put their "
            "images into one."
        )
    if beside:
        logging.warning(
            "%s is divided into %s; it is read without the folders beside them: %s.",
            directory,
            " and ".join(sorted(found)),
            few(beside),
        )
    return found


def _holds_classes(folder):
    """Whether there are folders, but no images beside them."""
    entries = _entries(folder)
    has_images = any(_is_image(name, path) for name, path, is_folder in entries if not is_folder)
    return any(is_folder for *_, is_folder in entries) and not has_images


def say_what_is_left_out(directory, names):
    """Logs one line about files that are not read.

    Args:
      directory: the folder that is read.
      names: names of the files below it that are no images by their names.
    """
    foreign = [name for name in names if name.lower().endswith(_OTHER_IMAGE_ENDINGS)]
    if foreign:
        logging.warning(
            "%s: %d images are left out, since TensorFlow cannot read their format; convert them "
            "to JPEG or PNG: %s.",
            directory,
            len(foreign),
            few(foreign),
        )
    others = [name for name in names if not name.lower().endswith(_OTHER_IMAGE_ENDINGS)]
    if others:
        logging.info(
            "%s: ignored %d files that are not images by their names: %s.",
            directory,
            len(others),
            few(others),
        )
