"""The image files of a split as streams of numbers: in order, or shuffled without end.

A number is the place of the file in the dataset. The file itself is read in the parallel part of
the pipeline, so that a full shuffle costs no memory.
"""

from multiprocessing.pool import ThreadPool

from slim_mp.compat import tf
from slim_mp.data import record_problems
from slim_mp.errors import DataError
from slim_mp.files.input_files import reading, shown
from slim_mp.preprocessing import decoding

_READERS = 16
_READ_AHEAD = 64


class ImageFileSource:
    """Streams of (number, content): int64 [] and an empty string [], which `fetch` replaces."""

    def __init__(self, dataset, stored=None):
        """Makes the source of a split.

        Args:
          dataset: a `Dataset` of image files.
          stored: an `example_cache.ExampleCache` of it, or None.
        """
        self._dataset = dataset
        self._stored = stored

    def shard_size(self, shard_index, num_shards):
        """Returns the number of images of a shard."""
        return len(range(shard_index, self._dataset.num_examples, num_shards))

    def ordered(self):
        """Returns the stream of each image once, in the order of the dataset."""
        return tf.data.Dataset.range(self._dataset.num_examples).map(_without_content)

    def epoch(self, epoch, config, seed):
        """Makes the stream of the images of a shard, each once, in the order of an epoch.

        Args:
          epoch: int64 tensor [].
          config: an `InputConfig`, for the shard.
          seed: an int; the order is a function of it, the epoch and the shard.

        Returns:
          The stream.
        """
        size = self.shard_size(config.shard_index, config.num_shards)
        draws = tf.random.stateless_uniform([size], tf.stack([tf.constant(seed, tf.int64), epoch]))
        order = tf.cast(tf.argsort(draws, stable=True), tf.int64)
        numbers = order * config.num_shards + config.shard_index
        return tf.data.Dataset.from_tensor_slices(numbers).map(_without_content)

    def fetch(self, number, content):
        """Returns the bytes of an image file, in the graph."""
        del content
        if self._stored:
            return self._stored.lookup(number)
        return tf.io.read_file(self.name(number))

    def parse(self, number, content, labels_offset):
        """Returns the bytes of an image file and its label, as `decoding.parse_example` does.

        Args:
          number: int64 tensor [].
          content: string tensor [], of `fetch`.
          labels_offset: an int that is subtracted from the label.
        """
        label = tf.gather(tf.constant(self._dataset.labels, tf.int64), number)
        return content, decoding.check_label(label, self._dataset.num_classes, labels_offset)

    def name(self, number, content=None):
        """Returns a string tensor []: the path of an image."""
        del content
        return tf.gather(tf.constant(self._dataset.images), number)

    def contents(self):
        """Reads the split, outside the graph.

        Yields:
          The number and the bytes of each file, in order; of one that cannot be read none.
        """
        numbers = range(self._dataset.num_examples)
        with ThreadPool(_READERS) as pool:
            for start in range(0, len(numbers), _READ_AHEAD):
                chunk = numbers[start : start + _READ_AHEAD]
                yield from zip(chunk, pool.map(self._read_if_possible, chunk), strict=True)

    def _read_if_possible(self, number):
        try:
            return self._read(number)
        except DataError:
            return b""

    def _read(self, number):
        path = self._dataset.images[number]
        with reading(path), open(path, "rb") as file:
            return file.read()

    def describe_problem(self, number, content, labels_offset, decodes):
        """Says what is wrong with an image, as `RecordSource.describe_problem` does.

        Args:
          number: an int.
          content: its bytes; if there are none, the file is read.
          labels_offset: as for `parse`.
          decodes: a function of the bytes of an image that says whether it can be decoded.
        """
        try:
            content = content or self._read(number)
        except DataError as error:
            return str(error).removesuffix(".")
        label = self._dataset.labels[number]
        problem = record_problems.problem_of_label(
            label, self._dataset.num_classes, labels_offset
        ) or record_problems.problem_of_image(content, decodes)
        return problem and f"{self.place(number)} {problem}"

    def place(self, number):
        """Says in words which file a number is."""
        path = self._dataset.images[number]
        return f"The file {path if path.isprintable() else shown(path, most=400)}"


def _without_content(number):
    return number, ""
