"""What may be restored from where, and the report of it.

A plan is made before a session exists: it compares a checkpoint with the variables of the graph and
says everything that does not fit at once. `restore_fn` of a plan builds its ops.
"""

import dataclasses

from absl import logging

from slim_mp.checkpoints.checkpoint_files import (
    find_checkpoint,
    global_step_of,
    latest_checkpoint,
    read_contents,
)
from slim_mp.checkpoints.restore import RestorePlan, compare, restore_fn
from slim_mp.checkpoints.scopes import (
    few,
    match_scopes,
    scopes_to_exclude,
    split_scopes,
    top_scopes,
    trainable_variables,
)
from slim_mp.errors import CheckpointError, UsageError

__all__ = [
    "RestorePlan",
    "averages_in",
    "find_checkpoint",
    "global_step_of",
    "latest_checkpoint",
    "match_scopes",
    "plan_evaluation",
    "plan_resume",
    "plan_warm_start",
    "restore_fn",
    "trainable_variables",
]

_AVERAGE = "/ExponentialMovingAverage"


def plan_warm_start(checkpoint, variables, exclude_scopes=None, ignore_missing=False):
    """Plans how a new run takes its weights from a checkpoint of another one.

    Args:
      checkpoint: what `find_checkpoint` takes.
      variables: the network's variables, moving means and variances among them, without the
        global step and the slots of the optimizer.
      exclude_scopes: scopes whose variables keep their initial values, as for `split_scopes`.
      ignore_missing: whether variables that the checkpoint lacks keep their initial values, with a
        warning. Wrong shapes are never ignored.

    Returns:
      A RestorePlan.

    Raises:
      CheckpointError: if the checkpoint cannot be read, is of another network, or lacks variables
        or has them in other shapes; the message lists every one and the flag that mends it.
      UsageError: if a scope holds no variable or the scopes hold all of them.
    """
    contents = read_contents(find_checkpoint(checkpoint))
    by_name = _by_name(variables)
    excluded = match_scopes(by_name, exclude_scopes, flag="checkpoint_exclude_scopes")
    wanted = {name: by_name[name] for name in by_name if name not in set(excluded)}
    if not wanted:
        raise UsageError(
            f"--checkpoint_exclude_scopes={','.join(split_scopes(exclude_scopes))} excludes every "
            "variable of the network; give smaller scopes, or no --checkpoint_path."
        )
    plan = compare(contents, wanted, excluded)
    _check_same_network(plan, contents, wanted)
    if plan.mismatched or (plan.missing and not ignore_missing):
        raise CheckpointError(_warm_start_problem(plan, by_name, exclude_scopes, ignore_missing))
    if plan.missing:
        logging.warning("Not in %s, left as initialised: %s", contents.prefix, _all(plan.missing))
    return plan


def plan_resume(checkpoint, variables, optional=()):
    """Plans how a run goes on from its own checkpoint.

    Args:
      checkpoint: prefix of the checkpoint, of `latest_checkpoint`.
      variables: all variables that the run saves.
      optional: variables, or names of them, that keep their initial values if the checkpoint lacks
        them, such as the state of a loss scale. Extra variables of the checkpoint are ignored,
        unless they are slots or moving averages of the network's.

    Returns:
      A RestorePlan.

    Raises:
      CheckpointError: if the checkpoint cannot be read or does not fit; every variable is listed.
    """
    contents = read_contents(checkpoint)
    wanted = _by_name(variables)
    plan = compare(contents, wanted)
    _check_same_network(plan, contents, wanted)
    names = {item if isinstance(item, str) else item.op.name for item in optional}
    needed = [name for name in plan.missing if name not in names]
    if plan.mismatched or needed:
        raise CheckpointError(
            _listing(plan, wanted, needed, f"The checkpoint {checkpoint} in --train_dir")
            + _resume_cure(checkpoint, wanted, needed)
        )
    lost = [name for name in contents.shapes if name not in wanted and _owner(name) in wanted]
    if lost:
        raise CheckpointError(
            f"The checkpoint {checkpoint} in --train_dir holds {len(lost)} slots or moving "
            f"averages that this run would lose: {few(lost)}."
            + _resume_cure(checkpoint, wanted, lost)
        )
    if plan.missing:
        logging.info("Not in %s, left as initialised: %s", checkpoint, _all(plan.missing))
    return plan


def averages_in(checkpoint, variables):
    """Maps names in a checkpoint to variables, moving averages first.

    Args:
      checkpoint: prefix of a checkpoint.
      variables: the network's variables.

    Returns:
      A pair: a dict of name in the checkpoint (NAME/ExponentialMovingAverage where there is one,
      else NAME, also if that is missing) to variable, and the number of averages in it.

    Raises:
      CheckpointError: if the checkpoint cannot be read.
    """
    stored = read_contents(checkpoint).shapes
    mapping = {
        name + _AVERAGE if name + _AVERAGE in stored else name: variable
        for name, variable in _by_name(variables).items()
    }
    return mapping, sum(name.endswith(_AVERAGE) for name in mapping)


def plan_evaluation(checkpoint, variables, use_averages=True):
    """Plans how an evaluation takes its weights from a checkpoint.

    Args:
      checkpoint: what `find_checkpoint` takes.
      variables: the network's variables.
      use_averages: whether a moving average in the checkpoint goes before the variable itself.

    Returns:
      A RestorePlan.

    Raises:
      CheckpointError: if the checkpoint cannot be read or does not fit; every variable is listed.
    """
    contents = read_contents(find_checkpoint(checkpoint))
    wanted, averages = _by_name(variables), 0
    if use_averages:
        wanted, averages = averages_in(contents.prefix, variables)
    plan = compare(contents, wanted)
    _check_same_network(plan, contents, wanted)
    if plan.mismatched or plan.missing:
        raise CheckpointError(
            _listing(plan, wanted, plan.missing, f"The checkpoint {contents.prefix}")
            + "\nEvaluate with the --model_name, the dataset and the --labels_offset that it was "
            "trained with."
        )
    return dataclasses.replace(plan, averages=averages)


def _by_name(variables):
    return {variable.op.name: variable for variable in variables}


def _check_same_network(plan, contents, wanted):
    if plan.restored or plan.mismatched:
        return
    hint = ""
    if any("/.ATTRIBUTES/" in name for name in contents.shapes):
        hint = " It was written by tf.train.Checkpoint or Keras, which use other names."
    raise CheckpointError(
        f"The checkpoint {plan.checkpoint} is of another network: it holds none of this one's "
        f"{len(wanted)} variables. Its scopes are {few(top_scopes(sorted(contents.shapes)))}; the "
        f"network's are {few(top_scopes(wanted))}.{hint} Give the checkpoint of this --model_name."
    )


def _all(names):
    return few(names, most=len(names))


def _listing(plan, wanted, missing, subject):
    lines = [
        f"{subject} does not fit the network: {len(plan.mismatched)} variables have another shape, "
        f"{len(missing)} are missing, {len(plan.restored)} fit."
    ]
    for name, stored, shape in plan.mismatched:
        lines.append(f"  {name}: {list(stored)} in the checkpoint, {list(shape)} in the network")
    for name in missing:
        shape = wanted[name].shape.as_list()
        lines.append(f"  {name}: not in the checkpoint, {shape} in the network")
    return "\n".join(lines)


def _warm_start_problem(plan, by_name, exclude_scopes, ignore_missing):
    missing = () if ignore_missing else plan.missing
    bad = [name for name, _, _ in plan.mismatched] + list(missing)
    text = _listing(plan, by_name, missing, f"The checkpoint {plan.checkpoint}")
    if len(bad) > len(plan.restored):
        text += "\nIt looks like one of another network or another width; check --model_name."
    if not plan.restored:
        return text
    scopes = _joined(split_scopes(exclude_scopes), scopes_to_exclude(bad, by_name))
    text += f"\nTo train these layers anew: --checkpoint_exclude_scopes={','.join(scopes)}"
    if not plan.mismatched:
        text += "\nTo only leave the missing variables as initialised: --ignore_missing_vars"
    return text


def _joined(given, found):
    """The scopes that were given, then the new ones, without those that lie inside a new one."""
    kept = [scope for scope in given if not any(f"{scope}/".startswith(f"{f}/") for f in found)]
    return kept + found


def _owner(name):
    """The variable that a slot or a moving average of this name belongs to."""
    return name.rpartition("/")[0]


def _resume_cure(checkpoint, wanted, missing):
    text = ""
    if any(_owner(name) in wanted for name in missing):
        text = (
            "\nSlots and moving averages differ if --optimizer or --moving_average_decay is "
            "not what the run began with."
        )
    return text + (
        "\nGo on with the flags that the run began with, or give another --train_dir and start "
        f"from these weights with --checkpoint_path={checkpoint}"
    )
