"""The answer to each image, as a CSV file."""

import contextlib
import csv
import math
import re

from slim_mp.evaluation.metrics import TOP
from slim_mp.files.output_files import FileKind, open_whole

KIND = FileKind("a file of predictions", re.compile(rb"file,label,label_name,top1,"))


@contextlib.contextmanager
def open_predictions(path, classes):
    """Opens a CSV file of predictions, which is there when all of it is written.

    Its columns are file, label, label_name, and for each of the five best classes (or of all, if
    there are fewer), best first: topN, topN_name and topN_probability. Names that are not known are
    empty; so are the classes of an image whose logits are not finite.

    Args:
      path: the file.
      classes: the `Classes`.

    Yields:
      A function of the answers to a batch, as `eval_graph.EvalGraph` has tensors, with names.

    Raises:
      OSError: if it cannot be written; the old file is then as it was.
    """
    ranks = range(1, min(TOP, classes.count) + 1)
    header = ["file", "label", "label_name"]
    for rank in ranks:
        header += [f"top{rank}", f"top{rank}_name", f"top{rank}_probability"]
    with open_whole(path, mode="w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(header)
        yield lambda answers: table.writerows(_rows(answers, classes))


def _rows(answers, classes):
    """The rows of the answers to a batch."""
    for index, name in enumerate(answers["names"]):
        label = int(answers["labels"][index])
        # The name of a file is any bytes at all.
        row = [name.decode("utf-8", errors="backslashreplace"), *_class(classes, label)]
        for chosen, log_probability in zip(
            answers["best"][index].tolist(), answers["log_probability"][index], strict=True
        ):
            if answers["is_finite"][index]:
                row += [*_class(classes, chosen), f"{math.exp(log_probability):.9g}"]
            else:
                row += ["", "", ""]
        yield row


def _class(classes, index):
    return classes.label(index), classes.name(index) or ""
