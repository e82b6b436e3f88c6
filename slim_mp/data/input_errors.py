"""Finds the example that made the input fail, and says what is wrong with it.

The pipeline carries no file names, so that it stays simple and quick; after a failure the files are
read once more, outside the graph.
"""

import contextlib
import itertools
from multiprocessing.pool import ThreadPool

from absl import logging

from slim_mp.compat import tf
from slim_mp.data.example_sources import open_source
from slim_mp.errors import DataError
from slim_mp.preprocessing import decoding

# What `explain_input_error` can explain. TensorFlow quotes the bytes of a record that is no Example
# in its message, and the session then fails to decode that as text.
INPUT_ERRORS = (tf.errors.OpError, UnicodeDecodeError)

_EXAMPLES_PER_CHECK = 256
_ADVICE = "(--max_bad_records=N leaves up to N such ones out.)"


def explain_input_error(error, dataset, config, bad_records=None):
    """Looks for the record or file that made a session fail, and names it.

    It reads the split once, on all cores, until it finds the first one that cannot be used.

    Args:
      error: one of `INPUT_ERRORS` that a session raised.
      dataset: the `Dataset` that was read.
      config: the `InputConfig` it was read with.
      bad_records: the `BadRecords` that the input counted in, if there are any.

    Returns:
      None if the error did not come from an iterator or no record is at fault; the caller then
      raises the error again.

    Raises:
      DataError: names the file, the record and what is wrong with it, or, where bad records are
        allowed for, the first of too many.
    """
    if bad_records:
        bad_records.raise_if_too_many()
    op = getattr(error, "op", None)
    is_from_elsewhere = op is not None and not op.type.startswith("Iterator")
    if is_from_elsewhere or isinstance(error, tf.errors.OutOfRangeError):
        return
    logging.info("The input failed; looking for the reason in %d examples.", dataset.num_examples)
    source = open_source(dataset)
    with examination(source, config) as problem_of, ThreadPool() as pool:
        for chunk in _chunks(source.contents()):
            for problem in filter(None, pool.starmap(problem_of, chunk)):
                raise DataError(f"{problem}. {_ADVICE}")


def _chunks(contents):
    """The examples of a split in lists of `_EXAMPLES_PER_CHECK`."""
    try:
        while chunk := list(itertools.islice(contents, _EXAMPLES_PER_CHECK)):
            yield chunk
    except DataError as error:
        # Of what stops the reading, a wrong checksum is the damage of one record.
        if isinstance(error.__cause__, tf.errors.DataLossError):
            raise DataError(f"{error} {_ADVICE}") from error
        raise


@contextlib.contextmanager
def examination(source, config):
    """While open, examples can be examined, from any thread.

    Args:
      source: a `RecordSource` or `ImageFileSource`.
      config: the `InputConfig` that its examples are read with.

    Yields:
      A function of the number and the bytes of an example that returns None, or a sentence without
      its full stop on where it lies and what is wrong with it.
    """
    on_cpu = tf.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), tf.Session(config=on_cpu) as session:
        decodes = _decoder(session, config.channels)
        yield lambda number, content: source.describe_problem(
            number, content, config.labels_offset, decodes
        )


def _decoder(session, channels):
    """A function of the bytes of an image that says whether TensorFlow can decode it."""
    encoded = tf.placeholder(tf.string, [])
    shape = tf.shape(decoding.decode_image(encoded, channels))

    def decodes(image):
        try:
            session.run(shape, {encoded: image})
        except tf.errors.OpError:
            return False
        return True

    return decodes
