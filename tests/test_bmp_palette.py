"""BMP files with a palette against Pillow."""

import io

import numpy as np
import pytest
from PIL import Image
from skimage import data as photographs
from toy_records import encode

from slim_mp.compat import tf
from slim_mp.preprocessing import decoding

PHOTOGRAPH = photographs.chelsea()[:60, :81]


def few_colours():
    file = io.BytesIO()
    Image.fromarray(PHOTOGRAPH).quantize(5).save(file, "BMP")
    return file.getvalue()


@pytest.fixture(scope="module")
def decode():
    """A function of the bytes of a file."""
    with tf.Graph().as_default(), tf.Session() as session:
        encoded = tf.placeholder(tf.string, [])
        yield session.make_callable(decoding.decode_image(encoded, 3), [encoded])


FILES = {
    "256 colours": encode(PHOTOGRAPH, "BMP", "P"),
    "5 colours": few_colours(),
    "grey": encode(PHOTOGRAPH, "BMP", "L"),
    "no palette": encode(PHOTOGRAPH, "BMP"),
    "no palette and alpha": encode(PHOTOGRAPH, "BMP", "RGBA"),
    "a png that begins with its own letters": encode(PHOTOGRAPH, mode="P"),
}


@pytest.mark.parametrize("kind", FILES)
def test_the_colours_are_those_of_the_palette(decode, kind):
    expected = np.asarray(Image.open(io.BytesIO(FILES[kind])).convert("RGB"))
    np.testing.assert_array_equal(decode(FILES[kind]), expected)


def test_a_compressed_file_fails_rather_than_be_misread(decode):
    compressed = bytearray(FILES["256 colours"])
    compressed[30] = 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="a compressed BMP file"):
        decode(bytes(compressed))


@pytest.mark.parametrize("length", [2, 14, 40, 54, 300, 2000])
def test_a_file_that_is_cut_off_fails(decode, length):
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(FILES["256 colours"][:length])
