"""What an evaluation leaves behind: metrics.json, rows of evaluations.jsonl, event files."""

import json
import os

from slim_mp.compat import tf
from slim_mp.files.output_files import to_json, write_whole

METRICS_NAME = "metrics.json"
ROWS_NAME = "evaluations.jsonl"
_NO_CURVES = ("step", "max_num_batches", "image_size", "crops", "central_fraction")


def write_metrics(folder, metrics):
    """Writes metrics.json, with a line for each class.

    Args:
      folder: the folder.
      metrics: of an `evaluator.Evaluation`.

    Raises:
      OSError: if it cannot be written; the old file is then as it was.
    """
    rest = to_json(row_of(metrics), indent=2).removesuffix("\n}")
    by_class = [f"    {json.dumps(row, ensure_ascii=False)}" for row in metrics["per_class"]]
    rows = ",\n".join(by_class)
    text = f'{rest},\n  "per_class": [\n{rows}\n  ]\n}}\n'
    write_whole(os.path.join(folder, METRICS_NAME), text)


def row_of(metrics):
    """Returns the metrics without what only metrics.json holds."""
    return {name: value for name, value in metrics.items() if name != "per_class"}


def add_events(events, metrics):
    """Adds the metrics to an event file, at their step.

    Args:
      events: a tf.summary.FileWriter.
      metrics: of an `evaluator.Evaluation`.
    """
    summary = tf.Summary()
    for name, value in metrics.items():
        if name not in _NO_CURVES and isinstance(value, int | float):
            summary.value.add(tag=f"evaluation/{name}", simple_value=value)
    events.add_summary(summary, metrics["step"])
    events.flush()
