"""The style of the Inception, MobileNet, NASNet and ResNet v2 networks.

Szegedy et al., "Going Deeper with Convolutions", 2015, section 6: crops of 5 % to all of the area,
at 3:4 to 4:3, resized by a random method, and photometric distortion (see colours.py).
"""

from slim_mp.compat import tf
from slim_mp.preprocessing import colours, resampling
from slim_mp.preprocessing.colours import CROP, FULL
from slim_mp.preprocessing.crops import central_part, offset
from slim_mp.preprocessing.image_source import Window, widened
from slim_mp.preprocessing.normalization import normalize

CENTRAL_FRACTION = 0.875
_METHODS = 4


def random_window(source, seed):
    """Draws a part of an image, or takes all of it where no part of that shape fits.

    Args:
      source: an `ImageSource`.
      seed: int32 or int64 tensor [2].

    Returns:
      A `Window`.
    """
    begin, size, _ = tf.compat.v2.image.stateless_sample_distorted_bounding_box(
        tf.stack([source.height, source.width, source.channels]),
        tf.constant([[[0.0, 0.0, 1.0, 1.0]]]),
        seed=seed,
        min_object_covered=0.1,
        aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(0.05, 1.0),
        max_attempts=100,
        use_image_if_no_bounding_boxes=True,
    )
    top, left, _ = tf.unstack(begin)
    height, width, _ = tf.unstack(size)
    return widened(Window(top, left, height, width), source.width)


def train(source, height, width, seed, distortion, recolour):
    """See `preprocessing.Preprocessing`."""
    of_window, of_draws = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
    pixels = source.read(random_window(source, of_window))
    draws = tf.unstack(tf.random.stateless_uniform([2 + colours.DRAWS], of_draws))
    method, mirror = tf.cast(draws[0] * _METHODS, tf.int32), draws[1] < 0.5
    # In one pass: what the image is scaled to depends on what comes next.
    low, high = (0.0, 255.0) if recolour else (-1.0, 1.0) if distortion == CROP else (0.0, 1.0)
    args = (pixels, height, width, low, high)
    image = resampling.resize_by(method, *args) if distortion == FULL else resampling.resize(*args)
    if distortion != CROP and not recolour:
        return colours.distort(image, draws[2:], distortion, mirror)
    image = tf.cond(mirror, lambda: tf.reverse(image, axis=[1]), lambda: image)
    return normalize("inception", recolour(image)) if recolour else image


def evaluate(source, height, width, fraction, places):
    """See `preprocessing.Preprocessing`."""
    window_height, top = central_part(source.height, fraction)
    window_width, left = central_part(source.width, fraction)

    def crop(vertical, horizontal):
        window = Window(
            offset(vertical, source.height, window_height, top),
            offset(horizontal, source.width, window_width, left),
            window_height,
            window_width,
        )
        return resampling.resize(source.read(window), height, width, -1.0, 1.0)

    return [crop(*place) for place in places]
