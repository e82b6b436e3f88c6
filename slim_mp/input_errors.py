"""Finds the record that made the input fail, and says what is wrong with it.

The pipeline carries no file names, so that it stays simple and quick; after a failure the record
files are read once more, outside the graph.
"""

import itertools
from multiprocessing.pool import ThreadPool

from absl import logging

from slim_mp import decoding
from slim_mp.compat import tf
from slim_mp.errors import DataError
from slim_mp.input_files import few

# What `explain_input_error` can explain. TensorFlow quotes the bytes of a record that is no Example
# in its message, and the session then fails to decode that as text.
INPUT_ERRORS = (tf.errors.OpError, UnicodeDecodeError)

_RECORDS_PER_CHECK = 1024


def explain_input_error(error, dataset, config):
    """Looks for the record that made a session fail, and names it.

    It reads the split once, on all cores, until it finds the first record that cannot be used.

    Args:
      error: one of `INPUT_ERRORS` that a session raised.
      dataset: the `Dataset` that was read.
      config: the `InputConfig` it was read with.

    Returns:
      None if the error did not come from an iterator or no record is at fault; the caller then
      raises the error again.

    Raises:
      DataError: names the file, the record and what is wrong with it.
    """
    op = getattr(error, "op", None)
    is_from_elsewhere = op is not None and not op.type.startswith("Iterator")
    if is_from_elsewhere or isinstance(error, tf.errors.OutOfRangeError):
        return
    logging.info("The input failed; looking for the record in %d files.", len(dataset.files))
    with tf.Graph().as_default(), tf.Session() as session, ThreadPool() as pool:
        decodes = _decoder(session, config.channels)

        def problem_of(numbered_record):
            return find_problem(numbered_record[1], decodes, dataset, config.labels_offset)

        for path in dataset.files:
            _raise_first_problem(path, lambda records: pool.map(problem_of, records))


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


def _raise_first_problem(path, problems_of):
    """Raises a DataError about the first bad record of a file; `problems_of` takes a list."""
    records = _numbered_records(path)
    while chunk := list(itertools.islice(records, _RECORDS_PER_CHECK)):
        for (number, _), problem in zip(chunk, problems_of(chunk), strict=True):
            if problem:
                raise DataError(f"Record {number} (counting from 0) of {path} {problem}.")


def _numbered_records(path):
    """The numbers and bytes of the records of a file; a DataError where it cannot be read."""
    number = 0
    try:
        for serialized in tf.python_io.tf_record_iterator(path):
            yield number, serialized
            number += 1
    except tf.errors.OpError as error:
        raise DataError(
            f"Record {number} (counting from 0) of {path} cannot be read ({error.message}); copy "
            "the file again or write it again."
        ) from error


def find_problem(serialized, decodes, dataset, labels_offset):
    """Says what is wrong with a record.

    Args:
      serialized: the bytes of the record.
      decodes: a function of the bytes of an image that says whether it can be decoded.
      dataset: as for `decoding.parse_example`.
      labels_offset: as for `decoding.parse_example`.

    Returns:
      None, or what is wrong as the rest of a sentence that begins with the record.
    """
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except Exception:  # protobuf's DecodeError lives in a package that is not a dependency
        return "is not a tf.train.Example; write the record files again"
    image_key, label_key = dataset.image_key, dataset.label_key
    return (
        _feature_problem(features, image_key, "bytes_list")
        or _feature_problem(features, label_key, "int64_list")
        or _label_problem(features[label_key], labels_offset, dataset.num_classes)
        or _image_problem(features[image_key], decodes)
    )


def _feature_problem(features, key, kind):
    if key not in features:
        there = few(sorted(features), most=20) or "none"
        return f"has no feature {key}; its features are: {there}. Write the record files again"
    found = features[key].WhichOneof("kind")
    if found != kind:
        return f"holds {key} as {found or 'nothing'}; it must be {kind} of one value"
    count = len(getattr(features[key], kind).value)
    return None if count == 1 else f"holds {count} values in {key}; it must be one"


def _label_problem(feature, labels_offset, num_classes):
    label = feature.int64_list.value[0]
    if labels_offset <= label < num_classes:
        return None
    return (
        f"has the label {label}, but with {num_classes} classes and a labels offset of "
        f"{labels_offset} only {labels_offset} to {num_classes - 1} are possible; correct "
        "--num_classes, labels.txt or --labels_offset, or write the record files again"
    )


def _image_problem(feature, decodes):
    encoded = feature.bytes_list.value[0]
    if decodes(encoded):
        return None
    return (
        f"holds an image of {len(encoded)} bytes that cannot be decoded: it is damaged, or it is "
        "not a JPEG, PNG, GIF or BMP file; write the record again or leave it out"
    )
