"""What kind of dataset a folder or a list is, where no name says it or such records are missing."""

import os

import programs
import pytest
from absl import flags as absl_flags
from made_images import divided, logged, make_folder
from toy_records import make_record, plain_image, write_numbered, write_records

from slim_mp import data
from slim_mp.errors import DataError, UsageError
from slim_mp.flags import flag_groups, flags


def write_list(folder, name="list.csv"):
    make_folder(folder / "photos", "a", "b", "c", count=30)
    lines = [f"photos/{label}/{n:03d}.png,{label}" for label in "abc" for n in range(30)]
    (folder / name).write_text("\n".join(["file,label", *lines]))
    return folder / name


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["train-00000-of-00001"], "imagenet"),
        (["train-of-my-own"], "imagenet"),
        (["train-00000-of-00001", "flowers_train_0.tfrecord"], "imagenet"),
        (["flowers_train_00000-of-00001.tfrecord", "notes-1.txt"], "flowers"),
        (["train.record-00000-of-00001"], "visualwakewords"),
        (["birds_train.tfrecord"], "birds"),
    ],
)
def test_record_files_are_told_by_their_names(tmp_path, files, name):
    for file in files:
        write_records(tmp_path / file, [make_record(plain_image(0), 0)])
    (tmp_path / "labels.txt").write_text("0:a\n1:b\n")
    dataset = data.open_dataset(None, "train", tmp_path)
    assert (dataset.name, dataset.num_classes, dataset.images) == (name, 2, ())
    assert dataset.files == data.open_dataset(name, "train", tmp_path).files


def test_records_of_several_sets_are_not_guessed(tmp_path):
    for name in ("a", "b"):
        write_records(tmp_path / f"{name}_train.tfrecord", [make_record(plain_image(0), 0)])
    with pytest.raises(DataError, match=r"holds record files of a, b: give --dataset_name"):
        data.open_dataset(None, "train", tmp_path)


@pytest.mark.parametrize("name", [None, "flowers", "imagenet"])
def test_a_folder_of_classes_is_a_dataset_whatever_it_is_called(tmp_path, name):
    make_folder(tmp_path / "photos", "a", "b", "c", count=30)
    # Of slim's pattern SPLIT-*, but no shards.
    (tmp_path / "photos" / ("notes-1.txt" if name else "train-labels.csv")).touch()
    dataset = data.open_dataset(name, "train", tmp_path / "photos")
    assert dataset.name == (name or "photos")
    assert (dataset.num_classes, dataset.label_names) == (3, ("a", "b", "c"))
    assert (dataset.files, dataset.examples_per_file) == ((), (len(dataset.images),))
    assert 60 < dataset.num_examples == len(dataset.labels) < 90
    assert not dataset.is_synthetic
    assert abs(dataset.num_bytes / sum(map(os.path.getsize, dataset.images)) - 1) < 0.05
    others = data.open_dataset(name, "validation", tmp_path / "photos")
    assert dataset.num_examples + others.num_examples == 90


def test_record_files_go_before_folders_of_images(tmp_path):
    make_folder(tmp_path, "a", "b", count=30)
    write_records(tmp_path / "toy_train.tfrecord", [make_record(plain_image(0), 0)])
    for name in ("toy", None):
        assert data.open_dataset(name, "train", tmp_path, 2).num_examples == 1
    with pytest.raises(DataError, match=r"no files .*; there are files of the splits: train\."):
        data.open_dataset("toy", "validation", tmp_path, 2)


@pytest.mark.parametrize("name", [None, "mine"])
def test_a_list_is_a_dataset(tmp_path, monkeypatch, name):
    dataset = data.open_dataset(name, "train", write_list(tmp_path))
    assert dataset.name == (name or "list.csv")
    assert (dataset.num_classes, dataset.label_names) == (3, ("a", "b", "c"))
    assert {os.path.dirname(path) for path in dataset.images} == {
        f"{tmp_path}/photos/{label}" for label in "abc"
    }
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data.open_dataset(name, "train", "~/list.csv") == dataset
    with pytest.raises(DataError, match=r"none\.jsonl cannot be read \(No such file"):
        data.open_dataset(name, "train", tmp_path / "none.jsonl")


def test_the_number_of_classes_must_be_that_of_the_images(tmp_path):
    path = write_list(tmp_path)
    for directory in (path, tmp_path / "photos"):
        assert data.open_dataset(None, "train", directory, num_classes=3).num_classes == 3
        for number in (2, 4):
            with pytest.raises(DataError, match=rf"has 3 classes, but {number} were asked for"):
                data.open_dataset(None, "train", directory, num_classes=number)


def test_a_list_of_numbers_may_lack_the_last_classes(tmp_path):
    write_list(tmp_path)
    path = tmp_path / "numbers.csv"

    def write(*labels):
        lines = [f"photos/{'abc'[n]}/000.png,{label},train" for n, label in enumerate(labels)]
        path.write_text("\n".join(["file,label,split", *lines]))

    write(0, 5, 5)
    dataset = data.open_dataset(None, "train", path)
    assert (dataset.num_classes, dataset.label_names, dataset.labels) == (6, None, (0, 5, 5))
    assert data.open_dataset(None, "train", path, num_classes=10).num_classes == 10
    with pytest.raises(DataError, match=r"has 6 classes, but 5 were asked for"):
        data.open_dataset(None, "train", path, num_classes=5)
    write(0, 0)
    with pytest.raises(DataError, match=r"All labels of .* are 0, .*\(--num_classes\)"):
        data.open_dataset(None, "train", path)
    assert data.open_dataset(None, "train", path, num_classes=2).num_classes == 2


def test_a_file_pattern_is_for_record_files(tmp_path):
    path = write_list(tmp_path)
    for directory, kind in ((path, "list of image"), (tmp_path / "photos", "folder with one sub")):
        with pytest.raises(UsageError, match=rf"--file_pattern=x-\* is for record .* a {kind}"):
            data.open_dataset(None, "train", directory, file_pattern="x-*")
    write_records(tmp_path / "photos" / "x-1", [make_record(plain_image(0), 0)])
    dataset = data.open_dataset(None, "train", tmp_path / "photos", 3, file_pattern="x-*")
    assert (dataset.name, dataset.num_examples) == ("photos", 1)


def test_what_is_no_dataset_says_what_was_looked_for(tmp_path):
    words = (
        r"holds no dataset: .*flowers_SPLIT_\*\.tfrecord.* or NAME_SPLIT\*\.tfrecord nor "
        r"sub-folders with images; the folder is empty"
    )
    with pytest.raises(DataError, match=words):
        data.open_dataset(None, "train", tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "notes.txt").touch()
    (tmp_path / "a.png").write_bytes(plain_image(0))
    with pytest.raises(
        DataError, match=r"nor sub-folders with images; the folder holds a.png, sub"
    ):
        data.open_dataset(None, "train", tmp_path)
    with pytest.raises(DataError, match=r"no files flowers_train_\*.* nor sub-folders with images"):
        data.open_dataset("flowers", "train", tmp_path)
    with pytest.raises(DataError, match=r"list\.txt does not exist .* in \.csv or \.jsonl"):
        data.open_dataset(None, "train", tmp_path / "list.txt")


# ---- by flags


def open_by_flags(*arguments):
    """Opens the dataset of an evaluation, whose default split is test, by its flags."""
    with programs.without_new_flags():
        flag_groups.define_dataset_flags(split="test")
        absl_flags.DEFINE_integer("batch_size", 1, "Images in a batch.")
        absl_flags.FLAGS(["program", *arguments])
        return flags.open_dataset(bundled_split="validation")


def test_images_are_evaluated_on_validation_unless_another_split_is_named(tmp_path):
    photos = make_folder(tmp_path / "photos", "a", "b", count=40)
    path = write_list(tmp_path / "listed")
    for directory in (photos, path):
        dataset = open_by_flags(f"--dataset_dir={directory}")
        assert (dataset.split, bool(dataset.images)) == ("validation", True)
    divided(tmp_path / "divided", "a", "b")
    divided(tmp_path / "divided", "a", "b", split="test")
    words = r"no folder for the split 'validation'; it has test, train \(--dataset_split_name\)"
    with pytest.raises(DataError, match=words):
        open_by_flags(f"--dataset_dir={tmp_path}/divided")
    dataset = open_by_flags(f"--dataset_dir={tmp_path}/divided", "--dataset_split_name=test")
    assert dataset.num_examples == 8
    assert open_by_flags().split == "validation"


def test_records_are_evaluated_on_slims_split(tmp_path):
    write_records(tmp_path / "mnist_test.tfrecord", [make_record(plain_image(0), 0)])
    dataset = open_by_flags(f"--dataset_dir={tmp_path}")
    assert (dataset.name, dataset.split, dataset.num_classes) == ("mnist", "test", 10)


def test_one_line_says_what_is_read(tmp_path, monkeypatch):
    make_folder(tmp_path / "photos", "a", "b", count=40)
    (tmp_path / "records").mkdir()
    write_numbered(tmp_path / "records", (3,))
    log = logged(monkeypatch)
    open_by_flags("--dataset_split_name=train", f"--dataset_dir={tmp_path}/photos")
    count = int(log[0].split(": ")[1].split()[0])
    assert log == [
        f"{tmp_path}/photos is read as a folder with one sub-folder a class: {count} images of 2 "
        "classes for 'train'."
    ]
    log.clear()
    arguments = ["--dataset_split_name=train", f"--dataset_dir={tmp_path}/photos"]
    open_by_flags("--dataset_name=flowers", *arguments)
    assert log[0].endswith("photos holds no record files of 'flowers'; its sub-folders are read.")
    log.clear()
    arguments = ["--dataset_split_name=train", "--num_classes=10"]
    open_by_flags(f"--dataset_dir={tmp_path}/records", *arguments)
    assert log == [f"{tmp_path}/records holds record files of 'toy'."]
