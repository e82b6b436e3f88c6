"""Datasets that TFDS has prepared: found and read as they were written, or refused in a line."""

import json
import os
import shutil
import sys

import numpy as np
import pytest
from toy_records import CONFIG, numbers_of, run_batches

from slim_mp import data
from slim_mp.data import tfds_sets
from slim_mp.errors import DataError, RequirementError

tfds = pytest.importorskip("tensorflow_datasets")

NAMES = ("rose", "aster", "薔薇")


def prepare(data_dir, features, examples, supervised_keys=None):
    """Writes a dataset `toy` with the package itself, from a dict of split to list of examples."""

    class Toy(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            return tfds.core.DatasetInfo(
                builder=self,
                features=tfds.features.FeaturesDict(features),
                supervised_keys=supervised_keys,
            )

        def _split_generators(self, dl_manager):
            return {split: enumerate(some) for split, some in examples.items()}

        def _generate_examples(self):
            """Not used: the generators are there already."""

    Toy(data_dir=str(data_dir)).download_and_prepare()


def plain(numbers):
    """Examples as those of toy_records: number n is a plain image of grey n."""
    return [
        {"image": np.full([4, 4, 3], number, np.uint8), "label": number % 3} for number in numbers
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfds")
    features = {
        "image": tfds.features.Image(shape=(None, None, 3)),
        "label": tfds.features.ClassLabel(names=list(NAMES)),
    }
    prepare(folder, features, {"train": plain(range(20)), "test": plain(range(20, 27))})
    return folder


@pytest.mark.parametrize("inside", ["", "toy/1.0.0"])
@pytest.mark.parametrize(("split", "numbers"), [("train", range(20)), ("test", range(20, 27))])
def test_every_example_is_read_with_its_label(folder, inside, split, numbers):
    dataset = data.open_dataset("tfds:toy", split, folder / inside)
    assert (dataset.num_examples, dataset.num_classes) == (len(numbers), 3)
    assert dataset.label_names == NAMES
    assert dataset.num_bytes == sum(map(os.path.getsize, dataset.files))
    images, labels = run_batches(data.evaluation_batches(dataset, CONFIG))
    found = numbers_of(images)
    assert sorted(found) == list(numbers)
    assert np.concatenate(labels).tolist() == [number % 3 for number in found]


def test_what_is_not_there_is_named_with_what_is(folder, tmp_path):
    with pytest.raises(DataError, match=r"has no split 'validation'; its splits are: test, train"):
        data.open_dataset("tfds:toy", "validation", folder)
    for name in ("tfds:toys", "tfds:", "tfds:toy:2.0.0", "tfds:toy/other"):
        with pytest.raises(DataError, match=r"has no prepared dataset '.*; its folders are: .*toy"):
            data.open_dataset(name, "train", folder)
    with pytest.raises(DataError, match=r"its folders are: none\."):
        data.open_dataset("tfds:toy", "train", tmp_path)
    with pytest.raises(DataError, match=r"holds the dataset 'toy', not 'mnist'"):
        data.open_dataset("tfds:mnist", "train", folder / "toy/1.0.0")
    with pytest.raises(DataError, match=r"has 3 classes, but 4 were asked for"):
        data.open_dataset("tfds:toy", "train", folder, num_classes=4)


def test_the_newest_version_is_taken_unless_one_is_named(folder, tmp_path):
    shutil.copytree(folder / "toy/1.0.0", tmp_path / "toy/incomplete.X_11.0.0")
    with pytest.raises(DataError, match=r"has no prepared dataset 'toy'"):
        data.open_dataset("tfds:toy", "train", tmp_path)
    for version in ("2.0.0", "10.0.0"):
        shutil.copytree(folder / "toy/1.0.0", tmp_path / "toy" / version)
    for name, version in (("tfds:toy", "10.0.0"), ("tfds:toy:2.0.0", "2.0.0")):
        files = data.open_dataset(name, "train", tmp_path).files
        assert [os.path.dirname(path) for path in files] == [f"{tmp_path}/toy/{version}"]


def test_a_config_is_named_where_there_are_several(folder, tmp_path):
    shutil.copytree(folder / "toy/1.0.0", tmp_path / "toy/large/1.0.0")
    assert data.open_dataset("tfds:toy", "train", tmp_path).num_examples == 20
    shutil.copytree(folder / "toy/1.0.0", tmp_path / "toy/small/1.0.0")
    words = r"several configs: large, small; name one, as in --dataset_name=tfds:toy/large"
    with pytest.raises(DataError, match=words):
        data.open_dataset("tfds:toy", "train", tmp_path)
    files = data.open_dataset("tfds:toy/small", "train", tmp_path).files
    assert os.path.dirname(files[0]) == f"{tmp_path}/toy/small/1.0.0"


def test_the_features_of_supervised_learning_are_read_by_whatever_name(tmp_path):
    features = {
        "photo": tfds.features.Image(shape=(None, None, 1)),
        "breed": tfds.features.ClassLabel(num_classes=3),
        "label": tfds.features.Text(),
    }
    examples = [
        {"photo": np.full([4, 4, 1], n, np.uint8), "breed": n % 3, "label": "x"} for n in range(5)
    ]
    prepare(tmp_path, features, {"train": examples}, supervised_keys=("photo", "breed"))
    dataset = data.open_dataset("tfds:toy", "train", tmp_path)
    assert (dataset.image_key, dataset.label_key) == ("photo", "breed")
    assert dataset.label_names == ("0", "1", "2")
    images, _ = run_batches(data.evaluation_batches(dataset, CONFIG))
    assert sorted(numbers_of(images)) == list(range(5))


@pytest.mark.parametrize(
    ("features", "value"),
    [
        ({"image": tfds.features.Text(), "label": tfds.features.ClassLabel(num_classes=2)}, "x"),
        (
            {
                "image": tfds.features.Image(shape=(2, 2, 1), dtype=np.float32),
                "label": tfds.features.ClassLabel(num_classes=2),
            },
            np.zeros([2, 2, 1], np.float32),
        ),
    ],
    ids=["text", "floats"],
)
def test_what_is_no_set_of_images_with_a_class_is_refused(tmp_path, features, value):
    prepare(tmp_path, features, {"train": [{"image": value, "label": 0}]})
    words = r"not a dataset of images with a class.* are: image \((Text|Image)\), label \(ClassL"
    with pytest.raises(DataError, match=words):
        data.open_dataset("tfds:toy", "train", tmp_path)


def damaged(folder, tmp_path):
    shutil.copytree(folder / "toy", tmp_path / "toy")
    os.remove(tmp_path / "toy/1.0.0/slim_mp_counts.json")
    return tmp_path / "toy/1.0.0"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"splits": 3}', b"\xff"])
@pytest.mark.parametrize("name", ["dataset_info.json", "features.json"])
def test_a_damaged_account_is_named(folder, tmp_path, name, content):
    (damaged(folder, tmp_path) / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{tmp_path}/toy/1\.0\.0 is not a dataset that TFDS"):
        data.open_dataset("tfds:toy", "train", tmp_path)


def test_other_formats_of_files_are_refused(folder, tmp_path):
    path = damaged(folder, tmp_path) / "dataset_info.json"
    account = json.loads(path.read_text())
    path.write_text(json.dumps({**account, "fileFormat": "array_record"}))
    with pytest.raises(DataError, match=r"of the format array_record; .*file_format='tfrecord'"):
        data.open_dataset("tfds:toy", "train", tmp_path)


def test_files_that_are_missing_or_lack_records_are_noticed(folder, tmp_path):
    (path,) = damaged(folder, tmp_path).glob("toy-train*")
    content = path.read_bytes()
    first = 8 + 4 + int.from_bytes(content[:8], "little") + 4
    path.write_bytes(content[first:])
    with pytest.raises(DataError, match=r"hold 19 examples, but TFDS has written 20;"):
        data.open_dataset("tfds:toy", "train", tmp_path)
    path.write_bytes(content[:-1])
    with pytest.raises(DataError, match=rf"{path} is cut off in record 19 "):
        data.open_dataset("tfds:toy", "train", tmp_path)
    path.unlink()
    with pytest.raises(DataError, match=rf"{path} cannot be read \(No such file"):
        data.open_dataset("tfds:toy", "train", tmp_path)


def test_a_missing_package_is_said_with_the_command(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(RequirementError, match=r"pip install tensorflow-datasets") as raised:
        data.open_dataset("tfds:toy", "train", folder)
    assert raised.value.exit_code == 2
    assert "\n" not in str(raised.value)


def test_the_package_is_needed_for_such_names_only():
    assert not hasattr(tfds_sets, "tensorflow_datasets")
