"""From an image file to the input of a network, in one of four styles.

Each published network was trained with one of these styles, and its published accuracy holds
only with that one. Everything random is a function of a seed that is passed in, so a run can be
repeated and resumed. What the styles do was settled by the papers of the networks and by
TF-Slim's released weights; each has a room of its own.

A training image is distorted in full by default: by a random method of resizing and all four
changes of colours, as the published Inception networks were. slim's scripts ran in its fast mode,
which resizes bilinearly and changes brightness and saturation only.
"""

import dataclasses
from collections.abc import Callable

from slim_mp.compat import tf
from slim_mp.errors import UsageError
from slim_mp.preprocessing import (
    colours,
    crops,
    image_source,
    inception_preprocessing,
    small_preprocessing,
    vgg_preprocessing,
)
from slim_mp.preprocessing.colours import DISTORTIONS


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """A style.

    Attributes:
      name: how it is called.
      train: function of an `ImageSource`, height, width, seed, one of `DISTORTIONS` and a function
        that changes the colours instead, or None; returns float32 [height, width, channels].
      evaluate: function of an `ImageSource`, height, width, the central fraction and the places of
        crops (see crops.py); returns a list of one float32 [height, width, channels] for each.
      central_fraction: share of each side that the central crop keeps, or None where images are
        cropped as they are.
      has_crops: whether several crops of one image make sense.
    """

    name: str
    train: Callable
    evaluate: Callable
    central_fraction: float | None
    has_crops: bool = True


PREPROCESSINGS = {
    row.name: row
    for row in (
        Preprocessing(
            "inception",
            inception_preprocessing.train,
            inception_preprocessing.evaluate,
            inception_preprocessing.CENTRAL_FRACTION,
        ),
        Preprocessing(
            "vgg",
            vgg_preprocessing.train,
            vgg_preprocessing.evaluate,
            vgg_preprocessing.CENTRAL_FRACTION,
        ),
        Preprocessing(
            "cifarnet",
            small_preprocessing.train_cifarnet,
            small_preprocessing.evaluate_cifarnet,
            central_fraction=None,
        ),
        Preprocessing(
            "lenet",
            small_preprocessing.train_lenet,
            small_preprocessing.evaluate_lenet,
            central_fraction=1.0,
            has_crops=False,
        ),
    )
}


def get_preprocessing(style):
    """Looks a style up by name.

    Args:
      style: a key of `PREPROCESSINGS`.

    Returns:
      The `Preprocessing`.

    Raises:
      UsageError: if there is no such style; the message lists those there are.
    """
    if style not in PREPROCESSINGS:
        raise UsageError(
            f"There is no preprocessing '{style}'; choose one of {', '.join(PREPROCESSINGS)}."
        )
    return PREPROCESSINGS[style]


def check_crops(style, num_crops=1, central_fraction=None):
    """Checks that a style can be evaluated so.

    Args:
      style: a key of `PREPROCESSINGS`.
      num_crops: 1 or 10.
      central_fraction: a float of (0, 1], or None for that of the style.

    Raises:
      UsageError: if there is no such style, or it does not have such crops; the message says why.
    """
    row = get_preprocessing(style)
    if num_crops not in (1, 10):
        raise UsageError(f"crops is {num_crops}; it must be 1 or 10.")
    if num_crops > 1 and not row.has_crops:
        raise UsageError(
            f"The preprocessing '{style}' shows a digit whole and never mirrored, so that it has "
            "no ten crops; evaluate with one."
        )
    if central_fraction is None:
        return
    if row.central_fraction is None:
        raise UsageError(
            f"The preprocessing '{style}' crops images as they are, without resizing them, so that "
            "no central fraction can be chosen; leave it out."
        )
    if not 0 < central_fraction <= 1:
        raise UsageError(
            f"central_fraction is {central_fraction}; it must be above 0 and at most 1."
        )


def preprocess(style, image, height, width, is_training, seed=None, **choices):
    """Makes the input of a network from a decoded image.

    Args:
      style: a key of `PREPROCESSINGS`.
      image: uint8 tensor [h, w, channels], h and w of any size, channels 1 or 3 and static.
      height: an int, pixels of the result.
      width: an int, pixels of the result.
      is_training: a bool; True distorts at random.
      seed: int32 or int64 tensor [2]; the distortion is a function of it. Only for training.
      **choices: those of `preprocess_encoded`.

    Returns:
      What `preprocess_encoded` returns.

    Raises:
      UsageError, ValueError: as `preprocess_encoded`.
    """
    _check_channels(image.shape[-1])
    source = image_source.from_pixels(image)
    return _preprocess(style, source, height, width, is_training, seed, **choices)


def preprocess_encoded(style, encoded, channels, height, width, is_training, seed=None, **choices):
    """Makes the input of a network from an image file, of which it decodes no more than it needs.

    A photograph is turned upright as its Exif orientation says. Memory is bounded by the image as
    it is decoded, 3 bytes a pixel, and 12 bytes for each pixel of the rows that the result needs.

    Args:
      style: a key of `PREPROCESSINGS`.
      encoded: string tensor []: the bytes of a JPEG, PNG, GIF or BMP file.
      channels: 1 or 3.
      height: an int, pixels of the result.
      width: an int, pixels of the result.
      is_training: a bool; True distorts at random.
      seed: int32 or int64 tensor [2]; the distortion is a function of it. Only for training.
      **choices: for training, `distortion`, one of `DISTORTIONS`: `full` by default,
        `bilinear` for one method of resizing, `fast` as slim's scripts, or `crop` for a random crop
        and flip only; and `recolour`, None or a function that is called instead of the changes of
        colours with float32 [height, width, channels] of 0..255 and returns the same. For
        evaluation, `num_crops`, 1 or 10, and `central_fraction`, a float of (0, 1] that replaces
        the style's: 0.875 of each side for inception and vgg, all of it for lenet.

    Returns:
      float32 tensor [height, width, channels]: in [-1, 1] for inception and lenet, 0..255 minus
      the ImageNet means for vgg, of mean 0 and deviation 1 for cifarnet. With ten crops
      [10, height, width, channels]: the four corners and the centre, then their mirror images.
      Running it fails if the image cannot be decoded.

    Raises:
      UsageError: if there is no such style, or it has no such crops.
      ValueError: if `is_training` and there is no seed, or if channels is neither 1 nor 3.
    """
    _check_channels(channels)
    source = image_source.from_file(encoded, channels)
    return _preprocess(style, source, height, width, is_training, seed, **choices)


def _check_channels(channels):
    if channels not in (1, 3):
        raise ValueError(f"image has {channels} channels; 1 and 3 are possible.")


def _preprocess(style, source, height, width, is_training, seed, **choices):
    row = get_preprocessing(style)
    if is_training and seed is None:
        raise ValueError("Training distorts images at random and needs a seed of shape [2].")
    with tf.name_scope(f"{row.name}_preprocessing"):
        if is_training:
            return _train(row, source, height, width, seed, **choices)
        return _evaluate(row, source, height, width, **choices)


def _train(row, source, height, width, seed, distortion=colours.FULL, recolour=None):
    if distortion not in DISTORTIONS:
        raise UsageError(
            f"There is no distortion '{distortion}'; choose one of {', '.join(DISTORTIONS)}."
        )
    return row.train(source, height, width, seed, distortion, recolour)


def _evaluate(row, source, height, width, num_crops=1, central_fraction=None):
    check_crops(row.name, num_crops, central_fraction)
    fraction = central_fraction or row.central_fraction
    if num_crops == 1:
        return row.evaluate(source, height, width, fraction, crops.CENTRE)[0]
    images = row.evaluate(source.read_all(), height, width, fraction, crops.FIVE)
    return crops.with_mirrored(images)
