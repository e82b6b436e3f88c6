"""RandAugment: some operations of a list, drawn at random for each image, all equally strong.

Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search space",
arXiv:1909.13719. The operations are those of its section 3 and have the strength that AutoAugment
(arXiv:1805.09501, table 6) gives them at most, times the magnitude by 10. The colours follow
Pillow's ImageOps and ImageEnhance, which the papers used.
"""

import math

from slim_mp.compat import tf

# What an operation does at most, at a magnitude of 10.
_ENHANCEMENT = 0.9
_ROTATION = math.radians(30)
_SHEAR = 0.3
_TRANSLATION = 150 / 331
_POSTERIZED_BITS = 4

_WHITE = 255.0
# What shows where an image was moved away.
_FILL = 128.0
_SMOOTHING = [[1, 1, 1], [1, 5, 1], [1, 1, 1]]


def rand_augment(image, layers, magnitude, seed):
    """Changes an image by some random operations.

    Args:
      image: float32 tensor [height, width, channels], of static shape. Values outside [0, 255], to
        which bicubic resizing leads, are taken for the nearest in it.
      layers: an int, how many operations, one after the other.
      magnitude: a float from 0 to 10, how strong they are.
      seed: int32 or int64 tensor [2]; the result is a function of it.

    Returns:
      float32 tensor [height, width, channels] in [0, 255].
    """
    strength = magnitude / 10
    image = tf.clip_by_value(image, 0.0, _WHITE)
    for one in tf.unstack(tf.random.experimental.stateless_split(seed, layers)):
        choice, sign = tf.unstack(tf.random.experimental.stateless_split(one, 2))
        number = tf.random.stateless_uniform([], choice, 0, len(OPERATIONS), tf.int32)
        is_negative = tf.random.stateless_uniform([], sign) < 0.5
        signed = tf.where_v2(is_negative, -strength, strength)
        # Bound now: the loop goes on before the branches are built.
        branches = [
            lambda operation=operation, image=image, signed=signed: operation(image, signed)
            for operation in OPERATIONS.values()
        ]
        changed = tf.clip_by_value(tf.switch_case(number, branches), 0.0, _WHITE)
        image = tf.ensure_shape(changed, image.shape)
    return image


def _identity(image, signed):
    del signed
    return image


# ---- colours


def _autocontrast(image, signed):
    del signed
    low, high = (f(image, axis=[0, 1]) for f in (tf.reduce_min, tf.reduce_max))
    scale = _WHITE / tf.maximum(high - low, 1.0)
    return tf.where_v2(high - low < 1.0, image, (image - low) * scale)


def _equalize(image, signed):
    del signed
    levels = tf.cast(tf.rint(image), tf.int32)
    channels = [_equalized(channel) for channel in tf.unstack(levels, axis=-1)]
    return tf.cast(tf.stack(channels, axis=-1), tf.float32)


def _equalized(channel):
    """Spreads the levels of one channel so that each range of them has as many pixels."""
    counts = tf.math.bincount(tf.reshape(channel, [-1]), minlength=256, maxlength=256)
    used = tf.boolean_mask(counts, counts > 0)
    step = (tf.reduce_sum(used) - used[-1]) // 255
    table = (tf.cumsum(counts, exclusive=True) + step // 2) // tf.maximum(step, 1)
    return tf.where_v2(tf.equal(step, 0), channel, tf.gather(tf.minimum(table, 255), channel))


def _posterize(image, signed):
    unit = 2.0 ** tf.round(tf.abs(signed) * _POSTERIZED_BITS)
    return tf.floor(image / unit) * unit


def _solarize(image, signed):
    return tf.where_v2(image >= 256.0 * (1.0 - tf.abs(signed)), _WHITE - image, image)


def _enhanced(image, plain, signed):
    """Moves an image away from a plainer one, or towards it."""
    return plain + (1.0 + _ENHANCEMENT * signed) * (image - plain)


def _luma(image):
    return image if image.shape[-1] == 1 else tf.image.rgb_to_grayscale(image)


def _colour(image, signed):
    return _enhanced(image, _luma(image), signed)


def _contrast(image, signed):
    return _enhanced(image, tf.reduce_mean(_luma(image)), signed)


def _brightness(image, signed):
    return _enhanced(image, 0.0, signed)


def _sharpness(image, signed):
    weights = tf.constant(_SMOOTHING, tf.float32)[..., tf.newaxis, tf.newaxis] / 13.0
    weights = tf.tile(weights, [1, 1, image.shape[-1], 1])
    smooth = tf.nn.depthwise_conv2d(image[tf.newaxis], weights, [1, 1, 1, 1], "SAME")[0]
    rows, columns = (tf.range(length) for length in image.shape.as_list()[:2])
    is_inner = tf.logical_and(_is_inner(rows)[:, tf.newaxis], _is_inner(columns)[tf.newaxis])
    # The pixels at the edge stay as they are.
    return _enhanced(image, tf.where_v2(is_inner[..., tf.newaxis], smooth, image), signed)


def _is_inner(places):
    return tf.logical_and(places > 0, places < tf.size(places) - 1)


# ---- shapes


def _moved(image, matrix):
    """An image whose pixel (x, y), from its centre, is that of the input at `matrix` (x, y, 1).

    Args:
      image: float32 [height, width, channels].
      matrix: six numbers or float32 tensors [], two rows of three.
    """
    height, width, _ = image.shape.as_list()
    x, y = (width - 1) / 2, (height - 1) / 2
    a, b, right, c, d, down = matrix
    corner = (right + x - a * x - b * y, down + y - c * x - d * y)
    transform = tf.stack(
        [tf.cast(v, tf.float32) for v in (a, b, corner[0], c, d, corner[1], 0.0, 0.0)]
    )
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=image[tf.newaxis],
        transforms=transform[tf.newaxis],
        output_shape=[height, width],
        fill_value=_FILL,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )[0]


def _rotate(image, signed):
    angle = _ROTATION * signed
    cos, sin = tf.cos(angle), tf.sin(angle)
    return _moved(image, (cos, -sin, 0.0, sin, cos, 0.0))


def _shear_x(image, signed):
    return _moved(image, (1.0, _SHEAR * signed, 0.0, 0.0, 1.0, 0.0))


def _shear_y(image, signed):
    return _moved(image, (1.0, 0.0, 0.0, _SHEAR * signed, 1.0, 0.0))


def _translate_x(image, signed):
    distance = _TRANSLATION * image.shape.as_list()[1] * signed
    return _moved(image, (1.0, 0.0, distance, 0.0, 1.0, 0.0))


def _translate_y(image, signed):
    distance = _TRANSLATION * image.shape.as_list()[0] * signed
    return _moved(image, (1.0, 0.0, 0.0, 0.0, 1.0, distance))


# Each takes an image and the strength, from -1 to 1, a float32 tensor [].
OPERATIONS = {
    "identity": _identity,
    "autocontrast": _autocontrast,
    "equalize": _equalize,
    "rotate": _rotate,
    "solarize": _solarize,
    "colour": _colour,
    "posterize": _posterize,
    "contrast": _contrast,
    "brightness": _brightness,
    "sharpness": _sharpness,
    "shear_x": _shear_x,
    "shear_y": _shear_y,
    "translate_x": _translate_x,
    "translate_y": _translate_y,
}
