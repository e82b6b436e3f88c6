"""Leaves bad records and image files out, up to a limit: names, counts and replaces them.

Only where a limit is given: every example then costs about half a millisecond more, the price of a
small pipeline of its own in which it may fail.
"""

import threading

import numpy as np
from absl import logging

from slim_mp.compat import tf
from slim_mp.errors import DataError
from slim_mp.input_errors import examination

_NO_LABEL = -1
_NAMED = 5


class BadRecords:
    """The distinct bad records of a split that a run has met, each of which is logged once."""

    def __init__(self, limit):
        """Starts to count.

        Args:
          limit: how many may be left out; 0 for none, so that the first one ends the run.
        """
        self.limit = limit
        self._problems = {}
        self._error = None
        self._lock = threading.Lock()

    @property
    def count(self):
        """The number of distinct bad records so far, those that were read ahead included."""
        return len(self._problems)

    def raise_if_too_many(self):
        """Raises the DataError that ended the input, if there were too many bad records."""
        if self._error:
            raise self._error

    def leaving_out(self, prepare, source, config, num_examples=None):
        """Makes of a function that prepares an example one that does not fail.

        Args:
          prepare: function of the number and the content of an example that returns a dict with
            `label` in it, an int64 [] that is not negative, and other tensors of static shape.
          source: the `RecordSource` or `ImageFileSource` of the examples.
          config: the `InputConfig`.
          num_examples: how many there are in an endless stream, which needs one that is good.

        Returns:
          The function; where `prepare` would fail, it counts the example, and the label is negative
          and the rest zero.
        """

        def report(number, content):
            return self._report(int(number), content, source, config, num_examples)

        def prepare_or_report(number, content, *others):
            made = tf.data.Dataset.from_tensors((number, content, *others)).map(prepare)
            nothing = {
                name: tf.zeros(spec.shape, spec.dtype) for name, spec in made.element_spec.items()
            }
            nothing["label"] = tf.constant(_NO_LABEL, tf.int64)
            either = made.ignore_errors().concatenate(tf.data.Dataset.from_tensors(nothing))
            example = either.take(1).get_single_element()
            is_reported = tf.cond(
                example["label"] < 0,
                lambda: tf.numpy_function(report, [number, content], tf.bool),
                lambda: False,
            )
            with tf.control_dependencies([is_reported]):
                return {name: tf.identity(value) for name, value in example.items()}

        return prepare_or_report

    def _report(self, number, content, source, config, num_examples):
        with self._lock:
            if number not in self._problems:
                with examination(source, config) as problem_of:
                    problem = problem_of(number, content)
                self._add(number, problem or f"{source.place(number)} cannot be preprocessed")
            if self.count > self.limit:
                self._error = DataError(self._too_many())
            elif self.count == num_examples:
                self._error = DataError(f"No example can be used: {self._first()}.")
        self.raise_if_too_many()
        return np.bool_(True)

    def _add(self, number, problem):
        self._problems[number] = problem
        if self.count <= self.limit:
            logging.warning(
                "Left out, bad record %d of at most %d: %s.", self.count, self.limit, problem
            )

    def _first(self):
        problems = [self._problems[number] for number in sorted(self._problems)]
        more = f"; and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        return "; ".join(problems[:_NAMED]) + more

    def _too_many(self):
        return (
            f"More than {self.limit} bad records (--max_bad_records): {self._first()}. Mend or "
            "remove them, or allow for more."
        )


def without_bad(examples):
    """Drops the examples of a stream of dicts that were left out, for an evaluation."""
    return examples.filter(lambda example: example["label"] >= 0)


def with_bad_replaced(batches):
    """Replaces the examples of training batches that were left out by others of the same batch.

    What replaces which is a function of the batch alone, and a batch with no good example becomes a
    copy of the next one that has some. So the k-th batch depends on nothing but k, and a run goes
    on after k batches with the k-th, whatever was left out.

    Args:
      batches: a tf.data.Dataset of dicts with `label` in it.

    Returns:
      The stream of batches without negative labels.
    """

    def count_lost(lost, batch):
        is_lost = tf.reduce_all(batch["label"] < 0)
        copies = tf.where(is_lost, tf.zeros_like(lost), lost + 1)
        return tf.where(is_lost, lost + 1, tf.zeros_like(lost)), (batch, copies)

    counted = batches.scan(tf.constant(0, tf.int64), count_lost)
    return counted.flat_map(
        lambda batch, copies: tf.data.Dataset.from_tensors(_replaced(batch)).repeat(copies)
    )


def _replaced(batch):
    is_good = batch["label"] >= 0
    places = tf.range(is_good.shape[0], dtype=tf.int64)
    good = tf.where(is_good)[:, 0]
    turns = places % tf.maximum(tf.size(good, out_type=tf.int64), 1)
    # Of a batch with no good example nothing is handed out, but it must not fail.
    sources = tf.where(is_good, places, tf.gather(tf.concat([good, places], 0), turns))
    return tf.cond(
        tf.reduce_all(is_good),
        lambda: batch,
        lambda: {name: tf.gather(value, sources) for name, value in batch.items()},
    )
