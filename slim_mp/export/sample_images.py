"""Images on which an export is compared with its checkpoint: the user's own, or made here."""

import glob
import os

import numpy as np

from slim_mp.compat import tf
from slim_mp.errors import UsageError
from slim_mp.files.input_files import reading

# Height and width of the images that are made, as shares of the network's, so that those of a style
# of preprocessing which crops, pads, enlarges or reduces them are told from those of another.
_SHAPES = ((1.25, 1.6), (1.7, 1.2), (0.6, 0.8), (1.0, 1.0))
_WAVES = 6


def _picture(random, height, width, channels):
    """A smooth picture with a little noise: uint8 [height, width, channels]."""
    y, x = np.mgrid[:height, :width] / [[[height]], [[width]]]
    waves = random.uniform(-1, 1, [channels, _WAVES])
    turns = random.uniform(0, 4, [2, channels, _WAVES, 1, 1])
    phases = random.uniform(0, 2 * np.pi, [channels, _WAVES, 1, 1])
    planes = np.cos(2 * np.pi * (turns[0] * x + turns[1] * y) + phases)
    image = np.einsum("cw,cwyx->yxc", waves, planes)
    image += random.normal(0, 0.1, image.shape)
    low, high = image.min(), image.max()
    return np.round(255 * (image - low) / (high - low)).astype(np.uint8)


def pictures(spec):
    """Makes images that are cropped and resized for a network already.

    Args:
      spec: a `serving_graph.InputSpec`.

    Returns:
      float32 [number, image_size, image_size, channels], values 0..255, the same at each call.
    """
    random, size = np.random.RandomState(0), spec.image_size
    images = [_picture(random, size, size, spec.channels) for _ in _SHAPES]
    return np.stack(images).astype(np.float32)


def files(spec):
    """Makes image files of several sizes for a network.

    Args:
      spec: a `serving_graph.InputSpec`.

    Returns:
      A dict of a name for messages to the bytes of a JPEG or PNG file, the same at each call.
    """
    random, encoded = np.random.RandomState(1), {}
    with tf.Graph().as_default(), tf.Session() as session:
        image = tf.placeholder(tf.uint8, [None, None, None])
        kinds = {"JPEG": tf.io.encode_jpeg(image, quality=95), "PNG": tf.io.encode_png(image)}
        for number, (tall, wide) in enumerate(_SHAPES):
            kind = "JPEG" if number % 2 else "PNG"
            height, width = (max(1, round(share * spec.image_size)) for share in (tall, wide))
            picture = _picture(random, height, width, channels=3)
            name = f"a {kind} file of {width}x{height} pixels made for the check"
            encoded[name] = session.run(kinds[kind], {image: picture})
    return encoded


def read_files(patterns):
    """Reads the files of a user.

    Args:
      patterns: paths, or patterns of paths as in a shell.

    Returns:
      A dict of path to bytes.

    Raises:
      UsageError: if a pattern fits no file.
      DataError: if a file cannot be read.
    """
    encoded = {}
    for pattern in patterns:
        paths = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))
        if not paths:
            raise UsageError(f"--sample_images: there is no file {pattern}; give image files.")
        for path in paths:
            with reading(path), open(path, "rb") as file:
                encoded[path] = file.read()
    return encoded
