"""What the original networks of research/slim hold and compute, to compare ours with.

The facts were taken from them under TensorFlow 1.15 (MobileNet v3 and pnasnet_mobile from later
versions of the same code). `testdata/oracle_facts.json.gz` has one entry a network: the manifest of
its training graph for a batch of two, and under "logits" facts about the float32 logits of
`testdata/oracle_logits.npz`, which it gives with `is_training=False` for the variables `value` and
the images `images`. Without trained statistics the activations of some networks exceed what half
precision holds: `activation_absmax` says how large they get in float32.
"""

import functools
import gzip
import json
import pathlib
import zlib

import numpy as np

_TESTDATA = pathlib.Path(__file__).parent / "testdata"


@functools.cache
def _facts():
    with gzip.open(_TESTDATA / "oracle_facts.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)


def names():
    """Returns the names of all networks that the oracle knows."""
    return list(_facts())


def manifest(name):
    """Returns a dict of the facts of a network's training graph at its default image size.

    Among them num_classes, default_image_size, variables (name to shape, all float32), trainable
    and end_points (names), has_aux_logits, num_update_ops, num_regularization_losses, and
    eval_*_missing and eval_*_extra, how the evaluation graph differs.
    """
    return _facts()[name]


def size(name):
    """Returns the height and width in pixels of the images that `logits` are of."""
    return manifest(name)["logits"]["size"]


def logits(name):
    """Returns the float32 logits [2, num_classes] of the original network."""
    with np.load(_TESTDATA / "oracle_logits.npz") as arrays:
        return arrays[name]


def top5(name):
    """Returns the five best classes [2, 5] by the original's logits, the best first."""
    return np.array(manifest(name)["logits"]["top5"])


def activation_absmax(name):
    """Returns the largest absolute activation in the original's float32 graph for `logits`."""
    return manifest(name)["logits"]["fp32_activation_absmax"]


def value(name, shape):
    """Returns the float32 value of a variable, which depends on its name and shape alone.

    Args:
      name: the name, without ":0".
      shape: the shape.
    """
    shape = tuple(int(size) for size in shape)
    random = np.random.RandomState(zlib.crc32(name.encode()))
    normal = random.standard_normal(shape)
    kind = name.rpartition("/")[2]
    if kind in ("weights", "pointwise_weights"):
        normal *= np.sqrt(2.0 / np.prod(shape[:-1]))
    elif kind == "depthwise_weights":
        normal *= np.sqrt(2.0 / np.prod(shape[:2]))
    elif kind in ("biases", "beta", "moving_mean"):
        normal *= 0.1
    elif kind == "gamma":
        normal = 1.0 + 0.1 * normal
    elif kind == "moving_variance":
        normal = 1.0 + 0.1 * np.abs(normal)
    else:
        raise ValueError(f"The oracle has no rule for variables like {name}.")
    return normal.astype(np.float32)


def images(size, channels=3, count=2):
    """Returns float32 images in [-1, 1), shape [count, size, size, channels]."""
    uniform = np.random.RandomState(0).uniform(-1.0, 1.0, (count, size, size, channels))
    return uniform.astype(np.float32)
