"""The variables of every network, so that a checkpoint can be told by what it holds.

`signatures.json.gz` is made by scripts/make_signatures.py from the networks themselves; a test
holds it to them.
"""

import dataclasses
import functools
import gzip
import json
import os

from slim_mp.checkpoints.scopes import scopes_to_exclude
from slim_mp.compat import tf
from slim_mp.errors import UsageError

CLASSES = -1
ANY_SIZE = None
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "signatures.json.gz")


@dataclasses.dataclass(frozen=True)
class Signature:
    """What the variables of a network are called and how large they are.

    Attributes:
      name: the network, as --model_name calls it.
      variables: mapping of variable name to shape, a tuple in which CLASSES stands for the number
        of classes and ANY_SIZE for what depends on the size of the images.
      train_only: names of those that only the training graph has.
    """

    name: str
    variables: dict
    train_only: frozenset

    @property
    def head(self):
        """The names of the variables whose shape depends on the number of classes."""
        return [name for name, shape in self.variables.items() if CLASSES in shape]

    @functools.cached_property
    def head_scopes(self):
        """The scopes to train anew for another number of classes, auxiliary heads among them."""
        return scopes_to_exclude(self.head, self.variables)

    @functools.cached_property
    def body(self):
        """The names of the variables that any checkpoint of the network holds: none of a head."""
        heads = tuple(f"{scope}/" for scope in self.head_scopes)
        return [
            name
            for name in self.variables
            if name not in self.train_only and not name.startswith(heads)
        ]

    def specs(self, num_classes, is_training):
        """Says what a graph of the network holds.

        Args:
          num_classes: int.
          is_training: whether variables that only the training graph has are among them.

        Returns:
          A dict of variable name to tf.TensorSpec, float32; sizes that depend on the images are
          None.
        """
        return {
            name: tf.TensorSpec([num_classes if n == CLASSES else n for n in shape], tf.float32)
            for name, shape in self.variables.items()
            if is_training or name not in self.train_only
        }


@functools.cache
def signatures():
    """Returns all signatures, a dict of network name to Signature."""
    with gzip.open(PATH, "rt", encoding="utf-8") as file:
        rows = json.load(file)
    return {
        name: Signature(
            name,
            {variable: tuple(shape) for variable, shape in row["variables"].items()},
            frozenset(row["train_only"]),
        )
        for name, row in rows.items()
    }


def get_signature(name):
    """Looks a signature up.

    Args:
      name: a network, as --model_name calls it.

    Raises:
      UsageError: for an unknown name.
    """
    table = signatures()
    if name not in table:
        raise UsageError(f"There is no network {name!r}. There are: {', '.join(table)}.")
    return table[name]
