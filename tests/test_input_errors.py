"""Each kind of bad record is found and named."""

import dataclasses
import os

import numpy as np
import pytest
from skimage import data as photographs
from toy_records import (
    CONFIG,
    encode,
    flip_payload_byte,
    make_feature,
    make_record,
    plain_image,
    run_batches,
    write_numbered,
    write_records,
)

from slim_mp import data
from slim_mp.compat import tf
from slim_mp.errors import DataError

JPEG = encode(photographs.chelsea(), "JPEG")
BAD_RECORDS = {
    "truncated jpeg": (make_record(JPEG[:3000], 1), r"3000 bytes that cannot be decoded"),
    "text": (make_record(b"no image at all", 1), r"15 bytes that cannot be decoded"),
    "empty image": (make_record(b"", 1), r"0 bytes that cannot be decoded"),
    "no image": (make_record(None, 0), r"no feature image/encoded; .* are: image/class/label, "),
    "strange features": (
        tf.train.Example(
            features=tf.train.Features(
                feature={f"\x1b[31m{n:03d}": make_feature(b"") for n in range(100)}
            )
        ).SerializeToString(),
        r"are: '\\x1b\[31m000', .*\[31m019' and 80 more\. Convert",
    ),
    "no label": (make_record(plain_image(0)), r"no feature image/class/label; .* image/encoded"),
    "large label": (make_record(plain_image(0), 10), r"label 10, .* only 1 to 9 are possible"),
    "negative label": (make_record(plain_image(0), -3), r"label -3, .* only 1 to 9 are possible"),
    "background": (make_record(plain_image(0), 0), r"label 0, .* offset of 1 only 1 to 9"),
    "no example": (b"\xff\xff\xff", r"is not a tf\.train\.Example"),
    "label as text": (
        make_record(plain_image(0), b"1"),
        r"image/class/label as bytes_list; it must be int64_list of one value",
    ),
    "two labels": (make_record(plain_image(0), 1, 2), r"2 values in image/class/label"),
}


def failure_of(dataset, config, make):
    """The error that a session raises for the batches."""
    with tf.Graph().as_default(), pytest.raises(data.INPUT_ERRORS) as raised:
        run_batches(make(dataset, config), 10)
    return raised.value


@pytest.mark.parametrize("make", [data.training_batches, data.evaluation_batches])
@pytest.mark.parametrize("kind", BAD_RECORDS)
def test_a_bad_record_is_named(tmp_path, kind, make):
    record, message = BAD_RECORDS[kind]
    good = [make_record(plain_image(n), 1 + n % 9) for n in range(5)]
    write_records(tmp_path / "toy_train_0.tfrecord", good)
    write_records(tmp_path / "toy_train_1.tfrecord", [*good[:3], record, *good])
    dataset = data.open_dataset("toy", "train", tmp_path, num_classes=10)
    config = dataclasses.replace(CONFIG, labels_offset=1)
    error = failure_of(dataset, config, make)
    with pytest.raises(
        DataError, match=rf"^Record 3 .* {tmp_path}/toy_train_1.tfrecord .*{message}"
    ):
        data.explain_input_error(error, dataset, config)


def test_damaged_bytes_are_named(tmp_path):
    write_numbered(tmp_path, (4, 6))
    path = tmp_path / "toy_train_001.tfrecord"
    flip_payload_byte(path, 5)
    dataset = data.open_dataset("toy", "train", tmp_path, num_classes=10)
    error = failure_of(dataset, CONFIG, data.training_batches)
    with pytest.raises(
        DataError, match=rf"^Record 5 .* of {path} cannot be read .*--max_bad_records=N"
    ):
        data.explain_input_error(error, dataset, CONFIG)


def test_a_file_that_disappears_is_named(tmp_path):
    dataset = write_numbered(tmp_path, (4, 6))
    os.remove(tmp_path / "toy_train_001.tfrecord")
    error = failure_of(dataset, CONFIG, data.training_batches)
    with pytest.raises(DataError, match=r"^Record 0 .*toy_train_001.tfrecord cannot be read"):
        data.explain_input_error(error, dataset, CONFIG)


def test_an_error_from_elsewhere_is_not_explained(tmp_path):
    dataset = write_numbered(tmp_path, (4,))
    write_records(tmp_path / "toy_train_000.tfrecord", [b"bad"])
    with tf.Graph().as_default(), tf.Session() as session:
        checked = tf.debugging.check_numerics(tf.constant(np.nan), "loss")
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            session.run(checked)
    assert data.explain_input_error(raised.value, dataset, CONFIG) is None


def test_nothing_is_explained_where_all_records_are_good(tmp_path):
    dataset = write_numbered(tmp_path, (4,))
    error = tf.errors.InvalidArgumentError(None, None, "from an unknown operation")
    assert data.explain_input_error(error, dataset, CONFIG) is None
