"""convert_images as a user runs it: what it writes is whole, the same each time, found by name."""

import contextlib
import hashlib
import os
import pathlib
import resource
import shutil
import signal
import time

import numpy as np
import programs
import pytest
from PIL import Image
from skimage import data as photographs
from test_orientation import exif, jpeg
from toy_records import CONFIG, encode, run_batches

from slim_mp import convert, data, image_records, record_writer
from slim_mp.compat import tf
from slim_mp.errors import DataError, UsageError
from slim_mp.output_files import only_run_in

CONVERT = "convert_images"
CLASSES = ("daisy", "ökö haus", "花")
PER_CLASS = 20


def make_photos(folder, count=PER_CLASS):
    """A folder with folders of train and validation: crops of a photograph, all different."""
    cat = photographs.chelsea()
    number = 0
    for split, share in (("train", count), ("val", count // 5)):
        for name in CLASSES:
            (folder / split / name).mkdir(parents=True)
            for index in range(share):
                crop = cat[number : number + 40, number : number + 60]
                path = folder / split / name / f"bild {index} ä.jpg"
                path.write_bytes(encode(crop, "JPEG"))
                number += 1
    return folder


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


@pytest.fixture
def copied(converted, tmp_path):
    """A copy of that folder."""
    return pathlib.Path(shutil.copytree(converted[0], tmp_path / "copied"))


def config(source, folder, **changes):
    return convert.ConversionConfig(str(source), str(folder), num_workers=2, **changes)


def digests(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in pathlib.Path(folder).iterdir()
        if path.name.endswith((".tfrecord", ".txt"))
    }


def examples(path):
    """The features of the records of a file."""
    return [
        tf.train.Example.FromString(record).features.feature
        for record in tf.python_io.tf_record_iterator(str(path))
    ]


def assert_nothing_is_there(folder):
    assert set(os.listdir(folder)) <= {"run.lock"}


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


def test_records_are_read_as_the_images_are(photos, converted):
    """In the order of the files, which is the order of the records."""
    dataset = data.open_dataset("photos", "validation", converted[0])
    with tf.Graph().as_default():
        batches, labels = run_batches(data.evaluation_batches(dataset, CONFIG))
    assert np.concatenate(batches).shape == (12, 4, 4, 1)
    expected = [
        f["image/class/label"].int64_list.value[0] for path in dataset.files for f in examples(path)
    ]
    assert np.concatenate(labels).tolist() == expected


# ---- what is there already


def test_a_set_that_is_there_is_replaced_only_if_asked_for(photos, copied):
    arguments = [f"--input={photos}", f"--output_dir={copied}", "--num_shards=3"]
    before = digests(copied)
    code, out, err = programs.call(CONVERT, *arguments)
    assert (code, out) == (2, "")
    assert "holds a set 'photos' already" in err and "--overwrite" in err and err.count("\n") == 1
    assert digests(copied) == before
    code, _, err = programs.call(CONVERT, *arguments, "--overwrite")
    assert code == 0, err
    assert len(digests(copied)) == 3 + 3 + 1
    assert data.open_dataset("photos", "train", copied).num_examples == 60


def test_a_set_that_cannot_be_made_leaves_the_old_one(copied, tmp_path):
    before = digests(copied)
    bad = make_photos(tmp_path / "photos", 5)
    (bad / "train" / "daisy" / "z.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"z\.jpg is no image"):
        convert.convert(config(bad, copied, overwrite=True))
    assert digests(copied) == before
    assert not list(copied.glob(".*"))


def test_the_classes_of_other_sets_are_not_numbered_anew(photos, copied, tmp_path):
    for number, path in enumerate(photos.glob("train/daisy/*")):
        folder = tmp_path / "other" / "train" / ("cat", "dog")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder)
    other = config(tmp_path / "other", copied, name="other", overwrite=True)
    before = digests(copied)
    with pytest.raises(UsageError, match=r"labels\.txt of other classes \(daisy, ökö haus, 花\)"):
        convert.convert(other)
    assert digests(copied) == before
    for path in copied.glob("photos_*"):
        path.unlink()
    convert.convert(other)
    assert (copied / "labels.txt").read_text() == "0:cat\n1:dog\n"


def test_two_converters_do_not_write_to_one_folder(photos, tmp_path):
    tmp_path.joinpath("out").mkdir()
    with only_run_in(tmp_path / "out"):
        code, out, err = programs.call(
            CONVERT, f"--input={photos}", f"--output_dir={tmp_path / 'out'}"
        )
    assert (code, out) == (2, "")
    assert "Another run is writing" in err and "--output_dir" in err
    assert_nothing_is_there(tmp_path / "out")


# ---- what ends early


@pytest.fixture(scope="module")
def many_photos(tmp_path_factory):
    """Enough of them to be interrupted: links to a photograph of some megabytes."""
    folder = tmp_path_factory.mktemp("many")
    large = Image.fromarray(photographs.chelsea()).resize((2000, 1500))
    large.save(folder / "large.jpg", quality=95)
    for split, count in (("train", 24), ("validation", 4)):
        for name in ("a", "b"):
            (folder / "photos" / split / name).mkdir(parents=True)
            for number in range(count):
                os.link(folder / "large.jpg", folder / "photos" / split / name / f"{number}.jpg")
    return folder / "photos"


def wait_for_a_part(process, folder):
    unfinished = folder / ".unfinished"
    end = time.monotonic() + 120
    while not list(unfinished.glob("*00001-of-00008*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_run_that_is_killed_leaves_nothing_to_read_and_the_next_one_is_whole(
    many_photos, tmp_path
):
    arguments = [f"--input={many_photos}", f"--output_dir={tmp_path}", "--num_shards=8"]
    process = programs.start(CONVERT, *arguments)
    wait_for_a_part(process, tmp_path)
    process.kill()
    code, out, err = programs.finish(process)
    assert (code, out) == (-signal.SIGKILL, "")
    assert "Traceback" not in err
    with pytest.raises(DataError):
        data.open_dataset("photos", "train", tmp_path)
    code, out, err = programs.call(CONVERT, *arguments)
    assert code == 0, err
    assert out.startswith("wrote 56 images of 2 classes: 48 train, 8 validation in ")
    assert not list(tmp_path.glob(".*"))
    assert data.open_dataset("photos", "train", tmp_path).num_examples == 48


def test_a_signal_stops_it_and_leaves_nothing(photos, tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO")
    make = record_writer.make_example

    def stop(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return make(*arguments)

    monkeypatch.setattr(image_records, "make_example", stop)
    code, out, err = programs.call(CONVERT, f"--input={photos}", f"--output_dir={tmp_path}")
    assert (code, out, err) == (75, "", "")
    assert "Stopped by SIGTERM" in caplog.text
    assert_nothing_is_there(tmp_path)


@pytest.mark.parametrize("moved", [0, 3, 6, 8])
def test_a_run_that_is_killed_while_it_replaces_a_set_leaves_no_mixture(
    photos, copied, monkeypatch, moved
):
    replace, count = os.replace, []

    def die(source, target):
        count.append(target)
        if len(count) > moved:
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(record_writer.os, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            convert.convert(config(photos, copied, num_shards=5, overwrite=True))
    # labels.txt is moved first.
    for split, first in (("train", 1), ("validation", 6)):
        if moved >= first + 5:
            assert data.open_dataset("photos", split, copied).num_examples
            continue
        with pytest.raises(DataError, match="has no files" if moved <= first else "missing: "):
            data.open_dataset("photos", split, copied)
    convert.convert(config(photos, copied, num_shards=4))
    assert data.open_dataset("photos", "train", copied).num_examples == 60
    assert not list(copied.glob(".*"))


@contextlib.contextmanager
def limited_files(num_bytes):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("num_bytes", [10, 20_000, 60_000])
def test_a_disk_that_takes_no_more_is_one_line_and_leaves_nothing(photos, tmp_path, num_bytes):
    arguments = [f"--input={photos}", f"--output_dir={tmp_path}", "--num_shards=1"]
    with limited_files(num_bytes):
        code, out, err = programs.call(CONVERT, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "cannot be written (File too large); make room, or give another --output_dir" in err
    assert_nothing_is_there(tmp_path)


def test_too_little_room_is_said_before_the_work(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(convert.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(UsageError, match=r"has 0 MB free, and the images take about 0 MB"):
        convert.convert(config(photos, tmp_path))
    assert not os.listdir(tmp_path)


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


def test_images_that_lie_on_their_side_are_counted_in_the_log(tmp_path, caplog):
    caplog.set_level("INFO")
    photos = make_photos(tmp_path / "photos", 5)
    (photos / "train" / "daisy" / "telefon.jpg").write_bytes(jpeg(exif(8)))
    convert.convert(config(photos, tmp_path / "out"))
    assert "by their Exif orientation: 1." in caplog.text
