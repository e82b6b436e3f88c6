"""Refuses values of flags that no config looks at, and flags of what slim_mp does not do."""

import math

from absl import flags

from slim_mp.checkpoints.scopes import split_scopes
from slim_mp.errors import UsageError
from slim_mp.flags.flag_groups import CLUSTER_DEFAULTS
from slim_mp.precision import PRECISIONS

FLAGS = flags.FLAGS

_LOWEST = {
    "max_number_of_steps": 1,
    "max_num_batches": 1,
    "max_consecutive_skips": 1,
    "num_classes": 1,
    "labels_offset": 0,
    "batch_size": 1,
    "train_image_size": 1,
    "eval_image_size": 1,
    "num_readers": 1,
    "num_preprocessing_threads": 1,
    "log_every_n_steps": 1,
    "gradient_report_every_n_steps": 0,
    "save_summaries_secs": 0,
    "save_interval_secs": 0,
    "watch_timeout_secs": 0,
    "eval_every_n_steps": 0,
}
_NOT_NEGATIVE = ("tolerance",)
_POSITIVE = ("clip_gradient_norm", "clip_gradient_value")
_SHARES = ("label_smoothing", "moving_average_decay", "batch_norm_decay")


def _refuse_unsupported():
    for name, unused in (("quantize_delay", -1), ("quantize", False)):
        if name in FLAGS and FLAGS[name].value != unused:
            raise UsageError(
                f"--{name} needs tf.contrib.quantize, which TensorFlow 2 does not have, and is not "
                f"supported; leave it out. --dtype chooses among {', '.join(PRECISIONS)}."
            )
    for name, default in CLUSTER_DEFAULTS.items():
        if name in FLAGS and FLAGS[name].value != default:
            raise UsageError(
                f"--{name}={FLAGS[name].value}: training on several machines is not supported yet; "
                "leave it out. --num_clones uses several GPUs of this machine."
            )


def _check_values():
    for name, low in _LOWEST.items():
        value = FLAGS[name].value if name in FLAGS else None
        if value is not None and not value >= low:
            raise UsageError(f"--{name} is {value}; it must be at least {low}.")
    for name in _NOT_NEGATIVE:
        value = FLAGS[name].value if name in FLAGS else None
        if value is not None and not 0 <= value < math.inf:
            raise UsageError(f"--{name} is {value}; it must be a finite number from 0 on.")
    for name in _POSITIVE:
        value = FLAGS[name].value if name in FLAGS else None
        if value is not None and not 0 < value < math.inf:
            raise UsageError(f"--{name} is {value}; it must be a finite number above 0.")
    for name in _SHARES:
        value = FLAGS[name].value if name in FLAGS else None
        if value is not None and not 0 <= value < 1:
            raise UsageError(f"--{name} is {value}; it must be at least 0 and below 1.")


def _check_combinations():
    if (
        "freeze_batch_norm" in FLAGS
        and FLAGS.freeze_batch_norm
        and not split_scopes(FLAGS.trainable_scopes)
    ):
        raise UsageError(
            "--freeze_batch_norm is about the batch norm outside --trainable_scopes: give that "
            "flag the scopes to train, or leave both out."
        )


def check_flags():
    """Looks at the flags that the program has defined.

    Raises:
      UsageError: if a flag asks for what slim_mp does not support or is out of its range.
    """
    _refuse_unsupported()
    _check_values()
    _check_combinations()
