"""The names of ImageNet's classes, in the order in which published checkpoints number them.

The classes of ILSVRC-2012 are a thousand noun synsets of WordNet 3.0, numbered by their ids; a head
of 1001 classes has the background before them.
"""

import functools
import os

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "imagenet", "names.tsv")
# The name of the set of record files that slim's tools write.
DATASET = "imagenet"
BACKGROUND = "background"


@functools.cache
def synsets():
    """Returns the classes, a dict of WordNet id ("n01440764") to name ("tench, Tinca tinca")."""
    with open(PATH, encoding="utf-8") as file:
        return dict(line.rstrip("\n").split("\t") for line in file)


def names_of_head(num_classes):
    """Returns what the classes of a head that was trained on ImageNet are called.

    Args:
      num_classes: classes of the head.

    Returns:
      A tuple of str, one for each class; None if no head on ImageNet has that many.
    """
    names = tuple(synsets().values())
    for known in (names, (BACKGROUND, *names)):
        if len(known) == num_classes:
            return known
    return None
