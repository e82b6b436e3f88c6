"""What training changes in the batch norm of a network, and what it says about it.

The layers that no scope trains may be frozen, the decay of the moving statistics may be another
than the network's own, and a run may be too short for them.
"""

import contextlib
import dataclasses
import math

from absl import logging

from slim_mp.batch_norm import replaced_batch_norm
from slim_mp.checkpoints.scopes import lies_under, split_scopes
from slim_mp.compat import tf

_SLIM_DECAY = 0.999  # of tf_slim.batch_norm where neither call nor arg_scope gives one
_CAUGHT_UP = 0.95
_UPDATES = tf.GraphKeys.UPDATE_OPS


@dataclasses.dataclass
class Layers:
    """The batch norm layers of a network that is being trained, by the names of their scopes.

    Attributes:
      decays: dict of scope to decay, of the layers that change their statistics.
      outside: set of those outside the trainable scopes.
      frozen: set of the layers that were frozen.
    """

    decays: dict = dataclasses.field(default_factory=dict)
    outside: set = dataclasses.field(default_factory=set)
    frozen: set = dataclasses.field(default_factory=set)

    def log_start(self, config):
        """Logs which layers outside the trainable scopes change their statistics, if there are."""
        if self.frozen:
            logging.info(
                "Batch norm: %d layers outside the trainable scopes are frozen: they compute with "
                "their moving statistics and leave them as they are; %d layers change theirs.",
                len(self.frozen),
                len(self.decays),
            )
        elif config.freeze_batch_norm:
            logging.warning(
                "--freeze_batch_norm: no batch norm lies outside the scopes %s; %d layers change "
                "their statistics.",
                config.trainable_scopes,
                len(self.decays),
            )
        elif self.outside:
            logging.info(
                "Batch norm: %d layers outside the trainable scopes still change their "
                "statistics; --freeze_batch_norm keeps them.",
                len(self.outside),
            )

    def warn_if_behind(self, applied_steps):
        """Warns if the moving statistics still hold much of what they began with.

        After n steps with decay d they hold d**n of it.

        Args:
          applied_steps: steps that have changed the statistics.
        """
        decay = max(self.decays.values(), default=0.0)
        seen = 1 - decay**applied_steps
        if seen >= _CAUGHT_UP or not applied_steps:
            return
        logging.warning(
            "Batch norm: after %d steps with decay %g the moving statistics, which evaluation "
            "uses, have seen %.0f %% of the true mean; the rest is what they began with. Train "
            "for %d steps or more, or give --batch_norm_decay=%g%s.",
            applied_steps,
            decay,
            100 * seen,
            math.ceil(math.log(1 - _CAUGHT_UP) / math.log(decay)),
            _decay_for(applied_steps),
            ", or --freeze_batch_norm" if self.outside else "",
        )


def _decay_for(steps):
    """The largest usual decay that catches up in some steps."""
    usual = (0.999, 0.997, 0.99, 0.97, 0.9)
    return next((decay for decay in usual if 1 - decay**steps >= _CAUGHT_UP), usual[-1])


def _scope_of(scope):
    """The full name of a layer's variable scope, and what to give the layer so that it has it.

    A layer without a name takes the first that is free; that is found out by taking it.
    """
    if isinstance(scope, tf.VariableScope):
        return scope.name, scope
    if scope is None:
        with tf.variable_scope(None, "BatchNorm", auxiliary_name_scope=False) as free:
            return free.name, free.name.rpartition("/")[2]
    outer = tf.get_variable_scope().name
    return f"{outer}/{scope}" if outer else scope, scope


@contextlib.contextmanager
def controlled(config):
    """While open, batch norm is built as a training run wants it.

    Open it outside `slim_mp.arg_scope`, where the network function is called.

    Args:
      config: a `TrainConfig`.

    Yields:
      The `Layers`, which fill as the network is built.
    """
    layers = Layers()
    scopes = split_scopes(config.trainable_scopes)

    def call(batch_norm, inputs, arguments):
        name, arguments["scope"] = _scope_of(arguments.get("scope"))
        is_trained = not scopes or any(
            lies_under(name, trained) or lies_under(trained, name) for trained in scopes
        )
        if config.freeze_batch_norm and not is_trained:
            layers.frozen.add(name)
            arguments["is_training"] = False
        if config.batch_norm_decay is not None:
            arguments["decay"] = config.batch_norm_decay
        # A tensor may be either.
        if arguments.get("is_training", True) is not False:
            layers.decays[name] = arguments.get("decay", _SLIM_DECAY)
            if not is_trained:
                layers.outside.add(name)
            # What a layer updates in the forward pass, the verdict on the step comes too late for.
            if arguments.get("updates_collections", _UPDATES) is None:
                arguments["updates_collections"] = _UPDATES
        return batch_norm(inputs, **arguments)

    with replaced_batch_norm(call):
        yield layers
