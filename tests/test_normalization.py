"""Pixel values are normalised as by the whole preprocessing, where that moves no pixel."""

import numpy as np
import pytest

from slim_mp import preprocessing
from slim_mp.compat import tf
from slim_mp.preprocessing import normalization

SIZE = 12


def images(style, channels):
    """Images that evaluation neither crops nor resizes to other pixels."""
    random = np.random.RandomState(0)
    if style in ("cifarnet", "lenet"):
        return random.randint(0, 256, [3, SIZE, SIZE, channels], np.uint8)
    plain = random.randint(0, 256, [3, 1, 1, channels], np.uint8)
    return np.broadcast_to(plain, [3, SIZE, SIZE, channels])


@pytest.mark.parametrize("style", preprocessing.PREPROCESSINGS)
@pytest.mark.parametrize("channels", [1, 3])
def test_it_is_the_last_step_of_the_evaluation(style, channels):
    pixels = images(style, channels)
    with tf.Graph().as_default(), tf.Session() as session:
        expected = [
            preprocessing.preprocess(style, tf.constant(image), SIZE, SIZE, is_training=False)
            for image in pixels
        ]
        actual = normalization.normalize(style, tf.constant(pixels, tf.float32))
        expected, actual = session.run([tf.stack(expected), actual])
    assert np.ptp(actual) > 0.1
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("style", preprocessing.PREPROCESSINGS)
@pytest.mark.parametrize("channels", [1, 3])
def test_the_inverse_gives_pixels_that_become_the_same_input(style, channels):
    pixels = images(style, channels).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.float32, pixels.shape)
        normalised = normalization.normalize(style, fed)
        values = session.run(normalised, {fed: pixels})
        found = normalization.denormalize(style, values)
        again = session.run(normalised, {fed: found})
    assert found.dtype == np.float32
    np.testing.assert_allclose(again, values, rtol=0, atol=1e-5 * np.abs(values).max())
    if style != "cifarnet":
        np.testing.assert_allclose(found, pixels, rtol=0, atol=1e-3)
