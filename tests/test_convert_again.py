"""convert_images where a set is there already, another run writes, or it ends before its end."""

import contextlib
import os
import pathlib
import resource
import shutil
import signal
import time

import programs
import pytest
from photo_sets import CONVERT, assert_nothing_is_there, config, digests, make_photos
from PIL import Image
from skimage import data as photographs

from slim_mp import data
from slim_mp.conversion import convert, image_records, record_writer
from slim_mp.errors import DataError, UsageError
from slim_mp.files.output_files import only_run_in


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def converted(photos, tmp_path_factory):
    """A folder with the record files of the photographs."""
    folder = tmp_path_factory.mktemp("converted")
    convert.convert(config(photos, folder, num_shards=5))
    return folder


@pytest.fixture(scope="module")
def bad_photos(tmp_path_factory):
    """Photographs, and a file that is none."""
    folder = make_photos(tmp_path_factory.mktemp("bad"), 5)
    (folder / "train" / "daisy" / "z.jpg").write_bytes(b"no image")
    return folder


@pytest.fixture
def copied(converted, tmp_path):
    """A copy of that folder."""
    return pathlib.Path(shutil.copytree(converted, tmp_path / "copied"))


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


def test_a_set_that_cannot_be_made_leaves_the_old_one(bad_photos, copied):
    before = digests(copied)
    with pytest.raises(DataError, match=r"z\.jpg is no image"):
        convert.convert(config(bad_photos, copied, overwrite=True))
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


def test_what_is_left_of_one_set_does_not_let_another_be_replaced(photos, copied):
    (copied / ".moving-other").mkdir()
    (copied / ".unfinished").mkdir()
    with pytest.raises(UsageError, match="holds a set 'photos' already"):
        convert.convert(config(photos, copied))
    convert.convert(config(photos, copied, name="third"))
    assert [path.name for path in copied.glob(".*")] == [".moving-other"]


def test_two_converters_do_not_write_to_one_folder(photos, tmp_path):
    tmp_path.joinpath("out").mkdir()
    with only_run_in(tmp_path / "out"):
        code, out, err = programs.call(
            CONVERT, f"--input={photos}", f"--output_dir={tmp_path / 'out'}"
        )
    assert (code, out) == (2, "")
    assert "Another run is writing" in err and "--output_dir" in err
    assert_nothing_is_there(tmp_path / "out")


def test_a_lock_that_cannot_be_opened_is_said(photos, tmp_path):
    (tmp_path / "run.lock").mkdir()
    code, out, err = programs.call(CONVERT, f"--input={photos}", f"--output_dir={tmp_path}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "run.lock, by which runs know of one another, cannot be opened (Is a directory)" in err
    assert "--output_dir" in err


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
    arguments.append("--num_workers=1")
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
    # One only: a second that comes when the program is done would end the tests.
    signals = [signal.SIGTERM]

    def stop(*arguments):
        with contextlib.suppress(IndexError):
            os.kill(os.getpid(), signals.pop())
        return make(*arguments)

    monkeypatch.setattr(image_records, "make_example", stop)
    code, out, err = programs.call(CONVERT, f"--input={photos}", f"--output_dir={tmp_path}")
    assert (code, out, err) == (75, "", "")
    assert "Stopped by SIGTERM" in caplog.text
    assert_nothing_is_there(tmp_path)


@pytest.mark.parametrize("moved", [0, 3, 6, 8])
def test_a_run_that_is_killed_while_it_replaces_a_set_leaves_no_mixture(
    photos, bad_photos, copied, monkeypatch, moved
):
    expected = digests(copied)
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
    # The new set is complete already: a conversion that fails finishes its move, and no more.
    with pytest.raises(DataError, match=r"z\.jpg is no image"):
        convert.convert(config(bad_photos, copied, num_shards=4))
    assert digests(copied) == expected
    assert not list(copied.glob(".*"))
    convert.convert(config(photos, copied, num_shards=4, overwrite=True))
    assert data.open_dataset("photos", "train", copied).num_examples == 60
    assert not list(copied.glob(".*"))


@pytest.mark.parametrize("removed", [0, 3])
def test_a_run_that_is_killed_while_it_removes_the_old_set_is_gone_on_with(
    photos, copied, monkeypatch, removed
):
    remove, count = os.remove, []

    def die(path):
        count.append(path)
        if len(count) > removed:
            raise KeyboardInterrupt
        remove(path)

    with monkeypatch.context() as patch:
        patch.setattr(record_writer.os, "remove", die)
        with pytest.raises(KeyboardInterrupt):
            convert.convert(config(photos, copied, num_shards=3, overwrite=True))
    assert record_writer.finish_move(str(copied), "photos", "output_dir")
    assert len(digests(copied)) == 3 + 3 + 1
    assert data.open_dataset("photos", "train", copied).num_examples == 60
    assert not record_writer.finish_move(str(copied), "photos", "output_dir")


def test_the_command_of_a_run_that_was_killed_while_it_moved_files_works_again(photos, copied):
    (copied / ".moving-photos").mkdir()
    convert.convert(config(photos, copied, num_shards=2))
    assert len(digests(copied)) == 2 + 2 + 1


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
