"""NASNet-A for CIFAR and ImageNet.

Zoph et al., "Learning Transferable Architectures for Scalable Image Recognition"
(arXiv:1707.07012). Cells are searched for on CIFAR-10; normal cells keep the size of their input,
reduction cells halve it. In the paper's notation these are NASNet-A (6 @ 768), (4 @ 1056) and
(6 @ 4032). Drop path grows with depth and with the global step ("scheduled drop path").
"""

from nets.nasnet import network
from nets.nasnet.cells import NASNET_A_NORMAL, NASNET_A_REDUCTION


def _steps(num_cells, filters, skip_reduction_input=False):
    """The normal cells, and before each of two of them a reduction cell that doubles the filters.

    With `skip_reduction_input` the cell after a reduction cell takes for its second input what
    lies two before the reduction cell, as the reduction cell itself does.
    """
    reductions = network.reduction_places(num_cells)
    aux_cell = reductions[-1] - 1
    steps = []
    for number in range(num_cells):
        after_reduction = number in reductions
        if after_reduction:
            filters *= 2
            place = reductions.index(number)
            steps.append(
                network.Step(
                    f"reduction_cell_{place}",
                    NASNET_A_REDUCTION,
                    filters,
                    stride=2,
                    end_point=f"Reduction_Cell_{place}",
                )
            )
        steps.append(
            network.Step(
                f"cell_{number}",
                NASNET_A_NORMAL,
                filters,
                previous=3 if after_reduction and skip_reduction_input else 2,
                end_point=f"Cell_{number}",
                aux_scope=f"aux_{number}" if number == aux_cell else None,
            )
        )
    return tuple(steps)


NASNET_CIFAR = network.Network(
    stem=network.cifar_stem(96),
    steps=_steps(18, 32),
    dropout_keep_prob=1.0,
    drop_path_keep_prob=0.6,
    total_training_steps=937500,
)
NASNET_MOBILE = network.Network(
    stem=network.imagenet_stem(32),
    steps=network.imagenet_stem_steps(NASNET_A_REDUCTION, 44) + _steps(12, 44),
    dropout_keep_prob=0.5,
    drop_path_keep_prob=1.0,
    total_training_steps=250000,
)
NASNET_LARGE = network.Network(
    stem=network.imagenet_stem(96),
    steps=network.imagenet_stem_steps(NASNET_A_REDUCTION, 168)
    + _steps(18, 168, skip_reduction_input=True),
    dropout_keep_prob=0.5,
    drop_path_keep_prob=0.7,
    total_training_steps=250000,
)


def nasnet_cifar_arg_scope(weight_decay=5e-4, batch_norm_decay=0.9, batch_norm_epsilon=1e-5):
    """The arg_scope of `nasnet_cifar`; see `network.arg_scope`."""
    return network.arg_scope(weight_decay, batch_norm_decay, batch_norm_epsilon)


def nasnet_mobile_arg_scope(weight_decay=4e-5, batch_norm_decay=0.9997, batch_norm_epsilon=1e-3):
    """The arg_scope of `nasnet_mobile`; see `network.arg_scope`."""
    return network.arg_scope(weight_decay, batch_norm_decay, batch_norm_epsilon)


def nasnet_large_arg_scope(weight_decay=5e-5, batch_norm_decay=0.9997, batch_norm_epsilon=1e-3):
    """The arg_scope of `nasnet_large`; see `network.arg_scope`."""
    return network.arg_scope(weight_decay, batch_norm_decay, batch_norm_epsilon)


def nasnet_cifar(
    images,
    num_classes=10,
    is_training=True,
    final_endpoint=None,
    reuse=None,
    drop_path_keep_prob=None,
    total_training_steps=None,
):
    """NASNet-A (6 @ 768) for CIFAR.

    Args:
      images: `[batch, 32, 32, 3]`; other sizes are possible, but have another auxiliary head.
      num_classes: as for `network.build`, like `is_training`, `final_endpoint` and `reuse`.
      is_training: see there.
      final_endpoint: see there; one of `Stem`, `Cell_0` to `Cell_17`, `Reduction_Cell_0`,
        `Reduction_Cell_1`, `global_pool`, `Logits`.
      reuse: see there.
      drop_path_keep_prob: NASNET_CIFAR's unless given; see `network.Network`.
      total_training_steps: likewise.

    Returns:
      `(logits, end_points)`, as `network.build`.

    Raises:
      UsageError: as `network.build` and `network.Network.with_drop_path`.
    """
    table = NASNET_CIFAR.with_drop_path(drop_path_keep_prob, total_training_steps)
    return network.build(table, images, num_classes, is_training, final_endpoint, reuse)


nasnet_cifar.default_image_size = 32


def nasnet_mobile(
    images,
    num_classes=1001,
    is_training=True,
    final_endpoint=None,
    reuse=None,
    drop_path_keep_prob=None,
    total_training_steps=None,
):
    """NASNet-A (4 @ 1056) for ImageNet on a mobile device.

    Args:
      images: `[batch, 224, 224, 3]`; other sizes are possible, but have another auxiliary head.
      num_classes: as for `network.build`, like `is_training`, `final_endpoint` and `reuse`.
      is_training: see there.
      final_endpoint: see there; one of `Stem`, `Cell_0` to `Cell_11`, `Reduction_Cell_0`,
        `Reduction_Cell_1`, `global_pool`, `Logits`.
      reuse: see there.
      drop_path_keep_prob: NASNET_MOBILE's unless given; see `network.Network`.
      total_training_steps: likewise.

    Returns:
      `(logits, end_points)`, as `network.build`.

    Raises:
      UsageError: as `network.build` and `network.Network.with_drop_path`.
    """
    table = NASNET_MOBILE.with_drop_path(drop_path_keep_prob, total_training_steps)
    return network.build(table, images, num_classes, is_training, final_endpoint, reuse)


nasnet_mobile.default_image_size = 224


def nasnet_large(
    images,
    num_classes=1001,
    is_training=True,
    final_endpoint=None,
    reuse=None,
    drop_path_keep_prob=None,
    total_training_steps=None,
):
    """NASNet-A (6 @ 4032) for ImageNet.

    Args:
      images: `[batch, 331, 331, 3]`; other sizes are possible, but have another auxiliary head.
      num_classes: as for `network.build`, like `is_training`, `final_endpoint` and `reuse`.
      is_training: see there.
      final_endpoint: see there; one of `Stem`, `Cell_0` to `Cell_17`, `Reduction_Cell_0`,
        `Reduction_Cell_1`, `global_pool`, `Logits`.
      reuse: see there.
      drop_path_keep_prob: NASNET_LARGE's unless given; see `network.Network`.
      total_training_steps: likewise.

    Returns:
      `(logits, end_points)`, as `network.build`.

    Raises:
      UsageError: as `network.build` and `network.Network.with_drop_path`.
    """
    table = NASNET_LARGE.with_drop_path(drop_path_keep_prob, total_training_steps)
    return network.build(table, images, num_classes, is_training, final_endpoint, reuse)


nasnet_large.default_image_size = 331
