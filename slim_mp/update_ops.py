"""Update operations that wait for the verdict on a step.

A layer such as batch norm puts the assignment of its moving averages into a collection while the
forward pass is built, before anyone knows whether the step will count.
"""

from slim_mp.compat import tf

_ASSIGNMENTS = {
    "Assign": tf.raw_ops.Assign,
    "AssignAdd": tf.raw_ops.AssignAdd,
    "AssignAddVariableOp": tf.raw_ops.AssignAddVariableOp,
    "AssignSub": tf.raw_ops.AssignSub,
    "AssignSubVariableOp": tf.raw_ops.AssignSubVariableOp,
    "AssignVariableOp": tf.raw_ops.AssignVariableOp,
}


def _again(operation):
    variable, value = operation.inputs
    key = "resource" if variable.dtype == tf.resource else "ref"
    return _ASSIGNMENTS[operation.type](**{key: variable}, value=value)


def assigned_values(update_ops):
    """Finds what updates would write, or add, that can be told before they are run.

    Args:
      update_ops: as for `repeat_updates`.

    Returns:
      A list of tensors; updates that are no plain assignment have none in it.
    """
    operations = [getattr(update, "op", update) for update in update_ops]
    return [op.inputs[1] for op in operations if op.type in _ASSIGNMENTS]


def repeat_updates(update_ops):
    """Makes assignments anew, under the control flow and dependencies of the caller.

    The value that is assigned is still computed where it was; only the assignment is repeated, so
    that inside one branch of tf.cond the variable changes if that branch is taken. The original
    operations must then not be run. Anything but a plain assignment, such as an update that
    depends on a tensor `is_training`, cannot be moved and is returned as it is. Statistics that
    change as part of the forward pass (batch norm with `updates_collections=None`, and those of
    `renorm` besides the moving mean and variance) are in no collection and beyond reach.

    Args:
      update_ops: operations, tensors or variables as in tf.GraphKeys.UPDATE_OPS.

    Returns:
      A list of operations.
    """
    operations = [getattr(update, "op", update) for update in update_ops]
    return [_again(op) if op.type in _ASSIGNMENTS else op for op in operations]
