"""A cached input is the same input, read from memory."""

import dataclasses
import os

import pytest
from image_sets import image_set
from test_data import training_numbers
from toy_records import CONFIG, make_record, numbers_of, plain_image, run_batches, write_numbered

from slim_mp import data
from slim_mp.compat import tf
from slim_mp.data import example_cache
from slim_mp.data.bad_records import BadRecords
from slim_mp.errors import DataError

CACHED = dataclasses.replace(CONFIG, cache=True)


def without_files(dataset):
    for path in (*dataset.files, *dataset.images):
        os.remove(path)


@pytest.mark.parametrize("kind", ["records", "images"])
def test_the_order_is_that_without_a_cache(tmp_path, kind):
    images = image_set(tmp_path, 29) if kind == "images" else None
    dataset = images or write_numbered(tmp_path, (9, 0, 14, 3))
    place = {"shard_index": 1, "num_shards": 2, "start_example": 5}
    expected = training_numbers(dataset, 60, **place)
    assert training_numbers(dataset, 60, cache=True, **place) == expected


@pytest.mark.parametrize("kind", ["records", "images"])
def test_the_files_are_read_once(tmp_path, caplog, kind):
    caplog.set_level("INFO")
    dataset = image_set(tmp_path, 20) if kind == "images" else write_numbered(tmp_path, (8, 12))
    with tf.Graph().as_default():
        training = data.training_batches(dataset, CACHED)
        evaluation = data.evaluation_batches(dataset, CACHED, with_names=True)
        without_files(dataset)
        images, _ = run_batches(training, 10)
        assert set(numbers_of(images)) == set(range(20))
        following = tf.data.make_one_shot_iterator(evaluation).get_next()
        with tf.Session() as session:
            pixels, _, names = session.run(following)
    assert numbers_of([pixels]) == list(range(8))
    assert names[7].decode().endswith("toy_train_000.tfrecord#7" if kind == "records" else "7.png")
    assert "Cached the 20 examples of the split 'train' in memory: 0.0 MiB." in caplog.messages


def test_what_does_not_fit_is_refused(tmp_path, monkeypatch):
    dataset = dataclasses.replace(write_numbered(tmp_path, (8,)), num_bytes=90 * 2**20)
    monkeypatch.setattr(example_cache, "available_bytes", lambda: 100 * 2**20)
    with pytest.raises(DataError, match=r"--cache: .* 90.0 MiB, more than 80% of the 100.0 MiB"):
        data.training_batches(dataset, CACHED)


def test_the_memory_that_is_left_is_that_of_the_control_group(tmp_path, monkeypatch):
    assert 2**20 < example_cache.available_bytes() < 2**50
    monkeypatch.setattr(example_cache, "_MEMORY_OF_CONTROL_GROUP", f"{tmp_path}/{{}}")
    whole = example_cache.available_bytes()
    (tmp_path / "max").write_text("9000\n")
    (tmp_path / "current").write_text("2000\n")
    assert example_cache.available_bytes() == 7000
    (tmp_path / "max").write_text("max\n")
    assert example_cache.available_bytes() > 0.5 * whole
    monkeypatch.setattr(example_cache, "_MEMORY_OF_SYSTEM", f"{tmp_path}/none")
    assert example_cache.available_bytes() > 2**20


def test_bad_ones_are_told_of_and_left_out(tmp_path, caplog):
    dataset = image_set(tmp_path / "images", 6, contents={1: b"no image"})
    os.remove(dataset.images[4])
    records = write_numbered(tmp_path, (3, 3))
    os.remove(records.files[1])
    with tf.io.TFRecordWriter(records.files[1]) as writer:
        for record in (make_record(plain_image(3), 3), b"bad", make_record(b"no image", 1)):
            writer.write(record)
    for each, good, reasons in (
        (dataset, [0, 2, 3, 5], ("grün 001.png holds an image of 8", "cannot be read (No such")),
        (records, [0, 1, 2, 3], ("Record 1 (counting from 0) of", "an image of 8 bytes")),
    ):
        caplog.clear()
        bad_records = BadRecords(2)
        with tf.Graph().as_default():
            batches = data.evaluation_batches(each, CACHED, bad_records=bad_records)
            images, _ = run_batches(batches)
        assert numbers_of(images) == good and bad_records.count == 2
        told = [line for line in caplog.messages if line.startswith("Left out")]
        assert all(any(reason in line for line in told) for reason in reasons)


def test_a_damaged_record_file_is_named(tmp_path):
    dataset = write_numbered(tmp_path, (3, 3))
    with open(dataset.files[1], "r+b") as file:
        file.seek(-5, os.SEEK_END)
        file.write(b"\0")
    with pytest.raises(DataError, match=r"^Record 2 .*toy_train_001.tfrecord cannot be read"):
        data.training_batches(dataset, CACHED)
