"""Mixed-precision training of TF-Slim image classifiers on a current TensorFlow."""

from slim_mp.loss_scale import (
    ExponentialUpdateLossScaleManager,
    FixedLossScaleManager,
    LossScaleManager,
)
from slim_mp.loss_scale_optimizer import LossScaleOptimizer
from slim_mp.precision import PRECISIONS, Precision, arg_scope, get_precision
from slim_mp.update_ops import repeat_updates

__all__ = [
    "PRECISIONS",
    "ExponentialUpdateLossScaleManager",
    "FixedLossScaleManager",
    "LossScaleManager",
    "LossScaleOptimizer",
    "Precision",
    "arg_scope",
    "get_precision",
    "repeat_updates",
]
