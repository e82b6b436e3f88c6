"""flowers, cifar10 and mnist from a server on this machine, with small files of the same format."""

import dataclasses
import hashlib
import io
import os

import numpy as np
import programs
import pytest
from made_archives import BATCHES, BODIES, CIFAR, FLOWERS, MNIST, PHOTOS, cifar_archive, tar
from photo_sets import examples
from PIL import Image
from web_server import serve

from slim_mp import data
from slim_mp.conversion import published_sets
from slim_mp.files import download

PROGRAM = "download_and_convert_data"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(download, "PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def site():
    with serve(dict(BODIES)) as site:
        yield site


@pytest.fixture
def trust(monkeypatch):
    """A function that puts the hashes of what a site serves in the place of the published ones."""

    def trust(site, name):
        published = published_sets.DATASETS[name]
        downloads = tuple(
            dataclasses.replace(one, sha256=hashlib.sha256(site.body["/" + one.file]).hexdigest())
            for one in published.downloads
        )
        changed = dataclasses.replace(published, downloads=downloads)
        monkeypatch.setitem(published_sets.DATASETS, name, changed)

    return trust


def call(site, name, folder):
    return programs.call(
        PROGRAM, f"--dataset_name={name}", f"--dataset_dir={folder}", f"--mirror={site.url}/"
    )


def pixels_and_labels(folder, pattern):
    found = []
    for path in sorted(folder.glob(pattern)):
        for features in examples(path):
            encoded = features["image/encoded"].bytes_list.value[0]
            label = features["image/class/label"].int64_list.value[0]
            found.append((np.asarray(Image.open(io.BytesIO(encoded))), label, features))
    return found


def test_the_published_files_are_known_by_their_hashes():
    for published in published_sets.DATASETS.values():
        for one in published.downloads:
            assert len(bytes.fromhex(one.sha256)) == 32
            assert one.url.startswith(("http://download.tensorflow.org/", "https://"))


def test_cifar10_is_laid_out_as_slim_does(site, trust, tmp_path):
    trust(site, "cifar10")
    code, out, err = call(site, "cifar10", tmp_path)
    assert (code, err) == (0, "")
    assert out == f"wrote 24 images of 10 classes: 20 train, 4 test in {tmp_path}\n"
    assert (tmp_path / "labels.txt").read_text().startswith("0:airplane\n1:automobile\n2:bird\n")
    for split, names in (("train", BATCHES[:5]), ("test", BATCHES[5:])):
        assert data.open_dataset("cifar10", split, tmp_path).num_examples == 4 * len(names)
        found = pixels_and_labels(tmp_path, f"cifar10_{split}.tfrecord")
        rows = np.concatenate([CIFAR[name][0] for name in names])
        labels = [label for name in names for label in CIFAR[name][1]]
        assert [label for _, label, _ in found] == labels
        for (image, _, features), row in zip(found, rows, strict=True):
            np.testing.assert_array_equal(image, np.moveaxis(row.reshape(3, 32, 32), 0, -1))
            assert features["image/format"].bytes_list.value[0] == b"png"
            assert features["image/height"].int64_list.value[0] == 32


def test_mnist_is_laid_out_as_slim_does(site, trust, tmp_path):
    trust(site, "mnist")
    code, out, err = call(site, "mnist", tmp_path)
    assert (code, err) == (0, "")
    assert out == f"wrote 10 images of 10 classes: 7 train, 3 test in {tmp_path}\n"
    assert (tmp_path / "labels.txt").read_text().startswith("0:zero\n1:one\n")
    for split, name in (("train", "train"), ("test", "t10k")):
        found = pixels_and_labels(tmp_path, f"mnist_{split}.tfrecord")
        images, labels = MNIST[name]
        assert [label for _, label, _ in found] == labels.tolist()
        np.testing.assert_array_equal([image for image, *_ in found], images)
        assert data.open_dataset("mnist", split, tmp_path).num_examples == len(images)


def test_flowers_are_laid_out_as_slim_does(site, trust, tmp_path):
    trust(site, "flowers")
    code, out, err = call(site, "flowers", tmp_path)
    assert (code, err) == (0, "")
    # 350 of 3670, to the nearest whole number.
    assert out == f"wrote 40 images of 5 classes: 36 train, 4 validation in {tmp_path}\n"
    names = [f"flowers_train_0000{number}-of-00005.tfrecord" for number in range(5)]
    assert sorted(path.name for path in tmp_path.glob("flowers_train*")) == names
    found = pixels_and_labels(tmp_path, "flowers_*.tfrecord")
    written = {}
    for _, label, features in found:
        name = features["image/filename"].bytes_list.value[0].decode()
        assert name.split("/")[0] == FLOWERS[label]
        written["flower_photos/" + name] = features["image/encoded"].bytes_list.value[0]
    assert written == PHOTOS
    for split, count in (("train", 36), ("validation", 4)):
        dataset = data.open_dataset("flowers", split, tmp_path)
        assert (dataset.num_examples, dataset.label_names) == (count, FLOWERS)
    assert not list(tmp_path.glob(".*"))


def test_a_download_that_breaks_goes_on_where_it_stopped(site, trust, tmp_path):
    trust(site, "cifar10")
    site.cut_after = [1000, 2000]
    assert call(site, "cifar10", tmp_path)[0] == 0
    ranges = [wanted for _, wanted in site.requests]
    assert ranges == [None, "bytes=1000-", "bytes=3000-"]


def test_a_set_that_is_there_is_left_as_it_is(site, trust, tmp_path):
    trust(site, "mnist")
    assert call(site, "mnist", tmp_path)[0] == 0
    asked = len(site.requests)
    code, out, err = call(site, "mnist", tmp_path)
    assert (code, out, err) == (0, f"mnist is in {tmp_path} already: 7 train, 3 test\n", "")
    assert len(site.requests) == asked
    (tmp_path / ".moving-mnist").mkdir()
    (tmp_path / "mnist_test.tfrecord").rename(tmp_path / ".moving-mnist" / "mnist_test.tfrecord")
    # What a run that was killed while it moved its files has left is moved.
    assert call(site, "mnist", tmp_path) == (code, out, err)
    assert not list(tmp_path.glob(".*"))
    (tmp_path / "mnist_test.tfrecord").unlink()
    code, out, err = call(site, "mnist", tmp_path)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "If the files of 'mnist' are removed, they are written again." in err
    assert len(site.requests) == asked


def test_a_file_that_is_not_the_published_one_is_put_aside(site, tmp_path):
    code, out, err = call(site, "flowers", tmp_path)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "flower_photos.tgz is not the published file: its SHA-256 is " in err
    assert sorted(os.listdir(tmp_path)) == ["flower_photos.tgz.rejected", "run.lock"]


def test_a_folder_in_the_place_of_a_download_is_an_error_of_data(site, tmp_path):
    (tmp_path / "flower_photos.tgz").mkdir()
    code, out, err = call(site, "flowers", tmp_path)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "flower_photos.tgz cannot be read (Is a directory)" in err


def test_a_server_without_the_file_is_an_error_of_data(site, tmp_path):
    del site.body["/flower_photos.tgz"]
    code, out, err = call(site, "flowers", tmp_path)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "HTTP 404" in err and "--mirror" in err


BAD_ARCHIVES = {
    "cut off": (BODIES["/cifar-10-python.tar.gz"][:-500], "damaged, or no gzipped tar archive"),
    "web page": (b"<html>", "damaged, or no gzipped tar archive"),
    "other files": (tar({"cifar-10-batches-py/a": b""}), "not hold a folder with data_batch_1, "),
    "way out": (tar({"../data_batch_1": b"x"}), "a path that leads out of the folder"),
    "bad batch": (cifar_archive(test_batch=b""), "test_batch is no batch of CIFAR-10"),
}


@pytest.mark.parametrize("kind", BAD_ARCHIVES)
def test_an_archive_of_something_else_is_said_and_leaves_no_set(site, trust, tmp_path, kind):
    site.body["/cifar-10-python.tar.gz"], said = BAD_ARCHIVES[kind]
    trust(site, "cifar10")
    code, out, err = call(site, "cifar10", tmp_path)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert said in err
    assert sorted(os.listdir(tmp_path)) == ["cifar-10-python.tar.gz", "run.lock"]


def test_a_set_of_other_classes_in_the_folder_is_said_before_anything_is_downloaded(site, tmp_path):
    (tmp_path / "labels.txt").write_text("0:cat\n1:dog\n")
    code, out, err = call(site, "mnist", tmp_path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "labels.txt of other classes (cat, dog); give another --dataset_dir." in err
    assert not site.requests


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Give --dataset_name"),
        (["--dataset_name=flowers"], "Give --dataset_dir"),
        (["--dataset_name=imagenet"], "should be one of <flowers|cifar10|mnist>"),
        (["--dataset_name=mnist", "--dataset_dir={folder}", "--mirror=ftp://x"], "is no address"),
    ],
)
def test_what_is_missing_or_wrong_is_said_in_one_line(tmp_path, arguments, said):
    arguments = [argument.replace("{folder}", str(tmp_path)) for argument in arguments]
    code, out, err = programs.call(PROGRAM, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("download_and_convert_data.py: error: ") and said in err
