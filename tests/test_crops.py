"""Ten crops, other central fractions, and what training may choose of a style."""

import dataclasses

import numpy as np
import pytest
from skimage import data as photographs
from toy_records import encode, make_record, run_batches, write_records

from slim_mp import data, preprocessing
from slim_mp.compat import tf
from slim_mp.data.augmentation import AugmentationConfig
from slim_mp.errors import UsageError
from slim_mp.preprocessing.normalization import normalize

PHOTOGRAPH = photographs.chelsea()
SIZE = 32


def evaluate(style, image=PHOTOGRAPH, **choices):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(
            preprocessing.preprocess(style, tf.constant(image), SIZE, SIZE, False, **choices)
        )


def train(style, seed=(1, 2), image=PHOTOGRAPH, **choices):
    with tf.Graph().as_default(), tf.Session() as session:
        seed = tf.constant(seed, tf.int64)
        image = tf.constant(image)
        return session.run(
            preprocessing.preprocess(style, image, SIZE, SIZE, True, seed, **choices)
        )


# ---- evaluation


@pytest.mark.parametrize("style", ["inception", "vgg", "cifarnet"])
def test_ten_crops_are_the_corners_the_centre_and_their_mirror_images(style):
    crops = evaluate(style, num_crops=10)
    assert crops.shape == (10, SIZE, SIZE, 3)
    np.testing.assert_array_equal(crops[5:], crops[:5, :, ::-1])
    np.testing.assert_allclose(crops[4], evaluate(style), atol=2e-5)


@pytest.mark.parametrize("style", ["inception", "vgg"])
def test_the_first_five_crops_are_top_left_top_right_bottom_left_bottom_right_and_centre(style):
    # Red grows by a level a row, blue by one a column: what a crop spans can be read from it.
    ramp = np.zeros([256, 256, 3], np.uint8)
    ramp[..., 0], ramp[..., 2] = np.arange(256)[:, np.newaxis], np.arange(256)
    start, end, middle = (0, 224), (32, 256), (16, 240)
    spans = [(start, start), (start, end), (end, start), (end, end), (middle, middle)]
    for crop, (rows, columns) in zip(evaluate(style, ramp, num_crops=10), spans, strict=False):
        for channel, seen, span in (
            (0, crop[[0, -1], 0, 0], rows),
            (2, crop[0, [0, -1], 2], columns),
        ):
            np.testing.assert_allclose(level_of(style, seen, channel), span, atol=1.5 * 256 / SIZE)


def test_crops_of_the_cifarnet_style_are_not_resized():
    crops = evaluate("cifarnet", num_crops=10)
    parts = [PHOTOGRAPH[:SIZE, :SIZE], PHOTOGRAPH[:SIZE, -SIZE:]]
    parts += [PHOTOGRAPH[-SIZE:, :SIZE], PHOTOGRAPH[-SIZE:, -SIZE:]]
    for crop, part in zip(crops, parts, strict=False):
        np.testing.assert_allclose(crop, (part - part.mean()) / part.std(), atol=1e-4)


def test_corners_of_the_inception_style_are_as_large_as_its_central_crop():
    height, width = PHOTOGRAPH.shape[:2]
    rows, columns = height - 2 * (height // 16), width - 2 * int(width / 16)
    first = PHOTOGRAPH[:rows, :columns]
    np.testing.assert_allclose(
        evaluate("inception", num_crops=10)[0],
        evaluate("inception", first, central_fraction=1.0),
        atol=1e-5,
    )


@pytest.mark.parametrize("style", ["inception", "vgg", "lenet"])
@pytest.mark.parametrize("fraction", [0.5, 1.0])
def test_a_central_fraction_is_that_part_of_the_image(style, fraction):
    # A vertical ramp in steps of a pixel: the first and last row tell what the crop spans.
    side = 256
    ramp = np.tile(np.arange(side, dtype=np.uint8)[:, np.newaxis, np.newaxis], [1, side, 3])
    found = evaluate(style, ramp, central_fraction=fraction)[:, 0, 0]
    margin = side * (1 - fraction) / 2
    seen = level_of(style, found[[0, -1]], 0)
    np.testing.assert_allclose(seen, [margin, side - margin], atol=side * fraction / SIZE)


def level_of(style, inputs, channel):
    """The level of 0..255 that an input of the network came from."""
    levels = np.arange(256.0)
    pixels = tf.constant(np.tile(levels[:, np.newaxis, np.newaxis], [1, 1, 3]), tf.float32)
    with tf.Session() as session:
        return np.interp(inputs, session.run(normalize(style, pixels))[:, 0, channel], levels)


def test_the_default_fraction_is_that_of_the_style():
    for style in ("inception", "vgg"):
        np.testing.assert_array_equal(evaluate(style), evaluate(style, central_fraction=0.875))
    np.testing.assert_array_equal(evaluate("lenet"), evaluate("lenet", central_fraction=1.0))


@pytest.mark.parametrize(
    ("style", "choices", "message"),
    [
        ("lenet", {"num_crops": 10}, "'lenet' .* digit"),
        ("cifarnet", {"central_fraction": 0.5}, "'cifarnet' .* without resizing"),
        ("inception", {"num_crops": 5}, "5; it must be 1 or 10"),
        ("vgg", {"central_fraction": 1.5}, "1.5; it must be above 0"),
    ],
)
def test_crops_that_a_style_does_not_have_are_refused(style, choices, message):
    with pytest.raises(UsageError, match=message):
        preprocessing.check_crops(style, **choices)
    with pytest.raises(UsageError, match=message):
        evaluate(style, **choices)


# ---- training


def test_a_crop_only_is_a_part_of_the_image_and_maybe_mirrored():
    # A ramp of two colours: what is seen is a part of the ramp, in its own colours.
    ramp = np.zeros([128, 128, 3], np.uint8)
    ramp[..., 0], ramp[..., 2] = np.arange(128)[:, np.newaxis], np.arange(128)
    for number in range(10):
        found = (train("inception", (0, number), ramp, distortion="crop") + 1) * 127.5
        np.testing.assert_allclose(found[..., 1], 0, atol=1e-3)
        for axis, channel in ((0, 0), (1, 2)):
            steps = np.diff(found[..., channel], axis=axis)
            np.testing.assert_allclose(steps, steps.flat[0], atol=1e-3 + abs(steps).max())


def test_distortions_differ_in_colours_only():
    seeds = [(0, n) for n in range(12)]
    crops = [train("inception", seed, distortion="crop") for seed in seeds]
    fast = [train("inception", seed, distortion="fast") for seed in seeds]
    assert len({np.abs(a - b).mean().round(6) for a, b in zip(crops, fast, strict=True)}) == 12
    for crop, changed in zip(crops, fast, strict=True):
        luma = [np.dot(image, [0.299, 0.587, 0.114]).ravel() for image in (crop, changed)]
        assert np.corrcoef(*luma)[0, 1] > 0.9


def test_bilinear_is_full_but_for_the_method_of_resizing():
    seeds = [(0, n) for n in range(24)]
    pairs = [
        [train("inception", seed, distortion=kind) for kind in ("full", "bilinear")]
        for seed in seeds
    ]
    equal = [np.array_equal(*pair) for pair in pairs]
    assert 0 < sum(equal) < len(seeds) / 2, "a quarter, on average"
    for full, bilinear in pairs:
        assert np.abs(full.mean((0, 1)) - bilinear.mean((0, 1))).max() < 0.05


@pytest.mark.parametrize("style", preprocessing.PREPROCESSINGS)
def test_colours_may_be_changed_by_another_function(style):
    seen = []

    def recolour(image):
        seen.append(image.shape.as_list())
        return tf.zeros_like(image)

    black = train(style, recolour=recolour)
    assert seen == [[SIZE, SIZE, 3]]
    with tf.Session() as session:
        expected = session.run(normalize(style, tf.zeros([SIZE, SIZE, 3])))
    np.testing.assert_array_equal(black, expected)


def test_an_unknown_distortion_is_refused():
    with pytest.raises(UsageError, match=r"'slow'.*full, bilinear, fast, crop"):
        train("vgg", distortion="slow")


# ---- through the input


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photographs")
    images = [PHOTOGRAPH[:100, :120], PHOTOGRAPH[100:200, 100:240], PHOTOGRAPH[200:, 300:]]
    write_records(
        folder / "toy_train.tfrecord",
        [make_record(encode(image, "JPEG"), n) for n, image in enumerate(images)],
    )
    return data.open_dataset("toy", "train", folder, num_classes=3)


CONFIG = data.InputConfig("inception", SIZE, 3, 2, tf.float32, seed=1)


def first_images(dataset, **changes):
    config = dataclasses.replace(CONFIG, **changes)
    with tf.Graph().as_default():
        return run_batches(data.training_batches(dataset, config), 1)[0][0]


def test_evaluation_may_have_ten_crops(dataset):
    found = {}
    for crops in (1, 10):
        config = dataclasses.replace(CONFIG, crops=crops, central_fraction=0.75)
        with tf.Graph().as_default():
            found[crops], _ = run_batches(data.evaluation_batches(dataset, config))
    assert [batch.shape for batch in found[10]] == [(n, 10, SIZE, SIZE, 3) for n in (2, 1)]
    for one, ten in zip(found[1], found[10], strict=True):
        np.testing.assert_allclose(ten[:, 4], one, atol=1e-5)


def test_training_follows_the_distortion_and_randaugment_of_its_config(dataset):
    full, crop = first_images(dataset), first_images(dataset, distortion="crop")
    strong = AugmentationConfig(randaugment_layers=2, randaugment_magnitude=10)
    changed = first_images(dataset, distortion="crop", augmentation=strong)
    assert np.abs(full - crop).mean() > 0.01
    assert np.abs(changed - crop).mean() > 0.01
    np.testing.assert_array_equal(
        changed, first_images(dataset, distortion="crop", augmentation=strong)
    )
