"""Writes the table of the variables of every network that slim_mp tells checkpoints by.

    python scripts/make_signatures.py [FILE]

Run it after a network was added; it builds every training graph twice and every evaluation graph
once, which takes some minutes. A dimension that follows the number of classes is written as -1, one
that follows the size of the images as null.
"""

import gzip
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))

from nets.nets_factory import NETWORKS, get_network_fn
from slim_mp.checkpoints.signatures import ANY_SIZE, CLASSES, PATH
from slim_mp.compat import start_graph_mode, tf

# Primes, so that no layer has as many channels.
FIRST_CLASSES, SECOND_CLASSES = 1009, 1013
MORE_PIXELS = 32


def shapes(name, num_classes, size, is_training):
    """Builds a network; returns its variables, a dict of name to shape."""
    network_fn = get_network_fn(name, num_classes, is_training=is_training)
    with tf.Graph().as_default():
        network_fn(tf.placeholder(tf.float32, [2, size, size, network_fn.channels]))
        return {v.op.name: v.shape.as_list() for v in tf.model_variables()}


def merge(first, second):
    """Merges a shape for FIRST_CLASSES with that for SECOND_CLASSES and larger images."""

    def dimension(one, other):
        if one == other:
            return one
        return CLASSES if (one, other) == (FIRST_CLASSES, SECOND_CLASSES) else ANY_SIZE

    return [dimension(*pair) for pair in zip(first, second, strict=True)]


def signature(name):
    """Returns the row of a network."""
    size = NETWORKS[name].image_size
    first = shapes(name, FIRST_CLASSES, size, is_training=True)
    second = shapes(name, SECOND_CLASSES, size + MORE_PIXELS, is_training=True)
    evaluation = shapes(name, FIRST_CLASSES, size, is_training=False)
    return {
        "variables": {key: merge(shape, second[key]) for key, shape in first.items()},
        "train_only": sorted(first.keys() - evaluation.keys()),
    }


def main():
    """Writes the table."""
    path = sys.argv[1] if len(sys.argv) > 1 else PATH
    start_graph_mode()
    table = {}
    for name in NETWORKS:
        print(name, flush=True)
        table[name] = signature(name)
    text = json.dumps(table, separators=(",", ":"))
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as compressed:
        compressed.write(text.encode())


if __name__ == "__main__":
    main()
