"""From the answers of a network to its figures: exact counts, and sums in the order of the images.

No figure depends on how the images were put into batches.
"""

import collections

import numpy as np

from slim_mp.evaluation.calibration import Reliability
from slim_mp.files.input_files import few

TOP = 5
# Stands for a class where there is none.
NO_ANSWER = -1
_MOST_ROWS = 20


class Sums:
    """What the figures of an evaluation are made of.

    Attributes:
      num_examples: examples so far.
      no_answer: those whose logits were not all finite, which count as wrong.
      pairs: collections.Counter of (class, class that was chosen or -1 without an answer).
      reliability: a `Reliability`.
    """

    def __init__(self, classes):
        """Begins with nothing.

        Args:
          classes: the `Classes` of the network.
        """
        self._classes = classes
        self._in_top = 0
        self._loss = 0.0
        self.num_examples = 0
        self.no_answer = 0
        self.pairs = collections.Counter()
        self.reliability = Reliability()

    def add(self, answers):
        """Adds the answers to some examples, in the order of the dataset.

        Args:
          answers: dict of arrays, as `eval_graph.EvalGraph` has tensors.
        """
        labels, best, answered = answers["labels"], answers["best"], answers["is_finite"]
        is_among = (best == labels[:, np.newaxis]) & answered[:, np.newaxis]
        chosen = np.where(answered, best[:, 0], NO_ANSWER)
        self.num_examples += len(labels)
        self.no_answer += int((~answered).sum())
        self._in_top += int(is_among.any(axis=1).sum())
        # Not a sum for each batch: that would round differently with its size.
        self._loss = np.add.accumulate(np.append(self._loss, answers["loss"]))[-1]
        self.pairs.update(zip(labels.tolist(), chosen.tolist(), strict=True))
        confidences = np.exp(answers["log_probability"][:, 0])
        self.reliability.add(confidences[answered], is_among[answered, 0])

    def figures(self):
        """Returns the figures of all examples, of which there is at least one.

        Returns:
          A dict: num_examples; top1 and, from five classes on, top5, shares of 1; loss, the mean
          cross entropy in nats; expected_calibration_error, a share of 1 or None; no_answer; and
          per_class, a list of dicts for each class with its label, its name if it has one, the
          number of its examples, how often it was chosen and rightly so, precision and recall,
          None where they would divide by zero.
        """
        by_class = self._by_class()
        figures = {
            "num_examples": self.num_examples,
            "top1": sum(row["num_correct"] for row in by_class) / self.num_examples,
        }
        if self._classes.count >= TOP:
            figures[f"top{TOP}"] = self._in_top / self.num_examples
        return {
            **figures,
            "loss": float(self._loss / self.num_examples),
            "expected_calibration_error": self.reliability.error(),
            "no_answer": self.no_answer,
            "per_class": by_class,
        }

    def _by_class(self):
        examples, chosen, correct = collections.Counter(), collections.Counter(), {}
        for (label, choice), count in self.pairs.items():
            examples[label] += count
            chosen[choice] += count
            if label == choice:
                correct[label] = count
        return [
            _class_row(self._classes, index, examples[index], chosen[index], correct.get(index, 0))
            for index in range(self._classes.count)
        ]


def _class_row(classes, index, examples, chosen, correct):
    name = classes.name(index)
    return {
        "label": classes.label(index),
        **({} if name is None else {"name": name}),
        "num_examples": examples,
        "num_chosen": chosen,
        "num_correct": correct,
        "precision": correct / chosen if chosen else None,
        "recall": correct / examples if examples else None,
    }


def describe(metrics):
    """Says the metrics of an evaluation in one line for people.

    Args:
      metrics: dict with the figures of `Sums.figures`, step and images_per_second.
    """
    parts = [f"{metrics['num_examples']} images", f"top-1 {metrics['top1']:.2%}"]
    if "top5" in metrics:
        parts.append(f"top-5 {metrics['top5']:.2%}")
    parts.append(f"loss {metrics['loss']:.4f}")
    if metrics["step"] is not None:
        parts.append(f"step {metrics['step']}")
    if metrics["images_per_second"] is not None:
        parts.append(f"{metrics['images_per_second']:.4g} images/s")
    return ", ".join(parts)


def describe_classes(per_class):
    """Makes a table of the precision and recall of each class, for a terminal.

    Args:
      per_class: the figure of this name.

    Returns:
      Lines without a line feed at the end, or None for more than 20 classes.
    """
    if len(per_class) > _MOST_ROWS:
        return None
    # The name comes last, since nobody knows how wide a terminal shows it.
    lines = ["precision   recall   images  class"]
    for row in per_class:
        shares = [_percent(row["precision"]), _percent(row["recall"])]
        name = few([row.get("name", "")])
        name = "" if name == str(row["label"]) else f" {name}"
        lines.append(
            f"{shares[0]:>9}{shares[1]:>9}{row['num_examples']:>9}  {row['label']}{name}".rstrip()
        )
    return "\n".join(lines)


def _percent(share):
    return "-" if share is None else f"{share:.2%}"
