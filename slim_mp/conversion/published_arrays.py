"""Reads the files that CIFAR-10 and MNIST are published as, without trusting what is in them.

Sources: https://www.cs.toronto.edu/~kriz/cifar.html and the description of the IDX format that
MNIST was published with.
"""

import gzip
import math
import pickle
import zlib

import numpy as np

from slim_mp.errors import DataError
from slim_mp.files.input_files import shown

NUM_CLASSES = 10

_CIFAR_CHANNELS, _CIFAR_SIZE = 3, 32
_IDX_UNSIGNED_BYTE = 8

# What a pickled array is put together with; everything else could run code.
_RECONSTRUCT = np.empty(0).__reduce__()[0]
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickles numbers, text, lists, dicts and arrays, and nothing that is called by a name."""

    def find_class(self, module, name):
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {shown(f'{module}.{name}')}")
        return _ALLOWED[module, name]


def read_cifar_batch(path):
    """Reads a batch of CIFAR-10, a Python 2 pickle of a dict.

    Args:
      path: a file such as data_batch_1.

    Returns:
      (images, labels): uint8 [n, 32, 32, 3], and int [n] in [0, 10).

    Raises:
      DataError: if it holds anything else; nothing in it is ever called.
    """
    try:
        with open(path, "rb") as file:
            content = _ArrayUnpickler(file, encoding="bytes").load()
    except Exception as error:  # a damaged pickle can fail in any way
        raise DataError(
            f"{path} is no batch of CIFAR-10 ({str(error)[:200] or type(error).__name__}); remove "
            "the archive and download it again."
        ) from error
    content = content if isinstance(content, dict) else {}
    images, labels = content.get(b"data"), content.get(b"labels")
    row = _CIFAR_CHANNELS * _CIFAR_SIZE**2
    is_right = (
        isinstance(images, np.ndarray)
        and images.dtype == np.uint8
        and images.shape[1:] == (row,)
        and isinstance(labels, list)
        and len(labels) == len(images)
        and all(type(label) is int and 0 <= label < NUM_CLASSES for label in labels)
    )
    if not is_right:
        raise DataError(
            f"{path} is no batch of CIFAR-10: it does not hold rows of {row} bytes with labels of "
            f"0 to {NUM_CLASSES - 1}; remove the archive and download it again."
        )
    images = images.reshape(-1, _CIFAR_CHANNELS, _CIFAR_SIZE, _CIFAR_SIZE)
    return images.transpose(0, 2, 3, 1), np.array(labels, np.int64)


def read_mnist(images_path, labels_path):
    """Reads the images and labels of a split of MNIST, two gzipped IDX files.

    Args:
      images_path: a file such as train-images-idx3-ubyte.gz.
      labels_path: a file such as train-labels-idx1-ubyte.gz.

    Returns:
      (images, labels): uint8 [n, h, w, 1], and int [n] in [0, 10).

    Raises:
      DataError: if they are no such files or do not belong together.
    """
    images, labels = _read_idx(images_path, 3), _read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise DataError(
            f"{images_path} holds {len(images)} images, but {labels_path} {len(labels)} labels; "
            "remove both and download them again."
        )
    if labels.size and labels.max() >= NUM_CLASSES:
        raise DataError(
            f"{labels_path} holds the label {labels.max()}; digits are 0 to {NUM_CLASSES - 1}. "
            "Remove it and download it again."
        )
    return images[..., np.newaxis], labels.astype(np.int64)


def _read_idx(path, dimensions):
    """The array of bytes in a gzipped IDX file."""
    try:
        with gzip.open(path) as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be unpacked ({error}); download it again.") from error
    header = 4 * (1 + dimensions)
    start = bytes([0, 0, _IDX_UNSIGNED_BYTE, dimensions])
    if content.startswith(start) and len(content) >= header:
        sizes = np.frombuffer(content[len(start) : header], ">u4").tolist()
        if len(content) == header + math.prod(sizes):
            return np.frombuffer(content, np.uint8, offset=header).reshape(sizes)
    raise DataError(
        f"{path} is no IDX file of bytes in {dimensions} dimensions, or is cut off; remove it and "
        "download it again."
    )
