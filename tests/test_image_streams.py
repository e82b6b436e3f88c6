"""Image files as a training and an evaluation input."""

import dataclasses

import numpy as np
import pytest
from image_sets import image_set
from test_data import training_numbers
from toy_records import CONFIG, numbers_of, plain_image, run_batches

from slim_mp import data
from slim_mp.compat import tf
from slim_mp.errors import DataError


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return image_set(tmp_path_factory.mktemp("images"), 41)


def test_an_evaluation_gives_each_image_once_in_order_and_names_its_file(images):
    with tf.Graph().as_default(), tf.Session() as session:
        batches = data.evaluation_batches(images, CONFIG, with_names=True)
        following = tf.data.make_one_shot_iterator(batches).get_next()
        parts = [session.run(following) for _ in range(6)]
    pixels, labels, names = zip(*parts, strict=True)
    assert numbers_of(pixels) == list(range(41))
    assert np.concatenate(labels).tolist() == [number % 10 for number in range(41)]
    assert [name.decode() for name in np.concatenate(names)] == list(images.images)


@pytest.mark.parametrize("num_shards", [1, 3])
def test_each_epoch_holds_each_image_once_and_shards_are_disjoint(images, num_shards):
    union = []
    for index in range(num_shards):
        size = len(range(index, 41, num_shards))
        numbers = training_numbers(images, 2 * size, shard_index=index, num_shards=num_shards)
        assert sorted(numbers[:size]) == sorted(numbers[size:])
        assert numbers[:size] != numbers[size:]
        assert numbers[:size] != sorted(numbers[:size])
        union += numbers[:size]
    assert sorted(union) == list(range(41))


def test_the_order_depends_on_the_seed_only_and_is_resumed_anywhere(images):
    expected = training_numbers(images, 100)
    assert training_numbers(images, 100, graph_seed=5, num_preprocessing_threads=1) == expected
    assert training_numbers(images, 100, seed=2) != expected
    assert training_numbers(images, 50, seed=None) != training_numbers(images, 50, seed=None)
    for start in (1, 40, 41, 95):
        assert training_numbers(images, 100 - start, start_example=start) == expected[start:]


def test_labels_lose_the_offset(tmp_path):
    dataset = dataclasses.replace(image_set(tmp_path, 3), labels=(1, 3, 2))
    config = dataclasses.replace(CONFIG, labels_offset=1)
    with tf.Graph().as_default():
        _, labels = run_batches(data.evaluation_batches(dataset, config))
    assert labels[0].tolist() == [0, 2, 1]


BAD_FILES = {
    "text": (b"no image at all", "15 bytes that cannot be decoded"),
    "cut short": (plain_image(0)[:-20], "cannot be decoded"),
    "missing": (None, r"cannot be read \(No such file"),
    "label": (plain_image(3), "label 3, but with 3 classes"),
}


@pytest.mark.parametrize("make", [data.training_batches, data.evaluation_batches])
@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_image_file_is_named(tmp_path, kind, make):
    content, message = BAD_FILES[kind]
    dataset = image_set(tmp_path, 5, num_classes=3, contents={3: content})
    if content is None:
        (tmp_path / "grün 003.png").unlink()
    if kind == "label":
        dataset = dataclasses.replace(dataset, labels=(0, 1, 2, 3, 0))
    with tf.Graph().as_default(), pytest.raises(data.INPUT_ERRORS) as raised:
        run_batches(make(dataset, CONFIG), 10)
    with pytest.raises(DataError, match=rf"{tmp_path}/grün 003.png .*{message}"):
        data.explain_input_error(raised.value, dataset, CONFIG)
