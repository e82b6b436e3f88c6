"""The colours of BMP files with a palette, of which TensorFlow decodes the indices as grey values.

Source: BITMAPFILEHEADER and BITMAPINFOHEADER of the Windows SDK.
"""

import functools

from slim_mp.compat import tf

_START = b"BM"
_FILE_HEADER_BYTES = 14
_HEADER_BYTES = 54
# Offsets of fields in the file.
_INFO_SIZE, _BITS, _COMPRESSION = 14, 28, 30
_PALETTE_BITS = 8
_MOST_COLOURS = 2**_PALETTE_BITS


def with_palette(image, encoded):
    """Gives an image the colours of the palette in its file, if it is a BMP file that has one.

    Args:
      image: uint8 tensor [h, w, 3], the file as TensorFlow decodes it.
      encoded: string tensor []: an image file of any kind.

    Returns:
      uint8 tensor [h, w, 3]. Running it fails for a file with a palette that is compressed.
    """
    is_bmp = tf.equal(tf.strings.substr(encoded, 0, len(_START)), _START)
    coloured = tf.cond(is_bmp, lambda: _look_up(image, encoded), lambda: image)
    coloured.set_shape([None, None, 3])
    return coloured


# A node of its own, which costs nothing where it is not reached.
@functools.partial(
    tf.compat.v2.function, autograph=False, experimental_attributes={"_noinline": True}
)
def _look_up(image, encoded):
    header = _bytes(encoded, 0, _HEADER_BYTES)
    has_palette = tf.equal(header[_BITS], _PALETTE_BITS)
    is_plain = tf.logical_or(tf.equal(_integer(header, _COMPRESSION), 0), ~has_palette)
    with tf.control_dependencies([tf.debugging.Assert(is_plain, ["a compressed BMP file"])]):
        start = _FILE_HEADER_BYTES + _integer(header, _INFO_SIZE)
    entries = tf.reshape(_bytes(encoded, start, 4 * _MOST_COLOURS), [_MOST_COLOURS, 4])
    # Blue, green, red, and a byte that is not used.
    colours = tf.cast(entries[:, 2::-1], tf.uint8)
    indices = tf.cast(image[..., 0], tf.int32)
    return tf.cond(has_palette, lambda: tf.gather(colours, indices), lambda: image)


def _bytes(encoded, position, count):
    """`count` bytes from a position on, int32; zeros where the file ends before."""
    position = tf.clip_by_value(position, 0, tf.strings.length(encoded))
    part = tf.strings.substr(encoded, position, count)
    return tf.cast(tf.compat.v2.io.decode_raw(part, tf.uint8, fixed_length=count), tf.int32)


def _integer(header, offset):
    return tf.reduce_sum(header[offset : offset + 4] * [1, 2**8, 2**16, 2**24])
