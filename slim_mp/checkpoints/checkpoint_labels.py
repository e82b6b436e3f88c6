"""What the classes of a checkpoint are called, as far as anything says it."""

import os

from absl import logging

from slim_mp.data import imagenet_names
from slim_mp.data.label_names import LABELS_FILE, read_label_names
from slim_mp.errors import DataError


def label_names(known, num_classes, labels_offset, folder=None):
    """Finds the names of a checkpoint's classes.

    They are, in this order, those of the labels.txt that the user names, those that its run wrote
    beside it, those of a labels.txt beside it, or, for a published checkpoint, those of ImageNet. A
    line of the log says which.

    Args:
      known: a `checkpoint_defaults.Known`.
      num_classes: classes of the network.
      labels_offset: how many labels of a labels.txt the network has no class for.
      folder: folder of a labels.txt that goes before all else, or None.

    Returns:
      A tuple of str, one for each class of the network; their numbers where nothing says more.

    Raises:
      DataError: if a labels.txt cannot be read or has another number of classes, or `folder` has
        none.
    """
    numbers = tuple(map(str, range(num_classes)))
    names, source = _find(known, num_classes, labels_offset, folder)
    if names is None:
        logging.info("Nothing says what the classes are called; they go by their numbers.")
        return numbers
    logging.info("Names of the classes: %s.", source)
    # A name may be missing, and must be a line of its own in a file of names.
    clean = (" ".join(name.split()) for name in names)
    return tuple(name or number for name, number in zip(clean, numbers, strict=True))


def _find(known, num_classes, labels_offset, folder):
    if folder is not None:
        path = os.path.join(os.path.expanduser(folder), LABELS_FILE)
        names = _read(path, num_classes, labels_offset)
        if names is None:
            raise DataError(f"There is no {path} (--dataset_dir); name the classes there.")
        return names, path
    if known.label_names is not None and len(known.label_names) == num_classes:
        return known.label_names, known.source
    path = os.path.join(os.path.dirname(known.checkpoint), LABELS_FILE)
    names = _read(path, num_classes, labels_offset)
    if names is None and known.published:
        return imagenet_names.names_of_head(num_classes), f"ImageNet's, for {known.published}"
    return names, path


def _read(path, num_classes, labels_offset):
    names = read_label_names(path)
    if names is None or len(names) == num_classes:
        return names
    if len(names) != num_classes + labels_offset:
        raise DataError(
            f"{path} names {len(names)} classes, but the network has {num_classes}; correct it, or "
            "give the folder of the right one (--dataset_dir)."
        )
    return names[labels_offset:]
