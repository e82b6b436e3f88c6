"""What flowers, CIFAR-10 and MNIST are published as, and how TF-Slim's tools lay them out."""

import dataclasses
import os
import random
from collections.abc import Callable

import numpy as np
from tqdm import tqdm

from slim_mp.compat import tf
from slim_mp.conversion.convert import log_turned, write_split
from slim_mp.conversion.image_records import ImageRecords
from slim_mp.conversion.published_arrays import read_cifar_batch, read_mnist
from slim_mp.conversion.record_writer import make_example
from slim_mp.data.image_files import ImageFiles
from slim_mp.data.image_folders import images_below, sub_folders
from slim_mp.errors import DataError
from slim_mp.files.unpack import unpack

# The flag that gives the folder of all that is written here, for errors.
FLAG = "dataset_dir"

_FLOWERS_SHARDS = 5
_FLOWERS_SEED = 0
# Of the 3670 photographs, slim's tool keeps 350 for validation.
_FLOWERS_VALIDATION_SHARE = 350 / 3670
_CIFAR_BATCHES = {
    "train": [f"data_batch_{number}" for number in range(1, 6)],
    "test": ["test_batch"],
}
_CIFAR_NAMES = "airplane automobile bird cat deer dog frog horse ship truck"
_MNIST_NAMES = "zero one two three four five six seven eight nine"
_MNIST_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"


@dataclasses.dataclass(frozen=True)
class Download:
    """A published file.

    Attributes:
      url: its address.
      sha256: its SHA-256.
    """

    url: str
    sha256: str

    @property
    def file(self):
        """Its name."""
        return self.url.rsplit("/", 1)[1]


@dataclasses.dataclass(frozen=True)
class PublishedSet:
    """A published set of images.

    Attributes:
      downloads: its files, a tuple of `Download`.
      label_names: the name of each class.
      splits: the splits.
      write: function of a `record_writer.NewSet`, the paths of the downloads and the number of
        workers, that writes the record files and returns a dict of split to number of images.
    """

    downloads: tuple
    label_names: tuple
    splits: tuple
    write: Callable


def _write_flowers(new_set, paths, num_workers):
    folder = os.path.join(new_set.scratch, "photographs")
    unpack(paths[0], folder, _check_flowers, FLAG, DataError)
    (top,) = sub_folders(folder)
    base = os.path.join(folder, top)
    files = [
        (path, label)
        for label, name in enumerate(_FLOWERS.label_names)
        for path in images_below(os.path.join(base, name))[0]
    ]
    # Of the module random, only this function is promised to stay as it is.
    draw = random.Random(_FLOWERS_SEED).random
    files.sort(key=lambda _: draw())
    held_out = max(1, round(len(files) * _FLOWERS_VALIDATION_SHARE))
    parts = {"train": files[held_out:], "validation": files[:held_out]}
    with ImageRecords(num_workers) as records:
        counts = {}
        for split, part in parts.items():
            images = ImageFiles(*zip(*part, strict=True), _FLOWERS.label_names)
            counts[split] = write_split(
                new_set, records, ("flowers", split), images, base, _FLOWERS_SHARDS
            )
    log_turned(records.num_turned)
    return counts


def _check_flowers(folder):
    found = [sub_folders(os.path.join(folder, top)) for top in sub_folders(folder)]
    if found != [list(_FLOWERS.label_names)]:
        raise DataError(
            f"The archive of flowers does not hold a folder with the folders "
            f"{', '.join(_FLOWERS.label_names)}; remove it and download it again."
        )


def _write_cifar10(new_set, paths, _):
    folder = os.path.join(new_set.scratch, "batches")
    unpack(paths[0], folder, _check_cifar10, FLAG, DataError)
    (top,) = sub_folders(folder)
    counts = {}
    for split, files in _CIFAR_BATCHES.items():
        batches = [read_cifar_batch(os.path.join(folder, top, file)) for file in files]
        images, labels = map(np.concatenate, zip(*batches, strict=True))
        counts[split] = _write_arrays(new_set, f"cifar10_{split}.tfrecord", images, labels)
    return counts


def _check_cifar10(folder):
    tops = sub_folders(folder)
    there = os.listdir(os.path.join(folder, tops[0])) if len(tops) == 1 else []
    missing = {file for files in _CIFAR_BATCHES.values() for file in files} - set(there)
    if missing:
        raise DataError(
            f"The archive of CIFAR-10 does not hold a folder with {', '.join(sorted(missing))}; "
            "remove it and download it again."
        )


def _write_mnist(new_set, paths, _):
    return {
        split: _write_arrays(new_set, f"mnist_{split}.tfrecord", *read_mnist(*pair))
        for split, pair in (("train", paths[:2]), ("test", paths[2:]))
    }


def _write_arrays(new_set, file, images, labels):
    """Writes images of one size as PNG files, in their order; returns their number."""
    height, width = images.shape[1:3]
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={"GPU": 0})) as run:
        pixels = tf.placeholder(tf.uint8, images.shape[1:])
        encode = run.make_callable(tf.io.encode_png(pixels), [pixels])
        examples = zip(images, labels.tolist(), strict=True)
        return new_set.write_records(
            file,
            (
                make_example(encode(image), b"png", label, height, width)
                for image, label in tqdm(examples, file, len(images), unit="image", disable=None)
            ),
        )


_FLOWERS = PublishedSet(
    (
        Download(
            "http://download.tensorflow.org/example_images/flower_photos.tgz",
            "4c54ace7911aaffe13a365c34f650e71dd5bf1be0a58b464e5a7183e3e595d9c",
        ),
    ),
    ("daisy", "dandelion", "roses", "sunflowers", "tulips"),
    ("train", "validation"),
    _write_flowers,
)
DATASETS = {
    "flowers": _FLOWERS,
    "cifar10": PublishedSet(
        (
            Download(
                "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
                "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            ),
        ),
        tuple(_CIFAR_NAMES.split()),
        ("train", "test"),
        _write_cifar10,
    ),
    "mnist": PublishedSet(
        (
            Download(
                _MNIST_URL + "train-images-idx3-ubyte.gz",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            Download(
                _MNIST_URL + "train-labels-idx1-ubyte.gz",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            Download(
                _MNIST_URL + "t10k-images-idx3-ubyte.gz",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            Download(
                _MNIST_URL + "t10k-labels-idx1-ubyte.gz",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
        tuple(_MNIST_NAMES.split()),
        ("train", "test"),
        _write_mnist,
    ),
}
