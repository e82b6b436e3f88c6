"""Resizes uint8 pixels to float32, on TensorFlow 1's sampling grid and on any other.

Networks of that time saw their training images through `resize_images` of TensorFlow 1: pixel i of
the result lies at i * old / new, with neither corners nor centres aligned.
"""

from slim_mp.compat import tf


def to_floats(pixels, low, high):
    """Maps uint8 linearly onto float32, 0 to `low` and 255 to `high`, in one pass."""
    return tf.raw_ops.Dequantize(
        input=tf.bitcast(pixels, tf.quint8), min_range=low, max_range=high, mode="MIN_COMBINED"
    )


def grid(old, new):
    """Where the pixels of a resized side lie on the old one.

    Args:
      old: int32 tensor [], pixels.
      new: an int or int32 tensor [], pixels.

    Returns:
      float32 tensor [new].
    """
    scale = tf.cast(old, tf.float32) / tf.cast(new, tf.float32)
    return tf.cast(tf.range(new), tf.float32) * scale


def resize(pixels, height, width, low, high):
    """Resizes by bilinear interpolation on the grid of TensorFlow 1.

    Args:
      pixels: uint8 tensor [h, w, channels].
      height: an int, pixels of the result.
      width: an int.
      low, high: as for `to_floats`.

    Returns:
      float32 tensor [height, width, channels].
    """
    return _resize_floats(tf.image.resize_bilinear, pixels, height, width, low, high)


def resize_by(method, pixels, height, width, low, high):
    """Resizes by one of four methods, chosen in the graph, on the grid of TensorFlow 1.

    Args:
      method: int32 tensor []: 0 bilinear, 1 nearest neighbour, 2 bicubic, 3 mean over the area.
      pixels, height, width, low, high: as for `resize`.

    Returns:
      float32 tensor [height, width, channels].
    """
    args = (pixels, height, width, low, high)
    branches = [
        lambda: resize(*args),
        lambda: _resize_to_nearest(*args),
        lambda: _resize_floats(tf.image.resize_bicubic, *args),
        lambda: _resize_floats(tf.image.resize_area, *args),
    ]
    image = tf.switch_case(method, branches)
    image.set_shape([height, width, pixels.shape[-1]])
    return image


def _resize_floats(operation, pixels, height, width, low, high):
    images = operation(tf.expand_dims(to_floats(pixels, low, high), 0), [height, width])
    image = tf.squeeze(images, 0)
    image.set_shape([height, width, pixels.shape[-1]])
    return image


def _resize_to_nearest(pixels, height, width, low, high):
    """As tf.image.resize_nearest_neighbor, in half the time."""
    old_height, old_width, _ = tf.unstack(tf.shape(pixels))
    rows = tf.cast(grid(old_height, height), tf.int32)
    columns = tf.cast(grid(old_width, width), tf.int32)
    return to_floats(tf.gather(tf.gather(pixels, rows), columns, axis=1), low, high)


def sample(pixels, rows, columns):
    """Interpolates between pixels at any places.

    Args:
      pixels: uint8 or float32 tensor [h, w, channels].
      rows: float32 tensor [height]: places between 0 and h - 1; what is outside is moved there.
      columns: float32 tensor [width].

    Returns:
      float32 tensor [height, width, channels] in the units of `pixels`.
    """
    old_height, old_width, channels = tf.unstack(tf.shape(pixels))
    height, width = tf.size(rows), tf.size(columns)
    lines = _sample_lines(tf.reshape(pixels, [old_height, -1]), rows)
    turned = tf.transpose(tf.reshape(lines, [height, old_width, channels]), [1, 0, 2])
    lines = _sample_lines(tf.reshape(turned, [old_width, -1]), columns)
    image = tf.transpose(tf.reshape(lines, [width, height, channels]), [1, 0, 2])
    image.set_shape([rows.shape[0], columns.shape[0], pixels.shape[-1]])
    return image


def _sample_lines(lines, places):
    """Rows between those of [n, length]: each is cut out as an image of one pixel.

    The loop of that operation over channels runs along the row, so that it is quick.
    """
    last = tf.cast(tf.shape(lines)[0] - 1, tf.float32)
    share = tf.clip_by_value(places, 0.0, last) / tf.maximum(last, 1.0)
    zeros = tf.zeros_like(share)
    cut = tf.image.crop_and_resize(
        lines[tf.newaxis, :, tf.newaxis],
        boxes=tf.stack([share, zeros, share, zeros], axis=1),
        box_indices=tf.zeros_like(share, tf.int32),
        crop_size=[1, 1],
    )
    return cut[:, 0, 0]
