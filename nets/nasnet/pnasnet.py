"""PNASNet-5 for ImageNet.

Liu et al., "Progressive Neural Architecture Search" (arXiv:1712.00559). There is one kind of cell:
with stride 2 it also takes the place of reduction cells and forms the stem.
"""

from nets.nasnet import network
from nets.nasnet.cells import PNASNET_5


def _steps(num_cells, filters):
    """The cells; two of them halve the size and double the filters."""
    reductions = network.reduction_places(num_cells)
    steps = list(network.imagenet_stem_steps(PNASNET_5, filters))
    for number in range(num_cells):
        halves = number in reductions
        filters *= 2 if halves else 1
        steps.append(
            network.Step(
                f"cell_{number}",
                PNASNET_5,
                filters,
                stride=2 if halves else 1,
                end_point=f"Cell_{number}",
                aux_scope=f"aux_{number}" if number == reductions[-1] - 1 else None,
            )
        )
    return tuple(steps)


PNASNET_MOBILE = network.Network(
    stem=network.imagenet_stem(32),
    steps=_steps(9, 54),
    dropout_keep_prob=0.5,
    drop_path_keep_prob=1.0,
    total_training_steps=250000,
)
PNASNET_LARGE = network.Network(
    stem=network.imagenet_stem(96),
    steps=_steps(12, 216),
    dropout_keep_prob=0.5,
    drop_path_keep_prob=0.6,
    total_training_steps=250000,
)


def pnasnet_mobile_arg_scope(weight_decay=4e-5, batch_norm_decay=0.9997, batch_norm_epsilon=1e-3):
    """The arg_scope of `pnasnet_mobile`; see `network.arg_scope`."""
    return network.arg_scope(weight_decay, batch_norm_decay, batch_norm_epsilon)


def pnasnet_large_arg_scope(weight_decay=4e-5, batch_norm_decay=0.9997, batch_norm_epsilon=1e-3):
    """The arg_scope of `pnasnet_large`; see `network.arg_scope`."""
    return network.arg_scope(weight_decay, batch_norm_decay, batch_norm_epsilon)


def pnasnet_mobile(
    images,
    num_classes=1001,
    is_training=True,
    final_endpoint=None,
    reuse=None,
    drop_path_keep_prob=None,
    total_training_steps=None,
):
    """PNASNet-5 (3 cells of 54 filters a size) for ImageNet on a mobile device.

    Args:
      images: `[batch, 224, 224, 3]`; other sizes are possible, but have another auxiliary head.
      num_classes: as for `network.build`, like `is_training`, `final_endpoint` and `reuse`.
      is_training: see there.
      final_endpoint: see there; one of `Stem`, `Cell_0` to `Cell_8`, `global_pool`, `Logits`.
      reuse: see there.
      drop_path_keep_prob: PNASNET_MOBILE's unless given; see `network.Network`.
      total_training_steps: likewise.

    Returns:
      `(logits, end_points)`, as `network.build`.

    Raises:
      UsageError: as `network.build` and `network.Network.with_drop_path`.
    """
    table = PNASNET_MOBILE.with_drop_path(drop_path_keep_prob, total_training_steps)
    return network.build(table, images, num_classes, is_training, final_endpoint, reuse)


pnasnet_mobile.default_image_size = 224


def pnasnet_large(
    images,
    num_classes=1001,
    is_training=True,
    final_endpoint=None,
    reuse=None,
    drop_path_keep_prob=None,
    total_training_steps=None,
):
    """PNASNet-5 (N = 4, F = 216) for ImageNet.

    Args:
      images: `[batch, 331, 331, 3]`; other sizes are possible, but have another auxiliary head.
      num_classes: as for `network.build`, like `is_training`, `final_endpoint` and `reuse`.
      is_training: see there.
      final_endpoint: see there; one of `Stem`, `Cell_0` to `Cell_11`, `global_pool`, `Logits`.
      reuse: see there.
      drop_path_keep_prob: PNASNET_LARGE's unless given; see `network.Network`.
      total_training_steps: likewise.

    Returns:
      `(logits, end_points)`, as `network.build`.

    Raises:
      UsageError: as `network.build` and `network.Network.with_drop_path`.
    """
    table = PNASNET_LARGE.with_drop_path(drop_path_keep_prob, total_training_steps)
    return network.build(table, images, num_classes, is_training, final_endpoint, reuse)


pnasnet_large.default_image_size = 331
