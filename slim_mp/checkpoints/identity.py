"""What a checkpoint is, told from the names, shapes and dtypes of its variables."""

import collections
import dataclasses

from slim_mp.checkpoints.checkpoint_files import find_checkpoint, global_step_of, read_contents
from slim_mp.checkpoints.signatures import ANY_SIZE, CLASSES, signatures
from slim_mp.loss_scale import STATE_SCOPE

AVERAGE = "/ExponentialMovingAverage"


@dataclasses.dataclass(frozen=True)
class Identity:
    """What a checkpoint is.

    Attributes:
      networks: names of the networks that it holds, without regard to the head: none if it holds
        none of ours whole, several if their variables are the same.
      num_classes: the number of classes of its head, or None if it holds none.
      nearest: where there is no network, a tuple of the name of the nearest one, how many of that
        one's variables it holds, and of how many; or None.
      averages: how many moving averages it holds.
      dtypes: mapping of dtype name to how many of the network's variables (of all, where there is
        no network) are stored in it.
      slots: mapping of the name of an optimizer's slot, such as "Momentum", to how many there are.
      loss_scale: names of the stored state of a loss scale.
      step: the global step, or None.
    """

    networks: tuple = ()
    num_classes: int | None = None
    nearest: tuple | None = None
    averages: int = 0
    dtypes: dict = dataclasses.field(default_factory=dict)
    slots: dict = dataclasses.field(default_factory=dict)
    loss_scale: tuple = ()
    step: int | None = None

    def describe_network(self):
        """Says in a few words which network it is."""
        if self.networks:
            return " or ".join(self.networks) + (
                " (the same variables)" if len(self.networks) > 1 else ""
            )
        if self.nearest:
            name, held, count = self.nearest
            return f"none of ours whole; it has {held} of the {count} variables of {name}"
        return "none of ours"


def identify_checkpoint(path):
    """Reads a checkpoint and says what it is.

    Args:
      path: what `find_checkpoint` takes.

    Returns:
      An `Identity`.

    Raises:
      CheckpointError: if there is no checkpoint, or it cannot be read.
    """
    prefix = find_checkpoint(path)
    return dataclasses.replace(identify(read_contents(prefix)), step=global_step_of(prefix))


def identify(contents):
    """Says what a checkpoint is; the step, which is a value, is left out.

    Args:
      contents: `checkpoint_files.Contents`.

    Returns:
      An `Identity`.
    """
    shapes = _without_averages(contents.shapes)
    held = {name: _body_held(signature, shapes) for name, signature in signatures().items()}
    whole = {name: count for name, (fit, count) in held.items() if fit == count}
    most = max(whole.values(), default=0)
    networks = [name for name, count in whole.items() if count == most]
    ours = signatures()[networks[0]].variables if networks else contents.shapes
    return Identity(
        networks=tuple(networks),
        num_classes=_num_classes(signatures()[networks[0]], shapes) if networks else None,
        nearest=None if networks else _nearest(held),
        averages=sum(name.endswith(AVERAGE) for name in contents.shapes),
        dtypes=dict(
            collections.Counter(
                dtype.name
                for name, dtype in contents.dtypes.items()
                if name.removesuffix(AVERAGE) in ours
            )
        ),
        slots=_slots(contents.shapes),
        loss_scale=tuple(name for name in contents.shapes if name.startswith(f"{STATE_SCOPE}/")),
    )


def _without_averages(stored):
    """Shapes by the names of the variables, also of those that only have a moving average."""
    return {name.removesuffix(AVERAGE): shape for name, shape in stored.items()}


def _fits(shape, stored):
    return (
        stored is not None
        and len(shape) == len(stored)
        and all(size in (CLASSES, ANY_SIZE, has) for size, has in zip(shape, stored, strict=True))
    )


def _body_held(signature, shapes):
    """How many of the variables below the heads a checkpoint holds, and of how many."""
    fits = [_fits(signature.variables[name], shapes.get(name)) for name in signature.body]
    return sum(fits), len(fits)


def _num_classes(signature, shapes):
    classes = None
    # Auxiliary heads come first, so that the last one is the head itself.
    for name in signature.head:
        shape, stored = signature.variables[name], shapes.get(name)
        if _fits(shape, stored):
            classes = stored[shape.index(CLASSES)]
    return classes


def _nearest(held):
    name = max(held, key=lambda name: held[name][0] / held[name][1])
    return (name, *held[name]) if held[name][0] else None


def _slots(stored):
    parents = ((name, *name.rpartition("/")[::2]) for name in stored)
    return dict(
        collections.Counter(
            slot
            for name, parent, slot in parents
            if parent in stored and not name.endswith(AVERAGE)
        )
    )
