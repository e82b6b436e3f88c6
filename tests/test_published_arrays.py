"""Files that are not what CIFAR-10 and MNIST are published as, or worse."""

import gzip
import os
import pickle

import numpy as np
import pytest
from made_archives import CIFAR, MNIST, batch, idx, pickled

from slim_mp.conversion import published_arrays
from slim_mp.errors import DataError

IMAGES, LABELS = CIFAR["test_batch"]
BAD_BATCHES = {
    "empty": b"",
    "cut off": batch(IMAGES, LABELS)[:-1],
    "list": pickled([1, 2]),
    "no labels": pickled({b"data": IMAGES}),
    "label": batch(IMAGES, [1, 2, 3, 10]),
    "no number": batch(IMAGES, [1, 2, 3, b"4"]),
    "number of labels": batch(IMAGES, LABELS[1:]),
    "dtype": batch(IMAGES.astype(int), LABELS),
    "size": batch(IMAGES[:, 1:], LABELS),
}


def test_a_batch_is_read(tmp_path):
    (tmp_path / "batch").write_bytes(batch(IMAGES, LABELS))
    images, labels = published_arrays.read_cifar_batch(str(tmp_path / "batch"))
    assert images.shape == (4, 32, 32, 3)
    # The bytes are all red ones, then all green ones, row by row.
    np.testing.assert_array_equal(images[1, 2, 3], IMAGES[1, [67, 1024 + 67, 2048 + 67]])
    assert labels.tolist() == LABELS


@pytest.mark.parametrize("kind", BAD_BATCHES)
def test_a_file_that_is_no_batch_is_said(tmp_path, kind):
    (tmp_path / "batch").write_bytes(BAD_BATCHES[kind])
    with pytest.raises(DataError, match=r"batch is no batch of CIFAR-10"):
        published_arrays.read_cifar_batch(str(tmp_path / "batch"))


class RunsCode:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_pickle_cannot_run_code(tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps({"data": RunsCode(tmp_path / "was here")}, protocol=2))
    with pytest.raises(DataError, match=r"asks for 'posix\.mkdir'"):
        published_arrays.read_cifar_batch(str(path))
    assert os.listdir(tmp_path) == ["batch"]
    pickle.loads(path.read_bytes())
    assert (tmp_path / "was here").exists()


DIGITS, NUMBERS = MNIST["train"]
BAD_PAIRS = {
    "cut off": (idx(DIGITS)[:-9], idx(NUMBERS), "images cannot be unpacked"),
    "no gzip": (b"no gzip", idx(NUMBERS), "images cannot be unpacked"),
    "a byte short": (
        gzip.compress(gzip.decompress(idx(DIGITS))[:-1]),
        idx(NUMBERS),
        "images is no IDX file",
    ),
    "empty": (gzip.compress(b""), idx(NUMBERS), "images is no IDX file"),
    "labels twice": (idx(NUMBERS), idx(NUMBERS), "images is no IDX file of bytes in 3 dimensions"),
    "numbers": (idx(DIGITS[:5]), idx(NUMBERS), "images holds 5 images, but .*labels 7 labels"),
    "labels": (idx(DIGITS), idx(NUMBERS + 10), "labels holds the label 1"),
}


@pytest.mark.parametrize("kind", BAD_PAIRS)
def test_files_that_are_not_mnist_are_said(tmp_path, kind):
    images, labels, said = BAD_PAIRS[kind]
    for name, content in (("images", images), ("labels", labels)):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        published_arrays.read_mnist(str(tmp_path / "images"), str(tmp_path / "labels"))
