"""Batches of a tf.data service: a real dispatcher and real workers."""

import collections
import dataclasses
import socket
import time

import numpy as np
import pytest
import web_server
from data_service import running_service
from image_sets import image_set
from test_data import training_numbers
from toy_records import CONFIG, numbers_of, run_batches, write_numbered

from slim_mp import data
from slim_mp.compat import tf
from slim_mp.data import dataset_service
from slim_mp.data.augmentation import AugmentationConfig
from slim_mp.errors import DataError, UsageError


@pytest.fixture(scope="module")
def one_worker():
    with running_service(1) as address:
        yield address


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    return write_numbered(tmp_path_factory.mktemp("numbered"), (9, 14, 3, 8, 6))


@pytest.mark.parametrize("kind", ["records", "images"])
def test_a_single_worker_makes_the_batches_that_are_made_without_it(
    numbered, tmp_path, one_worker, kind
):
    dataset = numbered if kind == "records" else image_set(tmp_path, 40)
    expected = training_numbers(dataset, 100, start_example=33)
    assert training_numbers(dataset, 100, start_example=33, dataset_service=one_worker) == expected


def test_several_workers_share_the_epochs(numbered):
    """Each example comes once an epoch; only those that are under way may be out of step."""
    workers, epochs = 3, 12
    with running_service(workers) as address:
        numbers = training_numbers(numbered, 40 * epochs, dataset_service=address)
    counts = collections.Counter(numbers)
    assert set(counts) == set(range(40))
    assert max(abs(count - epochs) for count in counts.values()) <= workers


def test_mixed_batches_of_half_precision_come_over_a_service(numbered, one_worker):
    config = dataclasses.replace(
        CONFIG, compute_dtype=tf.float16, augmentation=AugmentationConfig(mixup=0.2)
    )
    with tf.Graph().as_default():
        expected, _ = run_batches(data.training_batches(numbered, config), 3)
    served = dataclasses.replace(config, dataset_service=one_worker)
    with tf.Graph().as_default():
        images, labels = run_batches(data.training_batches(numbered, served), 3)
    np.testing.assert_array_equal(images, expected)
    assert labels[0].dtype == np.float32 and labels[0].shape == (8, 10)


def test_an_evaluation_does_not_go_through_the_service(numbered):
    config = dataclasses.replace(CONFIG, dataset_service="grpc://localhost:1")
    with tf.Graph().as_default():
        images, _ = run_batches(data.evaluation_batches(numbered, config))
    assert numbers_of(images) == list(range(40))


def test_a_bad_image_that_a_worker_reads_is_named(tmp_path, one_worker):
    dataset = image_set(tmp_path, 8, contents={3: b"no image"})
    config = dataclasses.replace(CONFIG, dataset_service=one_worker)
    with tf.Graph().as_default(), pytest.raises(data.INPUT_ERRORS) as raised:
        run_batches(data.training_batches(dataset, config), 3)
    with pytest.raises(DataError, match=r"grün 003.png holds an image of 8 bytes"):
        data.explain_input_error(raised.value, dataset, config)


def refusal(dataset, address):
    """The message that a service is refused with."""
    config = dataclasses.replace(CONFIG, dataset_service=address)
    with tf.Graph().as_default(), pytest.raises(UsageError) as raised:
        data.training_batches(dataset, config)
    return str(raised.value)


def test_an_address_where_no_dispatcher_answers_is_refused_soon(numbered, monkeypatch):
    monkeypatch.setattr(dataset_service, "_SECONDS_TO_ANSWER", 1)
    begin = time.monotonic()
    with socket.socket() as silent:
        silent.bind(("localhost", 0))
        address = f"grpc://localhost:{silent.getsockname()[1]}"
        assert "no dispatcher answers there (Connection refused)" in refusal(numbered, address)
        silent.listen()
        assert "no dispatcher answers there (timed out)" in refusal(numbered, address)
    assert time.monotonic() - begin < 20


def test_a_server_of_something_else_is_refused(numbered):
    with web_server.serve({}) as site:
        address = site.url.replace("http", "grpc")
        assert "no server of gRPC" in refusal(numbered, address)


def test_a_dispatcher_without_a_worker_is_waited_for_and_refused(numbered, monkeypatch):
    monkeypatch.setattr(dataset_service, "_SECONDS_TO_GET_A_WORKER", 1)
    with running_service(0) as address:
        assert "has no worker after 1 seconds" in refusal(numbered, address)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "localhost:5000",
        "http://localhost:5000",
        "grpc://localhost",
        "grpc://:1",
        "x",
        "grpc://[bad:5000",
        "grpc://.a..b:5000",
        f"grpc://{'a' * 70}:5000",
    ],
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(UsageError, match=r"such as grpc://host:5000"):
        dataclasses.replace(CONFIG, dataset_service=address)


@pytest.mark.parametrize("change", [{"cache": True}, {"max_bad_records": 1}])
def test_what_needs_this_process_is_refused(change):
    with pytest.raises(UsageError, match=rf"--{next(iter(change))} does not work with --dataset_s"):
        dataclasses.replace(CONFIG, dataset_service="grpc://localhost:5000", **change)
