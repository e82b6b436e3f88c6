"""Small files in the formats that flowers, CIFAR-10 and MNIST are published in."""

import gzip
import io
import pickle
import struct
import tarfile
import typing

import numpy as np
from toy_records import encode

RANDOM = np.random.RandomState(0)
FLOWERS = ("daisy", "dandelion", "roses", "sunflowers", "tulips")
BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


class _Python2Pickler(pickle._Pickler):
    """Writes bytes as Python 2 wrote its strings, which the pickles of CIFAR-10 are full of."""

    def _save_bytes(self, content):
        self.write(pickle.BINSTRING + struct.pack("<i", len(content)) + content)

    dispatch: typing.ClassVar = {**pickle._Pickler.dispatch, bytes: _save_bytes}


def pickled(content):
    file = io.BytesIO()
    _Python2Pickler(file, protocol=2).dump(content)
    return file.getvalue()


def tar(members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(header + array.tobytes())


def batch(images, labels):
    return pickled({b"batch_label": b"x", b"labels": labels, b"data": images, b"filenames": [b"a"]})


# Rows of bytes, or images, and their labels.
CIFAR = {
    name: (RANDOM.randint(0, 256, [4, 3072], np.uint8), RANDOM.randint(0, 10, 4).tolist())
    for name in BATCHES
}
MNIST = {
    name: (
        RANDOM.randint(0, 256, [count, 28, 28], np.uint8),
        RANDOM.randint(0, 10, count, np.uint8),
    )
    for name, count in (("train", 7), ("t10k", 3))
}
PHOTOS = {
    f"flower_photos/{name}/{number}_ä.jpg": encode(
        RANDOM.randint(0, 256, [8, 9, 3], np.uint8), "JPEG"
    )
    for name in FLOWERS
    for number in range(8)
}


def cifar_archive(**changes):
    """The archive, with other contents of some batches."""
    batches = {name: batch(*content) for name, content in CIFAR.items()} | changes
    return tar({f"cifar-10-batches-py/{name}": content for name, content in batches.items()})


# What a server of all three serves.
BODIES = {
    "/flower_photos.tgz": tar({"flower_photos/LICENSE.txt": b"by", **PHOTOS}),
    "/cifar-10-python.tar.gz": cifar_archive(),
    **{
        f"/{name}-{what}.gz": idx(array)
        for name, pair in MNIST.items()
        for what, array in zip(("images-idx3-ubyte", "labels-idx1-ubyte"), pair, strict=True)
    },
}
