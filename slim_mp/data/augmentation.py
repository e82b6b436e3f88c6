"""Which augmentation training has beyond that of the preprocessing, and the erasing of a part.

RandAugment is in rand_augment.py, what mixes the images of a batch in mixing.py. Everything is off
by default, and a function of a seed that is passed in, so that a run can be repeated and resumed.
"""

import dataclasses

from slim_mp.compat import tf
from slim_mp.errors import UsageError

# Allowed values of the fields of `AugmentationConfig`, as the flags document them.
RANGES = {
    "random_erasing": (0, 1),
    "mixup": (0, 100),
    "cutmix": (0, 100),
    "randaugment_layers": (0, 10),
    "randaugment_magnitude": (0, 10),
}

# Zhong et al.: share of the area, and height by width.
_ERASED_SHARE = (0.02, 0.4)
_ERASED_ASPECT = (0.3, 1 / 0.3)
_ATTEMPTS = 10


@dataclasses.dataclass(frozen=True)
class AugmentationConfig:
    """What is done to the images of training beyond their preprocessing; 0 is for nothing.

    Attributes:
      random_erasing: the probability that a rectangle of an image is replaced by noise.
      mixup: alpha of the Beta distribution that the weights of two images are drawn from.
      cutmix: alpha of the Beta distribution that the area cut out of another image is drawn from.
        With mixup as well, every other batch on average has the one and the rest the other.
      randaugment_layers: operations on each image, in place of the preprocessing's own colours.
      randaugment_magnitude: how strong they are, from 0 to 10.
    """

    random_erasing: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    randaugment_layers: int = 0
    randaugment_magnitude: float = 0.0

    def __post_init__(self):
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise UsageError(f"{name} is {value}; it must be from {low} to {high}.")

    @property
    def mixes(self):
        """Whether images of a batch are mixed, so that a label is a share of each class."""
        return bool(self.mixup or self.cutmix)


def erase(image, probability, seed):
    """Replaces a rectangle of an image by noise, or leaves the image as it is.

    Zhong et al., "Random Erasing Data Augmentation", arXiv:1708.04896: of 0.02 to 0.4 of the area
    and 0.3 to 3.3 times as high as wide. The noise is uniform between the smallest and the largest
    value of the image, so that it fits any normalisation.

    Args:
      image: float32 tensor [height, width, channels], of static shape.
      probability: a float from 0 to 1.
      seed: int32 or int64 tensor [2]; the result is a function of it.

    Returns:
      float32 tensor [height, width, channels].
    """
    chance, box, noise = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
    return tf.cond(
        tf.random.stateless_uniform([], chance) < probability,
        lambda: _with_noise(image, box, noise),
        lambda: image,
    )


def _with_noise(image, box, seed):
    height, width, channels = image.shape.as_list()
    top, left, rows, columns = _rectangle(height, width, box)
    noise = tf.random.stateless_uniform([rows, columns, channels], seed)
    low, high = tf.reduce_min(image), tf.reduce_max(image)

    def in_place(part):
        whole = tf.image.pad_to_bounding_box(part, top, left, height, width)
        return tf.ensure_shape(whole, image.shape)

    # Much quicker than a choice for each pixel, and as exact.
    kept = 1.0 - in_place(tf.ones_like(noise))
    return image * kept + in_place(low + (high - low) * noise)


def _rectangle(height, width, seed):
    """Top, left, height and width of the first of some random rectangles that fits, int32 [].

    If none does, which is rare, height and width are 0.
    """
    seeds = tf.unstack(tf.random.experimental.stateless_split(seed, 4))
    area = height * width * tf.random.stateless_uniform([_ATTEMPTS], seeds[0], *_ERASED_SHARE)
    low, high = (tf.math.log(limit) for limit in _ERASED_ASPECT)
    aspect = tf.exp(tf.random.stateless_uniform([_ATTEMPTS], seeds[1], low, high))
    rows = tf.cast(tf.rint(tf.sqrt(area * aspect)), tf.int32)
    columns = tf.cast(tf.rint(tf.sqrt(area / aspect)), tf.int32)
    fits = tf.logical_and(rows < height, columns < width)
    first = tf.argmax(tf.cast(fits, tf.int32))
    any_fits = tf.cast(tf.reduce_any(fits), tf.int32)
    rows, columns = (tf.gather(side, first) * any_fits for side in (rows, columns))
    top = tf.random.stateless_uniform([], seeds[2], 0, height - rows + 1, tf.int32)
    left = tf.random.stateless_uniform([], seeds[3], 0, width - columns + 1, tf.int32)
    return top, left, rows, columns
