"""The last step of each style of preprocessing: from pixel values to the input of a network.

A program that crops and resizes images itself needs only this.
"""

import numpy as np

from slim_mp.compat import tf

VGG_MEANS = (123.68, 116.78, 103.94)
# ITU-R 601 luma of the three means, for images of one channel.
_VGG_GREY_MEAN = 0.299 * 123.68 + 0.587 * 116.78 + 0.114 * 103.94


def _between_minus_one_and_one(pixels):
    return (pixels * (1 / 255) - 0.5) * 2.0


def subtract_vgg_means(pixels):
    """Subtracts the ImageNet means of the channels from float32 [..., channels] of 0..255."""
    return pixels - tf.constant(VGG_MEANS if pixels.shape[-1] == 3 else [_VGG_GREY_MEAN])


def scale_digits(pixels):
    """Scales float32 pixel values of 0..255 to [-1, 1) as lenet was trained with."""
    return (pixels - 128.0) / 128.0


_STYLES = {
    "inception": _between_minus_one_and_one,
    "vgg": subtract_vgg_means,
    "cifarnet": tf.image.per_image_standardization,
    "lenet": scale_digits,
}


def normalize(style, pixels):
    """Makes the input of a network from images that are cropped and resized already.

    Args:
      style: a key of `preprocessing.PREPROCESSINGS`.
      pixels: float32 tensor [..., height, width, channels] of values 0..255.

    Returns:
      float32 tensor of the same shape, as `preprocessing.preprocess` returns it.
    """
    return _STYLES[style](pixels)


# cifarnet standardizes each image: any scale and offset come to the same.
_INVERSES = {
    "inception": lambda values: (values + 1.0) * 127.5,
    "vgg": lambda values: values + (VGG_MEANS if values.shape[-1] == 3 else _VGG_GREY_MEAN),
    "cifarnet": lambda values: values * 64.0 + 128.0,
    "lenet": lambda values: values * 128.0 + 128.0,
}


def denormalize(style, values):
    """Makes pixel values of which `normalize` makes the given input of a network.

    Args:
      style: a key of `preprocessing.PREPROCESSINGS`.
      values: float32 array [..., height, width, channels], as `normalize` returns it.

    Returns:
      float32 array of the same shape, 0..255 but for rounding and what cifarnet's scale exceeds.
    """
    return _INVERSES[style](values).astype(np.float32)
