"""The flags of what a step does with its gradients: loss scale, optimizer and learning rate."""

from absl import flags

from slim_mp.precision import PRECISIONS
from slim_mp.training import optimizers
from slim_mp.training.train_config import LossScaleConfig

# Parameters of the optimizers; none of them has any effect on another optimizer.
OPTIMIZER_FIELDS = {
    "adadelta_rho": "adadelta: decay of its averages.",
    "adagrad_initial_accumulator_value": "adagrad: what its sums of squares begin with.",
    "adam_beta1": "adam: decay of the mean gradient.",
    "adam_beta2": "adam: decay of the mean squared gradient.",
    "opt_epsilon": "adadelta, adam, rmsprop: term in the divisor; adam is usually given 1e-8.",
    "ftrl_learning_rate_power": "ftrl: power of the learning rate, at most 0.",
    "ftrl_initial_accumulator_value": "ftrl: what its sums of squares begin with.",
    "ftrl_l1": "ftrl: strength of the L1 penalty.",
    "ftrl_l2": "ftrl: strength of the L2 penalty.",
    "momentum": "momentum: share of the step before that is repeated.",
    "rmsprop_momentum": "rmsprop: share of the step before that is repeated.",
    "rmsprop_decay": "rmsprop: decay of the mean squared gradient.",
}


def _define_loss_scale_flags():
    rule = LossScaleConfig()
    flags.DEFINE_string(
        "loss_scale",
        None,
        "A positive number; 'dynamic'; or 'auto', which is dynamic from the scale that the first "
        "batches need. By default "
        + ", ".join(f"{row.default_loss_scale:g} for {name}" for name, row in PRECISIONS.items())
        + ".",
    )
    flags.DEFINE_float("init_loss_scale", rule.init, "Dynamic loss scale of the first step.")
    flags.DEFINE_integer(
        "incr_every_n_steps",
        rule.incr_every_n_steps,
        "Finite steps in a row after which a dynamic loss scale grows.",
    )
    flags.DEFINE_integer(
        "decr_every_n_nan_or_inf",
        rule.decr_every_n_nan_or_inf,
        "Steps with a gradient that is not finite after which a dynamic loss scale shrinks.",
    )
    flags.DEFINE_float("incr_ratio", rule.incr_ratio, "Growth of a dynamic loss scale.")
    flags.DEFINE_float("decr_ratio", rule.decr_ratio, "Shrinkage of a dynamic loss scale.")
    flags.DEFINE_float("min_loss_scale", rule.minimum, "Floor of a dynamic loss scale.")
    flags.DEFINE_integer(
        "max_consecutive_skips",
        200,
        "End the run after this many steps in a row whose gradients are not finite.",
    )


def _define_optimizer_flags():
    defaults = optimizers.OptimizerConfig()
    flags.DEFINE_enum("optimizer", defaults.name, list(optimizers.OPTIMIZERS), "The optimizer.")
    for name, words in OPTIMIZER_FIELDS.items():
        flags.DEFINE_float(name, getattr(defaults, name), f"Of the optimizer {words}")
    flags.DEFINE_float("weight_decay", 0.00004, "Scale of the L2 loss of the weights.")
    flags.DEFINE_float("label_smoothing", 0.0, "Share of the label that goes to all classes.")
    flags.DEFINE_float(
        "moving_average_decay", None, "Decay of moving averages of the weights; unset, none."
    )
    flags.DEFINE_float(
        "clip_gradient_norm",
        None,
        "Largest norm of all gradients together, without the loss scale; unset, no clipping. The "
        "norm that is logged is that before clipping.",
    )
    flags.DEFINE_float(
        "clip_gradient_value",
        None,
        "Largest absolute value in a gradient, without the loss scale; unset, no clipping.",
    )
    flags.DEFINE_float(
        "batch_norm_decay",
        None,
        "Decay of the moving statistics of batch norm; unset, the network's own.",
    )
    flags.DEFINE_integer("quantize_delay", -1, "Not supported; see --dtype.")


def _define_learning_rate_flags():
    defaults = optimizers.LearningRateConfig()
    flags.DEFINE_enum(
        "learning_rate_decay_type",
        defaults.decay_type,
        list(optimizers.DECAY_TYPES),
        "How the learning rate decays.",
    )
    flags.DEFINE_float("learning_rate", defaults.learning_rate, "Learning rate of the first step.")
    flags.DEFINE_float(
        "end_learning_rate", defaults.end_learning_rate, "Last learning rate, if polynomial."
    )
    flags.DEFINE_float(
        "learning_rate_decay_factor", defaults.decay_factor, "Factor of a decay, if exponential."
    )
    flags.DEFINE_float(
        "num_epochs_per_decay",
        defaults.num_epochs_per_decay,
        "Epochs between decays; an epoch counts the images of all clones.",
    )
    flags.DEFINE_boolean(
        "per_clone_schedule",
        False,
        "An epoch of --num_epochs_per_decay counts the images of one clone, as in slim: with n "
        "clones the rate decays after n times as many epochs.",
    )


def define_update_flags():
    """Defines them all."""
    _define_loss_scale_flags()
    _define_optimizer_flags()
    _define_learning_rate_flags()
