"""The distortion of colours against tf.image's adjustments, one after the other."""

import numpy as np
import pytest
from skimage import data as photographs

from slim_mp.compat import tf
from slim_mp.preprocessing import colours

PHOTOGRAPH = (photographs.coffee()[100:130, 200:240] / 255).astype(np.float32)
# Every corner of the ranges, and what changes nothing.
FACTORS = [
    (brightness, saturation, hue, contrast)
    for brightness in (-32 / 255, 0.0, 32 / 255)
    for saturation in (0.5, 1.0, 1.5)
    for hue in (-0.2, 0.0, 0.2)
    for contrast in (0.5, 1.0, 1.5)
]
ADJUST = {
    "brightness": tf.image.adjust_brightness,
    "saturation": tf.image.adjust_saturation,
    "hue": tf.image.adjust_hue,
    "contrast": tf.image.adjust_contrast,
}


def extreme_colours():
    """All corners of the cube, all greys, and colours of which two channels are equal."""
    levels = np.linspace(0, 1, 9, dtype=np.float32)
    cube = np.stack(np.meshgrid(levels, levels, levels), -1).reshape(27, 27, 3)
    return np.concatenate([cube, np.repeat(levels.repeat(3)[:, np.newaxis, np.newaxis], 3, 2)], 1)


@pytest.fixture(scope="module")
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


@pytest.mark.parametrize("image", [PHOTOGRAPH, extreme_colours()], ids=["photograph", "extremes"])
@pytest.mark.parametrize("order", colours.ORDERS)
def test_each_order_does_what_its_steps_do_one_after_the_other(session, order, image):
    factors = [tf.placeholder(tf.float32, []) for _ in range(4)]
    by_name = dict(zip(("brightness", "saturation", "hue", "contrast"), factors, strict=True))
    found = colours.ORDERS[order](tf.constant(image), False, *factors)
    expected = tf.constant(image)
    for step in order.split(", "):
        expected = ADJUST[step](expected, by_name[step])
    expected = tf.clip_by_value(expected, 0.0, 1.0) * 2.0 - 1.0
    run = session.make_callable([found, expected], factors)
    for values in FACTORS:
        result, wanted = run(*values)
        np.testing.assert_allclose(result, wanted, atol=2e-5)


def distort(session, image, draws, distortion):
    result = colours.distort(tf.constant(image), [tf.constant(d) for d in draws], distortion, False)
    return (session.run(result) + 1) / 2


@pytest.mark.parametrize("number", range(4))
def test_each_order_is_drawn_a_quarter_of_the_time(session, number):
    draws = [0.9, 0.8, 0.7, 0.6]
    brightness, hue = (2 * 0.9 - 1) * 32 / 255, (2 * 0.6 - 1) * 0.2
    steps = list(colours.ORDERS.values())[number]
    expected = session.run(steps(tf.constant(PHOTOGRAPH), False, brightness, 1.3, hue, 1.2))
    for share in (0.01, 0.24):
        found = distort(session, PHOTOGRAPH, [*draws, number / 4 + share], colours.FULL)
        np.testing.assert_allclose(found * 2 - 1, expected, atol=1e-5)


@pytest.mark.parametrize(("draw", "first"), [(0.0, True), (0.24, True), (0.26, False)])
def test_the_fast_mode_changes_brightness_and_saturation_only(session, draw, first):
    image = tf.constant(PHOTOGRAPH)
    if first:
        expected = tf.image.adjust_saturation(image + 0.8 * 32 / 255, 1.3)
    else:
        expected = tf.image.adjust_saturation(image, 1.3) + 0.8 * 32 / 255
    expected = session.run(tf.clip_by_value(expected, 0.0, 1.0))
    found = distort(session, PHOTOGRAPH, [0.9, 0.8, 0.1, 0.1, draw], colours.FAST)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_grey_image_changes_in_brightness_and_contrast(session):
    grey = PHOTOGRAPH[..., :1]
    found = distort(session, grey, [0.9, 0.8, 0.7, 0.6, 0.5], colours.FULL)
    expected = np.clip((grey - grey.mean()) * 1.2 + grey.mean() + 0.8 * 32 / 255, 0, 1)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("draw", [0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize(("distortion", "channels"), [("full", 3), ("bilinear", 1), ("fast", 3)])
def test_a_mirrored_image_has_the_same_colours(session, distortion, channels, draw):
    image = tf.constant(PHOTOGRAPH[..., :channels])
    draws = [tf.constant(value) for value in (0.9, 0.8, 0.7, 0.6, draw)]
    plain, mirrored = session.run(
        [colours.distort(image, draws, distortion, mirror) for mirror in (False, True)]
    )
    np.testing.assert_allclose(mirrored, plain[:, ::-1], atol=1e-6)
