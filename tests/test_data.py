"""The streams of training and evaluation batches."""

import dataclasses
import importlib.util
import os
import pathlib

import numpy as np
import pytest
from skimage import data as photographs
from toy_records import (
    CONFIG,
    encode,
    make_record,
    numbers_of,
    plain_image,
    run_batches,
    write_numbered,
    write_records,
)

from slim_mp import data
from slim_mp.compat import tf
from slim_mp.data import record_streams
from slim_mp.data.example_sources import open_source
from slim_mp.errors import DataError, UsageError

ROOT = pathlib.Path(__file__).parents[1]


def training_numbers(dataset, count, graph_seed=None, **changes):
    """The numbers of the first `count` examples of a training stream."""
    config = dataclasses.replace(CONFIG, batch_size=1, **changes)
    with tf.Graph().as_default():
        tf.set_random_seed(graph_seed)
        batches = data.training_batches(dataset, config).unbatch().batch(count)
        images, _ = run_batches(batches, 1)
    return numbers_of(images)


# ---- the bundled digits


def test_digits_are_the_default_and_are_those_of_scikit_learn():
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    found = []
    for split, size in (("train", 1442), ("validation", 355)):
        dataset = data.open_dataset(split=split)
        assert (dataset.name, dataset.num_classes, dataset.num_examples) == ("digits", 10, size)
        assert dataset.label_names == tuple("0123456789")
        config = dataclasses.replace(CONFIG, image_size=8, batch_size=100)
        with tf.Graph().as_default():
            images, labels = run_batches(data.evaluation_batches(dataset, config))
        pixels = (np.concatenate(images)[..., 0] * 128 + 128) * 16 / 255
        found += zip(np.rint(pixels).astype(int).tolist(), np.concatenate(labels), strict=True)
        counts = np.bincount(np.concatenate(labels))
        assert counts.max() - counts.min() <= size / 10 * 0.1
    expected = zip(digits.images.astype(int).tolist(), digits.target, strict=True)
    assert sorted(found) == sorted(expected)


def test_writing_the_digits_again_gives_the_same_bytes(tmp_path):
    pytest.importorskip("sklearn")
    spec = importlib.util.spec_from_file_location("make_digits", ROOT / "scripts/make_digits.py")
    make_digits = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_digits)
    make_digits.main(str(tmp_path))
    names = sorted(os.listdir(tmp_path))
    assert names == ["digits_train.tfrecord", "digits_validation.tfrecord", "labels.txt"]
    for name in names:
        assert (tmp_path / name).read_bytes() == (ROOT / "slim_mp/data/digits" / name).read_bytes()


# ---- evaluation


@pytest.mark.parametrize("batch_size", [1, 7, 36, 37, 64])
def test_evaluation_gives_each_example_once_and_in_order(tmp_path, batch_size):
    dataset = write_numbered(tmp_path, (10, 0, 20, 7))
    config = dataclasses.replace(CONFIG, batch_size=batch_size, num_shards=2, start_example=5)
    with tf.Graph().as_default():
        images, labels = run_batches(data.evaluation_batches(dataset, config))
    assert numbers_of(images) == list(range(37))
    assert np.concatenate(labels).tolist() == [n % 10 for n in range(37)]
    assert {len(batch) for batch in images[:-1]} <= {batch_size}


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.bfloat16])
def test_shapes_and_dtypes(dtype):
    config = data.InputConfig("inception", 24, 3, 5, dtype)
    dataset = data.open_dataset()
    with tf.Graph().as_default():
        for batches, size in (
            (data.training_batches(dataset, config), 5),
            (data.evaluation_batches(dataset, config), None),
        ):
            images, labels = tf.data.make_one_shot_iterator(batches).get_next()
            assert images.shape.as_list() == [size, 24, 24, 3] and images.dtype == dtype
            assert labels.shape.as_list() == [size] and labels.dtype == tf.int64


def test_labels_lose_the_offset(tmp_path):
    write_records(tmp_path / "toy_train.tfrecord", [make_record(plain_image(0), n) for n in (1, 3)])
    dataset = data.open_dataset("toy", "train", tmp_path, num_classes=4)
    config = dataclasses.replace(CONFIG, labels_offset=1)
    with tf.Graph().as_default():
        _, labels = run_batches(data.evaluation_batches(dataset, config))
    assert labels[0].tolist() == [0, 2]


# ---- training


# Few files are dealt out record by record, many as whole files.
@pytest.mark.parametrize("sizes", [(29, 0, 1, 11), (2, 1, 0, 3) * 12], ids=["few", "many"])
@pytest.mark.parametrize("num_shards", [1, 2, 3])
def test_each_epoch_holds_each_example_once_and_shards_are_disjoint(tmp_path, sizes, num_shards):
    dataset = write_numbered(tmp_path, sizes)
    union = []
    for index in range(num_shards):
        size = open_source(dataset).shard_size(index, num_shards)
        numbers = training_numbers(dataset, 3 * size, shard_index=index, num_shards=num_shards)
        epochs = [numbers[start : start + size] for start in range(0, 3 * size, size)]
        assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(epochs[2])
        assert epochs[0] != epochs[1] != epochs[2] and epochs[0] != sorted(epochs[0])
        union += epochs[0]
    assert sorted(union) == list(range(sum(sizes)))


def test_the_order_depends_on_the_seed_only(tmp_path):
    dataset = write_numbered(tmp_path, (9, 14, 3, 8, 6))
    expected = training_numbers(dataset, 100)
    assert training_numbers(dataset, 100) == expected
    assert training_numbers(dataset, 100, num_readers=1, num_preprocessing_threads=1) == expected
    assert training_numbers(dataset, 100, graph_seed=5, num_readers=2) == expected
    assert training_numbers(dataset, 100, seed=2) != expected
    assert training_numbers(dataset, 100, seed=None) != training_numbers(dataset, 100, seed=None)


def test_the_order_for_a_seed_stays_what_it_was(tmp_path):
    """Or else a run that goes on with a newer version sees some examples twice and others never."""
    dataset = write_numbered(tmp_path, (9, 14, 3, 8, 6))
    expected = [2, 32, 8, 39, 12, 36, 24, 2, 1, 4, 20, 28, 38, 16, 30, 12, 18, 34, 23, 37]
    assert training_numbers(dataset, 20, start_example=33) == expected
    of_shard = {"num_shards": 3, "shard_index": 1, "seed": 2**40 + 3}
    expected = [37, 16, 7, 31, 1, 25, 10, 34, 28, 22, 19, 4, 13, 1, 10, 22, 13, 7, 4, 28]
    assert training_numbers(dataset, 20, **of_shard) == expected


def test_a_small_shuffle_buffer_loses_nothing(tmp_path, monkeypatch):
    dataset = write_numbered(tmp_path, (20, 21))
    monkeypatch.setattr(record_streams, "SHUFFLE_BUFFER_BYTES", dataset.num_bytes // 10)
    numbers = training_numbers(dataset, 82)
    assert sorted(numbers[:41]) == sorted(numbers[41:]) == list(range(41))
    assert training_numbers(dataset, 42, start_example=40) == numbers[40:]


@pytest.mark.parametrize("start", [1, 40, 41, 95])
def test_a_stream_resumes_with_the_next_example(tmp_path, start):
    dataset = write_numbered(tmp_path, (9, 14, 3, 8, 7))
    expected = training_numbers(dataset, 130)
    assert training_numbers(dataset, 130 - start, start_example=start) == expected[start:]


@pytest.mark.parametrize("style", ["inception", "vgg", "cifarnet"])
def test_distorted_images_are_resumed_bit_for_bit(tmp_path, style):
    images = (photographs.chelsea, photographs.coffee, photographs.rocket)
    write_records(
        tmp_path / "toy_train.tfrecord",
        [make_record(encode(image(), "JPEG"), n) for n, image in enumerate(images)],
    )
    dataset = data.open_dataset("toy", "train", tmp_path, num_classes=3)
    config = data.InputConfig(style, 32, 3, 4, tf.float16, seed=11)
    with tf.Graph().as_default():
        whole, whole_labels = run_batches(data.training_batches(dataset, config), 3)
    other = dataclasses.replace(config, start_example=4, num_preprocessing_threads=1)
    with tf.Graph().as_default():
        resumed, resumed_labels = run_batches(data.training_batches(dataset, other), 2)
    np.testing.assert_array_equal(whole[1:], resumed)
    np.testing.assert_array_equal(whole_labels[1:], resumed_labels)
    # The same photograph is distorted anew each time.
    flat = np.concatenate(whole).reshape([12, -1])
    assert len(np.unique(flat, axis=0)) == 12


def test_a_batch_may_be_larger_than_the_dataset(tmp_path):
    dataset = write_numbered(tmp_path, (3,))
    with tf.Graph().as_default():
        images, _ = run_batches(data.training_batches(dataset, CONFIG), 2)
    epochs = np.reshape(numbers_of(images)[:15], [5, 3])
    assert (np.sort(epochs) == [0, 1, 2]).all()


def test_more_workers_than_examples_are_refused(tmp_path):
    dataset = write_numbered(tmp_path, (3,))
    with pytest.raises(DataError, match="3 examples, too few for 5 workers"):
        training_numbers(dataset, 1, shard_index=4, num_shards=5)


# ---- synthetic images


def test_synthetic_images_are_fixed_and_labels_in_range():
    dataset = data.open_dataset("synthetic", num_classes=7)
    config = data.InputConfig("vgg", 16, 3, 32, tf.float16, labels_offset=1, seed=3)
    for make, most in ((data.training_batches, 2), (data.evaluation_batches, 100)):
        with tf.Graph().as_default():
            images, labels = run_batches(make(dataset, config), most)
        with tf.Graph().as_default():
            again, _ = run_batches(make(dataset, config), 1)
        np.testing.assert_array_equal(images[0], again[0])
        assert images[0].shape == (32, 16, 16, 3) and images[0].dtype == np.float16
        assert set(np.concatenate(labels)) == set(range(6))
        assert images[0].std() > 0.5
    assert sum(map(len, labels)) == dataset.num_examples == 1000


# ---- configs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"preprocessing": "resnet"}, "inception, vgg, cifarnet, lenet"),
        ({"channels": 4}, "1 or 3"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"num_readers": 0}, "num_readers is 0"),
        ({"labels_offset": -1}, "labels_offset is -1"),
        ({"shard_index": 2, "num_shards": 2}, "must be 0 to 1"),
    ],
)
def test_a_config_that_cannot_be_is_refused(change, message):
    with pytest.raises(UsageError, match=message):
        dataclasses.replace(CONFIG, **change)


def test_a_labels_offset_that_leaves_no_class_is_refused():
    config = dataclasses.replace(CONFIG, labels_offset=10)
    for make in (data.training_batches, data.evaluation_batches):
        with pytest.raises(UsageError, match="leaves no class of the 10"):
            make(data.open_dataset(), config)


# ---- names


def test_an_evaluation_names_each_record(tmp_path):
    """By image/filename, or else by its file and number."""
    named = tf.train.Example.FromString(make_record(plain_image(3), 0))
    named.features.feature["image/filename"].bytes_list.value.append("grün 3.png".encode())
    unnamed = [make_record(plain_image(n), 0) for n in range(3)]
    for number, records in enumerate((unnamed[:2], [], [named.SerializeToString(), unnamed[2]])):
        write_records(tmp_path / f"toy_train_{number}.tfrecord", records)
    dataset = data.open_dataset("toy", "train", tmp_path, num_classes=2)
    with tf.Graph().as_default(), tf.Session() as session:
        batches = data.evaluation_batches(dataset, CONFIG, with_names=True)
        _, _, names = session.run(tf.data.make_one_shot_iterator(batches).get_next())
    files = [f"toy_train_{number}.tfrecord" for number in range(3)]
    assert [name.decode() for name in names] == [
        f"{files[0]}#0",
        f"{files[0]}#1",
        "grün 3.png",
        f"{files[2]}#1",
    ]
