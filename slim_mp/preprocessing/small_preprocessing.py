"""The styles of the two networks for small images, cifarnet and lenet.

Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009 (cifarnet): crops of the
padded image as it is, not resized. Digits (lenet) are neither cut nor mirrored in training: a part
of a digit is another digit.
"""

from slim_mp.compat import tf
from slim_mp.preprocessing import resampling
from slim_mp.preprocessing.colours import CROP
from slim_mp.preprocessing.crops import central_part, offset
from slim_mp.preprocessing.image_source import Window
from slim_mp.preprocessing.normalization import normalize

_PADDING = 4
_BRIGHTNESS = 63.0
_CONTRAST = (0.2, 1.8)


def train_cifarnet(source, height, width, seed, distortion, recolour):
    """See `preprocessing.Preprocessing`."""
    draws = tf.unstack(tf.random.stateless_uniform([5], seed))
    top = _random_begin(draws[0], source.height, height)
    left = _random_begin(draws[1], source.width, width)
    image = _cut_out(source, top, left, height, width)
    image = tf.cond(draws[2] < 0.5, lambda: tf.reverse(image, axis=[1]), lambda: image)
    if recolour:
        image = recolour(image)
    elif distortion != CROP:
        low, high = _CONTRAST
        image += _BRIGHTNESS * (2.0 * draws[3] - 1.0)
        image = tf.image.adjust_contrast(image, low + draws[4] * (high - low))
    return normalize("cifarnet", image)


def evaluate_cifarnet(source, height, width, fraction, places):
    """See `preprocessing.Preprocessing`; `fraction` is None."""
    del fraction

    def crop(vertical, horizontal):
        top = _place(vertical, source.height, height)
        left = _place(horizontal, source.width, width)
        return normalize("cifarnet", _cut_out(source, top, left, height, width))

    return [crop(*place) for place in places]


def train_lenet(source, height, width, seed, distortion, recolour):
    """See `preprocessing.Preprocessing`; the style draws nothing at random."""
    del seed, distortion
    image = _fill(source, height, width, 1.0)
    return normalize("lenet", recolour(image) if recolour else image)


def evaluate_lenet(source, height, width, fraction, places):
    """See `preprocessing.Preprocessing`."""
    del places
    return [normalize("lenet", _fill(source, height, width, fraction))]


def _before(side, part):
    """Black pixels before a side that is shorter than the part."""
    return tf.maximum(part - side, 0) // 2


def _place(place, side, part):
    """Where a crop of an evaluation begins; before the image, at less than 0, all is black."""
    return offset(place, tf.maximum(side, part), part) - _before(side, part)


def _random_begin(draw, side, part):
    """Where a random crop of the image with a black border begins."""
    count = tf.cast(tf.maximum(side, part) - part + 2 * _PADDING + 1, tf.float32)
    chosen = tf.cast(tf.minimum(draw * count, count - 1), tf.int32)
    return chosen - _PADDING - _before(side, part)


def _overlap(begin, part, side):
    """First pixel and number of pixels of a part of a side that lie inside it."""
    first = tf.clip_by_value(begin, 0, side - 1)
    return first, tf.clip_by_value(begin + part, first + 1, side) - first


def _cut_out(source, top, left, height, width):
    """A crop, float32 of 0..255, that may lie partly outside the image, where all is black."""
    first_row, rows = _overlap(top, height, source.height)
    first_column, columns = _overlap(left, width, source.width)
    pixels = source.read(Window(first_row, first_column, rows, columns))
    image = tf.image.pad_to_bounding_box(
        tf.cast(pixels, tf.float32), first_row - top, first_column - left, height, width
    )
    return tf.ensure_shape(image, [height, width, source.channels])


def _fill(source, height, width, fraction):
    """The image, or the central fraction of it, resized as a whole; float32 of 0..255.

    A digit of 8x8 pixels in a black field of 28x28 would use a twelfth of the network's input, and
    a large one that is cut would lose its strokes. MNIST's own 28x28 stay as they are.
    """
    rows, top = central_part(source.height, fraction)
    columns, left = central_part(source.width, fraction)
    pixels = source.read(Window(top, left, rows, columns))
    return resampling.sample(pixels, _centres(rows, height), _centres(columns, width))


def _centres(old, new):
    scale = tf.cast(old, tf.float32) / new
    return (tf.range(new, dtype=tf.float32) + 0.5) * scale - 0.5
