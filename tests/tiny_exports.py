"""A tiny network with a checkpoint, to be exported in a second, and real photographs."""

import functools
import io
import os

import fakes
import numpy as np
import skimage.data
from PIL import Image

import slim_mp
from slim_mp import preprocessing
from slim_mp.checkpoints import weights
from slim_mp.compat import slim, tf
from slim_mp.export import export, serving_graph

CLASSES = 7
NAMES = ("tulipán", "роза", "c", "d", "e", "f", "薔薇")
SIZE = 16
OUTPUTS = {"export_dir", "frozen_graph", "tflite"}
SPEC = serving_graph.InputSpec("inception", SIZE, 3)


def network(precision="fp32", master_weights=True):
    """A network function for inference, as nets_factory.get_network_fn makes them."""
    dtype = slim_mp.get_precision(precision).compute_dtype

    def network_fn(images):
        with (
            slim.arg_scope(fakes.tiny_arg_scope()),
            slim_mp.arg_scope(dtype, master_weights=master_weights),
        ):
            logits = fakes.tiny_network(tf.cast(images, dtype), CLASSES, is_training=False)
        return tf.cast(logits, tf.float32), {}

    return network_fn


def checkpoint(folder, seed=0):
    """Writes a checkpoint of the network; returns its prefix."""
    with tf.Graph().as_default(), tf.Session() as session:
        network()(tf.zeros([1, SIZE, SIZE, 3]))
        fakes.set_variables(session, seed)
        os.makedirs(folder, exist_ok=True)
        return tf.train.Saver().save(session, os.path.join(folder, "model.ckpt"))


def config(folder, precision="fp32", outputs=("export_dir",), **changes):
    """The ExportConfig of a checkpoint in a folder, where the outputs go if no path is given."""
    paths = {name: os.path.join(folder, "out", name) for name in outputs}
    settings = {
        "weights": weights.Weights(os.path.join(folder, "model.ckpt")),
        "spec": SPEC,
        "precision": slim_mp.get_precision(precision),
        "label_names": NAMES,
        **({} if changes.keys() & OUTPUTS else paths),
        **changes,
    }
    return export.ExportConfig(**settings)


def run(settings):
    """Exports; returns the list of `Written`."""
    in_dtype = functools.partial(network, settings.precision.name)
    networks = export.Networks(network(), in_dtype(), in_dtype(master_weights=False))
    return export.export(settings, networks)


def photographs():
    """Real photographs by name, some with names that are not ASCII: bytes of image files."""
    cat, coffee, face = (
        getattr(skimage.data, name)() for name in ("chelsea", "coffee", "astronaut")
    )
    return {
        "Kätzchen.jpg": encode(cat, "JPEG"),
        "кофе.png": encode(coffee[:200, :150], "PNG"),
        "宇航员.jpg": encode(face[:90, :200], "JPEG"),
        "grey.png": encode(skimage.data.camera()[:64, :80], "PNG"),
    }


def encode(image, kind):
    """Encodes a uint8 image."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind)
    return file.getvalue()


def write_photographs(folder):
    """Writes the photographs into a folder; returns their paths."""
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, name) for name in photographs()]
    for path, encoded in zip(paths, photographs().values(), strict=True):
        with open(path, "wb") as file:
            file.write(encoded)
    return paths


def logits_of(folder, encoded, style="inception"):
    """The checkpoint's float32 logits of image files, by the means of an evaluation alone."""
    with tf.Graph().as_default(), tf.Session() as session:
        images = [
            preprocessing.preprocess_encoded(
                style, tf.constant(one), 3, SIZE, SIZE, is_training=False
            )
            for one in encoded
        ]
        logits, _ = network()(tf.stack(images))
        tf.train.Saver().restore(session, os.path.join(folder, "model.ckpt"))
        return session.run(logits)


def softmax(logits):
    """Probabilities [batch, classes] of logits."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
