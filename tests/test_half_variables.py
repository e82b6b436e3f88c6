"""Networks whose weights are half variables, for graphs that only answer."""

import numpy as np
import pytest
from made_checkpoints import network_arrays, save

from nets import nets_factory
from slim_mp.checkpoints import warm_start
from slim_mp.compat import tf

CLASSES = 5


def answers(name, prefix, images, **arguments):
    """The logits of a network that was restored, and its variables."""
    network_fn = nets_factory.get_network_fn(name, CLASSES, **arguments)
    with tf.Graph().as_default(), tf.Session() as session:
        logits, _ = network_fn(tf.constant(images))
        plan = warm_start.plan_evaluation(prefix, tf.global_variables())
        warm_start.restore_fn(plan)(session)
        return session.run(logits), tf.global_variables()


@pytest.mark.parametrize(
    ("name", "precision", "float32_kernels"),
    [
        ("lenet", "fp16", False),
        ("lenet", "fp16", True),
        ("lenet", "bf16", False),
        ("mobilenet_v1_025", "fp16", False),
    ],
)
def test_they_answer_as_casts_of_float32_variables_do(tmp_path, name, precision, float32_kernels):
    prefix = save(tmp_path / "model.ckpt", network_arrays(name, CLASSES))
    shape = {"lenet": [2, 28, 28, 1], "mobilenet_v1_025": [2, 32, 32, 3]}[name]
    images = np.random.RandomState(0).uniform(-1, 1, shape).astype(np.float32)
    arguments = {"precision": precision, "float32_kernels": float32_kernels}
    expected, masters = answers(name, prefix, images, **arguments)
    actual, variables = answers(name, prefix, images, **arguments, master_weights=False)
    np.testing.assert_array_equal(actual, expected)
    assert [item.op.name for item in variables] == [item.op.name for item in masters]
    sizes = {dtype.name: 0 for dtype in (tf.float32, tf.float16, tf.bfloat16)}
    for variable in variables:
        sizes[variable.dtype.base_dtype.name] += variable.shape.num_elements()
    half = {"fp16": "float16", "bf16": "bfloat16"}[precision]
    # Only batch norm is left in float32.
    assert sizes[half] > 0.9 * sum(sizes.values())


def test_float32_has_no_other_weights():
    shapes = set()
    for master_weights in (True, False):
        with tf.Graph().as_default():
            network_fn = nets_factory.get_network_fn("lenet", 2, master_weights=master_weights)
            network_fn(tf.placeholder(tf.float32, [None, 28, 28, 1]))
            variables = tf.global_variables()
            shapes.add(tuple((item.op.name, item.dtype.base_dtype) for item in variables))
    assert len(shapes) == 1
