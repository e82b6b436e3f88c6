"""How near the half-precision logits of a network are, and how its first training steps fare.

Everything runs on a CPU with `float32_kernels`: values are rounded to half between operations,
products accumulate in float32.
"""

import contextlib
import dataclasses
import functools
import os
import sys
import zlib

import numpy as np

import slim_mp
from benchmarks import network_graphs
from nets.nets_factory import NETWORKS, get_network_fn
from slim_mp.compat import tf

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "tests"))
import oracle

WEIGHT_DECAY = 1e-4
# Above this, an activation in the float32 network is too near the largest float16, 65504.
FP16_ACTIVATIONS = 20_000


def build(name, is_training, precision, size, batch_size, num_classes=None, float32_kernels=True):
    """Builds a network for fed images in the default graph.

    Args:
      name: a name of `NETWORKS`.
      is_training: as for `get_network_fn`.
      precision: "fp32", "fp16" or "bf16".
      size: height and width of the images in pixels.
      batch_size: number of images.
      num_classes: number of classes; that of the published checkpoint unless given.
      float32_kernels: as for `get_network_fn`.

    Returns:
      images (float32 placeholder [batch, size, size, channels]), logits, end points.
    """
    num_classes = num_classes or oracle.manifest(name)["num_classes"]
    network_fn = get_network_fn(
        name, num_classes, WEIGHT_DECAY, is_training, precision, float32_kernels
    )
    images = tf.placeholder(tf.float32, [batch_size, size, size, network_fn.channels])
    return images, *network_fn(images)


@contextlib.contextmanager
def open_session():
    """Opens a session in a graph of its own, without the graph rewriting that pays off late."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        tf.set_random_seed(0)
        yield session


def set_variables(session, values=None):
    """Gives each model variable its value of the oracle, or another one.

    Args:
      session: a tf.Session.
      values: dict from names of variables to arrays that take the place of the oracle's.
    """
    values = values or {}
    variables = tf.model_variables()

    def value(variable):
        name = variable.op.name
        return values[name] if name in values else oracle.value(name, variable.shape)

    feeds = {variable.initializer.inputs[1]: value(variable) for variable in variables}
    session.run([variable.initializer for variable in variables], feeds)


def statistics_of_images(name, size):
    """Batch norm's statistics for the oracle's values and images, by a training-mode pass.

    Args:
      name: a name of `NETWORKS`.
      size: height and width of the images in pixels.

    Returns:
      A dict from the names of the moving means and variances to float32 arrays.
    """
    with open_session() as session:
        images, *_ = build(name, True, "fp32", size, 2)
        statistics = network_graphs.batch_statistics()
        others = [v for v in tf.global_variables() if v not in tf.model_variables()]
        session.run(tf.variables_initializer(others))
        set_variables(session)
        return session.run(statistics, {images: oracle.images(size, NETWORKS[name].channels)})


class Evaluation:
    """A network in evaluation mode in several precisions, on the oracle's two images."""

    def __init__(self, session, name, precisions, size):
        """Builds the graphs in the default graph, over the same variables, and sets these.

        Args:
          session: the tf.Session of the default graph.
          name: a name of `NETWORKS`.
          precisions: some of "fp32", "fp16" and "bf16".
          size: height and width of the images in pixels.
        """
        self._session = session
        self._images = oracle.images(size, NETWORKS[name].channels)
        self._outputs = {}
        for precision in precisions:
            with tf.variable_scope(tf.get_variable_scope(), reuse=bool(self._outputs)):
                images, output, _ = build(name, False, precision, size, 2)
                self._outputs[precision] = images, output
        self.set_variables()

    def set_variables(self, values=None):
        """Gives the variables the oracle's values, or others; see `set_variables`."""
        set_variables(self._session, values)

    def logits(self, precision):
        """Returns the float32 logits [2, num_classes] in one of the precisions."""
        images, output = self._outputs[precision]
        return self._session.run(output, {images: self._images})


def relative_error(got, expected):
    """Largest absolute difference of two arrays, as a share of the largest expected value."""
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def top1_agreement(got, expected):
    """Share of the rows of two arrays [batch, classes] that have the same largest column."""
    return float(np.mean(got.argmax(1) == expected.argmax(1)))


def top5_agreement(got, expected):
    """Share of the five largest columns of each row that are so in the other array too."""
    best = [np.argsort(-array, axis=1, kind="stable")[:, :5] for array in (got, expected)]
    return float(np.mean([np.isin(row, other).mean() for row, other in zip(*best, strict=True)]))


@dataclasses.dataclass(frozen=True)
class Steps:
    """Which steps to take.

    Attributes:
      precision: "fp32", "fp16" or "bf16".
      size: height and width of the images in pixels.
      batch_size: number of images.
      num_classes: number of classes; that of the published checkpoint unless given.
      init_loss_scale: loss scale of the first step; it is divided by four after each step that is
        skipped, down to 1.
      learning_rate: of plain gradient descent.
      applied: number of steps to apply.
      attempts: number of steps after which to give up.
    """

    precision: str
    size: int
    batch_size: int
    num_classes: int | None = None
    init_loss_scale: float = 2.0**15
    learning_rate: float = 1e-3
    applied: int = 2
    attempts: int = 12


@dataclasses.dataclass(frozen=True)
class Step:
    """How one step went.

    Attributes:
      loss: the loss before it, with weight decay.
      loss_scale: the scale it was taken with.
      is_applied: whether its gradients were all finite, so that it changed the weights.
      gradients: number of gradients.
      overflows: number of gradients with a value that is not finite.
      is_finite: whether all model variables were finite after it.
      is_change: whether any bit of the model variables changed.
    """

    loss: float
    loss_scale: float
    is_applied: bool
    gradients: int
    overflows: int
    is_finite: bool
    is_change: bool


def _step_tensors(optimizer, loss):
    pairs = optimizer.compute_gradients(loss)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    before = optimizer.applied_steps.read_value()
    with tf.control_dependencies([before]):
        train_op = optimizer.apply_gradients(
            pairs, if_applied=lambda: slim_mp.repeat_updates(updates)
        )
    with tf.control_dependencies([train_op]):
        is_applied = optimizer.applied_steps.read_value() > before
    # Squares of what fp16 holds do not overflow in float32.
    squares = tf.stack([tf.nn.l2_loss(grad) for grad, _ in pairs if grad is not None])
    return loss, optimizer.loss_scale, is_applied, squares


class Training:
    """A network in training, in a session.

    Attributes:
      feed: dict of the images, for `tf.Session.run`.
      logits: float32 tensor [batch, num_classes], in training mode.
    """

    def __init__(self, session, name, steps):
        """Builds the graph in the default graph and initialises it.

        Args:
          session: the tf.Session of the default graph.
          name: a name of `NETWORKS`.
          steps: a `Steps`.
        """
        images, *outputs = build(
            name, True, steps.precision, steps.size, steps.batch_size, steps.num_classes
        )
        manager = slim_mp.ExponentialUpdateLossScaleManager(
            steps.init_loss_scale, 2000, decr_every_n_nan_or_inf=1, decr_ratio=0.25
        )
        optimizer = slim_mp.LossScaleOptimizer(
            tf.train.GradientDescentOptimizer(steps.learning_rate), manager
        )
        self.feed = {
            images: oracle.images(steps.size, NETWORKS[name].channels, steps.batch_size),
        }
        self.logits = outputs[0]
        self._tensors = _step_tensors(optimizer, network_graphs.sparse_loss(*outputs))
        self._session = session
        self._variables = tf.model_variables()
        session.run(tf.global_variables_initializer())
        _, self._checksum = self._look()

    def _look(self):
        values = self._session.run(self._variables)
        is_finite = all(bool(np.isfinite(array).all()) for array in values)
        return is_finite, functools.reduce(lambda sum, array: zlib.crc32(array, sum), values, 0)

    def step(self):
        """Attempts one step; returns a `Step`."""
        loss, scale, is_applied, squares = self._session.run(self._tensors, self.feed)
        before = self._checksum
        is_finite, self._checksum = self._look()
        return Step(
            loss=float(loss),
            loss_scale=float(scale),
            is_applied=bool(is_applied),
            gradients=len(squares),
            overflows=int(np.sum(~np.isfinite(squares))),
            is_finite=is_finite,
            is_change=self._checksum != before,
        )


def take(training, steps):
    """Attempts steps until enough are applied.

    Args:
      training: a `Training`.
      steps: the `Steps` it was made from.

    Returns:
      A list of `Step`, one for each attempt.
    """
    taken = []
    while sum(step.is_applied for step in taken) < steps.applied and len(taken) < steps.attempts:
        taken.append(training.step())
    return taken


def first_steps(name, steps):
    """Trains a network from its own initialisation with the guarded optimizer.

    Args:
      name: a name of `NETWORKS`.
      steps: a `Steps`.

    Returns:
      A list of `Step`, one for each attempt.
    """
    with open_session() as session:
        return take(Training(session, name, steps), steps)
