import contextlib

import fakes
import numpy as np
import pytest

import slim_mp
from slim_mp.compat import slim, tf
from slim_mp.errors import UsageError


def test_collections_hold_variables_rather_than_casts():
    collections = {"weights": ["kernels"], "biases": ["biases", "kernels"]}
    with fakes.fresh_graph():
        x = fakes.inputs(tf.float16)
        for reuse in (None, True):
            with tf.variable_scope("net", reuse=reuse), slim_mp.arg_scope(tf.float16):
                slim.conv2d(x, 4, 3, scope="conv", variables_collections=collections)
        weights, biases = tf.trainable_variables()
        assert tf.get_collection("kernels") == [weights, biases]
        assert tf.get_collection("biases") == [biases]


def consumers(variable):
    """The casts that read a variable."""
    reads = [op for op in tf.get_default_graph().get_operations() if variable.handle in op.inputs]
    return [
        consumer
        for read in reads
        for output in read.outputs
        for consumer in output.consumers()
        if consumer.type == "Cast"
    ]


@pytest.mark.parametrize("uses", [1, 3])
def test_each_use_of_a_variable_has_a_cast_of_its_own(uses):
    with fakes.fresh_graph():
        x = fakes.inputs(tf.float16)
        with slim_mp.arg_scope(tf.float16):
            outputs = []
            for clone in range(uses):
                with tf.variable_scope("net", reuse=clone > 0):
                    outputs.append(slim.conv2d(x, 4, 3, scope="conv"))
        for variable in tf.trainable_variables():
            assert len(consumers(variable)) == uses
        # Gradients of the uses must meet in float32.
        gradients = tf.gradients(fakes.scalar(tf.add_n(outputs)), tf.trainable_variables())
        assert [gradient.dtype for gradient in gradients] == [tf.float32] * 2
        if uses > 1:
            assert [gradient.op.type for gradient in gradients] == ["AddN"] * 2


def state_of_the_process():
    return (
        slim.batch_norm,
        slim.layers.batch_norm,
        slim.current_arg_scope(),
        tf.get_variable_scope().custom_getter,
    )


def creates_half_variables():
    """Whether new variables and operations are as they are without any scope of slim_mp."""
    with fakes.fresh_graph():
        mean = tf.reduce_mean(fakes.inputs(tf.float16))
        slim.conv2d(fakes.inputs(tf.float16), 4, 3, weights_regularizer=slim.l2_regularizer(0.01))
        (loss,) = tf.losses.get_regularization_losses()
        dtypes = {variable.dtype.base_dtype for variable in tf.global_variables()}
        return mean.op.type == "Mean" and loss.dtype == tf.float16 and dtypes == {tf.float16}


@pytest.mark.parametrize("error", [None, KeyError])
def test_nothing_remains_of_a_scope(error):
    before = state_of_the_process()
    expectation = pytest.raises(error) if error else contextlib.nullcontext()
    scopes = slim_mp.arg_scope(tf.float16), slim_mp.arg_scope(tf.float16)
    with fakes.fresh_graph(), expectation, scopes[0], scopes[1]:
        slim.conv2d(fakes.inputs(tf.float16), 4, 3)
        if error:
            raise error
    assert state_of_the_process() == before
    assert creates_half_variables()


def test_float32_is_left_alone():
    with fakes.fresh_graph():
        before = state_of_the_process()
        with slim_mp.arg_scope(tf.float32) as scope:
            assert scope == slim.current_arg_scope()
            assert state_of_the_process() == before


def test_float32_inputs_stay_float32_and_are_warned_of(caplog):
    for dtype, warnings in ((tf.float32, 1), (tf.float16, 0)):
        caplog.clear()
        with fakes.fresh_graph(), slim_mp.arg_scope(tf.float16):
            assert fakes.tiny_network(fakes.inputs(dtype)).dtype == dtype
        assert len([r for r in caplog.records if "cast the inputs" in r.getMessage()]) == warnings


def train(dtype, steps, float32_kernels=False):
    """Losses of a few steps of the tiny network on one batch, from the same weights."""
    with fakes.fresh_graph():
        with slim.arg_scope(fakes.tiny_arg_scope(1e-3)), slim_mp.arg_scope(dtype, float32_kernels):
            logits = tf.cast(fakes.tiny_network(fakes.inputs(dtype)), tf.float32)
        loss = tf.losses.sparse_softmax_cross_entropy([0, 1], logits)
        loss += tf.losses.get_regularization_loss()
        optimizer = slim_mp.LossScaleOptimizer(
            tf.train.MomentumOptimizer(0.05, 0.9), slim_mp.FixedLossScaleManager(128)
        )
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train_op = optimizer.minimize(loss)
        with tf.Session() as session:
            fakes.set_variables(session)
            losses = [session.run([loss, train_op])[0] for _ in range(steps)]
            return losses, session.run(tf.global_variables("tiny"))


@pytest.mark.parametrize("float32_kernels", [False, True], ids=["half kernels", "float32 kernels"])
def test_training_stays_close_to_float32(float32_kernels):
    losses, variables = train(tf.float32, 10)
    assert losses[-1] < losses[0] / 2
    for dtype in fakes.HALVES:
        half_losses, half_variables = train(dtype, 10, float32_kernels)
        np.testing.assert_allclose(half_losses, losses, atol=8 * fakes.TOLERANCE[dtype] * losses[0])
        for half, full in zip(half_variables, variables, strict=True):
            fakes.assert_close(half, full, 8 * fakes.TOLERANCE[dtype])


def test_precisions():
    assert list(slim_mp.PRECISIONS) == ["fp32", "fp16", "bf16"]
    for name, row in slim_mp.PRECISIONS.items():
        assert slim_mp.get_precision(name) is row
        assert slim_mp.get_precision(row.compute_dtype) is row
        assert slim_mp.get_precision(row) is row
    scales = {name: row.default_loss_scale for name, row in slim_mp.PRECISIONS.items()}
    assert scales == {"fp32": 1, "fp16": 128, "bf16": 1}


@pytest.mark.parametrize(
    "dtype", ["float16", "FP16", "", None, 16, np.float16, np.dtype("float32"), tf.float64]
)
def test_other_precisions_are_refused(dtype):
    with pytest.raises(UsageError, match=r"fp32, fp16, bf16.*tf\.float16"):
        slim_mp.get_precision(dtype)
    with pytest.raises(UsageError), slim_mp.arg_scope(dtype):
        pass


def test_a_float32_checkpoint_restores_into_a_half_graph(tmp_path):
    """T02: a plain Saver, in both directions."""
    values = {}
    for dtype in (tf.float32, tf.float16, tf.float32):
        with fakes.fresh_graph(), tf.Session() as session:
            with slim.arg_scope(fakes.tiny_arg_scope()), slim_mp.arg_scope(dtype):
                fakes.tiny_network(fakes.inputs(dtype))
            saver = tf.train.Saver()
            if values:
                saver.restore(session, str(tmp_path / "model"))
            else:
                fakes.set_variables(session)
            found = {v.op.name: session.run(v) for v in tf.global_variables()}
            values = values or found
            saver.save(session, str(tmp_path / "model"))
        assert found.keys() == values.keys()
        for name, value in found.items():
            np.testing.assert_array_equal(value, values[name])


def test_tiny_updates_survive():
    """T03 b: 1,000 steps of 1e-4 take a weight from 1 to 0.9."""
    with fakes.fresh_graph(), tf.Session() as session:
        with slim_mp.arg_scope(tf.float16):
            weight = tf.get_variable("weight", [1], tf.float16, tf.ones_initializer())
        optimizer = slim_mp.LossScaleOptimizer(
            tf.train.GradientDescentOptimizer(1e-4), slim_mp.FixedLossScaleManager(128)
        )
        train_op = optimizer.minimize(tf.reduce_sum(tf.cast(weight, tf.float32)))
        session.run(tf.global_variables_initializer())
        step = session.make_callable(train_op)
        for _ in range(1000):
            step()
        (value,) = session.run(tf.trainable_variables())
        assert abs(value[0] - 0.9) < 1e-3
