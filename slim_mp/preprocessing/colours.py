"""The photometric distortion of the Inception networks: brightness, saturation, hue and contrast.

Howard, "Some Improvements on Deep Convolutional Neural Network Based Image Classification",
arXiv:1312.5402, with the ranges of TF-Slim. The steps do not commute, so one of four orders is
drawn. The maths are those of tf.image.adjust_*; what runs between two passes over the whole image
is one loop over its pixels, compiled by XLA, since as single operations they take as long as
decoding the image.
"""

from slim_mp.compat import tf

FULL, BILINEAR, FAST, CROP = "full", "bilinear", "fast", "crop"
DISTORTIONS = (FULL, BILINEAR, FAST, CROP)
# Numbers that `distort` needs.
DRAWS = 5

_BRIGHTNESS = 32 / 255
_SATURATION = _CONTRAST = (0.5, 1.5)
_HUE = 0.2
# slim's fast mode knows two orders and takes the first as often as any of four.
_FAST_BRIGHTNESS_FIRST = 1 / 4
# Above rounding errors of grey pixels, below one step of an 8-bit value.
_SMALLEST_CHROMA = 1e-9


def distort(image, draws, distortion, mirror):
    """Distorts the colours of an image at random, and mirrors it on the way.

    Args:
      image: float32 tensor [height, width, channels] in [0, 1], of static shape; a grey one has
        neither saturation nor hue.
      draws: list of `DRAWS` float32 tensors [], uniform in [0, 1).
      distortion: `FULL` or `BILINEAR`, which differ in how the image was resized, or `FAST` for
        slim's fast mode: brightness and saturation only.
      mirror: bool tensor []; in the compiled loop it costs next to nothing.

    Returns:
      float32 tensor [height, width, channels]: clipped to [0, 1], then scaled to [-1, 1].
    """
    brightness = _between(draws[0], -_BRIGHTNESS, _BRIGHTNESS)
    saturation, contrast = _between(draws[1], *_SATURATION), _between(draws[2], *_CONTRAST)
    hue = _between(draws[3], -_HUE, _HUE)
    if image.shape[-1] == 1:
        if distortion != FAST:
            image = _adjust_contrast(image, contrast)
        return _compiled(_last_step)(image, mirror, brightness)
    if distortion == FAST:
        first = draws[4] < _FAST_BRIGHTNESS_FIRST
        before, after = tf.where_v2(first, brightness, 0.0), tf.where_v2(first, 0.0, brightness)
        return _compiled(_last_step)(image, mirror, before, saturation, None, after)
    order = tf.cast(draws[4] * len(ORDERS), tf.int32)
    factors = (brightness, saturation, hue, contrast)
    branches = [lambda steps=steps: steps(image, mirror, *factors) for steps in ORDERS.values()]
    result = tf.switch_case(order, branches)
    result.set_shape(image.shape)
    return result


def _between(draw, low, high):
    return low + draw * (high - low)


# ---- the four orders: contrast needs the mean of what went before, the rest goes pixel by pixel.
# Adding a brightness commutes with contrast and hue, and saturation with hue.


def _brightness_saturation_hue_contrast(image, mirror, brightness, saturation, hue, contrast):
    image = _compiled(_recolour)(image, brightness, saturation, hue)
    return _compiled(_last_step)(_adjust_contrast(image, contrast), mirror)


def _saturation_brightness_contrast_hue(image, mirror, brightness, saturation, hue, contrast):
    image = _adjust_contrast(_compiled(_recolour)(image, 0.0, saturation), contrast)
    return _compiled(_last_step)(image, mirror, brightness, None, hue)


def _contrast_hue_brightness_saturation(image, mirror, brightness, saturation, hue, contrast):
    image = _adjust_contrast(image, contrast)
    return _compiled(_last_step)(image, mirror, brightness, saturation, hue)


def _hue_saturation_contrast_brightness(image, mirror, brightness, saturation, hue, contrast):
    image = _adjust_contrast(_compiled(_recolour)(image, 0.0, saturation, hue), contrast)
    return _compiled(_last_step)(image, mirror, brightness)


# Each takes an image in [0, 1], whether to mirror it, and the factors of brightness, saturation,
# hue and contrast.
ORDERS = {
    "brightness, saturation, hue, contrast": _brightness_saturation_hue_contrast,
    "saturation, brightness, contrast, hue": _saturation_brightness_contrast_hue,
    "contrast, hue, brightness, saturation": _contrast_hue_brightness_saturation,
    "hue, saturation, contrast, brightness": _hue_saturation_contrast_brightness,
}


def _adjust_contrast(image, factor):
    return tf.raw_ops.AdjustContrastv2(images=image, contrast_factor=factor)


# ---- pixel by pixel


def _compiled(function):
    return tf.compat.v2.function(function, jit_compile=True)


def _last_step(image, mirror, before=0.0, saturation=None, hue=None, after=0.0):
    """Mirrors, adds, changes saturation and hue, adds, clips to [0, 1] and scales to [-1, 1]."""
    image = tf.where_v2(mirror, image[:, ::-1], image)
    image = _recolour(image, before, saturation, hue) + after
    return tf.clip_by_value(image, 0.0, 1.0) * 2.0 - 1.0


def _recolour(image, before, saturation=None, hue=None):
    """Adds a brightness, multiplies the saturation and turns the hue; None leaves it as it is.

    A channel at an angle d from the hue of a pixel has the value min + chroma * (2 - d) within
    [min, max], with d in units of a sixth of the circle. Both adjustments keep the maximum, so
    that neither the saturation nor the hue of HSV need be made and unmade.
    """
    image = image + before
    if saturation is None and hue is None:
        return image
    planes = tf.transpose(image, [2, 0, 1])
    red, green, blue = planes[0:1], planes[1:2], planes[2:3]
    # XLA makes quicker code of this than of a reduction over the first axis.
    highest = tf.maximum(red, tf.maximum(green, blue))
    chroma = highest - tf.minimum(red, tf.minimum(green, blue))
    below = highest - planes
    if hue is not None:
        below = chroma * (1.0 - _share_of_chroma(planes, highest, chroma, hue))
    if saturation is not None:
        # HSV's saturation, chroma by maximum, is at most 1 afterwards and 0 where all is black.
        most = highest / tf.maximum(chroma, _SMALLEST_CHROMA)
        below *= tf.clip_by_value(most, 0.0, saturation)
    return tf.transpose(highest - below, [1, 2, 0])


def _share_of_chroma(planes, highest, chroma, turn):
    """Where in [min, max], as [0, 1], each channel lies once the hue is turned.

    Args:
      planes: float32 tensor [3, height, width].
      highest: float32 tensor [1, height, width], the maximum of the channels.
      chroma: float32 tensor [1, height, width], maximum minus minimum.
      turn: float32 tensor [], in circles.
    """
    red, green, blue = planes[0:1], planes[1:2], planes[2:3]
    lowest = highest - chroma
    from_red = 1.0 + (green + blue - red - lowest) / tf.maximum(chroma, _SMALLEST_CHROMA)
    angle = tf.where_v2(green < blue, -from_red, from_red) + 6.0 * turn
    angles = angle - tf.constant([0.0, 2.0, -2.0])[:, tf.newaxis, tf.newaxis]
    # Beyond 6 this is right too: the clip hides that the distance there is negative.
    return tf.clip_by_value(tf.abs(3.0 - tf.abs(angles)) - 1.0, 0.0, 1.0)
