"""convert_images as a user runs it: what it writes is whole, the same each time, found by name."""

import dataclasses
import os

import numpy as np
import programs
import pytest
from photo_sets import (
    CLASSES,
    CONVERT,
    assert_nothing_is_there,
    config,
    digests,
    examples,
    make_photos,
)
from skimage import data as photographs
from test_orientation import exif, jpeg
from toy_records import CONFIG, encode, run_batches

from slim_mp import data
from slim_mp.compat import tf
from slim_mp.conversion import convert
from slim_mp.errors import DataError


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def converted(photos, tmp_path_factory):
    """The folder that a conversion wrote, and what it printed."""
    folder = tmp_path_factory.mktemp("converted")
    code, out, err = programs.call(
        CONVERT, f"--input={photos}", f"--output_dir={folder}", "--num_shards=5"
    )
    assert (code, err) == (0, "")
    return folder, out


def test_what_was_written_is_said_and_is_found_by_name(photos, converted):
    folder, out = converted
    assert out == f"wrote 72 images of 3 classes: 60 train, 12 validation in {folder}\n"
    names = [
        f"photos_{split}_0000{n}-of-00005.tfrecord"
        for split in ("train", "validation")
        for n in range(5)
    ]
    assert sorted(os.listdir(folder)) == sorted([*names, "labels.txt", "run.lock"])
    assert (folder / "labels.txt").read_text() == "0:daisy\n1:ökö haus\n2:花\n"
    for split, count in (("train", 60), ("validation", 12)):
        dataset = data.open_dataset("photos", split, folder)
        assert (dataset.num_examples, dataset.label_names) == (count, CLASSES)


def test_every_image_is_there_once_with_its_own_label(photos, converted):
    found = {}
    for path in converted[0].glob("photos_train_*"):
        for features in examples(path):
            name = features["image/filename"].bytes_list.value[0].decode()
            assert name not in found
            found[name] = features["image/encoded"].bytes_list.value[0]
            label = features["image/class/label"].int64_list.value[0]
            assert name.split("/")[1] == CLASSES[label]
    expected = {
        str(path.relative_to(photos)): path.read_bytes() for path in photos.glob("train/*/*")
    }
    assert found == expected


def test_every_file_has_a_share_of_every_class(converted):
    for path in converted[0].glob("photos_train_*"):
        labels = [f["image/class/label"].int64_list.value[0] for f in examples(path)]
        assert len(labels) == 12
        assert set(labels) == {0, 1, 2}
        assert labels != sorted(labels)


def test_the_same_images_elsewhere_give_the_same_bytes(converted, tmp_path):
    photos = make_photos(tmp_path / "photos")
    convert.convert(config(photos, tmp_path / "again", num_shards=5))
    assert digests(tmp_path / "again") == digests(converted[0])


def test_a_list_is_converted_too(photos, tmp_path):
    rows = ["file,label,split"]
    rows += [f'"{path}",{path.parent.name},fold-1' for path in sorted(photos.glob("val/*/*"))]
    rows += [f'"{path}",{path.parent.name},test' for path in sorted(photos.glob("train/*/*"))[:4]]
    (tmp_path / "list.csv").write_text("\n".join(rows))
    written = convert.convert(config(tmp_path / "list.csv", tmp_path / "out", name="meine.bilder"))
    assert written.counts == {"fold-1": 12, "test": 4}
    dataset = data.open_dataset("meine.bilder", "fold-1", tmp_path / "out")
    assert dataset.num_examples == 12
    assert len(dataset.files) == 1


def test_a_folder_without_splits_is_divided(photos, tmp_path):
    written = convert.convert(config(photos / "train", tmp_path))
    assert list(written.counts) == ["train", "validation"]
    assert sum(written.counts.values()) == 60
    assert written.counts["validation"] > 0


def read(dataset):
    """The images of a split as a network gets them, and their labels."""
    settings = dataclasses.replace(CONFIG, image_size=20, channels=3)
    with tf.Graph().as_default():
        images, labels = run_batches(data.evaluation_batches(dataset, settings))
    return np.concatenate(images), np.concatenate(labels)


def assert_same(records, files):
    """Compares two sets that may be in different orders."""
    pairs = [
        sorted((image.tobytes(), label) for image, label in zip(*read(one), strict=True))
        for one in (records, files)
    ]
    assert pairs[0] == pairs[1]


def test_a_network_sees_the_same_images_in_records_as_in_files(photos, converted):
    records = data.open_dataset("photos", "validation", converted[0])
    assert_same(records, data.open_dataset(None, "validation", photos))


def test_photographs_on_their_side_are_counted_and_read_upright(tmp_path, caplog):
    caplog.set_level("INFO")
    # Of each value of Exif, by how many right angles the picture is turned to the left.
    turns = {1: 0, 3: 2, 6: 3, 8: 1}
    photos = tmp_path / "photos"
    for split in ("train", "val"):
        for name in ("a", "b"):
            (photos / split / name).mkdir(parents=True)
            for value in turns:
                (photos / split / name / f"{value}.jpg").write_bytes(jpeg(exif(value)))
    convert.convert(config(photos, tmp_path / "out"))
    assert "by their Exif orientation: 12." in caplog.text
    files = data.open_dataset(None, "validation", photos)
    images, _ = read(files)
    for image, quarters in zip(images, [*turns.values()] * 2, strict=True):
        np.testing.assert_allclose(image, np.rot90(images[0], quarters), atol=1e-5)
    assert np.abs(images[0] - images[1]).max() > 0.5
    assert_same(data.open_dataset("photos", "validation", tmp_path / "out"), files)


# ---- what is refused


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--input="], "Give --input"),
        (["--output_dir="], "Give --output_dir"),
        (["--num_shards=0"], "--num_shards is 0; it must be at least 1"),
        (["--num_shards=100000"], "it must be at most 99999"),
        (["--num_workers=0"], "--num_workers is 0"),
        (["--max_bad_images=-1"], "--max_bad_images is -1"),
        (["--dataset_name=../x"], "The name of the set is '../x'"),
        (["--dataset_name=*"], "The name of the set is '*'"),
        (["--dataset_name=synthetic"], "not 'synthetic'"),
        (["--dataset_name=cifar10"], "stands for a published set"),
        (["--dataset_name=imagenet"], "stands for a published set"),
        (["--output_dir={photos}"], "is inside the folder of the images"),
        (["--output_dir={photos}/train/records"], "is inside the folder of the images"),
        (["--output_dir=/proc/nothing"], "--output_dir=/proc/nothing cannot be written"),
        (["operand"], "unexpected argument 'operand'"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(photos, tmp_path, arguments, said):
    arguments = [argument.replace("{photos}", str(photos)) for argument in arguments]
    code, out, err = programs.call(
        CONVERT, f"--input={photos}", f"--output_dir={tmp_path}", *arguments
    )
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("convert_images.py: error: ")
    assert said in err
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", ["nowhere", "nowhere.csv", "list.txt"])
def test_an_input_that_is_none_is_said(tmp_path, name):
    (tmp_path / "list.txt").touch()
    code, out, err = programs.call(
        CONVERT, f"--input={tmp_path / name}", f"--output_dir={tmp_path / 'out'}"
    )
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert f"--input={tmp_path / name} is neither a folder nor a list of images" in err
    assert os.listdir(tmp_path) == ["list.txt"]


def test_the_messages_about_a_folder_name_the_flag_that_gave_it(photos, tmp_path):
    code, _, err = programs.call(
        CONVERT, f"--input={photos / 'train' / 'daisy'}", f"--output_dir={tmp_path}"
    )
    assert code == 3
    assert "has no sub-folders" in err and "(--input)" in err


@pytest.mark.parametrize("split", ["../../x", "a/b", "a_b", "*"])
def test_the_name_of_a_split_is_no_path_or_pattern(photos, tmp_path, split):
    paths = sorted(photos.glob("train/*/*"))
    rows = [f'"{path}",{path.parent.name},"{split}"' for path in paths]
    (tmp_path / "list.csv").write_text("\n".join(["file,label,split", *rows]))
    with pytest.raises(DataError, match="the name of a split must be of letters") as raised:
        convert.convert(config(tmp_path / "list.csv", tmp_path / "out"))
    assert repr(split) in str(raised.value)
    assert os.listdir(tmp_path) == ["list.csv"]


def test_a_bad_image_ends_it_with_the_code_of_data_unless_it_may_be_left_out(tmp_path):
    photos = make_photos(tmp_path / "photos", 5)
    bad = photos / "train" / "daisy" / "kaputt ü.jpg"
    bad.write_bytes(encode(photographs.chelsea(), "JPEG")[:-1000])
    arguments = [f"--input={photos}", f"--output_dir={tmp_path / 'out'}"]
    code, out, err = programs.call(CONVERT, *arguments)
    assert (code, out) == (3, "")
    assert f"error: {bad} is a JPEG file of " in err and err.count("\n") == 1
    assert_nothing_is_there(tmp_path / "out")
    code, out, err = programs.call(CONVERT, *arguments, "--max_bad_images=1")
    assert code == 0, err
    assert out == (
        "wrote 18 images of 3 classes: 15 train, 3 validation in "
        f"{tmp_path / 'out'}; left out 1 as bad: kaputt ü.jpg\n"
    )
