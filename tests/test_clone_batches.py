"""How a batch is split among clones, and copied to their devices before a step asks for it."""

import fakes
import numpy as np
import pytest

from slim_mp.compat import tf
from slim_mp.data.clone_batches import clone_batches

# Stand-ins for GPUs: what is copied ahead goes from the first CPU device to the others.
DEVICES = [f"/device:CPU:{number}" for number in (1, 2, 3)]


def batches():
    """Batches of six examples: pairs and numbers."""
    numbers = tf.data.Dataset.range(1200).batch(6, drop_remainder=True)
    return numbers.map(lambda batch: (tf.cast(tf.stack([batch, -batch], 1), tf.float16), batch))


def open_session():
    return tf.Session(config=tf.ConfigProto(device_count={"CPU": 1 + len(DEVICES)}))


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_parts_together_are_the_batch_in_its_order(count, ahead):
    with fakes.fresh_graph(), open_session() as session:
        start, parts = clone_batches(batches(), DEVICES[:count], ahead)
        assert [tensor.shape.as_list() for tensor in parts[0]] == [[6 // count, 2], [6 // count]]
        for _ in range(2):  # It begins anew when it is started again.
            session.run(start)
            for step in range(3):
                images, numbers = (
                    np.concatenate(tensors) for tensors in zip(*session.run(parts), strict=True)
                )
                np.testing.assert_array_equal(numbers, np.arange(6 * step, 6 * step + 6))
                np.testing.assert_array_equal(images, np.stack([numbers, -numbers], 1))
                assert images.dtype == np.float16


def test_what_is_copied_ahead_comes_from_the_device_of_each_clone():
    with fakes.fresh_graph():
        _, parts = clone_batches(batches(), DEVICES, ahead=True)
        for device, tensors in zip(DEVICES, parts, strict=True):
            assert {tensor.device for tensor in tensors} == {device}


def test_an_error_of_the_input_is_that_of_the_step_that_asks_for_its_batch():
    def checked(images, numbers):
        with tf.control_dependencies(
            [tf.debugging.assert_less(numbers, np.int64(12), message="late")]
        ):
            return images, tf.identity(numbers)

    with fakes.fresh_graph(), open_session() as session:
        start, parts = clone_batches(batches().map(checked), DEVICES[:2], ahead=True)
        session.run(start)
        session.run(parts)
        session.run(parts)
        with pytest.raises(tf.errors.InvalidArgumentError, match="late"):
            session.run(parts)
