"""The table of networks, and the one place where a network meets a precision.

A network knows nothing of precisions: it is built from TF-Slim's layers, and the scope that
`get_network_fn` opens around it decides what is computed in half.
"""

import dataclasses
import difflib
import math
import numbers
import types
from collections.abc import Callable

from nets import tf_slim_nets as pip
from nets.cifarnet import cifarnet, cifarnet_arg_scope
from nets.inception_resnet_v2 import inception_resnet_v2, inception_resnet_v2_arg_scope
from nets.inception_v4 import inception_v4, inception_v4_arg_scope
from nets.lenet import lenet, lenet_arg_scope
from nets.mobilenet_v1 import (
    mobilenet_v1,
    mobilenet_v1_025,
    mobilenet_v1_050,
    mobilenet_v1_075,
    mobilenet_v1_arg_scope,
)
from nets.mobilenet_v2 import (
    mobilenet_v2,
    mobilenet_v2_035,
    mobilenet_v2_140,
    mobilenet_v2_arg_scope,
)
from nets.mobilenet_v3 import (
    mobilenet_v3_arg_scope,
    mobilenet_v3_large,
    mobilenet_v3_large_minimalistic,
    mobilenet_v3_small,
    mobilenet_v3_small_minimalistic,
)
from nets.nasnet import (
    nasnet_cifar,
    nasnet_cifar_arg_scope,
    nasnet_large,
    nasnet_large_arg_scope,
    nasnet_mobile,
    nasnet_mobile_arg_scope,
    pnasnet_large,
    pnasnet_large_arg_scope,
    pnasnet_mobile,
    pnasnet_mobile_arg_scope,
)
from slim_mp import precision as mixed
from slim_mp.compat import slim, tf
from slim_mp.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Network:
    """One row of the table of networks.

    Attributes:
      name: what `--model_name` calls it.
      function: `function(images, num_classes, is_training=..., **kwargs)` builds it and returns
        its logits `[batch, num_classes]` and its end points.
      arg_scope: `arg_scope(weight_decay=...)` returns the arg_scope to build it in.
      image_size: height and width in pixels of the images it was published for.
      min_image_size: least height and width in pixels with which every layer sees an image at
        least as large as its kernel or its stride.
      preprocessing: the style of preprocessing its published weights were trained with.
      channels: channels of the images it was published for.
    """

    name: str
    function: Callable
    arg_scope: Callable
    image_size: int
    min_image_size: int
    preprocessing: str
    channels: int = 3


_ROWS = (
    Network("lenet", lenet, lenet_arg_scope, 28, 4, "lenet", channels=1),
    Network("cifarnet", cifarnet, cifarnet_arg_scope, 32, 4, "cifarnet"),
    Network("alexnet_v2", pip.alexnet_v2, pip.alexnet_v2_arg_scope, 224, 195, "vgg"),
    Network("overfeat", pip.overfeat, pip.overfeat_arg_scope, 231, 231, "vgg"),
    Network("vgg_a", pip.vgg_a, pip.vgg_arg_scope, 224, 224, "vgg"),
    Network("vgg_16", pip.vgg_16, pip.vgg_arg_scope, 224, 224, "vgg"),
    Network("vgg_19", pip.vgg_19, pip.vgg_arg_scope, 224, 224, "vgg"),
    Network("inception_v1", pip.inception_v1, pip.inception_v1_arg_scope, 224, 193, "inception"),
    Network("inception_v2", pip.inception_v2, pip.inception_v2_arg_scope, 224, 32, "inception"),
    Network("inception_v3", pip.inception_v3, pip.inception_v3_arg_scope, 299, 107, "inception"),
    Network("inception_v4", inception_v4, inception_v4_arg_scope, 299, 75, "inception"),
    Network(
        "inception_resnet_v2",
        inception_resnet_v2,
        inception_resnet_v2_arg_scope,
        299,
        75,
        "inception",
    ),
    Network("resnet_v1_50", pip.resnet_v1_50, pip.resnet_arg_scope, 224, 32, "vgg"),
    Network("resnet_v1_101", pip.resnet_v1_101, pip.resnet_arg_scope, 224, 32, "vgg"),
    Network("resnet_v1_152", pip.resnet_v1_152, pip.resnet_arg_scope, 224, 32, "vgg"),
    Network("resnet_v1_200", pip.resnet_v1_200, pip.resnet_arg_scope, 224, 32, "vgg"),
    Network("resnet_v2_50", pip.resnet_v2_50, pip.resnet_arg_scope, 224, 32, "inception"),
    Network("resnet_v2_101", pip.resnet_v2_101, pip.resnet_arg_scope, 224, 32, "inception"),
    Network("resnet_v2_152", pip.resnet_v2_152, pip.resnet_arg_scope, 224, 32, "inception"),
    Network("resnet_v2_200", pip.resnet_v2_200, pip.resnet_arg_scope, 224, 32, "inception"),
    Network("mobilenet_v1", mobilenet_v1, mobilenet_v1_arg_scope, 224, 32, "inception"),
    Network("mobilenet_v1_075", mobilenet_v1_075, mobilenet_v1_arg_scope, 224, 32, "inception"),
    Network("mobilenet_v1_050", mobilenet_v1_050, mobilenet_v1_arg_scope, 224, 32, "inception"),
    Network("mobilenet_v1_025", mobilenet_v1_025, mobilenet_v1_arg_scope, 224, 32, "inception"),
    Network("mobilenet_v2", mobilenet_v2, mobilenet_v2_arg_scope, 224, 32, "inception"),
    Network("mobilenet_v2_140", mobilenet_v2_140, mobilenet_v2_arg_scope, 224, 32, "inception"),
    Network("mobilenet_v2_035", mobilenet_v2_035, mobilenet_v2_arg_scope, 224, 32, "inception"),
    Network("mobilenet_v3_large", mobilenet_v3_large, mobilenet_v3_arg_scope, 224, 32, "inception"),
    Network("mobilenet_v3_small", mobilenet_v3_small, mobilenet_v3_arg_scope, 224, 32, "inception"),
    Network(
        "mobilenet_v3_large_minimalistic",
        mobilenet_v3_large_minimalistic,
        mobilenet_v3_arg_scope,
        224,
        32,
        "inception",
    ),
    Network(
        "mobilenet_v3_small_minimalistic",
        mobilenet_v3_small_minimalistic,
        mobilenet_v3_arg_scope,
        224,
        32,
        "inception",
    ),
    Network("nasnet_cifar", nasnet_cifar, nasnet_cifar_arg_scope, 32, 9, "cifarnet"),
    Network("nasnet_mobile", nasnet_mobile, nasnet_mobile_arg_scope, 224, 67, "inception"),
    Network("nasnet_large", nasnet_large, nasnet_large_arg_scope, 331, 67, "inception"),
    Network("pnasnet_mobile", pnasnet_mobile, pnasnet_mobile_arg_scope, 224, 67, "inception"),
    Network("pnasnet_large", pnasnet_large, pnasnet_large_arg_scope, 331, 67, "inception"),
)

NETWORKS = types.MappingProxyType({row.name: row for row in _ROWS})


def get_network(name):
    """Looks a network up.

    Args:
      name: a name of `NETWORKS`.

    Returns:
      The `Network`.

    Raises:
      UsageError: if there is none of that name; the message lists near names and all names.
    """
    if name in NETWORKS:
        return NETWORKS[name]
    near = difflib.get_close_matches(str(name), NETWORKS, n=3)
    guess = f" Did you mean {' or '.join(near)}?" if near else ""
    raise UsageError(f"No network is called {name!r}.{guess} The networks: {', '.join(NETWORKS)}.")


def _check_arguments(num_classes, weight_decay):
    is_count = isinstance(num_classes, numbers.Integral) and not isinstance(num_classes, bool)
    if num_classes is not None and not (is_count and num_classes >= 0):
        raise UsageError(
            f"num_classes is {num_classes!r}; give the number of classes, a positive integer, or "
            "0 or None for the features below the last layer."
        )
    if not (isinstance(weight_decay, numbers.Real) and 0 <= weight_decay < math.inf):
        raise UsageError(f"weight_decay is {weight_decay!r}; give a finite number, 0 or more.")


def _check_images(images, row):
    shape = images.shape
    if shape.rank not in (None, 4) or not images.dtype.is_floating:
        raise UsageError(
            f"{row.name} got images of shape {shape} and dtype {images.dtype.name}; it takes "
            "preprocessed floating-point images [batch, height, width, channels]."
        )
    sizes = [] if shape.rank is None else [size for size in shape.as_list()[1:3] if size]
    if any(size < row.min_image_size for size in sizes):
        raise UsageError(
            f"{row.name} got images of {'x'.join(map(str, sizes))} pixels; it needs at least "
            f"{row.min_image_size}x{row.min_image_size} (published for {row.image_size}): use "
            "larger images, or a network for smaller ones."
        )


def _in_float32(logits, end_points, num_classes):
    """Casts the logits and what belongs to them, and makes the probabilities from them."""
    result = tf.cast(logits, tf.float32)
    end_points = {key: result if value is logits else value for key, value in end_points.items()}
    if "AuxLogits" in end_points:
        end_points["AuxLogits"] = tf.cast(end_points["AuxLogits"], tf.float32)
    if num_classes:
        probabilities = tf.nn.softmax(result, name="Predictions")
        for key in {"Predictions", "predictions"} & end_points.keys() | {"Predictions"}:
            end_points[key] = probabilities
    return result, end_points


def get_network_fn(
    name,
    num_classes,
    weight_decay=0.0,
    is_training=False,
    precision="fp32",
    float32_kernels=False,
    master_weights=True,
):
    """Returns a function that builds a network in a precision.

    Args:
      name: a name of `NETWORKS`.
      num_classes: number of classes; 0 or None gives the features below the last layer, in the
        networks that can be built without it.
      weight_decay: scale of the L2 loss of the float32 weights, as the network's arg_scope uses it.
      is_training: whether to build for training: batch norm by batch, dropout on.
      precision: what `slim_mp.get_precision` takes: "fp32", "fp16", "bf16" or a `Precision`.
      float32_kernels: as in `slim_mp.arg_scope`; good for half precision on a CPU.
      master_weights: as in `slim_mp.arg_scope`.

    Returns:
      `network_fn(images, **kwargs)`: takes float images [batch, height, width, channels], and what
      the network's own function takes; returns float32 logits [batch, num_classes] and a dict of
      end points, of which the logits, "AuxLogits" and "Predictions" (the probabilities) are
      float32. It has the attributes name, default_image_size, min_image_size, preprocessing and
      channels. It raises UsageError if the images are too small for the network.

    Raises:
      UsageError: for an unknown name or precision, and for numbers that make no sense.
    """
    row = get_network(name)
    _check_arguments(num_classes, weight_decay)
    compute_dtype = mixed.get_precision(precision).compute_dtype

    def network_fn(images, **kwargs):
        _check_images(images, row)
        with (
            slim.arg_scope(row.arg_scope(weight_decay=weight_decay)),
            mixed.arg_scope(compute_dtype, float32_kernels, master_weights),
        ):
            logits, end_points = row.function(
                tf.cast(images, compute_dtype), num_classes, is_training=is_training, **kwargs
            )
        return _in_float32(logits, end_points, num_classes)

    network_fn.name = row.name
    network_fn.default_image_size = row.image_size
    network_fn.min_image_size = row.min_image_size
    network_fn.preprocessing = row.preprocessing
    network_fn.channels = row.channels
    return network_fn
