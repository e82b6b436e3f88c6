"""Augmentation in the training stream: off by default, repeatable, resumable, rounded last."""

import dataclasses

import numpy as np
import pytest
from image_sets import image_set
from toy_records import CONFIG, encode, numbers_of, run_batches

from slim_mp import data
from slim_mp.compat import tf
from slim_mp.data.augmentation import AugmentationConfig
from slim_mp.errors import UsageError

KINDS = {
    "erasing": AugmentationConfig(random_erasing=0.7),
    "mixup": AugmentationConfig(mixup=0.3),
    "cutmix": AugmentationConfig(cutmix=1.0),
    "all": AugmentationConfig(0.5, 0.3, 1.0, randaugment_layers=2, randaugment_magnitude=9),
}


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """Images of noise, so that an erased part is no different in kind."""
    random = np.random.RandomState(0)
    contents = {n: encode(random.randint(0, 256, [8, 8, 3], np.uint8)) for n in range(12)}
    return image_set(tmp_path_factory.mktemp("noise"), 12, num_classes=3, contents=contents)


def config_of(augmentation, **changes):
    settings = {"preprocessing": "lenet", "image_size": 8, "channels": 3, "batch_size": 4}
    return dataclasses.replace(CONFIG, augmentation=augmentation, **{**settings, **changes})


def batches_of(dataset, config, count):
    with tf.Graph().as_default():
        return run_batches(data.training_batches(dataset, config), count)


@pytest.fixture(scope="module")
def plain(noise):
    return batches_of(noise, config_of(AugmentationConfig()), 5)


@pytest.mark.parametrize("kind", ["erasing", "all"])
def test_an_augmented_stream_is_repeated_and_resumed_bit_for_bit(noise, plain, kind):
    config = config_of(KINDS[kind])
    images, labels = batches_of(noise, config, 5)
    later = dataclasses.replace(config, start_example=8, num_preprocessing_threads=1)
    again, again_labels = batches_of(noise, later, 3)
    np.testing.assert_array_equal(images[2:], again)
    np.testing.assert_array_equal(labels[2:], again_labels)
    # The same images in the same order, with something done to most batches.
    changed = [not np.array_equal(*pair) for pair in zip(images, plain[0], strict=True)]
    assert sum(changed) >= 3
    if KINDS[kind].mixes:
        assert labels[0].shape == (4, 3) and labels[0].dtype == np.float32
        np.testing.assert_allclose(np.sum(labels, -1), 1, atol=1e-6)
    else:
        np.testing.assert_array_equal(labels, plain[1])


def test_mixed_labels_are_those_of_the_images(tmp_path):
    """Of plain images the class can be read off the pixels, in every batch."""
    dataset = image_set(tmp_path, 10, num_classes=10)
    for kind in ("mixup", "cutmix"):
        images, labels = batches_of(
            dataset, dataclasses.replace(CONFIG, augmentation=KINDS[kind]), 6
        )
        pixels = np.concatenate(images).mean((1, 2, 3)) * 128 + 128
        np.testing.assert_allclose(pixels, np.concatenate(labels) @ np.arange(10), atol=1e-4)


def test_images_are_rounded_after_they_are_mixed(noise):
    single, _ = batches_of(noise, config_of(KINDS["mixup"]), 3)
    half, labels = batches_of(noise, config_of(KINDS["mixup"], compute_dtype=tf.float16), 3)
    assert half[0].dtype == np.float16 and labels[0].dtype == np.float32
    np.testing.assert_array_equal(half, np.asarray(single).astype(np.float16))


def test_an_evaluation_is_not_augmented(tmp_path):
    dataset = image_set(tmp_path, 10)
    config = dataclasses.replace(CONFIG, augmentation=KINDS["all"])
    with tf.Graph().as_default():
        images, labels = run_batches(data.evaluation_batches(dataset, config))
    assert numbers_of(images) == list(range(10))
    assert labels[0].dtype == np.int64


def test_the_synthetic_batch_is_mixed_too():
    config = config_of(KINDS["mixup"], compute_dtype=tf.float16, labels_offset=1)
    dataset = data.open_dataset("synthetic", num_classes=7)
    images, labels = batches_of(dataset, config, 2)
    assert images[0].dtype == np.float16 and labels[0].shape == (4, 6)
    np.testing.assert_array_equal(images[0], images[1])


def test_a_single_image_cannot_be_mixed(noise):
    with pytest.raises(UsageError, match=r"--mixup and --cutmix .* larger --batch_size"):
        batches_of(noise, config_of(KINDS["cutmix"], batch_size=1), 1)
