"""Training runs of a second: a small network, a small record set, and what a run leaves behind."""

import json
import os

import fakes
import numpy as np
from toy_records import encode, make_record, write_records

import slim_mp
from slim_mp import data, distribution
from slim_mp.compat import slim, tf
from slim_mp.training import optimizers, train, train_config

CLASSES = 3
METRICS = [
    "step",
    "loss",
    "learning_rate",
    "examples_per_second",
    "loss_scale",
    "applied_steps",
    "skipped_steps",
    "gradient_norm",
]


def dataset(folder, count=24, split="train", seed=0):
    """Random images of 8x8 pixels, each class in a shade of its own, as a record set."""
    random = np.random.RandomState(seed)
    records = [
        make_record(encode(random.randint(0, 100, [8, 8, 3], np.uint8) + 50 * (n % CLASSES)), label)
        for n, label in enumerate(n % CLASSES for n in range(count))
    ]
    os.makedirs(folder, exist_ok=True)
    write_records(os.path.join(folder, f"toy_{split}.tfrecord"), records)
    return data.open_dataset("toy", split, folder, num_classes=CLASSES)


def input_config(dtype="fp32", batch_size=4):
    """The input of the small network."""
    return data.InputConfig(
        "lenet", 8, 3, batch_size, slim_mp.get_precision(dtype).compute_dtype, seed=1
    )


def config(train_dir, dtype="fp32", batch_size=4, clones=1, **changes):
    """A TrainConfig of SGD at a fixed rate that reports each step."""
    settings = {
        "loss_scale": train_config.LossScaleConfig(fixed=1.0),
        "optimizer": optimizers.OptimizerConfig("sgd"),
        "learning_rate": optimizers.LearningRateConfig(0.1, "fixed"),
        "max_number_of_steps": 3,
        "log_every_n_steps": 1,
        "seed": 1,
        **changes,
    }
    return train_config.TrainConfig(
        train_dir=str(train_dir),
        precision=slim_mp.get_precision(dtype),
        input=input_config(dtype, batch_size),
        clones=distribution.local_clones(clones, num_gpus=0),
        **settings,
    )


def bad_steps(*steps, factor=np.inf):
    """A factor for `network`: `factor` in some steps, counted from 1, and 1 in the others."""

    def make():
        step = tf.train.get_global_step() + 1
        is_bad = tf.reduce_any(tf.equal(step, tf.constant(steps, tf.int64)))
        return tf.where(is_bad, tf.constant(factor, tf.float32), tf.constant(1.0))

    return make


def network(
    dtype="fp32",
    weight_decay=0.0,
    gradient_factor=None,
    loss_factor=None,
    norm=True,
    is_training=True,
):
    """A network function: two convolutions with batch norm, pooling, a dense layer.

    Args:
      dtype: name of the precision.
      weight_decay: scale of the L2 loss.
      gradient_factor: function that makes the tensor which the gradient of the logits is
        multiplied by.
      loss_factor: likewise for the logits themselves.
      norm: whether there is batch norm.
      is_training: whether batch norm is by batch.
    """

    def network_fn(images):
        compute_dtype = slim_mp.get_precision(dtype).compute_dtype
        with (
            slim.arg_scope(fakes.tiny_arg_scope(weight_decay)),
            slim.arg_scope([slim.conv2d], **({} if norm else {"normalizer_fn": None})),
            slim_mp.arg_scope(compute_dtype, float32_kernels=True),
        ):
            logits = fakes.tiny_network(images, CLASSES, is_training, reuse=tf.AUTO_REUSE)
        logits = tf.cast(logits, tf.float32)
        if gradient_factor:
            logits = fakes.with_gradient_factor(logits, gradient_factor())
        if loss_factor:
            logits *= loss_factor()
        return logits, {}

    return network_fn


def one_weight(gradients, dtype=tf.float32):
    """A network function of a single weight that starts at 1 and has the given gradients in turn.

    The gradients come from its regularization loss; the logits do not depend on it.
    """

    def network_fn(images):
        weight = tf.get_variable("weight", [], initializer=tf.ones_initializer(), dtype=dtype)
        step = tf.train.get_global_step()
        gradient = tf.gather(tf.constant(gradients, tf.float32), step)
        tf.losses.add_loss(weight * gradient, tf.GraphKeys.REGULARIZATION_LOSSES)
        return tf.zeros([images.shape[0], CLASSES]), {}

    return network_fn


def run(folder, network_fn=None, examples=24, **changes):
    """Trains in folder/train on the record set in folder/data; returns the TrainResult."""
    settings = config(os.path.join(folder, "train"), **changes)
    network_fn = network_fn or network(changes.get("dtype", "fp32"))
    return train.train(settings, network_fn, dataset(os.path.join(folder, "data"), examples))


def metrics(folder):
    """The rows of the metrics file of a run, as dicts."""

    def refuse(constant):
        raise ValueError(f"{constant} is not JSON")

    with open(os.path.join(folder, "train", "metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(line, parse_constant=refuse) for line in file]


def variables(folder, step=None):
    """The variables of the newest checkpoint of a run, or of that of a step: name to value."""
    path = os.path.join(folder, "train")
    prefix = os.path.join(path, f"model.ckpt-{step}") if step else tf.train.latest_checkpoint(path)
    reader = tf.train.NewCheckpointReader(prefix)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def assert_equal_bits(actual, expected, names=None):
    """Compares dicts of arrays bit for bit, under some names or all."""
    if names is None:
        assert actual.keys() == expected.keys()
        names = expected
    assert names
    for name in names:
        np.testing.assert_array_equal(actual[name], expected[name], err_msg=name)
