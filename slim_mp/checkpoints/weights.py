"""The weights of a checkpoint, for graphs that are written somewhere else.

`restore.restore_fn` adds operations that read the checkpoint to the graph. A graph that is exported
must not have them, nor the path that the checkpoint has on this machine.
"""

import dataclasses

import numpy as np

from slim_mp.checkpoints import warm_start
from slim_mp.compat import tf
from slim_mp.errors import CheckpointError, reason


@dataclasses.dataclass(frozen=True)
class Weights:
    """Which weights an exported network gets.

    Attributes:
      checkpoint: prefix of the checkpoint.
      use_averages: whether moving averages in it go before the weights.
    """

    checkpoint: str
    use_averages: bool = True

    def plan(self, variables):
        """Returns the `RestorePlan` of some variables, as for an evaluation.

        Raises:
          CheckpointError: as `warm_start.plan_evaluation`.
        """
        return warm_start.plan_evaluation(self.checkpoint, variables, self.use_averages)

    def load(self, session, variables):
        """Gives variables their values, without a new operation in the graph.

        Args:
          session: a session of their graph.
          variables: the network's variables, half ones among them.

        Raises:
          CheckpointError: if the checkpoint does not fit, or its data are damaged.
        """
        plan, feeds, initializers = self.plan(variables), {}, []
        reader = tf.train.NewCheckpointReader(plan.checkpoint)
        for name, variable in plan.restored.items():
            value = _read(reader, name, plan.checkpoint)
            feeds[variable.initializer.inputs[1]] = _cast(value, variable.dtype.base_dtype)
            initializers.append(variable.initializer)
        session.run(initializers, feeds)


def _read(reader, name, checkpoint):
    try:
        return reader.get_tensor(name)
    except (tf.errors.OpError, RuntimeError) as error:
        raise CheckpointError(
            f"The data of the checkpoint {checkpoint} are damaged; copy or download it again "
            f"({reason(error)[:200]!r})."
        ) from error


def _cast(value, dtype):
    # What half cannot hold becomes infinite, as in a graph that casts.
    with np.errstate(over="ignore"):
        return value.astype(dtype.as_numpy_dtype)
