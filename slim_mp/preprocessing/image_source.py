"""An image of which only a part is decoded: the crops of the preprocessing read windows of it.

Decoding is the dearest step of the input, and of a JPEG file only what a crop needs has to go
through the inverse transform and the conversion of colours.
"""

import dataclasses
import functools
from collections.abc import Callable

from slim_mp.compat import tf
from slim_mp.preprocessing import decoding
from slim_mp.preprocessing.orientation import UPRIGHT, orientation_of, upright

# What most files begin with: start of image and JFIF's segment of 16 bytes; then, with no Exif
# between, the first table of the image. And what a complete file ends with.
_JFIF, _TABLE, _END = b"\xff\xd8\xff\xe0\x00\x10", b"\xff\xdb", b"\xff\xd9"
_AFTER_JFIF = 20
# Columns decoded beyond a window. Upsampling of the colours looks one further, and interpolates
# only where there are more than two of half the resolution. Rows are the decoder's own care.
_MARGIN = 4
# From this width on a window may do without.
_NO_LONGER_NARROW = 8

# One node that costs nothing where it is not reached; what is inlined into a graph costs even then.
_rarely = functools.partial(
    tf.compat.v2.function, autograph=False, experimental_attributes={"_noinline": True}
)


@dataclasses.dataclass(frozen=True)
class Window:
    """A part of an image.

    Attributes:
      top, left, height, width: int32 tensors [] or ints, in pixels; it lies inside the image.
      stands_alone: whether its sides lie as those of `widened`.
    """

    top: tf.Tensor
    left: tf.Tensor
    height: tf.Tensor
    width: tf.Tensor
    stands_alone: bool = False


def widened(window, image_width):
    """Moves the sides of a window outwards, by at most a pixel, so that it can be read quicker.

    With half the resolution of colours, those of an odd column are interpolated with the next, and
    those of an even one with the last. Where the first column is odd and the last one even, or
    the image ends, no column beyond need be decoded and cut off again.

    Args:
      window: a `Window`.
      image_width: int32 tensor [].

    Returns:
      A `Window`.
    """
    left = tf.maximum(tf.bitwise.bitwise_or(window.left - 1, 1), 0)
    right = tf.minimum(tf.bitwise.bitwise_or(window.left + window.width, 1), image_width)
    return Window(window.top, left, window.height, right - left, stands_alone=True)


@dataclasses.dataclass(frozen=True)
class ImageSource:
    """An image that can be read in parts.

    Attributes:
      height: int32 tensor [], of the whole image.
      width: int32 tensor [].
      channels: 1 or 3.
      read: function of a `Window` that returns its pixels, uint8 [height, width, channels].
    """

    height: tf.Tensor
    width: tf.Tensor
    channels: int
    read: Callable

    def read_all(self):
        """Returns the same image decoded, for several windows of it."""
        return from_pixels(self.read(Window(0, 0, self.height, self.width)))


def from_pixels(image):
    """Makes a source of a decoded image, uint8 tensor [h, w, channels]."""
    height, width, _ = tf.unstack(tf.shape(image))

    def read(window):
        begin = tf.stack([window.top, window.left, 0])
        pixels = tf.slice(image, begin, tf.stack([window.height, window.width, -1]))
        pixels.set_shape([None, None, image.shape[-1]])
        return pixels

    return ImageSource(height, width, image.shape[-1], read)


def from_file(encoded, channels):
    """Makes a source of an image file.

    Of a JPEG file that is upright and complete, a window is decoded alone and equals that of the
    whole image; a file that was cut short must fail wherever the window lies. All others are
    decoded whole, and turned upright.

    Args:
      encoded: string tensor []: a JPEG, PNG, GIF or BMP file.
      channels: 1 or 3.

    Returns:
      An `ImageSource`. Reading it fails if the image cannot be decoded.
    """
    in_parts, shape, image = tf.cond(
        _is_plain(encoded), lambda: _header(encoded), lambda: _examine(encoded)
    )
    image.set_shape([None, None, 3])
    height, width, _ = tf.unstack(shape, num=3)

    def read(window):
        is_quick = in_parts
        if window.stands_alone:
            is_quick = tf.logical_and(in_parts, window.width >= _NO_LONGER_NARROW)
        sides = (window.top, window.left, window.height, window.width)
        pixels = tf.cond(
            is_quick,
            lambda: _decode_window(encoded, window, width),
            lambda: _cut(encoded, image, *sides),
        )
        pixels.set_shape([None, None, 3])
        return pixels if channels == 3 else decoding.luma(pixels)

    return ImageSource(height, width, channels, read)


def _is_plain(encoded):
    """Whether it is a complete JPEG file without Exif, as far as that shows at a glance."""
    end = tf.strings.substr(encoded, -len(_END), len(_END))
    marks = [
        tf.strings.substr(encoded, 0, len(_JFIF)),
        tf.strings.substr(encoded, _AFTER_JFIF, len(_TABLE)),
        end,
    ]
    return tf.equal(tf.strings.join(marks), _JFIF + _TABLE + _END)


def _header(encoded):
    """See `_examine`, for a file that can be decoded in parts."""
    return True, tf.image.extract_jpeg_shape(encoded), tf.zeros([0, 0, 3], tf.uint8)


@_rarely
def _examine(encoded):
    """Whether a file can be decoded in parts, its shape, int32 [3], and if not, the image."""
    orientation = orientation_of(encoded)
    is_complete = tf.equal(tf.strings.substr(encoded, -len(_END), len(_END)), _END)
    in_parts = tf.reduce_all(
        tf.stack([tf.io.is_jpeg(encoded), is_complete, tf.equal(orientation, UPRIGHT)])
    )

    def decode():
        image = upright(decoding.decode_image(encoded, 3), orientation)
        return False, tf.shape(image), image

    return tf.cond(in_parts, lambda: _header(encoded), decode)


@_rarely
def _cut(encoded, image, top, left, height, width):
    """A window of an image, which is decoded now if it was not before."""
    is_empty = tf.equal(tf.size(image), 0)
    image = tf.cond(is_empty, lambda: decoding.decode_image(encoded, 3), lambda: image)
    image.set_shape([None, None, 3])
    return from_pixels(image).read(Window(top, left, height, width))


def _decode_window(encoded, window, image_width):
    if window.stands_alone:
        place = tf.stack([window.top, window.left, window.height, window.width])
        return tf.image.decode_and_crop_jpeg(encoded, place, channels=3)
    left = tf.maximum(window.left - _MARGIN, 0)
    right = tf.minimum(window.left + window.width + _MARGIN, image_width)
    place = tf.stack([window.top, left, window.height, right - left])
    pixels = tf.image.decode_and_crop_jpeg(encoded, place, channels=3)
    begin = tf.stack([0, window.left - left, 0])
    return tf.slice(pixels, begin, tf.stack([-1, window.width, -1]))
