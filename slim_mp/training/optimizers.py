"""Learning-rate schedules and optimizers by name, with the defaults of slim's training script."""

import dataclasses
import math

from slim_mp.compat import tf
from slim_mp.errors import UsageError


def _at_least(low):
    return lambda value: value >= low, f"a finite number of at least {low:g}"


def _above(low):
    return lambda value: value > low, f"a finite number above {low:g}"


def _between(low, high):
    return lambda value: low <= value < high, f"a number of at least {low:g} and below {high:g}"


def _check_ranges(config, ranges):
    """Compares the fields of a config with a table of (field, flag, (test, words))."""
    for field, flag, (is_allowed, allowed) in ranges:
        value = getattr(config, field)
        if not (math.isfinite(value) and is_allowed(value)):
            raise UsageError(f"--{flag} is {value}; allowed is {allowed}.")


_LEARNING_RATE_RANGES = (
    ("learning_rate", "learning_rate", _at_least(0)),
    ("end_learning_rate", "end_learning_rate", _at_least(0)),
    ("decay_factor", "learning_rate_decay_factor", _above(0)),
    ("num_epochs_per_decay", "num_epochs_per_decay", _above(0)),
)


@dataclasses.dataclass(frozen=True)
class LearningRateConfig:
    """How the learning rate falls with the global step.

    Args:
      learning_rate: rate at step 0.
      decay_type: "fixed", "exponential" (a staircase) or "polynomial" (a straight line).
      end_learning_rate: rate at which the polynomial schedule stays.
      decay_factor: what the exponential schedule multiplies the rate by at each stair.
      num_epochs_per_decay: epochs between two stairs, or of the whole polynomial schedule.

    Raises:
      UsageError: on creation, if a value is out of its range; the message uses the flag's name.
    """

    learning_rate: float = 0.01
    decay_type: str = "exponential"
    end_learning_rate: float = 0.0001
    decay_factor: float = 0.94
    num_epochs_per_decay: float = 2.0

    def __post_init__(self):
        _check_ranges(self, _LEARNING_RATE_RANGES)
        if self.decay_type not in DECAY_TYPES:
            raise UsageError(
                f"--learning_rate_decay_type is {self.decay_type!r}; "
                f"allowed are {', '.join(DECAY_TYPES)}."
            )

    def describe(self, steps):
        """Says in words how the rate falls, with the steps of `decay_steps`."""
        if self.decay_type == "fixed":
            return f"fixed learning rate {self.learning_rate:g}"
        return f"{self.decay_type} learning rate from {self.learning_rate:g}, {steps} steps a decay"


def decay_steps(config, num_examples, images_per_step):
    """Steps between two stairs of the exponential schedule, or of the whole polynomial one.

    Args:
      config: a LearningRateConfig.
      num_examples: images in one epoch.
      images_per_step: images that count for one global step, usually the effective batch of all
        clones and replicas; the batch of one clone reproduces schedules published for slim.

    Returns:
      An int of at least 1, also when an epoch is smaller than a batch.

    Raises:
      UsageError: if either number is not positive.
    """
    for name, value in (("num_examples", num_examples), ("images_per_step", images_per_step)):
        if value <= 0:
            raise UsageError(
                f"The learning-rate schedule needs a positive {name}, but got {value}."
            )
    return max(1, int(num_examples * config.num_epochs_per_decay / images_per_step))


def _fixed(config, global_step, steps):
    del global_step, steps
    return tf.constant(config.learning_rate, tf.float32, name="fixed_learning_rate")


def _exponential(config, global_step, steps):
    return tf.train.exponential_decay(
        tf.constant(config.learning_rate, tf.float32),
        global_step,
        steps,
        config.decay_factor,
        staircase=True,
        name="exponential_decay_learning_rate",
    )


def _polynomial(config, global_step, steps):
    return tf.train.polynomial_decay(
        tf.constant(config.learning_rate, tf.float32),
        global_step,
        steps,
        config.end_learning_rate,
        power=1.0,
        cycle=False,
        name="polynomial_decay_learning_rate",
    )


_SCHEDULES = {"fixed": _fixed, "exponential": _exponential, "polynomial": _polynomial}
DECAY_TYPES = tuple(_SCHEDULES)


def learning_rate(config, global_step, num_examples, images_per_step):
    """Builds the learning rate of a step.

    Args:
      config: a LearningRateConfig.
      global_step: scalar integer tensor or variable, attempted steps so far.
      num_examples: images in one epoch.
      images_per_step: as for `decay_steps`.

    Returns:
      A float32 scalar tensor.

    Raises:
      UsageError: if num_examples or images_per_step is not positive.
    """
    steps = decay_steps(config, num_examples, images_per_step)
    return _SCHEDULES[config.decay_type](config, global_step, steps)


# Fields that bear the names of their flags.
_OPTIMIZER_RANGES = (
    ("adadelta_rho", _between(0, 1)),
    ("adagrad_initial_accumulator_value", _above(0)),
    ("adam_beta1", _between(0, 1)),
    ("adam_beta2", _between(0, 1)),
    # Optimizers compute in float32, where a smaller epsilon is flushed to 0.
    ("opt_epsilon", _at_least(1.1754944e-38)),
    ("ftrl_learning_rate_power", (lambda value: value <= 0, "a finite number of at most 0")),
    ("ftrl_initial_accumulator_value", _at_least(0)),
    ("ftrl_l1", _at_least(0)),
    ("ftrl_l2", _at_least(0)),
    ("momentum", _between(0, 1)),
    ("rmsprop_momentum", _between(0, 1)),
    ("rmsprop_decay", _between(0, 1)),
)


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """An optimizer by name and the parameters of all of them, named as slim's flags.

    Raises:
      UsageError: on creation, if the name is unknown or a value is out of its range.
    """

    name: str = "rmsprop"
    adadelta_rho: float = 0.95
    adagrad_initial_accumulator_value: float = 0.1
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    opt_epsilon: float = 1.0
    ftrl_learning_rate_power: float = -0.5
    ftrl_initial_accumulator_value: float = 0.1
    ftrl_l1: float = 0.0
    ftrl_l2: float = 0.0
    momentum: float = 0.9
    rmsprop_momentum: float = 0.9
    rmsprop_decay: float = 0.9

    def __post_init__(self):
        if self.name not in OPTIMIZERS:
            raise UsageError(f"--optimizer is {self.name!r}; allowed are {', '.join(OPTIMIZERS)}.")
        _check_ranges(self, ((field, field, check) for field, check in _OPTIMIZER_RANGES))


_FACTORIES = {
    "adadelta": lambda config, rate: tf.train.AdadeltaOptimizer(
        rate, rho=config.adadelta_rho, epsilon=config.opt_epsilon
    ),
    "adagrad": lambda config, rate: tf.train.AdagradOptimizer(
        rate, initial_accumulator_value=config.adagrad_initial_accumulator_value
    ),
    "adam": lambda config, rate: tf.train.AdamOptimizer(
        rate, beta1=config.adam_beta1, beta2=config.adam_beta2, epsilon=config.opt_epsilon
    ),
    "ftrl": lambda config, rate: tf.train.FtrlOptimizer(
        rate,
        learning_rate_power=config.ftrl_learning_rate_power,
        initial_accumulator_value=config.ftrl_initial_accumulator_value,
        l1_regularization_strength=config.ftrl_l1,
        l2_regularization_strength=config.ftrl_l2,
    ),
    "momentum": lambda config, rate: tf.train.MomentumOptimizer(rate, momentum=config.momentum),
    "rmsprop": lambda config, rate: tf.train.RMSPropOptimizer(
        rate,
        decay=config.rmsprop_decay,
        momentum=config.rmsprop_momentum,
        epsilon=config.opt_epsilon,
    ),
    "sgd": lambda config, rate: tf.train.GradientDescentOptimizer(rate),
}
OPTIMIZERS = tuple(_FACTORIES)


def make_optimizer(config, learning_rate):
    """Makes the optimizer that a config names.

    Args:
      config: an OptimizerConfig.
      learning_rate: float32 scalar tensor, or a number.

    Returns:
      A tf.train.Optimizer.
    """
    return _FACTORIES[config.name](config, learning_rate)
