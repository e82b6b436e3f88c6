"""Bad records and files are left out, named and counted up to a limit, and change nothing else."""

import dataclasses

import numpy as np
import pytest
import tiny_runs
from image_sets import image_set
from test_input_errors import BAD_RECORDS, JPEG
from toy_records import (
    CONFIG,
    flip_payload_byte,
    make_record,
    numbers_of,
    plain_image,
    run_batches,
    write_records,
)

from slim_mp import data, distribution
from slim_mp.compat import tf
from slim_mp.data.bad_records import BadRecords
from slim_mp.errors import DataError
from slim_mp.report import measurement

EXAMPLES = 30
BAD = {2: make_record(JPEG[:3000], 2), 3: b"\xff\xff\xff", 17: make_record(plain_image(17), 11)}


def write_set(folder, bad):
    """Two files of numbered records, some of which are replaced by bad ones."""
    folder.mkdir()
    records = [bad.get(n, make_record(plain_image(n), n % 10)) for n in range(EXAMPLES)]
    write_records(folder / "toy_train_0.tfrecord", records[:12])
    write_records(folder / "toy_train_1.tfrecord", records[12:])
    return data.open_dataset("toy", "train", folder, num_classes=10)


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """The same records, all good and with some bad ones."""
    folder = tmp_path_factory.mktemp("bad")
    return write_set(folder / "good", {}), write_set(folder / "bad", BAD)


def training(dataset, count, bad_records=None, **changes):
    """The numbers of the images of some batches, and their labels."""
    config = dataclasses.replace(CONFIG, **changes)
    with tf.Graph().as_default():
        batches = data.training_batches(dataset, config, bad_records)
        images, labels = run_batches(batches, count)
    return [numbers_of([batch]) for batch in images], [batch.tolist() for batch in labels]


def evaluation(dataset, config, bad_records):
    with tf.Graph().as_default():
        return run_batches(data.evaluation_batches(dataset, config, bad_records=bad_records))


@pytest.fixture(scope="module")
def order(sets):
    """The numbers of the good set in the order of training, over three epochs."""
    return [
        number for batch in training(sets[0], 3 * EXAMPLES, batch_size=1)[0] for number in batch
    ]


def test_a_bad_record_is_replaced_by_a_good_one_of_its_batch(sets, order, caplog):
    bad_records = BadRecords(3)
    found, labels = training(sets[1], 3 * EXAMPLES // 8, bad_records)
    for index, (batch, of_batch) in enumerate(zip(found, labels, strict=True)):
        expected = order[8 * index :][:8]
        good = set(expected) - set(BAD)
        for number, wanted, label in zip(batch, expected, of_batch, strict=True):
            assert number == wanted if wanted in good else number in good
            assert label == number % 10
    # Three epochs, but each is told of once.
    assert bad_records.count == 3
    told = [line for line in caplog.messages if line.startswith("Left out, bad record")]
    assert len(told) == 3 and "bad record 3 of at most 3:" in told[2]
    folder = sets[1].files[0].rpartition("/")[0]
    for place, reason in (
        (f"Record 2 (counting from 0) of {folder}/toy_train_0.tfrecord", "cannot be decoded"),
        (f"Record 3 (counting from 0) of {folder}/toy_train_0.tfrecord", "not a tf.train.Example"),
        (f"Record 5 (counting from 0) of {folder}/toy_train_1.tfrecord", "has the label 11"),
    ):
        assert sum(place in line and reason in line for line in told) == 1
    resumed = training(sets[1], 5, start_example=4 * 8, max_bad_records=3)
    assert resumed == (found[4:9], labels[4:9])


def test_a_batch_without_a_good_record_is_a_copy_of_the_next(sets, order):
    settings = {"batch_size": 1, "max_bad_records": 3}
    found, labels = training(sets[1], 2 * EXAMPLES, **settings)
    for index, (number,) in enumerate(found):
        assert number == next(n for n in order[index:] if n not in BAD)
    # One after such a batch, and one that begins with it.
    bad = order.index(17)
    for start in (bad, bad + 1):
        resumed = training(sets[1], 20, **settings, start_example=start)
        assert resumed == (found[start : start + 20], labels[start : start + 20])


def test_one_more_than_the_limit_ends_the_run_and_is_listed(sets, caplog):
    for make in (data.training_batches, data.evaluation_batches):
        bad_records = BadRecords(2)
        with tf.Graph().as_default(), pytest.raises(data.INPUT_ERRORS) as raised:
            run_batches(make(sets[1], CONFIG, bad_records=bad_records), 10)
        with pytest.raises(DataError, match=r"^More than 2 bad .* Record 2 .*; Record 3 .*; Rec"):
            data.explain_input_error(raised.value, sets[1], CONFIG, bad_records)
    assert len([line for line in caplog.messages if "Left out" in line]) == 4


def test_one_more_than_the_limit_ends_a_measurement(sets):
    config = measurement.MeasurementConfig(
        input=dataclasses.replace(CONFIG, image_size=8, max_bad_records=2),
        clones=distribution.local_clones(num_gpus=0),
    )
    with pytest.raises(DataError, match=r"^More than 2 bad records"):
        measurement.measure(config, tiny_runs.network(), sets[1])


def test_without_the_flag_the_first_one_ends_the_run(sets):
    with tf.Graph().as_default(), pytest.raises(data.INPUT_ERRORS) as raised:
        run_batches(data.evaluation_batches(sets[1], CONFIG))
    with pytest.raises(DataError, match=r"^Record 2 \(counting from 0\) of "):
        data.explain_input_error(raised.value, sets[1], CONFIG, BadRecords(0))


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("place", [0, 4, 11])
def test_a_record_with_a_wrong_checksum_is_left_out_alone(tmp_path, sets, order, place, cache):
    """TensorFlow's reader gives up the rest of its file, of which nothing may be lost."""
    dataset = write_set(tmp_path / "damaged", {})
    flip_payload_byte(dataset.files[0], place)
    bad_records = BadRecords(1)
    found, _ = training(dataset, 3 * EXAMPLES // 8, bad_records, cache=cache)
    for index, batch in enumerate(found):
        expected = order[8 * index :][:8]
        good = set(expected) - {place}
        for number, wanted in zip(batch, expected, strict=True):
            assert number == wanted if wanted != place else number in good
    images, _ = evaluation(dataset, dataclasses.replace(CONFIG, cache=cache), bad_records)
    assert numbers_of(images) == [n for n in range(EXAMPLES) if n != place]
    assert bad_records.count == 1
    with pytest.raises(DataError, match=rf"^More than 1 .*: Record {place} .* \(its bytes are not"):
        spoil_another_and_fail(dataset, cache)


def spoil_another_and_fail(dataset, cache):
    """Spoils a record of the other file too, one more than the limit; raises what that ends in."""
    flip_payload_byte(dataset.files[1], 3)
    bad_records = BadRecords(1)
    config = dataclasses.replace(CONFIG, cache=cache)
    with tf.Graph().as_default(), pytest.raises(data.INPUT_ERRORS) as raised:
        run_batches(data.training_batches(dataset, config, bad_records), 10)
    data.explain_input_error(raised.value, dataset, config, bad_records)


def test_an_evaluation_leaves_bad_records_out(sets):
    bad_records = BadRecords(3)
    images, labels = evaluation(sets[1], CONFIG, bad_records)
    good = [n for n in range(EXAMPLES) if n not in BAD]
    assert numbers_of(images) == good
    assert np.concatenate(labels).tolist() == [n % 10 for n in good]
    assert [len(batch) for batch in labels] == [6, 8, 7, 6]
    assert bad_records.count == 3


def test_each_kind_of_bad_record_is_left_out(tmp_path):
    kinds = {5 + n: record for n, (record, _) in enumerate(BAD_RECORDS.values())}
    dataset = write_set(tmp_path / "kinds", kinds)
    config = dataclasses.replace(CONFIG, labels_offset=1)
    config = dataclasses.replace(config, max_bad_records=len(kinds) + 3)
    images, _ = evaluation(dataset, config, None)
    # The label 0 is a background class.
    assert numbers_of(images) == [n for n in range(EXAMPLES) if n not in kinds and n % 10]


def test_bad_image_files_are_left_out(tmp_path, caplog):
    dataset = image_set(tmp_path, 10, contents={1: b"no image", 4: plain_image(4)[:-20]})
    (tmp_path / "grün 007.png").unlink()
    bad_records = BadRecords(3)
    images, _ = evaluation(dataset, CONFIG, bad_records)
    assert numbers_of(images) == [0, 2, 3, 5, 6, 8, 9]
    numbers, _ = training(dataset, 4, bad_records, seed=None)
    assert {number for batch in numbers for number in batch} <= {0, 2, 3, 5, 6, 8, 9}
    assert bad_records.count == 3
    told = [line for line in caplog.messages if "bad record" in line]
    assert sorted(line.split(".png ")[0][-3:] for line in told) == ["001", "004", "007"]
    assert any("grün 007.png cannot be read (No such file" in line for line in told)


def test_a_set_without_a_good_record_is_refused(tmp_path):
    dataset = write_set(tmp_path / "none", dict.fromkeys(range(EXAMPLES), b"bad"))
    bad_records = BadRecords(100)
    with tf.Graph().as_default(), pytest.raises(data.INPUT_ERRORS) as raised:
        run_batches(data.training_batches(dataset, CONFIG, bad_records), 10)
    with pytest.raises(DataError, match=r"^No example can be used: Record .* and 25 more"):
        data.explain_input_error(raised.value, dataset, CONFIG, bad_records)
