"""Checkpoints made for a test: of given arrays, or of a whole network with the oracle's values."""

import os
import tarfile

import oracle

from slim_mp.checkpoints.checkpoint_files import Contents
from slim_mp.compat import tf


def save(prefix, arrays):
    """Writes a checkpoint of a dict of name to array; returns its prefix."""
    prefix = str(prefix)
    os.makedirs(os.path.dirname(prefix), exist_ok=True)
    names = list(arrays)
    with tf.Graph().as_default(), tf.Session() as session:
        feeds = [tf.placeholder(array.dtype, array.shape) for array in arrays.values()]
        save_op = tf.raw_ops.SaveV2(
            prefix=prefix + ".part",
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=feeds,
        )
        merge = tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=[prefix + ".part"], destination_prefix=prefix
        )
        session.run(save_op, dict(zip(feeds, arrays.values(), strict=True)))
        session.run(merge)
    return prefix


def network_shapes(name, num_classes=None):
    """The published variables of a network, with the heads of another number of classes."""
    manifest = oracle.manifest(name)
    published = manifest["num_classes"]
    return {
        variable: [*shape[:-1], num_classes or published] if shape[-1] == published else shape
        for variable, shape in manifest["variables"].items()
    }


def network_arrays(name, num_classes=None):
    """The variables of a network with the oracle's values."""
    shapes = network_shapes(name, num_classes)
    return {variable: oracle.value(variable, shape) for variable, shape in shapes.items()}


def contents(shapes, dtype=tf.float32):
    """What `read_contents` says of a checkpoint of some shapes, without one."""
    shapes = {name: tuple(shape) for name, shape in shapes.items()}
    return Contents("DIR/model.ckpt", shapes, dict.fromkeys(shapes, dtype))


def pack(path, folder):
    """Writes the files of a folder into a .tgz; returns its bytes."""
    with tarfile.open(path, "w:gz") as tar:
        for name in sorted(os.listdir(folder)):
            tar.add(os.path.join(folder, name), f"./{name}")
    with open(path, "rb") as file:
        return file.read()
