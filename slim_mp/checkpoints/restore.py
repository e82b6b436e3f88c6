"""Plans of what a checkpoint gives to the variables of a graph, and the ops that carry them out."""

import dataclasses

from absl import logging

from slim_mp.checkpoints.scopes import few
from slim_mp.compat import tf
from slim_mp.errors import CheckpointError, reason


@dataclasses.dataclass(frozen=True)
class RestorePlan:
    """What a checkpoint gives to the variables of a graph.

    Args:
      checkpoint: prefix of the checkpoint.
      restored: mapping of name in the checkpoint to variable.
      excluded: names of variables that were left out on request.
      missing: names of variables that the checkpoint lacks and that keep their initial values.
      mismatched: tuples (name, shape in the checkpoint, shape in the graph).
      cast: mapping of name in the checkpoint to the tf.DType stored, where the variable's differs.
      averages: how many of `restored` take a moving average.
    """

    checkpoint: str
    restored: dict
    excluded: tuple = ()
    missing: tuple = ()
    mismatched: tuple = ()
    cast: dict = dataclasses.field(default_factory=dict)
    averages: int = 0

    def report(self):
        """Describes the plan in a few lines, without a line feed at the end."""
        lines = [f"From {self.checkpoint}: {len(self.restored)} variables restored."]
        if self.averages:
            lines.append(f"Moving averages used for {self.averages} variables.")
        if self.excluded:
            lines.append(f"Excluded: {len(self.excluded)} ({few(self.excluded)}).")
        if self.missing:
            lines.append(
                f"Not in it, initial values kept: {len(self.missing)} ({few(self.missing)})."
            )
        if self.cast:
            lines.append(self.cast_notice())
        return "\n".join(lines)

    def cast_notice(self):
        """Says in one line which stored dtypes are cast to those of the variables."""
        stored = ", ".join(sorted({dtype.name for dtype in self.cast.values()}))
        wanted = ", ".join(
            sorted({self.restored[name].dtype.base_dtype.name for name in self.cast})
        )
        return f"Cast to {wanted}: {len(self.cast)} variables that are stored as {stored}."


def compare(contents, wanted, excluded=()):
    """Compares a checkpoint with variables.

    Args:
      contents: checkpoint_files.Contents.
      wanted: mapping of name in the checkpoint to variable.
      excluded: names for the plan's field of this name.

    Returns:
      A RestorePlan that lists also what is missing or of another shape.
    """
    restored, missing, mismatched, cast = {}, [], [], {}
    for name, variable in wanted.items():
        stored = contents.shapes.get(name)
        if stored is None:
            missing.append(name)
        elif not variable.shape.is_compatible_with(stored):
            mismatched.append((name, stored, tuple(variable.shape.as_list())))
        else:
            restored[name] = variable
            if contents.dtypes[name] != variable.dtype.base_dtype:
                cast[name] = contents.dtypes[name]
    return RestorePlan(
        contents.prefix, restored, tuple(excluded), tuple(missing), tuple(mismatched), cast
    )


def restore_fn(plan):
    """Builds the ops that carry out a plan; call it before the graph is finalized.

    Args:
      plan: a RestorePlan.

    Returns:
      A function of a session that assigns the variables, and of the prefix of a checkpoint if that
      is another than the plan's, with the same variables in the same dtypes. It raises
      CheckpointError if the data of the checkpoint turn out to be damaged.
    """
    names, variables = list(plan.restored), list(plan.restored.values())
    wanted = [variable.dtype.base_dtype for variable in variables]
    with tf.name_scope("warm_start"):
        with tf.device("/cpu:0"):
            prefix = tf.placeholder_with_default(plan.checkpoint, [])
            values = tf.raw_ops.RestoreV2(
                prefix=prefix,
                tensor_names=names,
                shape_and_slices=[""] * len(names),
                dtypes=[
                    plan.cast.get(name, dtype) for name, dtype in zip(names, wanted, strict=True)
                ],
            )
            values = [tf.cast(value, dtype) for value, dtype in zip(values, wanted, strict=True)]
        assign = tf.group(*map(_assign, variables, values))

    def restore(session, checkpoint=plan.checkpoint):
        try:
            session.run(assign, {prefix: checkpoint})
        except (tf.errors.DataLossError, tf.errors.NotFoundError, tf.errors.OutOfRangeError) as e:
            raise CheckpointError(
                f"The data of the checkpoint {checkpoint} are damaged; copy or download it "
                f"again ({reason(e)[:200]!r})."
            ) from e
        if plan.cast:
            logging.info("%s", plan.cast_notice())

    return restore


def _assign(variable, value):
    with tf.device(variable.device):
        return variable.assign(value, read_value=False)
