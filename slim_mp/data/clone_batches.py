"""Brings each clone of a network its part of a batch."""

from slim_mp.compat import MultiDeviceIterator, tf

# On each device, beyond the batch that a step computes with.
_BATCHES_AHEAD = 1
_HOST = "/device:CPU:0"


def clone_batches(batches, devices, ahead):
    """Splits the batches of a dataset among clones.

    Args:
      batches: tf.data.Dataset of tuples of tensors [batch, ...] of static shape; the number of
        devices divides batch.
      devices: a device name for each clone.
      ahead: whether the next batch is copied to the devices while a step computes. The parts are
        the same either way.

    Returns:
      The operation that starts the input, and a list of a tuple of tensors
      [batch / number of devices, ...] for each clone, in the order of the batch.
    """
    with tf.device(_HOST):
        return _copied_ahead(batches, devices) if ahead else _split(batches, len(devices))


def _split(batches, count):
    iterator = tf.data.make_initializable_iterator(batches)
    parts = [tf.split(tensor, count) for tensor in iterator.get_next()]
    return iterator.initializer, list(zip(*parts, strict=True))


def _copied_ahead(batches, devices):
    """An iterator of several devices gives the elements of a dataset to each in turn."""
    count = len(devices)

    def parts(*batch):
        return tuple(
            tf.reshape(tensor, [count, tensor.shape[0] // count, *tensor.shape[1:]])
            for tensor in batch
        )

    iterator = MultiDeviceIterator(
        batches.map(parts).unbatch(),
        devices,
        max_buffer_size=_BATCHES_AHEAD,
        prefetch_buffer_size=_BATCHES_AHEAD,
        source_device=_HOST,
    )
    return iterator.initializer, iterator.get_next()
