"""The style of the VGG and ResNet v1 networks.

Simonyan and Zisserman, "Very Deep Convolutional Networks", 2015, section 3: the image is resized so
that its shorter side is 256 (in training at random up to 512), a crop of 224 is cut out and the
means of ImageNet are subtracted. Here only what the crop shows is ever read and resized.
"""

from slim_mp.compat import tf
from slim_mp.preprocessing import resampling
from slim_mp.preprocessing.crops import offset
from slim_mp.preprocessing.image_source import Window
from slim_mp.preprocessing.normalization import normalize

# 224 of 256.
CENTRAL_FRACTION = 0.875
_LARGEST_SIDE = 512 / 224


def train(source, height, width, seed, distortion, recolour):
    """See `preprocessing.Preprocessing`; the style has no colours of its own."""
    del distortion
    draws = tf.unstack(tf.random.stateless_uniform([4], seed))
    lowest = _shorter_side(height, width, CENTRAL_FRACTION)
    highest = round(max(height, width) * _LARGEST_SIDE)
    full_height, full_width = _resized(source, lowest + _integer(draws[0], highest - lowest + 1))
    rows = _grid(_integer(draws[1], full_height - height + 1), height, source.height, full_height)
    columns = _grid(_integer(draws[2], full_width - width + 1), width, source.width, full_width)
    columns = tf.where_v2(draws[3] < 0.5, columns[::-1], columns)
    image = _sample(source, rows, columns)
    return _normalize(recolour(image) if recolour else image)


def evaluate(source, height, width, fraction, places):
    """See `preprocessing.Preprocessing`."""
    full_height, full_width = _resized(source, _shorter_side(height, width, fraction))

    def crop(vertical, horizontal):
        top, left = offset(vertical, full_height, height), offset(horizontal, full_width, width)
        rows = _grid(top, height, source.height, full_height)
        columns = _grid(left, width, source.width, full_width)
        return _normalize(_sample(source, rows, columns))

    return [crop(*place) for place in places]


def _normalize(image):
    """As `normalize`, in a fraction of the time: the means lie in memory as a row of pixels does.

    Args:
      image: float32 tensor [height, width, channels], of static shape.
    """
    height, width, channels = image.shape.as_list()
    lines = tf.reshape(image, [height, width * channels])
    means = tf.reshape(normalize("vgg", tf.zeros([width, channels])), [-1])
    return tf.reshape(lines + means, [height, width, channels])


def _shorter_side(height, width, fraction):
    return round(max(height, width) / fraction)


def _resized(source, shorter_side):
    """Height and width when the shorter side has that many pixels, int32 tensors []."""
    sides = tf.cast(tf.stack([source.height, source.width]), tf.float32)
    scale = tf.cast(shorter_side, tf.float32) / tf.reduce_min(sides)
    return tf.unstack(tf.cast(tf.rint(sides * scale), tf.int32))


def _integer(draw, count):
    """An int32 of [0, count) from a number of [0, 1)."""
    count = tf.cast(count, tf.float32)
    return tf.cast(tf.minimum(draw * count, count - 1), tf.int32)


def _grid(first, count, old, new):
    """Where pixels `first` to `first + count` of a resized side lie on the old one."""
    scale = tf.cast(old, tf.float32) / tf.cast(new, tf.float32)
    return tf.cast(first + tf.range(count), tf.float32) * scale


def _sample(source, rows, columns):
    """Interpolates at the given places, of which the last may come first."""
    top, height = _span(rows, source.height)
    left, width = _span(columns, source.width)
    pixels = source.read(Window(top, left, height, width))
    return resampling.sample(
        pixels, rows - tf.cast(top, tf.float32), columns - tf.cast(left, tf.float32)
    )


def _span(places, side):
    """First pixel and number of pixels that the places lie between."""
    first = tf.cast(tf.minimum(places[0], places[-1]), tf.int32)
    last = tf.cast(tf.maximum(places[0], places[-1]), tf.int32) + 1
    return first, tf.minimum(last + 1, side) - first
