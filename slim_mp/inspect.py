"""Says what a checkpoint holds, and what of it a network would take.

python -m slim_mp.inspect CHECKPOINT [--model_name=NETWORK] [--num_classes=N]

CHECKPOINT is a file, a prefix, a folder, or the name of a published checkpoint.
"""

import math

from absl import logging

from slim_mp.checkpoints import catalogue, checkpoint_defaults
from slim_mp.checkpoints.checkpoint_files import global_step_of, read_contents
from slim_mp.checkpoints.restore import compare
from slim_mp.checkpoints.scopes import match_scopes, scopes_to_exclude, split_scopes
from slim_mp.checkpoints.signatures import get_signature
from slim_mp.errors import UsageError
from slim_mp.flags import checkpoint_flags
from slim_mp.flags.program import check_unicode, run_program


def _lines(rows):
    return [f"  {head + ':':15}{text}" for head, text in rows]


def _counted(counts):
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


def describe_contents(known, contents, step):
    """Says what a checkpoint holds.

    Args:
      known: a `checkpoint_defaults.Known`.
      contents: its `checkpoint_files.Contents`.
      step: its global step, or None.

    Returns:
      A list of lines.
    """
    identity = known.identity
    values = sum(math.prod(shape) for shape in contents.shapes.values())
    rows = [
        ("network", identity.describe_network()),
        ("classes", "no head" if identity.num_classes is None else identity.num_classes),
        ("trained with", _input(known)),
        ("holds", f"{len(contents.shapes)} variables of {values:,} values"),
        ("stored as", _counted(identity.dtypes)),
        ("averages", identity.averages or "none"),
        ("optimizer", _counted(identity.slots)),
        ("loss scale", ", ".join(identity.loss_scale) or "none"),
        ("step", "not stored" if step is None else step),
    ]
    return [known.checkpoint, *_lines(rows)]


def _input(known):
    if known.source is None:
        return "unknown"
    return f"preprocessing {known.preprocessing}, image size {known.image_size} ({known.source})"


def _excluded_scopes(request, known, signature, num_classes):
    """The scopes of the request, or those that follow from the number of classes."""
    if request.exclude_scopes is not None or signature.name not in known.identity.networks:
        return request.exclude_scopes
    return None if known.identity.num_classes == num_classes else ",".join(signature.head_scopes)


def describe_restore(request, known, contents):
    """Says what a network would take from a checkpoint, and with which flags.

    Args:
      request: a `checkpoint_flags.InspectionRequest`.
      known: a `checkpoint_defaults.Known`.
      contents: its `checkpoint_files.Contents`.

    Returns:
      A list of lines; empty where neither the request nor the checkpoint says a network.

    Raises:
      UsageError: if there is no such network or a scope holds none of its variables.
    """
    name = request.model_name or next(iter(known.identity.networks), None)
    if name is None:
        return []
    signature = get_signature(name)
    num_classes = request.num_classes or known.identity.num_classes
    if num_classes is None:
        return [f"Into {name}: give --num_classes; the checkpoint does not say it."]
    scopes = _excluded_scopes(request, known, signature, num_classes)
    specs = signature.specs(num_classes, is_training=True)
    excluded = match_scopes(specs, scopes, flag="checkpoint_exclude_scopes")
    wanted = {name: spec for name, spec in specs.items() if name not in set(excluded)}
    plan = compare(contents, wanted, excluded)
    rows = [
        ("restored", len(plan.restored)),
        ("excluded", f"{len(excluded)} ({', '.join(split_scopes(scopes))})" if excluded else 0),
        ("missing", len(plan.missing)),
        ("wrong shape", len(plan.mismatched)),
    ]
    if plan.cast:
        rows.append(("cast", plan.cast_notice()))
    lines = [f"Into {name} with {num_classes} classes, for training:", *_lines(rows)]
    lines += [f"    missing: {name} {wanted[name].shape.as_list()}" for name in plan.missing]
    lines += [
        f"    wrong shape: {name} {list(stored)} in the checkpoint, {list(shape)} in the network"
        for name, stored, shape in plan.mismatched
    ]
    return [*lines, *_flags(plan, known, name, scopes, specs)]


def _flags(plan, known, name, scopes, specs):
    """The last lines: flags to paste, or that there are none."""
    if not plan.restored and name in known.identity.networks:
        return [
            "It holds moving averages only: it can be evaluated, but no training starts from it."
        ]
    if not plan.restored:
        return [f"It is a checkpoint of another network than {name}: nothing can be restored."]
    bad = [*(name for name, _, _ in plan.mismatched), *plan.missing]
    flags_to_paste = [f"--model_name={name}", f"--checkpoint_path={known.checkpoint}"]
    if known.preprocessing and name in known.identity.networks:
        flags_to_paste.append(f"--preprocessing_name={known.preprocessing}")
        flags_to_paste.append(f"--train_image_size={known.image_size}")
    scopes = list(dict.fromkeys([*split_scopes(scopes), *scopes_to_exclude(bad, specs)]))
    if scopes:
        flags_to_paste.append(f"--checkpoint_exclude_scopes={','.join(scopes)}")
    return [f"Flags: {' '.join(flags_to_paste)}"]


def inspect(path, request):
    """Describes a checkpoint and what a network would take from it.

    Args:
      path: what `catalogue.resolve` takes.
      request: a `checkpoint_flags.InspectionRequest`.

    Returns:
      The report, str.

    Raises:
      CheckpointError: if there is no checkpoint, or it cannot be read.
      UsageError: as `describe_restore`.
    """
    known = checkpoint_defaults.know(*catalogue.resolve(path, request.folder))
    contents = read_contents(known.checkpoint)
    lines = describe_contents(known, contents, global_step_of(known.checkpoint))
    return "\n".join([*lines, *describe_restore(request, known, contents)])


def main(operands):
    """Prints the report of the checkpoint on the command line."""
    # The report says what the log would, and nothing may stand before it.
    logging.set_verbosity(logging.WARNING)
    if len(operands) != 1:
        raise UsageError(f"Name one checkpoint to inspect; {len(operands)} were given.")
    check_unicode("The checkpoint", operands[0])
    print(inspect(operands[0], checkpoint_flags.inspection_request()))


def run():
    """Runs the program."""
    checkpoint_flags.define_inspection_flags()
    run_program(main, takes_operands=True)


if __name__ == "__main__":
    run()
