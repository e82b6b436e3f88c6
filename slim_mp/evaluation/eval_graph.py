"""The graph of an evaluation: input, clones of the network for inference, an answer to each image.

Rows of a batch do not depend on each other in a network that is built for inference. So a batch is
filled up to what the clones need, and what was filled in is cut off again.
"""

import contextlib
import dataclasses
import math

from slim_mp import data
from slim_mp.compat import tf
from slim_mp.evaluation.metrics import TOP

# Of one row, a matrix product is computed by other kernels, which round otherwise.
_LEAST_ROWS = 2


@dataclasses.dataclass(frozen=True)
class EvalGraph:
    """The tensors and operations of an evaluation.

    Attributes:
      graph: the tf.Graph.
      answers: dict of tensors of a batch, in the order of the dataset, where k is five or the
        number of classes if there are fewer:
        labels, int64 [batch];
        loss, float64 [batch], the cross entropy in nats;
        best, int64 [batch, k], the classes with the highest probabilities, highest first;
        log_probability, float64 [batch, k], the natural logarithm of their probabilities;
        is_finite, bool [batch], whether all logits of an image were finite;
        names, string [batch], if they are wanted.
      num_classes: classes of the network.
      variables: the network's variables.
      input_initializer: operation that starts the input at the first example.
    """

    graph: tf.Graph
    answers: dict
    num_classes: int
    variables: list
    input_initializer: tf.Operation


def _clone_logits(clones, network_fn, images):
    """The logits of all rows, from clones that each compute as many of them."""
    logits = []
    split = len(clones.devices)
    for index, part in enumerate(tf.split(images, split)):
        with (
            tf.device(clones.device_function(index)),
            tf.name_scope(f"clone_{index}") if split > 1 else contextlib.nullcontext(),
            tf.variable_scope(tf.get_variable_scope(), reuse=index > 0),
        ):
            logits.append(network_fn(part)[0])
    return tf.concat(logits, axis=0)


def _filled_up(images, num_clones):
    """Adds images of zeros, so that each clone gets as many, and none a single one."""
    count = tf.shape(images)[0]
    wanted = num_clones * tf.maximum(-(-count // num_clones), _LEAST_ROWS)
    padding = [[0, wanted - count], *([[0, 0]] * (images.shape.rank - 1))]
    return tf.pad(images, padding)


def _logits(input_config, clones, network_fn, images):
    """float32 [batch, crops, num_classes], of images with or without an axis of crops."""
    with tf.device("/device:CPU:0"):
        count = tf.shape(images)[0]
        rows = tf.reshape(images, [-1, *images.shape[-3:]])
        rows = _filled_up(rows, len(clones.devices))
    logits = _clone_logits(clones, network_fn, rows)
    with tf.device("/device:CPU:0"):
        logits = logits[: count * input_config.crops]
        return tf.reshape(logits, [-1, input_config.crops, logits.shape[-1]])


def answer(labels, logits):
    """Builds the answers to the images of a batch.

    Several crops of an image are one answer: the mean of their probabilities, as in Krizhevsky et
    al., "ImageNet Classification with Deep Convolutional Neural Networks" (2012).

    Args:
      labels: int64 [batch].
      logits: float32 [batch, crops, num_classes].

    Returns:
      The dict `EvalGraph.answers`, without names.
    """
    crops, num_classes = logits.shape.as_list()[1:]
    log_probabilities = tf.nn.log_softmax(tf.cast(logits, tf.float64))
    mean = tf.reduce_logsumexp(log_probabilities, axis=1) - math.log(crops)
    best = tf.nn.top_k(mean, min(TOP, num_classes))
    return {
        "labels": labels,
        "loss": -tf.gather(mean, labels, axis=1, batch_dims=1),
        "best": tf.cast(best.indices, tf.int64),
        "log_probability": best.values,
        "is_finite": tf.reduce_all(tf.is_finite(logits), axis=[1, 2]),
    }


def build(config, network_fn, dataset, with_names=False, bad_records=None):
    """Builds the graph of an evaluation.

    Args:
      config: an `evaluate.InferenceConfig`; its input's batch_size is that of one clone.
      network_fn: function of images [batch, height, width, channels] that returns float32 logits
        [batch, num_classes] and end points, built for inference.
      dataset: a `data.Dataset`.
      with_names: whether the names of the images are wanted.
      bad_records: as for `data.evaluation_batches`.

    Returns:
      An `EvalGraph`.
    """
    images_of_all = config.input.batch_size * len(config.clones.devices)
    step_input = dataclasses.replace(config.input, batch_size=images_of_all)
    with tf.Graph().as_default() as graph:
        with tf.device("/device:CPU:0"):
            batches = data.evaluation_batches(dataset, step_input, with_names, bad_records)
            iterator = tf.data.make_initializable_iterator(batches)
            images, labels, *names = iterator.get_next()
        logits = _logits(config.input, config.clones, network_fn, images)
        variables = tf.global_variables()
        with tf.device("/device:CPU:0"):
            answers = {**answer(labels, logits), **({"names": names[0]} if names else {})}
        return EvalGraph(
            graph, answers, logits.shape.as_list()[-1], variables, iterator.initializer
        )
