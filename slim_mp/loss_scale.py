"""Loss-scale managers: what the scale is, and how it changes from step to step.

Names and meaning are those of the former `tf.contrib.mixed_precision`, so that code written for it
works with `slim_mp` in its place.
"""

import abc
import math
import numbers

from slim_mp.compat import tf
from slim_mp.errors import UsageError

# All state lies under this name in the graph and in checkpoints.
STATE_SCOPE = "loss_scale"


def state_variable(name, initial_value, dtype):
    """Makes a variable that holds state of loss scaling, in the current graph and in checkpoints.

    Args:
      name: its name under `STATE_SCOPE`.
      initial_value: a number.
      dtype: a tf.DType.

    Returns:
      A tf.Variable that is not trained.
    """
    with tf.name_scope(STATE_SCOPE + "/"):
        return tf.Variable(initial_value, name=name, dtype=dtype, trainable=False)


def _check_positive(name, value, above=0.0):
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and value > above):
        raise UsageError(f"{name} is {value!r}; it must be a finite number above {above:g}.")


def _check_count(name, value):
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise UsageError(f"{name} is {value!r}; it must be a whole number of steps, at least 1.")


class LossScaleManager(abc.ABC):
    """Says what the loss scale is, and changes it after each step."""

    @abc.abstractmethod
    def get_loss_scale(self):
        """Returns the loss scale of the next step, a float32 scalar tensor."""

    @abc.abstractmethod
    def update_loss_scale(self, finite_grads):
        """Adapts the scale to a step.

        Args:
          finite_grads: bool scalar tensor, whether all gradients of the step were finite.

        Returns:
          An operation that updates the state of the manager.
        """

    def variables(self):
        """Returns the list of the variables that hold the state of the manager."""
        return []


class FixedLossScaleManager(LossScaleManager):
    """A loss scale that never changes."""

    def __init__(self, loss_scale):
        """Makes the manager.

        Args:
          loss_scale: a positive number.

        Raises:
          UsageError: if it is not.
        """
        _check_positive("loss_scale", loss_scale)
        self._loss_scale = float(loss_scale)

    def get_loss_scale(self):
        return tf.constant(self._loss_scale, tf.float32)

    def update_loss_scale(self, finite_grads):
        del finite_grads
        return tf.no_op()


class ExponentialUpdateLossScaleManager(LossScaleManager):
    """A loss scale that grows while the gradients stay finite and shrinks when they do not.

    After `incr_every_n_steps` finite steps in a row the scale is multiplied by `incr_ratio`, unless
    that would overflow float32. After `decr_every_n_nan_or_inf` steps that were not finite, since
    the last change of the scale, it is multiplied by `decr_ratio`, but never falls below
    `min_loss_scale`. Every change sets both counts to zero, and a step that is not finite sets the
    count of finite steps to zero.
    """

    def __init__(
        self,
        init_loss_scale,
        incr_every_n_steps,
        decr_every_n_nan_or_inf=2,
        incr_ratio=2,
        decr_ratio=0.8,
        min_loss_scale=1.0,
    ):
        """Makes the manager and its variables, in the current graph.

        Args:
          init_loss_scale: the scale of the first step, at least `min_loss_scale`.
          incr_every_n_steps: number of finite steps in a row after which the scale grows.
          decr_every_n_nan_or_inf: number of non-finite steps after which the scale shrinks.
          incr_ratio: factor of growth, above 1.
          decr_ratio: factor of shrinkage, between 0 and 1.
          min_loss_scale: the floor of the scale, a positive number.

        Raises:
          UsageError: if an argument is out of its range.
        """
        _check_positive("min_loss_scale", min_loss_scale)
        _check_positive("init_loss_scale", init_loss_scale)
        if init_loss_scale < min_loss_scale:
            raise UsageError(
                f"init_loss_scale is {init_loss_scale!r}; it must be at least min_loss_scale, "
                f"which is {min_loss_scale!r}."
            )
        _check_count("incr_every_n_steps", incr_every_n_steps)
        _check_count("decr_every_n_nan_or_inf", decr_every_n_nan_or_inf)
        _check_positive("incr_ratio", incr_ratio, above=1.0)
        _check_positive("decr_ratio", decr_ratio)
        if decr_ratio >= 1:
            raise UsageError(f"decr_ratio is {decr_ratio!r}; it must lie between 0 and 1.")
        self._incr_every_n_steps = incr_every_n_steps
        self._decr_every_n_nan_or_inf = decr_every_n_nan_or_inf
        self._incr_ratio = float(incr_ratio)
        self._decr_ratio = float(decr_ratio)
        self._min_loss_scale = float(min_loss_scale)
        self._loss_scale = state_variable("scale", float(init_loss_scale), tf.float32)
        self._good_steps = state_variable("good_steps", 0, tf.int64)
        self._bad_steps = state_variable("bad_steps", 0, tf.int64)

    def get_loss_scale(self):
        return tf.identity(self._loss_scale)

    def update_loss_scale(self, finite_grads):
        scale = tf.identity(self._loss_scale)
        good = tf.where(finite_grads, self._good_steps + 1, tf.zeros_like(self._good_steps))
        bad = self._bad_steps + tf.cast(tf.logical_not(finite_grads), tf.int64)
        grow = good >= self._incr_every_n_steps
        shrink = tf.logical_and(tf.logical_not(finite_grads), bad >= self._decr_every_n_nan_or_inf)
        grown = scale * self._incr_ratio
        grown = tf.where(tf.is_finite(grown), grown, scale)
        shrunk = tf.maximum(scale * self._decr_ratio, self._min_loss_scale)
        kept = tf.cast(tf.logical_not(tf.logical_or(grow, shrink)), tf.int64)
        # The new values must all be computed from the old state.
        with tf.control_dependencies([scale, good, bad, kept]):
            return tf.group(
                self._loss_scale.assign(tf.where(grow, grown, tf.where(shrink, shrunk, scale))),
                self._good_steps.assign(good * kept),
                self._bad_steps.assign(bad * kept),
            )

    def variables(self):
        return [self._loss_scale, self._good_steps, self._bad_steps]
