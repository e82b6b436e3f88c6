"""Which image files are for validation, where nobody has said so: a rule of their content alone.

A rule of names would put two copies of a photograph on both sides, and then a network is validated
on what it was trained with.
"""

import hashlib
import os
from multiprocessing.pool import ThreadPool

from absl import logging

from slim_mp.errors import DataError
from slim_mp.files.input_files import few, reading

# The share of all files, on average; a file's side depends on no other file and no machine.
VALIDATION_SHARE = 0.1
TRAIN, VALIDATION = "train", "validation"

# What is read of each end of a file. Files that agree in their size and there count as the same.
_END_BYTES = 16 * 1024
_THREADS = 16
# From this many files on, reading them all at each start takes long enough to be worth a word.
_MANY_FILES = 20_000


def fingerprint(path):
    """Returns a number that depends on the size and both ends of the content of a file.

    Args:
      path: the file.

    Returns:
      An int in [0, 2**64), the same for all copies of the file (BLAKE2b, RFC 7693).

    Raises:
      DataError: if it cannot be read.
    """
    with reading(path), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(_END_BYTES)
        if size > 2 * _END_BYTES:
            file.seek(-_END_BYTES, os.SEEK_END)
        content += file.read(_END_BYTES)
    digest = hashlib.blake2b(size.to_bytes(8, "big") + content, digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def split_by_content(paths, labels, split, source):
    """Chooses the files of a split, so that copies of a file are never on both sides.

    Args:
      paths: paths of all files.
      labels: the class of each.
      split: `train` or `validation`.
      source: the folder or list that the files are from, for messages.

    Returns:
      The indices of the files of the split, a list in rising order.

    Raises:
      DataError: if there is no such split, a file cannot be read or a side would be empty.
    """
    if split not in (TRAIN, VALIDATION):
        raise DataError(
            f"{source} does not say which images are for which split, so they are divided into "
            f"{TRAIN} and {VALIDATION} by their content, and there is no split {split!r}: choose "
            "one of the two (--dataset_split_name)."
        )
    if len(paths) >= _MANY_FILES:
        logging.info(
            "Reading a part of %d files to divide them into train and validation; folders of these "
            "names, or a column 'split' in a list, spare that at each start.",
            len(paths),
        )
    with ThreadPool(_THREADS) as pool:
        fingerprints = pool.map(fingerprint, paths)
    _warn_of_copies(fingerprints, paths, labels)
    sides = {TRAIN: [], VALIDATION: []}
    for index, number in enumerate(fingerprints):
        sides[VALIDATION if number < VALIDATION_SHARE * 2**64 else TRAIN].append(index)
    for side, indices in sides.items():
        if not indices:
            raise DataError(
                f"{source} has {len(paths)} images, and none of them is for {side} when they are "
                f"divided by their content ({VALIDATION_SHARE:.0%} for {VALIDATION}): add images, "
                f"or divide them yourself, into folders {TRAIN} and {VALIDATION} or by a column "
                "'split' in a list."
            )
    return sides[split]


def _warn_of_copies(fingerprints, paths, labels):
    first, copies = {}, []
    for number, path, label in zip(fingerprints, paths, labels, strict=True):
        if first.setdefault(number, (path, label))[1] != label:
            copies.append(f"{_short(first[number][0])} and {_short(path)}")
    if copies:
        logging.warning(
            "%d image files have a copy in another class: %s.", len(copies), few(copies, most=3)
        )


def _short(path):
    """A file and its folder, which says more than the beginning of a long path."""
    return os.path.join(os.path.basename(os.path.dirname(path)), os.path.basename(path))
