"""Evaluation of a checkpoint: what it is asked for, and what is written about it."""

import contextlib
import dataclasses

from absl import logging

from slim_mp.compat import tf
from slim_mp.errors import UsageError
from slim_mp.evaluation import eval_plots, evaluation_files, predictions
from slim_mp.evaluation.evaluator import Evaluator, InferenceConfig
from slim_mp.figures import report_figure
from slim_mp.files.output_files import check_file, make_folder, writing


@dataclasses.dataclass(frozen=True)
class EvalConfig:
    """Everything about an evaluation but the network and the dataset.

    Attributes:
      inference: an `evaluator.InferenceConfig`.
      checkpoint_path: file, prefix or folder of a checkpoint; of a folder the newest is taken.
      eval_dir: folder for metrics.json, pictures and event files.
      predictions_csv: path of a file for the answer to each image, or None.
      plots: whether to draw the confusion matrix and the reliability.
    """

    inference: InferenceConfig
    checkpoint_path: str
    eval_dir: str
    predictions_csv: str | None = None
    plots: bool = False


def evaluate(config, network_fn, dataset):
    """Evaluates a checkpoint on a dataset, and writes what the config asks for.

    Args:
      config: an `EvalConfig`.
      network_fn: function of images [batch, height, width, channels] that returns float32 logits
        [batch, num_classes] and end points, built for inference.
      dataset: a `data.Dataset`.

    Returns:
      The metrics, a dict. They have been written to metrics.json in eval_dir.

    Raises:
      CheckpointError: if the checkpoint cannot be read or does not fit the network.
      DataError: if a record cannot be used, or there is none.
      UsageError: if what is asked for cannot be written, or needs a package that is not there.
    """
    with open_evaluator(config, network_fn, dataset) as evaluator:
        metrics = evaluate_checkpoint(evaluator, config, config.checkpoint_path)
    with tf.summary.FileWriter(config.eval_dir) as events:
        evaluation_files.add_events(events, metrics)
    return metrics


def check_outputs(config):
    """Makes sure that what an `EvalConfig` asks for can be written.

    Raises:
      UsageError: if not.
    """
    make_folder(config.eval_dir, "eval_dir")
    if config.predictions_csv:
        check_file(config.predictions_csv, "predictions_csv", predictions.KIND)
    if config.plots and not report_figure.is_available():
        raise UsageError(
            "--plots needs matplotlib, which is not installed: pip install matplotlib, or the "
            "project with its extra `plot`."
        )


@contextlib.contextmanager
def open_evaluator(config, network_fn, dataset):
    """Opens the `Evaluator` of an `EvalConfig`, after `check_outputs`."""
    check_outputs(config)
    with_names = bool(config.predictions_csv)
    with Evaluator.open(config.inference, network_fn, dataset, with_names) as evaluator:
        yield evaluator


def evaluate_checkpoint(evaluator, config, checkpoint):
    """Evaluates one checkpoint and writes all but the event file.

    Args:
      evaluator: of `open_evaluator`.
      config: the `EvalConfig`.
      checkpoint: what `warm_start.find_checkpoint` takes.

    Returns:
      The metrics.

    Raises:
      CheckpointError, DataError, UsageError: as `evaluate`.
    """
    for line in evaluator.restore(checkpoint).report().splitlines():
        logging.info("%s", line)
    if config.predictions_csv:
        with (
            writing("predictions_csv", config.predictions_csv),
            predictions.open_predictions(config.predictions_csv, evaluator.classes) as write,
        ):
            evaluation = evaluator.evaluate(write)
    else:
        evaluation = evaluator.evaluate()
    with writing("eval_dir", config.eval_dir):
        if config.plots:
            eval_plots.write_plots(config.eval_dir, evaluation)
        evaluation_files.write_metrics(config.eval_dir, evaluation.metrics)
    return evaluation.metrics
