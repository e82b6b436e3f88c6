"""An image of which only a part is decoded: the crops of the preprocessing read windows of it.

Decoding is the dearest step of the input, and of a JPEG file only what a crop needs has to go
through the inverse transform and the conversion of colours.
"""

import dataclasses
from collections.abc import Callable

from slim_mp import decoding
from slim_mp.compat import tf
from slim_mp.orientation import UPRIGHT, orientation_of, upright

_END_OF_IMAGE = b"\xff\xd9"
# Upsampling of the colours looks this many pixels beyond a window; rows are looked after by TF.
_MARGIN = 1


@dataclasses.dataclass(frozen=True)
class Window:
    """A part of an image: int32 tensors [] or ints, in pixels; it lies inside the image."""

    top: tf.Tensor
    left: tf.Tensor
    height: tf.Tensor
    width: tf.Tensor


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
    orientation = orientation_of(encoded)
    in_parts = tf.reduce_all(
        tf.stack(
            [
                tf.io.is_jpeg(encoded),
                tf.equal(tf.strings.substr(encoded, -len(_END_OF_IMAGE), 2), _END_OF_IMAGE),
                tf.equal(orientation, UPRIGHT),
            ]
        )
    )
    none = tf.zeros([0, 0, 3], tf.uint8)

    def decode():
        image = upright(decoding.decode_image(encoded, 3), orientation)
        return tf.shape(image), image

    shape, image = tf.cond(in_parts, lambda: (tf.image.extract_jpeg_shape(encoded), none), decode)
    image.set_shape([None, None, 3])
    height, width, _ = tf.unstack(tf.ensure_shape(shape, [3]))

    def read(window):
        pixels = tf.cond(
            in_parts,
            lambda: _decode_window(encoded, window, width),
            lambda: from_pixels(image).read(window),
        )
        pixels.set_shape([None, None, 3])
        return pixels if channels == 3 else decoding.luma(pixels)

    return ImageSource(height, width, channels, read)


def _decode_window(encoded, window, image_width):
    left = tf.maximum(window.left - _MARGIN, 0)
    right = tf.minimum(window.left + window.width + _MARGIN, image_width)
    place = tf.stack([window.top, left, window.height, right - left])
    pixels = tf.image.decode_and_crop_jpeg(encoded, place, channels=3)
    inner = Window(0, window.left - left, window.height, window.width)
    return from_pixels(pixels).read(inner)
