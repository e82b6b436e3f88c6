"""Evaluations whose logits are known: a network that looks them up by the grey of a plain image."""

import os

import numpy as np
from toy_records import make_record, plain_image, write_records

from slim_mp import data, distribution
from slim_mp.compat import tf
from slim_mp.evaluation import evaluate
from slim_mp.evaluation.evaluator import InferenceConfig

CLASSES = 7
COUNT = 23
STEP = 12


def table(classes=CLASSES, seed=0):
    """Logits of each example, in the order of the dataset."""
    return np.random.RandomState(seed).normal(size=(COUNT, classes)).astype(np.float32)


def labels(classes=CLASSES):
    """The label of each example."""
    return np.random.RandomState(1).randint(0, classes, COUNT)


def numbered_dataset(folder, classes=CLASSES, first_label=0):
    """Example n is a plain image of grey n, so that a network can tell it; in two files."""
    records = [
        make_record(plain_image(n), int(label) + first_label)
        for n, label in enumerate(labels(classes))
    ]
    os.makedirs(folder, exist_ok=True)
    half = COUNT // 2
    write_records(os.path.join(folder, "toy_test_0.tfrecord"), records[:half])
    write_records(os.path.join(folder, "toy_test_1.tfrecord"), records[half:])
    return data.open_dataset("toy", "test", folder, num_classes=classes + first_label)


def network(logits):
    """A network function that looks the logits of an example up, times a variable."""

    def network_fn(images):
        # What a batch is filled up with is no example.
        numbers = tf.cast(tf.rint(images[:, 0, 0, 0] * 128 + 128), tf.int32) % COUNT
        factor = tf.get_variable("factor", [], initializer=tf.ones_initializer())
        return tf.gather(tf.constant(logits), numbers) * factor, {}

    return network_fn


def write_checkpoint(folder, step=STEP, **values):
    """Writes a checkpoint of scalars; a name with two underscores stands for one with a slash.

    Returns:
      The folder.
    """
    os.makedirs(folder, exist_ok=True)
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [
            tf.Variable(np.float32(value), name=name.replace("__", "/"))
            for name, value in (values or {"factor": 1.0}).items()
        ]
        if step is not None:
            variables.append(tf.Variable(np.int64(step), name="global_step"))
        session.run(tf.global_variables_initializer())
        path = os.path.join(folder, "model.ckpt")
        tf.train.Saver(variables).save(session, path, step, write_meta_graph=False)
    return str(folder)


def inference(batch_size=100, clones=1, labels_offset=0, **changes):
    """An InferenceConfig."""
    inputs = data.InputConfig("lenet", 4, 1, batch_size, tf.float32, labels_offset=labels_offset)
    return InferenceConfig(inputs, distribution.local_clones(clones, num_gpus=0), **changes)


def config(folder, checkpoint=None, outputs=None, **changes):
    """An EvalConfig that writes to folder/eval; `outputs` are its further fields."""
    checkpoint = checkpoint or write_checkpoint(folder)
    return evaluate.EvalConfig(
        inference(**changes), checkpoint, os.path.join(folder, "eval"), **(outputs or {})
    )


def run(folder, logits, **changes):
    """Evaluates the network of some logits; returns the metrics."""
    dataset = numbered_dataset(os.path.join(folder, "data"), logits.shape[1])
    return evaluate.evaluate(config(folder, **changes), network(logits), dataset)
