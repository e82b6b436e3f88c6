"""RandAugment: each operation against Pillow's, which the paper used, and the draw of them."""

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps
from skimage import data as photographs

from slim_mp.compat import tf
from slim_mp.data.rand_augment import OPERATIONS, rand_augment

SIZE = 66
# Dull, so that spreading its levels changes something.
PHOTOGRAPH = (photographs.chelsea()[40 : 40 + SIZE, 90 : 90 + SIZE] // 2 + 40).astype(np.uint8)
PICTURE = Image.fromarray(PHOTOGRAPH)


def moved(picture, *matrix):
    """The picture by an affine transformation about its centre, as Pillow has it."""
    a, b, c, d, e, f = matrix
    centre = SIZE / 2
    corner = (c + centre - a * centre - b * centre, f + centre - d * centre - e * centre)
    return picture.transform(
        picture.size,
        Image.Transform.AFFINE,
        (a, b, corner[0], d, e, corner[1]),
        Image.Resampling.BILINEAR,
        fillcolor=(128,) * 3,
    )


def rotation(strength):
    angle = np.radians(30 * strength)
    return np.cos(angle), -np.sin(angle), 0, np.sin(angle), np.cos(angle), 0


FAR = SIZE * 150 / 331
PILLOW = {
    "identity": lambda p, s: p,
    "autocontrast": lambda p, s: ImageOps.autocontrast(p),
    "equalize": lambda p, s: ImageOps.equalize(p),
    "solarize": lambda p, s: ImageOps.solarize(p, 256 * (1 - abs(s))),
    "posterize": lambda p, s: ImageOps.posterize(p, 8 - round(4 * abs(s))),
    "colour": lambda p, s: ImageEnhance.Color(p).enhance(1 + 0.9 * s),
    "contrast": lambda p, s: ImageEnhance.Contrast(p).enhance(1 + 0.9 * s),
    "brightness": lambda p, s: ImageEnhance.Brightness(p).enhance(1 + 0.9 * s),
    "sharpness": lambda p, s: ImageEnhance.Sharpness(p).enhance(1 + 0.9 * s),
    "rotate": lambda p, s: moved(p, *rotation(s)),
    "shear_x": lambda p, s: moved(p, 1, 0.3 * s, 0, 0, 1, 0),
    "shear_y": lambda p, s: moved(p, 1, 0, 0, 0.3 * s, 1, 0),
    "translate_x": lambda p, s: moved(p, 1, 0, FAR * s, 0, 1, 0),
    "translate_y": lambda p, s: moved(p, 1, 0, 0, 0, 1, FAR * s),
}


@pytest.fixture(scope="module")
def apply():
    """A function of an operation's name and a strength: the photograph after it."""
    with tf.Graph().as_default(), tf.Session() as session:
        signed = tf.placeholder(tf.float32, [])
        image = tf.constant(PHOTOGRAPH, tf.float32)
        results = {
            name: tf.clip_by_value(operation(image, signed), 0.0, 255.0)
            for name, operation in OPERATIONS.items()
        }
        yield lambda name, strength: session.run(results[name], {signed: strength})


@pytest.mark.parametrize("strength", [-1.0, -0.4, 0.2, 0.7])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_does_what_it_does_in_pillow(apply, name, strength):
    expected = np.asarray(PILLOW[name](PICTURE, strength), np.float32)
    found = apply(name, strength)
    error = np.abs(found - expected)
    # Pillow rounds each value down or to the next; at an edge its filling differs.
    assert np.median(error) <= 1 and np.quantile(error, 0.93) <= 2
    if name != "identity" and abs(strength) > 0.5:
        assert np.abs(found - PHOTOGRAPH).mean() > 1


@pytest.mark.parametrize("name", OPERATIONS)
def test_without_strength_nothing_that_has_one_happens(apply, name):
    if name not in ("autocontrast", "equalize"):
        np.testing.assert_allclose(apply(name, 0.0), PHOTOGRAPH, atol=1e-3)


def augmented(layers, magnitude, count, image=PHOTOGRAPH):
    with tf.Graph().as_default(), tf.Session() as session:
        seed = tf.placeholder(tf.int64, [2])
        result = rand_augment(tf.constant(image, tf.float32), layers, magnitude, seed)
        assert result.shape.as_list() == list(image.shape) and result.dtype == tf.float32
        return np.stack([session.run(result, {seed: [3, n]}) for n in range(count)])


def test_values_that_resizing_led_out_of_the_range_are_taken_for_its_ends():
    image = PHOTOGRAPH * 4.0 - 300
    assert image.min() < 0 and image.max() > 255
    clipped = np.clip(image, 0, 255)
    np.testing.assert_array_equal(augmented(2, 9, 60, image), augmented(2, 9, 60, clipped))


def test_all_operations_are_drawn_with_both_signs():
    found = augmented(1, 9, 300)
    assert found.min() >= 0 and found.max() <= 255
    different = np.unique(found.reshape(len(found), -1), axis=0)
    # 9 of the 14 have a sign, of the others 5 are always the same.
    assert len(different) == 9 * 2 + 5
    np.testing.assert_array_equal(found[:4], augmented(1, 9, 4))


def test_layers_follow_each_other():
    once, twice = augmented(1, 9, 40), augmented(2, 9, 40)
    distance = [np.abs(part - PHOTOGRAPH).mean() for part in (once, twice)]
    assert distance[1] > distance[0]
    assert len(np.unique(twice.reshape(40, -1), axis=0)) > len(
        np.unique(once.reshape(40, -1), axis=0)
    )


@pytest.mark.parametrize("shape", [(8, 8, 1), (1, 1, 3), (2, 5, 3)])
def test_grey_and_tiny_images_are_augmented(shape):
    image = np.arange(np.prod(shape)).reshape(shape).astype(np.float32) % 256
    found = augmented(3, 10, 60, image)
    assert np.isfinite(found).all() and found.min() >= 0 and found.max() <= 255
