"""Hands the making of training batches to the workers of a tf.data service.

A dispatcher deals out epochs: each worker reads whole ones, each epoch is read by one worker, and
so each example is seen once an epoch, whatever the number of workers. In which order the batches of
several workers arrive is a matter of chance, so that a seed does not repeat it. What a worker was
at when it was lost is lost with it.
"""

import socket
import urllib.parse
import warnings

from absl import logging

from slim_mp.compat import tf
from slim_mp.errors import UsageError, reason

_SECONDS_TO_ANSWER = 10
_SECONDS_TO_GET_A_WORKER = 60
# The preface of HTTP/2 and an empty frame of settings, which is what a server answers with first
# (RFC 9113, sections 3.4 and 4.1).
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
_FRAME_TYPE = 3
_SETTINGS = b"\4"


def check_address(address):
    """Checks the form of an address.

    Args:
      address: a str such as "grpc://host:5000".

    Returns:
      The host and the port.

    Raises:
      UsageError: if it is no such address.
    """
    try:
        parts = urllib.parse.urlsplit(address)
        place = (parts.hostname, parts.port)
        # What no host can be called is a UnicodeError, which is a ValueError.
        (parts.hostname or "").encode("idna")
    except ValueError:
        place = (None, None)
    if not all(place) or parts.scheme != "grpc" or parts.path or parts.query or parts.fragment:
        raise UsageError(
            f"--dataset_service={address}: give the address of a dispatcher of tf.data service, "
            "such as grpc://host:5000."
        )
    return place


def distributed(batches, address):
    """Returns the batches of a stream as the workers of a service make them.

    Args:
      batches: a tf.data.Dataset that begins with the numbers of the epochs.
      address: as for `check_address`.

    Returns:
      A tf.data.Dataset of the same elements.

    Raises:
      UsageError: if no dispatcher answers at the address, or it has no worker after a minute.
    """
    _greet(address)
    _wait_for_worker(address)
    logging.info("Batches come from the tf.data service at %s, in no repeatable order.", address)
    return _distribute(batches, "DYNAMIC", address)


def _greet(address):
    """Finds out whether a server of gRPC listens, which TensorFlow would wait for without end."""
    try:
        with socket.create_connection(check_address(address), _SECONDS_TO_ANSWER) as connection:
            connection.settimeout(_SECONDS_TO_ANSWER)
            connection.sendall(_GREETING)
            answer = connection.recv(_FRAME_TYPE + 1)
    except OSError as error:
        raise UsageError(_nobody_answers(address, error.strerror or str(error))) from error
    if answer[_FRAME_TYPE:] != _SETTINGS:
        raise UsageError(_nobody_answers(address, "what listens is no server of gRPC"))


def _nobody_answers(address, reason):
    return (
        f"--dataset_service={address}: no dispatcher answers there ({reason}); start it first, or "
        "correct the address."
    )


def _wait_for_worker(address):
    """Has a service make a single number, for which it needs a worker."""
    logging.info("Waiting for a worker of the tf.data service at %s.", address)
    config = tf.ConfigProto(
        device_count={"GPU": 0}, operation_timeout_in_ms=1000 * _SECONDS_TO_GET_A_WORKER
    )
    with tf.Graph().as_default():
        numbers = _distribute(tf.data.Dataset.range(1), "OFF", address)
        iterator = tf.data.make_initializable_iterator(numbers)
        following = iterator.get_next()
        with tf.Session(config=config) as session:
            try:
                session.run(iterator.initializer)
                session.run(following)
            except tf.errors.DeadlineExceededError as error:
                raise UsageError(
                    f"--dataset_service={address}: the dispatcher has no worker after "
                    f"{_SECONDS_TO_GET_A_WORKER} seconds; start one, or look at why they fail."
                ) from error
            except tf.errors.OpError as error:
                raise UsageError(_nobody_answers(address, reason(error))) from error


def _distribute(dataset, sharding, address):
    service = tf.data.experimental.service
    policy = service.ShardingPolicy[sharding]
    with warnings.catch_warnings():
        # On options that cannot be read back in graph mode, which nothing here does.
        warnings.filterwarnings("ignore", message="To make it possible to preserve tf.data options")
        # Images hardly get smaller by compression.
        return dataset.apply(service.distribute(policy, address, compression=None))
