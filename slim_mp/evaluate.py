"""Evaluation: the metrics of a checkpoint, each example counted exactly once."""

import dataclasses
import os

from absl import logging
from tqdm import tqdm

from slim_mp import data, distribution, warm_start
from slim_mp.compat import tf
from slim_mp.errors import DataError, UsageError
from slim_mp.input_errors import INPUT_ERRORS, explain_input_error
from slim_mp.output_files import make_folder, to_json, write_whole

METRICS_NAME = "metrics.json"
_TOP = 5


@dataclasses.dataclass(frozen=True)
class EvalConfig:
    """Everything about an evaluation but the network and the dataset.

    Attributes:
      checkpoint_path: file, prefix or folder of a checkpoint; of a folder the newest is taken.
      eval_dir: folder for metrics.json and the event file.
      input: a `data.InputConfig`.
      clones: a `distribution.Clones`, of which the first is used.
      max_num_batches: batches to evaluate, or None for all.
      use_moving_averages: whether moving averages in the checkpoint go before the weights.
    """

    checkpoint_path: str
    eval_dir: str
    input: data.InputConfig
    clones: distribution.Clones
    max_num_batches: int | None = None
    use_moving_averages: bool = True


def _batch_sums(labels, logits):
    """Sums over one batch: examples, loss, and how often the label is among the best classes.

    Args:
      labels: int64 [batch].
      logits: float32 [batch, num_classes]; a row that is not finite has no answer.

    Returns:
      A dict of float64 scalar tensors.
    """
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    is_finite = tf.reduce_all(tf.is_finite(logits), axis=1)

    def hits(k):
        best = tf.nn.top_k(logits, k).indices
        is_hit = tf.reduce_any(tf.equal(tf.cast(best, tf.int64), labels[:, tf.newaxis]), axis=1)
        return tf.reduce_sum(tf.cast(tf.logical_and(is_hit, is_finite), tf.int32))

    sums = {
        "num_examples": tf.size(labels),
        "loss": tf.reduce_sum(tf.cast(cross_entropy, tf.float64)),
        "top1": hits(1),
    }
    if logits.shape[-1] >= _TOP:
        sums[f"top{_TOP}"] = hits(_TOP)
    return {name: tf.cast(value, tf.float64) for name, value in sums.items()}


def evaluate(config, network_fn, dataset):
    """Evaluates a checkpoint on a dataset.

    Args:
      config: an `EvalConfig`.
      network_fn: function of images [batch, height, width, channels] that returns float32 logits
        [batch, num_classes] and end points, built for inference.
      dataset: a `data.Dataset`.

    Returns:
      A dict: num_examples, top1 and, where there are at least five classes, top5 (shares of 1),
      loss (mean cross entropy) and step. It has been written to metrics.json in eval_dir.

    Raises:
      CheckpointError: if the checkpoint cannot be read or does not fit the network.
      DataError: if a record cannot be used, or there is none.
      UsageError: if eval_dir cannot be written.
    """
    make_folder(config.eval_dir, "eval_dir")
    with tf.Graph().as_default():
        with tf.device("/device:CPU:0"):
            batches = data.evaluation_batches(dataset, config.input)
            if config.max_num_batches is not None:
                batches = batches.take(config.max_num_batches)
            iterator = tf.data.make_initializable_iterator(batches)
            images, labels = iterator.get_next()
        with tf.device(config.clones.devices[0]):
            logits, _ = network_fn(images)
            sums = _batch_sums(labels, logits)
            if f"top{_TOP}" not in sums:
                logging.info("%d classes: top-%d says nothing, left out.", logits.shape[-1], _TOP)
        plan = warm_start.plan_evaluation(
            config.checkpoint_path, tf.global_variables(), config.use_moving_averages
        )
        restore = warm_start.restore_fn(plan)
        for line in plan.report().splitlines():
            logging.info("%s", line)
        with tf.Session(config=distribution.session_config(config.clones)) as session:
            session.run(iterator.initializer)
            restore(session)
            try:
                totals = _run_batches(session, sums, dataset, config)
            except INPUT_ERRORS as error:
                explain_input_error(error, dataset, config.input)
                raise
    metrics = _means(totals, dataset)
    metrics["step"] = warm_start.global_step_of(plan.checkpoint)
    _write(metrics, config.eval_dir)
    return metrics


def _run_batches(session, sums, dataset, config):
    totals = dict.fromkeys(sums, 0.0)
    with tqdm(total=dataset.num_examples, unit="image", disable=None) as bar:
        while True:
            try:
                values = session.run(sums)
            except tf.errors.OutOfRangeError:
                return totals
            totals = {name: totals[name] + value for name, value in values.items()}
            bar.update(int(values["num_examples"]))


def _means(totals, dataset):
    count = int(totals.pop("num_examples"))
    if not count:
        raise DataError(f"The split {dataset.split} of {dataset.name} holds no example.")
    return {"num_examples": count, **{name: total / count for name, total in totals.items()}}


def _write(metrics, eval_dir):
    """Writes metrics.json, whole or not at all, and the scalars for TensorBoard."""
    try:
        write_whole(os.path.join(eval_dir, METRICS_NAME), to_json(metrics, indent=2) + "\n")
    except OSError as error:
        raise UsageError(
            f"--eval_dir={eval_dir} cannot be written ({error.strerror}): give a folder that can."
        ) from error
    with tf.summary.FileWriter(eval_dir) as events:
        summary = tf.Summary()
        for name, value in metrics.items():
            if name != "step":
                summary.value.add(tag=f"evaluation/{name}", simple_value=value)
        events.add_summary(summary, metrics["step"])


def describe(metrics):
    """Says the metrics of `evaluate` in one line for people."""
    parts = [f"{metrics['num_examples']} images", f"top-1 {metrics['top1']:.2%}"]
    if "top5" in metrics:
        parts.append(f"top-5 {metrics['top5']:.2%}")
    parts.append(f"loss {metrics['loss']:.4f}")
    if metrics["step"] is not None:
        parts.append(f"step {metrics['step']}")
    return ", ".join(parts)
