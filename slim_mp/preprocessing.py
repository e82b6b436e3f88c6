"""Image maths: from an image file to the input of a network, in one of four styles.

Each published network was trained with one of these styles, and its published accuracy holds
only with that one. Everything random is a function of a seed that is passed in, so a run can be
repeated and resumed. What the styles do was settled by the papers of the networks and by
TF-Slim's released weights: Szegedy et al., "Going Deeper with Convolutions", 2015 (inception);
Simonyan and Zisserman, "Very Deep Convolutional Networks", 2015 (vgg); Krizhevsky, "Learning
Multiple Layers of Features from Tiny Images", 2009 (cifarnet).
"""

import dataclasses
from collections.abc import Callable

from slim_mp import decoding
from slim_mp.compat import tf
from slim_mp.errors import UsageError
from slim_mp.normalization import scale_digits, subtract_vgg_means

_stateless = tf.compat.v2.image

# Shorter side before the crop, per pixel of the crop: 256 (to 512) for 224.
_VGG_EVAL_SCALE = 256 / 224
_VGG_LARGEST_SCALE = 512 / 224

_INCEPTION_CENTRAL_FRACTION = 0.875
_CIFARNET_PADDING = 4


def _seeds(seed, count):
    return tf.unstack(tf.random.experimental.stateless_split(seed, count))


def _random_integer(seed, low, high):
    """A scalar int32 of [low, high)."""
    return tf.random.stateless_uniform([], seed, low, high, tf.int32)


def _height_width(image):
    shape = tf.shape(image)
    return shape[0], shape[1]


def _resize(image, height, width, method=tf.image.ResizeMethod.BILINEAR):
    """Resizes as TensorFlow 1 did (corners not aligned, no half-pixel centres).

    Networks of that time saw their training images through this very sampling grid.
    """
    image = tf.image.resize_images(image, tf.stack([height, width]), method=method)
    return tf.cast(image, tf.float32)


# ---- inception


def _inception_crop(image, seed):
    begin, size, _ = _stateless.stateless_sample_distorted_bounding_box(
        tf.shape(image),
        tf.constant([[[0.0, 0.0, 1.0, 1.0]]]),
        seed=seed,
        min_object_covered=0.1,
        aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(0.05, 1.0),
        max_attempts=100,
        use_image_if_no_bounding_boxes=True,
    )
    return tf.slice(image, begin, size)


def _resize_by_random_method(image, height, width, seed):
    methods = (
        tf.image.ResizeMethod.BILINEAR,
        tf.image.ResizeMethod.NEAREST_NEIGHBOR,
        tf.image.ResizeMethod.BICUBIC,
        tf.image.ResizeMethod.AREA,
    )
    branches = [lambda m=method: _resize(image, height, width, m) for method in methods]
    return tf.switch_case(_random_integer(seed, 0, len(branches)), branches)


def _distort_colours(image, seed):
    """Brightness, saturation, hue and contrast of an image in [0, 1], in one of four orders.

    The steps do not commute. A grey image has no saturation or hue to change.
    """
    seeds = _seeds(seed, 5)
    steps = {
        "b": lambda x: _stateless.stateless_random_brightness(x, 32 / 255, seeds[0]),
        "s": lambda x: _stateless.stateless_random_saturation(x, 0.5, 1.5, seeds[1]),
        "h": lambda x: _stateless.stateless_random_hue(x, 0.2, seeds[2]),
        "c": lambda x: _stateless.stateless_random_contrast(x, 0.5, 1.5, seeds[3]),
    }
    orders = ("bshc", "sbch", "chbs", "hscb") if image.shape[-1] == 3 else ("bc", "cb")

    def in_order(order):
        result = image
        for step in order:
            result = steps[step](result)
        return result

    branches = [lambda o=order: in_order(o) for order in orders]
    image = tf.switch_case(_random_integer(seeds[4], 0, len(branches)), branches)
    return tf.clip_by_value(image, 0.0, 1.0)


def _inception_train(image, height, width, seed):
    crop, method, flip, colours = _seeds(seed, 4)
    channels = image.shape[-1]
    image = _inception_crop(tf.image.convert_image_dtype(image, tf.float32), crop)
    image = _resize_by_random_method(image, height, width, method)
    image.set_shape([height, width, channels])
    image = _stateless.stateless_random_flip_left_right(image, flip)
    return (_distort_colours(image, colours) - 0.5) * 2.0


def _inception_eval(image, height, width):
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.image.central_crop(image, _INCEPTION_CENTRAL_FRACTION)
    return (_resize(image, height, width) - 0.5) * 2.0


# ---- vgg


def _resize_shorter_side(image, length):
    sides = tf.cast(tf.shape(image)[:2], tf.float32)
    scale = tf.cast(length, tf.float32) / tf.reduce_min(sides)
    height, width = tf.unstack(tf.cast(tf.rint(sides * scale), tf.int32))
    return _resize(image, height, width)


def _vgg_train(image, height, width, seed):
    side, crop, flip = _seeds(seed, 3)
    size, channels = max(height, width), image.shape[-1]
    lowest, highest = round(size * _VGG_EVAL_SCALE), round(size * _VGG_LARGEST_SCALE)
    image = _resize_shorter_side(image, _random_integer(side, lowest, highest + 1))
    image = _stateless.stateless_random_crop(image, [height, width, channels], crop)
    image = _stateless.stateless_random_flip_left_right(image, flip)
    return subtract_vgg_means(image)


def _central_crop(image, height, width):
    full_height, full_width = _height_width(image)
    return tf.image.crop_to_bounding_box(
        image, (full_height - height) // 2, (full_width - width) // 2, height, width
    )


def _vgg_eval(image, height, width):
    image = _resize_shorter_side(image, round(max(height, width) * _VGG_EVAL_SCALE))
    return subtract_vgg_means(_central_crop(image, height, width))


# ---- cifarnet and lenet


def _pad_to_at_least(image, height, width):
    full_height, full_width = _height_width(image)
    return tf.image.resize_image_with_crop_or_pad(
        image, tf.maximum(full_height, height), tf.maximum(full_width, width)
    )


def _cifarnet_train(image, height, width, seed):
    crop, flip, brightness, contrast = _seeds(seed, 4)
    channels, edge = image.shape[-1], [_CIFARNET_PADDING] * 2
    image = _pad_to_at_least(tf.cast(image, tf.float32), height, width)
    image = tf.pad(image, [edge, edge, [0, 0]])
    image = _stateless.stateless_random_crop(image, [height, width, channels], crop)
    image = _stateless.stateless_random_flip_left_right(image, flip)
    image = _stateless.stateless_random_brightness(image, 63.0, brightness)
    image = _stateless.stateless_random_contrast(image, 0.2, 1.8, contrast)
    return tf.image.per_image_standardization(image)


def _cifarnet_eval(image, height, width):
    image = tf.image.resize_image_with_crop_or_pad(tf.cast(image, tf.float32), height, width)
    return tf.image.per_image_standardization(image)


def _lenet_eval(image, height, width):
    """Resizes instead of cropping or padding, so that the whole digit fills the image.

    On MNIST's own 28x28 that changes nothing; a digit of 8x8 pixels in a black field of 28x28
    would use a twelfth of the network's input, and a large one would lose its strokes.
    """
    image = tf.image.resize_bilinear(image[tf.newaxis], [height, width], half_pixel_centers=True)[0]
    return scale_digits(image)


def _lenet_train(image, height, width, seed):
    del seed  # A digit that is flipped or cut is another digit.
    return _lenet_eval(image, height, width)


# ---- the table


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """A style: name, `train(image, height, width, seed)`, `evaluate(image, height, width)`."""

    name: str
    train: Callable
    evaluate: Callable


PREPROCESSINGS = {
    row.name: row
    for row in (
        Preprocessing("inception", _inception_train, _inception_eval),
        Preprocessing("vgg", _vgg_train, _vgg_eval),
        Preprocessing("cifarnet", _cifarnet_train, _cifarnet_eval),
        Preprocessing("lenet", _lenet_train, _lenet_eval),
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


def preprocess(style, image, height, width, is_training, seed=None):
    """Makes the input of a network from a decoded image.

    Args:
      style: a key of `PREPROCESSINGS`.
      image: uint8 tensor [h, w, channels], h and w of any size, channels 1 or 3 and static.
      height: an int, pixels of the result.
      width: an int, pixels of the result.
      is_training: a bool; True distorts at random.
      seed: int32 or int64 tensor [2]; the distortion is a function of it. Only for training.

    Returns:
      float32 tensor [height, width, channels]: in [-1, 1] for inception and lenet, 0..255 minus
      the ImageNet means for vgg, of mean 0 and deviation 1 for cifarnet.

    Raises:
      UsageError: if there is no such style.
      ValueError: if `is_training` and there is no seed, or if channels is neither 1 nor 3.
    """
    row = get_preprocessing(style)
    channels = image.shape[-1]
    if channels not in (1, 3):
        raise ValueError(f"image has {channels} channels; 1 and 3 are possible.")
    if is_training and seed is None:
        raise ValueError("Training distorts images at random and needs a seed of shape [2].")
    with tf.name_scope(f"{row.name}_preprocessing"):
        if is_training:
            result = row.train(image, height, width, seed)
        else:
            result = row.evaluate(image, height, width)
        result.set_shape([height, width, channels])
        return result


def preprocess_encoded(style, encoded, channels, height, width, is_training, seed=None):
    """Makes the input of a network from an image file.

    Args:
      style: a key of `PREPROCESSINGS`.
      encoded: string tensor []: the bytes of a JPEG, PNG, GIF or BMP file.
      channels: 1 or 3.
      height, width, is_training, seed: as for `preprocess`.

    Returns:
      What `preprocess` returns. Running it fails if the image cannot be decoded.

    Raises:
      UsageError, ValueError: as `preprocess`.
    """
    image = decoding.decode_image(encoded, channels)
    return preprocess(style, image, height, width, is_training, seed)
