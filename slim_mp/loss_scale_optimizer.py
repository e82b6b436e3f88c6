"""The optimizer that trains with a scaled loss, and the verdict on whether a step counts.

The method is that of Micikevicius et al., "Mixed Precision Training" (arXiv:1710.03740): the loss
is multiplied by the scale before differentiation, so that small gradients do not vanish in half
precision, and the gradients are divided by it in float32. Name and meaning are those of the former
`tf.contrib.mixed_precision`.
"""

from slim_mp.compat import tf
from slim_mp.errors import UsageError
from slim_mp.loss_scale import LossScaleManager, state_variable


def _values(gradient):
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _references(gradients):
    return {_values(gradient).ref() for gradient in gradients if gradient is not None}


def _with_values(gradient, function):
    """Applies a function to the values of a dense or sparse gradient; None stays None."""
    if isinstance(gradient, tf.IndexedSlices):
        values = function(gradient.values)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return None if gradient is None else function(gradient)


def _in_dtype_of(variable, gradient):
    return _with_values(gradient, lambda values: tf.cast(values, variable.dtype.base_dtype))


def all_finite(gradients):
    """Tells whether every value of some gradients is finite.

    The sum of squares decides nearly always, at the cost of a norm; only where that sum overflows
    is each value looked at.

    Args:
      gradients: float32 tensors or IndexedSlices; None among them is passed over.

    Returns:
      A bool scalar tensor.
    """
    values = [_values(gradient) for gradient in gradients if gradient is not None]
    if not values:
        return tf.constant(True)
    sum_of_squares = tf.add_n([tf.nn.l2_loss(value) for value in values])

    def look_at_each_value():
        return tf.reduce_all([tf.reduce_all(tf.is_finite(value)) for value in values])

    return tf.cond(tf.is_finite(sum_of_squares), lambda: tf.constant(True), look_at_each_value)


class LossScaleOptimizer(tf.train.Optimizer):
    """Wraps any tf.train optimizer so that it trains with a scaled loss.

    The order is: scale the loss, differentiate, unscale in float32, check that all is finite; then
    the caller may clip; then apply. The check sees the gradients as `compute_gradients` returned
    them, so that clipping cannot hide an overflow. A step that is not finite changes no weight and
    no slot, with a fixed scale too; only the counters, the scale and `global_step` move, so that a
    run of overflows still ends and replicas do not wait for each other.

    Name, slots and `variables()` are those of the wrapped optimizer.
    """

    def __init__(self, opt, loss_scale_manager):
        """Wraps an optimizer.

        Args:
          opt: a tf.train.Optimizer.
          loss_scale_manager: a `LossScaleManager`.

        Raises:
          UsageError: if either is of another type.
        """
        if not isinstance(opt, tf.train.Optimizer):
            raise UsageError(
                f"opt is a {type(opt).__name__}; it must be an optimizer of tf.compat.v1.train."
            )
        if not isinstance(loss_scale_manager, LossScaleManager):
            raise UsageError(
                f"loss_scale_manager is a {type(loss_scale_manager).__name__}; it must be a "
                "LossScaleManager, such as FixedLossScaleManager(128)."
            )
        super().__init__(use_locking=False, name=opt.get_name())
        self._optimizer = opt
        self._manager = loss_scale_manager
        self._loss_scale = None
        self._raw_checks = []
        self._raw_gradients = set()
        self._counters = {
            name: state_variable(name, 0, tf.int64)
            for name in ("applied_steps", "skipped_steps", "consecutive_skips")
        }

    @property
    def loss_scale(self):
        """The loss scale of the current step, a float32 scalar tensor."""
        if self._loss_scale is None:
            self._loss_scale = tf.identity(self._manager.get_loss_scale(), name="loss_scale")
        return self._loss_scale

    @property
    def applied_steps(self):
        """How many steps have changed the weights, an int64 variable."""
        return self._counters["applied_steps"]

    @property
    def skipped_steps(self):
        """How many steps were not finite and changed nothing, an int64 variable."""
        return self._counters["skipped_steps"]

    @property
    def consecutive_skips(self):
        """How many steps have been skipped since the last one applied, an int64 variable."""
        return self._counters["consecutive_skips"]

    @property
    def attempted_steps(self):
        """How many steps have been applied or skipped, an int64 scalar tensor."""
        return self.applied_steps + self.skipped_steps

    def state_variables(self):
        """Returns the list of the variables of loss scaling: the counters and the manager's."""
        return [*self._counters.values(), *self._manager.variables()]

    def compute_gradients(self, loss, var_list=None, **kwargs):
        """Differentiates the scaled loss and unscales the gradients.

        It may be called several times before `apply_gradients`, once for each clone: the step
        counts if the gradients of all of them are finite.

        Args:
          loss: scalar tensor, or a function without arguments that returns one.
          var_list: variables; the trainable ones of the graph where it is None.
          **kwargs: as for tf.train.Optimizer.compute_gradients.

        Returns:
          A list of pairs (gradient, variable); gradients are float32 and unscaled, sparse ones
          are still IndexedSlices, and a variable that the loss does not use has None.
        """
        scale = self.loss_scale

        def scaled(value):
            return tf.cast(value, tf.float32) * scale

        scaled_loss = (lambda: scaled(loss())) if callable(loss) else scaled(loss)
        pairs = self._optimizer.compute_gradients(scaled_loss, var_list=var_list, **kwargs)
        with tf.name_scope("unscale"):
            unscale = tf.reciprocal(scale)
            pairs = [
                (_with_values(grad, lambda value: tf.cast(value, tf.float32) * unscale), variable)
                for grad, variable in pairs
            ]
        gradients = [gradient for gradient, _ in pairs]
        with tf.name_scope("check_finite"):
            self._raw_checks.append(all_finite(gradients))
        self._raw_gradients.update(_references(gradients))
        return pairs

    def apply_gradients(
        self, grads_and_vars, global_step=None, name=None, if_applied=None, finite=()
    ):
        """Applies gradients if those of the step are all finite.

        Args:
          grads_and_vars: pairs as `compute_gradients` returns them, clipped or averaged perhaps.
          global_step: variable that is incremented by one, whether the step is applied or not.
          name: name of the returned operation.
          if_applied: function without arguments that makes further operations of a step that
            counts, such as updates of moving averages, and returns them in a list; they run after
            the weights have changed, and not at all when the step is skipped.
          finite: further floating-point tensors that must be finite for the step to count, such
            as new statistics of frozen layers, which no gradient passes through.

        Returns:
          The train op.

        Raises:
          ValueError: if no variable has a gradient (from the wrapped optimizer).
        """
        pairs = [
            (_in_dtype_of(variable, gradient), variable) for gradient, variable in grads_and_vars
        ]
        is_finite = self._take_check([gradient for gradient, _ in grads_and_vars], finite)

        scope = tf.get_default_graph().get_name_scope()

        def apply():
            # Adam's powers take the name scope into their names, in checkpoints too.
            with tf.name_scope(scope + "/" if scope else None):
                applied = self._optimizer.apply_gradients(pairs)
            with tf.control_dependencies([applied]):
                return tf.group(applied, *(if_applied() if if_applied else ()))

        with tf.name_scope(name, "apply_if_finite"):
            applied = tf.cond(is_finite, apply, tf.no_op)
            with tf.control_dependencies([applied, self.loss_scale]):
                done = tf.group(self._manager.update_loss_scale(is_finite), *self._count(is_finite))
        with tf.control_dependencies([done]):
            if global_step is None:
                return tf.no_op(name=name)
            return tf.assign_add(global_step, 1, name=name).op

    def _take_check(self, gradients, others):
        """The finite check of a step: what `compute_gradients` saw, and whatever it did not."""
        checks, self._raw_checks = self._raw_checks, []
        seen, self._raw_gradients = self._raw_gradients, set()
        if not seen.issuperset(_references(gradients)):
            checks.append(all_finite(gradients))
        if others:
            # They are small and many: one kernel looks at all of them.
            flat = [tf.reshape(tf.cast(tensor, tf.float32), [-1]) for tensor in others]
            checks.append(all_finite([tf.concat(flat, 0)]))
        return tf.reduce_all(checks)

    def _count(self, finite):
        applied = tf.cast(finite, tf.int64)
        skips_in_a_row = (self.consecutive_skips + 1) * (1 - applied)
        return [
            tf.assign_add(self.applied_steps, applied),
            tf.assign_add(self.skipped_steps, 1 - applied),
            tf.assign(self.consecutive_skips, skips_in_a_row),
        ]

    def get_slot(self, var, name):
        """Returns the slot `name` of the wrapped optimizer for `var`, or None."""
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self):
        """Returns the names of the slots of the wrapped optimizer."""
        return self._optimizer.get_slot_names()

    def variables(self):
        """Returns the variables of the wrapped optimizer."""
        return self._optimizer.variables()
