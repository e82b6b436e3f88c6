"""Leaves bad records and image files out, up to a limit: names, counts and replaces them.

Only where a limit is given: the examples of each batch then go through a small pipeline of their
own, in which they may fail. That costs up to a sixth of the time of an image.
"""

import threading

import numpy as np
from absl import logging

from slim_mp.compat import tf
from slim_mp.data.input_errors import examination
from slim_mp.errors import DataError

_NAMED = 5
# The examples of a batch are prepared side by side, and those of the next one meanwhile.
_BATCHES_AT_A_TIME = 2
# The place of an example in its batch.
_SLOT = "slot"


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

    def good_batches(self, blocks, prepare, source, config, num_examples=None):
        """Prepares what is good of each block of examples, and counts what is not.

        Args:
          blocks: a tf.data.Dataset of (position, (number, content)), each with an axis of examples.
          prepare: function of such a tuple without that axis that returns a dict of tensors of
            static shape, and fails for a bad example.
          source: the `RecordSource` or `ImageFileSource` of the examples.
          config: the `InputConfig`.
          num_examples: how many there are in an endless stream, which needs one that is good.

        Returns:
          A tf.data.Dataset of dicts of tensors, with an axis of the good examples of a block, which
          may be none, and `slot`, the place of each in the block.
        """
        threads = config.num_preprocessing_threads or tf.data.AUTOTUNE

        def report(numbers, contents, slots):
            for slot in sorted(set(range(len(numbers))) - set(slots)):
                self._report(numbers[slot], contents[slot], source, config, num_examples)
            return np.bool_(True)

        def prepare_block(position, example):
            number, content = example
            size = tf.size(number, out_type=tf.int64)
            made = (
                tf.data.Dataset.from_tensor_slices((position, example))
                .enumerate()
                .map(
                    lambda slot, one: {**prepare(*one), _SLOT: slot},
                    num_parallel_calls=threads,
                    deterministic=True,
                )
                .ignore_errors()
            )
            batch = _as_one(made, size)
            is_reported = tf.cond(
                tf.size(batch[_SLOT], out_type=tf.int64) < size,
                lambda: tf.numpy_function(report, [number, content, batch[_SLOT]], tf.bool),
                lambda: False,
            )
            with tf.control_dependencies([is_reported]):
                return {name: tf.identity(value) for name, value in batch.items()}

        return blocks.map(prepare_block, num_parallel_calls=_BATCHES_AT_A_TIME, deterministic=True)

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


def _as_one(examples, size):
    """All examples of a short stream as one batch, which may be of none."""
    batched = examples.batch(size)
    none = {
        name: tf.zeros([0, *spec.shape[1:]], spec.dtype)
        for name, spec in batched.element_spec.items()
    }
    either = batched.concatenate(tf.data.Dataset.from_tensors(none))
    return either.take(1).get_single_element()


def not_empty(batches):
    """Drops the batches of `BadRecords.good_batches` that hold no example, for an evaluation."""
    return batches.filter(lambda batch: tf.size(batch[_SLOT]) > 0)


def filled_up(batches, batch_size):
    """Fills training batches of `BadRecords.good_batches` up with examples that they hold already.

    What comes in the place of a bad example is a function of the batch alone, and a batch with no
    good example becomes a copy of the next one that has some. So the k-th batch depends on nothing
    but k, and a run goes on after k batches with the k-th, whatever was left out.

    Args:
      batches: a tf.data.Dataset of dicts.
      batch_size: an int, how many examples a batch would have had.

    Returns:
      The stream of batches of that size.
    """

    def count_lost(lost, batch):
        is_lost = tf.equal(tf.size(batch[_SLOT]), 0)
        zero = tf.zeros_like(lost)
        return tf.where(is_lost, lost + 1, zero), (batch, tf.where(is_lost, zero, lost + 1))

    counted = batches.scan(tf.constant(0, tf.int64), count_lost)
    return counted.filter(lambda _, copies: copies > 0).flat_map(
        lambda batch, copies: tf.data.Dataset.from_tensors(_filled(batch, batch_size)).repeat(
            copies
        )
    )


def _filled(batch, size):
    slots = tf.range(size, dtype=tf.int64)
    count = tf.size(batch[_SLOT], out_type=tf.int64)
    is_good = tf.reduce_any(tf.equal(slots[:, tf.newaxis], batch[_SLOT]), axis=1)
    own = tf.cumsum(tf.cast(is_good, tf.int64), exclusive=True)
    rows = tf.where(is_good, own, slots % count)
    filled = tf.cond(
        tf.equal(count, size),
        lambda: batch,
        lambda: {name: tf.gather(value, rows) for name, value in batch.items()},
    )
    return {
        name: tf.ensure_shape(value, [size, *value.shape[1:]]) for name, value in filled.items()
    }
