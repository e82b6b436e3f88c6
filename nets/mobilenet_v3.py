"""MobileNet v3: Howard et al., "Searching for MobileNetV3", 2019
(https://arxiv.org/abs/1905.02244), tables 1 and 2.

The minimalistic variants have neither squeeze-and-excite, nor hard swish, nor 5x5 kernels.
Variables and end points carry the names of TF-Slim's published checkpoints.
"""

import dataclasses
import functools

from nets.mobilenet_cells import Architecture, Block, hard_swish, mobilenet, mobilenet_arg_scope
from slim_mp.compat import slim, tf


def _block(expansion, depth, kernel, stride, activation, squeeze_excite):
    return Block(
        expansion,
        depth,
        kernel,
        stride,
        {"RE": tf.nn.relu, "HS": hard_swish}[activation],
        squeeze_excite == "SE",
    )


LARGE = Architecture(
    stem_depth=16,
    blocks=(
        _block(1, 16, 3, 1, "RE", "-"),
        _block(4, 24, 3, 2, "RE", "-"),
        _block(3, 24, 3, 1, "RE", "-"),
        _block(3, 40, 5, 2, "RE", "SE"),
        _block(3, 40, 5, 1, "RE", "SE"),
        _block(3, 40, 5, 1, "RE", "SE"),
        _block(6, 80, 3, 2, "HS", "-"),
        _block(2.5, 80, 3, 1, "HS", "-"),
        _block(2.3, 80, 3, 1, "HS", "-"),
        _block(2.3, 80, 3, 1, "HS", "-"),
        _block(6, 112, 3, 1, "HS", "SE"),
        _block(6, 112, 3, 1, "HS", "SE"),
        _block(6, 160, 5, 2, "HS", "SE"),
        _block(6, 160, 5, 1, "HS", "SE"),
        _block(6, 160, 5, 1, "HS", "SE"),
    ),
    last_depth=960,
    head_depth=1280,
    activation=hard_swish,
)
SMALL = Architecture(
    stem_depth=16,
    blocks=(
        _block(1, 16, 3, 2, "RE", "SE"),
        _block(72 / 16, 24, 3, 2, "RE", "-"),
        _block(88 / 24, 24, 3, 1, "RE", "-"),
        _block(4, 40, 5, 2, "HS", "SE"),
        _block(6, 40, 5, 1, "HS", "SE"),
        _block(6, 40, 5, 1, "HS", "SE"),
        _block(3, 48, 5, 1, "HS", "SE"),
        _block(3, 48, 5, 1, "HS", "SE"),
        _block(6, 96, 5, 2, "HS", "SE"),
        _block(6, 96, 5, 1, "HS", "SE"),
        _block(6, 96, 5, 1, "HS", "SE"),
    ),
    last_depth=576,
    head_depth=1024,
    activation=hard_swish,
)


def _minimalistic(architecture):
    """The architecture with 3x3 kernels and ReLU only."""
    blocks = tuple(
        Block(block.expansion, block.depth, stride=block.stride) for block in architecture.blocks
    )
    return dataclasses.replace(architecture, blocks=blocks, activation=tf.nn.relu)


def mobilenet_v3(
    images,
    num_classes=1001,
    is_training=True,
    dropout_keep_prob=0.8,
    reuse=None,
    scope="MobilenetV3",
    depth_multiplier=1.0,
    architecture=LARGE,
):
    """Builds a MobileNet v3; call it under `mobilenet_v3_arg_scope`.

    Args:
      images: `[batch, height, width, channels]` images in [-1, 1]; the network reduces them by 32
        and published weights are for 224x224x3.
      num_classes: int number of classes; 0 or None gives features.
      is_training: bool or boolean scalar tensor, for batch norm and dropout.
      dropout_keep_prob: float share of the last features that training keeps.
      reuse: whether to take the variables of an earlier call with the same scope.
      scope: str variable scope.
      depth_multiplier: float factor of all channel counts; below 1 the convolution after the
        pooling keeps its width, which gives the 4.0 million parameters of the paper at 0.75.
      architecture: Architecture, such as LARGE or SMALL.

    Returns:
      `[batch, num_classes]` logits, or `[batch, 1, 1, head_depth]` features without classes; and
      the end points, a dict of tensors: `layer_1` ... `layer_19` (`layer_15` of the small ones),
      with `/expansion_output`, `/depthwise_output` and `/output` inside of blocks, `global_pool`,
      `Logits` and `Predictions`.
    """
    with (
        tf.variable_scope(scope, "MobilenetV3", [images], reuse=reuse),
        slim.arg_scope([slim.batch_norm, slim.dropout], is_training=is_training),
    ):
        return mobilenet(images, num_classes, architecture, depth_multiplier, dropout_keep_prob)


mobilenet_v3_large = functools.partial(mobilenet_v3, architecture=LARGE)
mobilenet_v3_small = functools.partial(mobilenet_v3, architecture=SMALL)
mobilenet_v3_large_minimalistic = functools.partial(mobilenet_v3, architecture=_minimalistic(LARGE))
mobilenet_v3_small_minimalistic = functools.partial(mobilenet_v3, architecture=_minimalistic(SMALL))


def mobilenet_v3_arg_scope(weight_decay=0.00004, batch_norm_decay=0.997, stddev=0.09):
    """Defaults of the layers of MobileNet v3.

    Args:
      weight_decay: float factor of the L2 losses of all weights but the depthwise ones.
      batch_norm_decay: float decay of the moving statistics.
      stddev: float standard deviation of the initial weights.

    Returns:
      An arg_scope.
    """
    return mobilenet_arg_scope(weight_decay, batch_norm_decay, stddev)
