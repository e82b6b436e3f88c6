"""Photographs that lie on their side, against Pillow, and files that say nonsense about it."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from skimage import data as photographs

from slim_mp.compat import tf
from slim_mp.preprocessing import orientation

PHOTOGRAPH = Image.fromarray(photographs.chelsea()[:60, :81])
ORIENTATION_TAG = 0x0112


def exif(value, order="II", before=()):
    """An APP1 content with some tags before the orientation, in one of the two byte orders."""
    content = Image.Exif()
    content.endian = "<" if order == "II" else ">"
    for tag, text in before:
        content[tag] = text
    content[ORIENTATION_TAG] = value
    return content.tobytes()


def jpeg(exif_content=b"", **options):
    file = io.BytesIO()
    PHOTOGRAPH.save(file, "JPEG", exif=exif_content, **options)
    return file.getvalue()


def segment(marker, content):
    return bytes([0xFF, marker]) + (len(content) + 2).to_bytes(2, "big") + content


def after_start(encoded, *segments):
    """A JPEG file with segments put in before all others."""
    return encoded[:2] + b"".join(segments) + encoded[2:]


@pytest.fixture(scope="module")
def orientation_of():
    """A function of the bytes of a file."""
    with tf.Graph().as_default(), tf.Session() as session:
        encoded = tf.placeholder(tf.string, [])
        yield session.make_callable(orientation.orientation_of(encoded), [encoded])


JFIF = segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0")
ADOBE = segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation='3'/>")
PROFILE = segment(0xE2, b"ICC_PROFILE\0\1\1" + bytes(60_000))
THUMBNAIL = segment(0xED, b"Photoshop 3.0\0" + jpeg(exif(3)))
COMMENT = segment(0xFE, b"Exif\0\0II*\0")
BEFORE = {
    "nothing": (),
    "JFIF": (JFIF,),
    "XMP": (ADOBE,),
    "JFIF and XMP": (JFIF, ADOBE),
    "two profiles of 60 kB": (JFIF, PROFILE, PROFILE),
    "a thumbnail with Exif of its own": (THUMBNAIL,),
    "a comment and fill bytes": (COMMENT, b"\xff\xff"),
}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("order", ["II", "MM"])
def test_every_orientation_is_found_wherever_it_may_stand(orientation_of, before, order):
    tags = [(0x010F, "a maker"), (0x0110, "a model of theirs"), (0x0131, "software")]
    for value in range(1, 9):
        plain = jpeg(exif(value, order, tags[: value % 4]))
        encoded = after_start(plain, *BEFORE[before])
        assert Image.open(io.BytesIO(encoded)).getexif()[ORIENTATION_TAG] == value
        assert orientation_of(encoded) == value


@pytest.mark.parametrize("before", BEFORE)
def test_a_file_without_exif_is_upright(orientation_of, before):
    encoded = after_start(jpeg(), *BEFORE[before])
    assert orientation_of(encoded) == 1


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP"])
def test_other_kinds_are_upright(orientation_of, kind):
    file = io.BytesIO()
    PHOTOGRAPH.save(file, kind)
    assert orientation_of(file.getvalue()) == 1


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_a_value_that_exif_does_not_know_is_upright(orientation_of, value):
    assert orientation_of(jpeg(exif(value))) == 1


def test_the_tag_of_the_thumbnail_is_not_the_images(orientation_of):
    content = Image.Exif()
    content.get_ifd(1)[ORIENTATION_TAG] = 6
    content[0x010F] = "a maker"
    assert orientation_of(jpeg(content.tobytes())) == 1


ROTATED = jpeg(exif(6, before=[(0x010F, "a maker")]))
HEADER = ROTATED.index(b"\xff\xdb")


def test_a_file_that_ends_anywhere_does_not_fail(orientation_of):
    for length in range(HEADER + 20):
        assert orientation_of(ROTATED[:length]) in (1, 6)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(2, HEADER), st.integers(0, 255)), min_size=1, max_size=8))
def test_damaged_headers_do_not_fail(orientation_of, changes):
    damaged = bytearray(ROTATED)
    for position, value in changes:
        damaged[position] = value
    assert 1 <= orientation_of(bytes(damaged)) <= 8


@pytest.mark.parametrize("value", range(1, 9))
def test_images_are_turned_as_pillow_turns_them(value):
    encoded = jpeg(exif(value), quality=95)
    with tf.Graph().as_default(), tf.Session() as session:
        data = tf.constant(encoded)
        image = tf.io.decode_jpeg(data, channels=3)
        turned = orientation.upright(image, orientation.orientation_of(data))
        assert turned.shape.as_list() == [None, None, 3]
        stored, turned = session.run([image, turned])
    content = Image.Exif()
    content[ORIENTATION_TAG] = value
    expected = Image.fromarray(stored)
    expected.getexif().update(content)
    np.testing.assert_array_equal(turned, np.asarray(ImageOps.exif_transpose(expected)))
