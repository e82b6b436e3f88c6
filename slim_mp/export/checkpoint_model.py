"""A checkpoint that answers: the measure that an export is held to, and what predicts without one.

It shares with the graphs that are exported only what an evaluation is made of: the preprocessing,
the network and the rules by which weights are restored.
"""

import contextlib

import numpy as np

from slim_mp import distribution, preprocessing
from slim_mp.checkpoints.restore import restore_fn
from slim_mp.compat import tf
from slim_mp.preprocessing import normalization


@contextlib.contextmanager
def open_model(network_fn, spec, weights, on_cpu=False):
    """Opens a network with the weights of a checkpoint.

    Args:
      network_fn: function of images that returns float32 logits [batch, classes] and end points.
      spec: a `serving_graph.InputSpec`.
      weights: a `weights.Weights`.
      on_cpu: as for `distribution.open_session`.

    Yields:
      A pair: a function of the name of an input (`images`, `encoded` or `input`, as for
      `serving_graph`) and a batch that returns a dict with the float32 arrays `logits` and
      `probabilities`, [batch, classes], and `input`, the batch as the network sees it, and raises
      tf.errors.InvalidArgumentError if an image cannot be decoded; and the `RestorePlan`.

    Raises:
      CheckpointError: if the checkpoint does not fit the network, or is damaged.
    """
    with tf.Graph().as_default(), distribution.open_session(on_cpu) as session:
        prepare = _preparations(session, spec)
        network_input = tf.placeholder(tf.float32, [None, *spec.image_shape])
        logits, _ = network_fn(network_input)
        outputs = {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            "input": network_input,
        }
        plan = weights.plan(tf.global_variables())
        restore_fn(plan)(session)

        def answer(name, batch):
            return session.run(outputs, {network_input: prepare[name](batch)})

        yield answer, plan


def _preparations(session, spec):
    """Functions of a batch, by the name of the input, that make the network's input of it."""
    size = spec.image_size
    file = tf.placeholder(tf.string, [])
    image = preprocessing.preprocess_encoded(
        spec.preprocessing, file, spec.channels, size, size, is_training=False
    )
    pixels = tf.placeholder(tf.float32, [None, *spec.image_shape])
    normalised = normalization.normalize(spec.preprocessing, pixels)
    return {
        "encoded": lambda files: np.stack([session.run(image, {file: one}) for one in files]),
        "images": lambda batch: session.run(normalised, {pixels: batch}),
        "input": lambda batch: batch,
    }
