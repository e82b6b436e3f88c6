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


@pytest.fixture(scope="module")
def order(images):
    """The numbers of the images in the order of training."""
    return training_numbers(images, 100)


def test_each_epoch_holds_each_image_once(order):
    first, second = order[:41], order[41:82]
    assert sorted(first) == sorted(second) == list(range(41))
    assert first != second and first != sorted(first)


def test_shards_are_disjoint(images):
    union = []
    for index, size in ((0, 21), (1, 20)):
        numbers = training_numbers(images, 2 * size, shard_index=index, num_shards=2)
        assert sorted(numbers[:size]) == sorted(numbers[size:])
        union += numbers[:size]
    assert sorted(union) == list(range(41))


def test_the_order_depends_on_the_seed_only_and_is_resumed_anywhere(images, order):
    other = {"graph_seed": 5, "num_preprocessing_threads": 1, "start_example": 45}
    assert training_numbers(images, 55, **other) == order[45:]
    assert training_numbers(images, 50, seed=2) != order[:50]
    assert training_numbers(images, 50, seed=None) != order[:50]


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


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_image_file_is_named(tmp_path, kind):
    content, message = BAD_FILES[kind]
    dataset = image_set(tmp_path, 5, num_classes=3, contents={3: content})
    if content is None:
        (tmp_path / "grün 003.png").unlink()
    if kind == "label":
        dataset = dataclasses.replace(dataset, labels=(0, 1, 2, 3, 0))
    make = data.training_batches if kind == "text" else data.evaluation_batches
    with tf.Graph().as_default(), pytest.raises(data.INPUT_ERRORS) as raised:
        run_batches(make(dataset, CONFIG), 10)
    with pytest.raises(DataError, match=rf"{tmp_path}/grün 003.png .*{message}"):
        data.explain_input_error(raised.value, dataset, CONFIG)
