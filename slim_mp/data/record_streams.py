"""The record files of a split as streams of records: in order, or shuffled without end.

Each record has a number: its place among all records of the split, file after file. It is what a
message, a name and the cache find a record by.
"""

import bisect
import dataclasses
import itertools
import os

from slim_mp.compat import tf
from slim_mp.data import record_files, record_problems
from slim_mp.errors import DataError
from slim_mp.preprocessing import decoding

# Records that wait to be drawn at random take up no more than this.
SHUFFLE_BUFFER_BYTES = 256 * 2**20
# Files that are read side by side. Not num_readers: the order of the examples depends on it.
_FILES_AT_A_TIME = 16
# From this many files for each shard on, whole files are dealt out instead of records.
_FILES_PER_SHARD = 16


@dataclasses.dataclass(frozen=True)
class _Part:
    """What a worker reads of a file: from record `first` on, each `step`-th of its `count`.

    Attributes:
      path: the file.
      start: the number of its first record.
      count: the number of its records.
      first: the first record that is read, from 0.
    """

    path: str
    start: int
    count: int
    first: int = 0


class RecordSource:
    """Streams of (number, record): int64 [] and string [], a serialized tf.train.Example.

    Where the records are stored in memory already, `record` is empty and `fetch` looks them up, as
    it does for those that lie behind a damaged record where one may be left out.
    """

    def __init__(self, dataset, stored=None, may_leave_out=False):
        """Makes the source of a split.

        Args:
          dataset: a `Dataset` of record files.
          stored: an `example_cache.ExampleCache` of it, or None.
          may_leave_out: whether a record with a wrong checksum fails alone, in `fetch`, and not
            the stream with all that comes after it.
        """
        self._dataset = dataset
        self._stored = stored
        self._may_leave_out = may_leave_out
        self._damaged_files = {}
        self._starts = [0, *itertools.accumulate(dataset.examples_per_file[:-1])]

    def _parts(self, shard_index, num_shards):
        """The `_Part`s that a shard reads, and the step between two records of a file."""
        parts = [
            _Part(*of_file)
            for of_file in zip(
                self._dataset.files, self._starts, self._dataset.examples_per_file, strict=True
            )
        ]
        if len(parts) >= _FILES_PER_SHARD * num_shards:
            return parts[shard_index::num_shards], 1
        return [
            dataclasses.replace(part, first=(shard_index - part.start) % num_shards)
            for part in parts
        ], num_shards

    def shard_size(self, shard_index, num_shards):
        """Returns the number of records of a shard."""
        parts, step = self._parts(shard_index, num_shards)
        return sum(len(range(part.first, part.count, step)) for part in parts)

    def ordered(self):
        """Returns the stream of each record once, in the order of the files."""
        if self._stored:
            return tf.data.Dataset.range(self._dataset.num_examples).map(_without_record)
        if not self._may_leave_out:
            return tf.data.TFRecordDataset(list(self._dataset.files)).enumerate()
        files = (self._dataset.files, self._dataset.examples_per_file)
        files = tf.data.Dataset.from_tensor_slices(
            (tf.constant(files[0]), tf.constant(files[1], tf.int64))
        )
        return files.flat_map(self._records).enumerate()

    def epoch(self, epoch, config, seed):
        """Makes the stream of the records of a shard, each once, in the order of an epoch.

        The files come in random order, are read 16 at a time and go through a shuffle buffer of at
        most `SHUFFLE_BUFFER_BYTES`, which is a full shuffle for smaller sets.

        Args:
          epoch: int64 tensor [].
          config: an `InputConfig`, for the shard and the number of readers.
          seed: an int; the order is a function of it, the epoch and the shard.

        Returns:
          The stream.
        """
        parts, step = self._parts(config.shard_index, config.num_shards)
        cycle = min(_FILES_AT_A_TIME, len(parts))
        readers = min(config.num_readers, cycle) if config.num_readers else tf.data.AUTOTUNE
        records = _in_random_order(parts, seed, epoch).interleave(
            lambda *part: self._of_part(*part, step),
            cycle_length=cycle,
            num_parallel_calls=readers,
            deterministic=config.seed is not None,
        )
        # Shuffling draws from the pair of the graph's seed, here that of this function, and `seed`.
        tf.set_random_seed(seed)
        buffer_size = self._buffer_size(self.shard_size(config.shard_index, config.num_shards))
        return records.shuffle(buffer_size, seed=epoch, reshuffle_each_iteration=False)

    def _buffer_size(self, shard_size):
        record_bytes = max(1, self._dataset.num_bytes // self._dataset.num_examples)
        return max(1, min(shard_size, SHUFFLE_BUFFER_BYTES // record_bytes))

    def _of_part(self, path, start, count, first, step):
        if self._stored:
            return tf.data.Dataset.range(start + first, start + count, step).map(_without_record)
        return self._records(path, count).enumerate(start).skip(first).shard(step, 0)

    def _records(self, path, count):
        """The records of a file; those that TensorFlow's reader does not reach are empty."""
        records = tf.data.TFRecordDataset(path)
        if not self._may_leave_out:
            return records
        missing = tf.data.Dataset.from_tensors("").repeat()
        return records.ignore_errors().concatenate(missing).take(count)

    def fetch(self, number, record):
        """Returns the bytes of a record of a stream, in the graph; it fails if they are damaged."""
        if self._stored:
            return self._stored.lookup(number)
        if not self._may_leave_out:
            return record
        record = tf.cond(
            tf.equal(record, ""),
            lambda: tf.numpy_function(self._read, [number], tf.string),
            lambda: record,
        )
        record.set_shape([])
        return record

    def _read(self, number):
        """Reads a record of any file, outside the graph; raises a DataError that names it."""
        file = self._file_of(number)
        path = self._dataset.files[file]
        try:
            # Two threads may both open it; either result will do.
            if path not in self._damaged_files:
                self._damaged_files[path] = record_files.RecordFile(path)
            return self._damaged_files[path].read(number - self._starts[file])
        except DataError as error:
            raise DataError(_unreadable(self.place(number), error)) from error

    def parse(self, number, record, labels_offset):
        """Reads image file and label of a record, in the graph.

        Args:
          number: int64 tensor [].
          record: string tensor [], of `fetch`.
          labels_offset: an int that is subtracted from the label.

        Returns:
          What `decoding.parse_example` returns.
        """
        del number
        return decoding.parse_example(record, self._dataset, labels_offset)

    def name(self, number, record):
        """Returns a string tensor []: the image/filename of a record, or else FILE#NUMBER."""
        features = {"image/filename": tf.FixedLenFeature([], tf.string, "")}
        name = tf.io.parse_single_example(record, features)["image/filename"]
        starts = tf.constant(self._starts, tf.int64)
        file = tf.searchsorted(starts, [number], side="right")[0] - 1
        base = tf.gather([os.path.basename(path) for path in self._dataset.files], file)
        place = tf.strings.as_string(number - tf.gather(starts, file))
        return tf.where(tf.equal(name, ""), tf.strings.join([base, "#", place]), name)

    def contents(self):
        """Reads the split, outside the graph.

        Yields:
          The number and the bytes of each record, in order; of a damaged one none where it may be
          left out.

        Raises:
          DataError: where a file cannot be read; the message names it and the record.
        """
        number = 0
        for path, count in zip(self._dataset.files, self._dataset.examples_per_file, strict=True):
            end = number + count
            try:
                for record in tf.python_io.tf_record_iterator(path):
                    yield number, record
                    number += 1
            except tf.errors.OpError as error:
                if not self._may_leave_out:
                    raise DataError(_unreadable(self.place(number), error.message)) from error
                yield from ((rest, self._read_if_possible(rest)) for rest in range(number, end))
                number = end

    def _read_if_possible(self, number):
        try:
            return self._read(number)
        except DataError:
            return b""

    def describe_problem(self, number, record, labels_offset, decodes):
        """Says what is wrong with a record, and where it lies.

        Args:
          number: an int.
          record: its bytes, as the stream has them.
          labels_offset: as for `parse`.
          decodes: a function of the bytes of an image that says whether it can be decoded.

        Returns:
          None, or a sentence that begins with the record and its file, without its full stop.
        """
        record = self._stored.read(number) if self._stored else record
        try:
            record = record or self._read(number)
        except DataError as error:
            return str(error).removesuffix(".")
        problem = record_problems.problem_of_record(record, self._dataset, labels_offset, decodes)
        return problem and f"{self.place(number)} {problem}"

    def place(self, number):
        """Says in words which record of which file a number is."""
        file = self._file_of(number)
        place = number - self._starts[file]
        return f"Record {place} (counting from 0) of {self._dataset.files[file]}"

    def _file_of(self, number):
        return bisect.bisect_right(self._starts, number) - 1


def _unreadable(place, reason):
    return f"{place} cannot be read ({reason}); copy the file again, or convert the images again."


def _without_record(number):
    return number, ""


def _in_random_order(parts, seed, epoch):
    pair = tf.stack([tf.constant(seed, tf.int64), epoch])
    order = tf.argsort(tf.random.stateless_uniform([len(parts)], pair), stable=True)
    columns = [
        tf.constant([part.path for part in parts]),
        *(
            tf.constant([getattr(part, field) for part in parts], tf.int64)
            for field in ("start", "count", "first")
        ),
    ]
    return tf.data.Dataset.from_tensor_slices(tuple(tf.gather(c, order) for c in columns))
