"""Planted infinities: which layer is named, and that nothing has changed."""

import numpy as np
import pytest
import tiny_runs
from alarm_runs import GOOD_STEPS, overflow, overflow_in_half, overflow_of_gradient, running, state
from fakes import tiny_arg_scope

import slim_mp
from slim_mp.compat import slim, tf
from slim_mp.errors import NumericsError
from slim_mp.training import optimizers, train_config

LAYERS = ["alarm/conv1", "alarm/conv2", "alarm/aux", "alarm/logits"]


@pytest.fixture(autouse=True)
def log_everything(caplog):
    caplog.set_level("INFO")


def planted(dtype, layer, plant, bad_clone=None):
    """A network with an auxiliary head, one layer of which goes bad after some good steps.

    Args:
      dtype: name of the precision.
      layer: which one, of LAYERS.
      plant: what happens to its outputs.
      bad_clone: index of the only clone it happens in, or None for all.
    """
    clones = []

    def maybe(name, outputs):
        if name != layer or bad_clone not in (None, len(clones) - 1):
            return outputs
        with tf.name_scope(outputs.op.name.rpartition("/")[0] + "/"):
            return plant(outputs)

    def network_fn(images):
        clones.append(images)
        compute_dtype = slim_mp.get_precision(dtype).compute_dtype
        with (
            tf.variable_scope("alarm", reuse=tf.AUTO_REUSE),
            slim.arg_scope(tiny_arg_scope(1e-4)),
            slim_mp.arg_scope(compute_dtype, float32_kernels=True),
        ):
            net = maybe("alarm/conv1", slim.conv2d(images, 4, 3, stride=2, scope="conv1"))
            aux = tf.reduce_mean(net, [1, 2])
            aux = slim.fully_connected(aux, 3, activation_fn=None, scope="aux")
            net = maybe("alarm/conv2", slim.conv2d(net, 4, 3, scope="conv2"))
            net = tf.reduce_mean(net, [1, 2])
            net = slim.fully_connected(net, 3, activation_fn=None, scope="logits")
            logits, aux = maybe("alarm/logits", net), maybe("alarm/aux", aux)
        return tf.cast(logits, tf.float32), {"AuxLogits": tf.cast(aux, tf.float32)}

    return network_fn


def raise_the_alarm(tmp_path, network_fn, **changes):
    """Runs good steps and bad ones to the alarm; returns its message and the bad steps."""
    with running(tmp_path, network_fn, **changes) as (session, step):
        for _ in range(GOOD_STEPS):
            assert step()["consecutive_skips"] == 0
        before = state(session)
        assert "alarm/conv1/BatchNorm/moving_variance/ExponentialMovingAverage" in before
        assert "alarm/conv1/weights/Momentum" in before
        skipped = step()
        tiny_runs.assert_equal_bits(state(session), before)
        with pytest.raises(NumericsError) as caught:
            step()
        tiny_runs.assert_equal_bits(state(session), before)
        [steps] = session.run(session.graph.get_collection(tf.GraphKeys.GLOBAL_STEP))
        assert steps == GOOD_STEPS + 2
    assert caught.value.exit_code == 4
    message = str(caught.value)
    assert "2 steps in a row, up to step 4" in message
    assert "2 steps applied, 2 skipped" in message
    return message, skipped


def first_named(message):
    """The layer that an alarm names first."""
    text = (
        message.partition(", in graph order: ")[2] or message.partition(" last layers first: ")[2]
    )
    return text.split()[0].strip(",;.")


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("layer", LAYERS)
def test_an_overflow_in_the_forward_pass_names_its_layer(tmp_path, caplog, dtype, layer):
    message, skipped = raise_the_alarm(tmp_path, planted(dtype, layer, overflow), dtype=dtype)
    assert first_named(message) == layer
    assert "no loss scale can cure" in message
    assert not np.isfinite(skipped["loss"])
    # The first bad step was announced, with the same layer.
    [warning] = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert warning.startswith("Step 3 is skipped: its loss is ")
    assert first_named(warning) == layer


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("layer", LAYERS)
def test_an_overflow_in_the_backward_pass_names_its_layer(tmp_path, caplog, dtype, layer):
    message, skipped = raise_the_alarm(
        tmp_path, planted(dtype, layer, overflow_of_gradient), dtype=dtype
    )
    assert first_named(message).startswith(layer + "/")
    assert "--loss_scale=dynamic" in message
    assert np.isfinite(skipped["loss"])
    assert not [r for r in caplog.records if r.levelname == "WARNING"]


@pytest.mark.parametrize("plant", [overflow, overflow_of_gradient])
@pytest.mark.parametrize("bad_clone", [0, 1])
def test_an_overflow_in_one_clone_names_the_clone(tmp_path, plant, bad_clone):
    network_fn = planted("fp16", "alarm/conv2", plant, bad_clone)
    message, _ = raise_the_alarm(tmp_path, network_fn, dtype="fp16", clones=2)
    if plant is overflow:
        assert first_named(message) == f"clone_{bad_clone}/alarm/conv2"
    else:
        assert f" first: clone {bad_clone}: alarm/conv2/" in message
        assert f"clone {1 - bad_clone}:" not in message


def test_an_overflow_of_half_precision_itself_names_the_layer(tmp_path):
    network_fn = planted("fp16", "alarm/conv1", overflow_in_half)
    message, _ = raise_the_alarm(tmp_path, network_fn, dtype="fp16")
    assert first_named(message) == "alarm/conv1"


def test_an_alarm_tells_the_history_of_the_scale(tmp_path):
    scale = train_config.LossScaleConfig(init=64.0, decr_every_n_nan_or_inf=1, decr_ratio=0.5)
    network_fn = planted("fp16", "alarm/conv2", overflow_of_gradient)
    message, _ = raise_the_alarm(tmp_path, network_fn, dtype="fp16", loss_scale=scale)
    assert "loss scale 32; the scale was 64 from step 1, 32 from step 4." in message


def test_a_frozen_layer_that_overflows_out_of_sight_spoils_no_statistics(tmp_path, caplog):
    """No gradient passes through the layer, and what follows it hides the infinity."""

    def network_fn(images):
        with slim.arg_scope(tiny_arg_scope()), tf.variable_scope("alarm"):
            net = slim.conv2d(overflow(images), 4, 3, scope="conv1")
            net = tf.where(tf.is_finite(net), net, tf.zeros_like(net))
            net = tf.reduce_mean(net, [1, 2])
            return slim.fully_connected(net, 3, activation_fn=None, scope="logits"), {}

    with running(tmp_path, network_fn, trainable_scopes="alarm/logits") as (session, step):
        for _ in range(GOOD_STEPS):
            step()
        before = state(session)
        values = step()
        assert np.isfinite(values["loss"])
        assert values["consecutive_skips"] == 1
        with pytest.raises(
            NumericsError, match=r"graph order: alarm \(RealDiv\).*The forward pass"
        ):
            step()
        tiny_runs.assert_equal_bits(state(session), before)


def test_dropout_and_conditions_are_the_same_when_a_step_is_run_again(tmp_path):
    """Which of two branches is taken depends on a random number: both runs take the same."""

    def network_fn(images):
        images = tf.reshape(images, [images.shape[0], 192])
        with tf.variable_scope("alarm"):
            draw = tf.random.uniform([])
            factor = tf.cond(draw < 0.5, lambda: tf.constant(np.inf), lambda: tf.constant(1.0))
            net = slim.fully_connected(slim.dropout(images, 0.5), 4, scope="fc1") * factor
            return slim.fully_connected(net, 3, activation_fn=None, scope="logits"), {}

    messages = []
    with running(tmp_path, network_fn) as (_, step):
        with pytest.raises(NumericsError) as caught:
            for _ in range(60):
                step()
        messages.append(str(caught.value))
    assert "run again" not in messages[0]
    assert first_named(messages[0]).startswith("alarm")


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_ten_bad_batches_in_a_row_do_no_harm_over_a_restart(tmp_path, dtype):
    bad = tiny_runs.bad_steps(*range(4, 14))
    for last in (9, 18):
        tiny_runs.run(
            tmp_path,
            lambda images: tiny_runs.network(dtype)(images * tf.cast(bad(), images.dtype)),
            dtype=dtype,
            max_number_of_steps=last,
            optimizer=optimizers.OptimizerConfig("momentum"),
            moving_average_decay=0.9,
        )
    after = tiny_runs.variables(tmp_path)
    assert all(np.isfinite(value).all() for value in after.values())
    counts = [after[f"loss_scale/{name}"] for name in ("applied_steps", "skipped_steps")]
    assert counts == [8, 10]
    assert after["global_step"] == 18
    rows = tiny_runs.metrics(tmp_path)
    assert [row["skipped_steps"] for row in rows] == [0] * 3 + [*range(1, 11)] + [10] * 5
    assert all(row["applied_steps"] + row["skipped_steps"] == row["step"] for row in rows)
    # The statistics went on where they were, and the good steps trained.
    assert np.isfinite([row["loss"] for row in rows[13:]]).all()
    assert not np.array_equal(
        after["tiny/conv1/BatchNorm/moving_mean"],
        tiny_runs.variables(tmp_path, 9)["tiny/conv1/BatchNorm/moving_mean"],
    )


@pytest.mark.parametrize(
    ("optimizer", "rate", "named"),
    [("sgd", 3e38, "weight"), ("rmsprop", 0.0, "weight/RMSProp")],
    ids=["weights", "slots"],
)
def test_what_becomes_infinite_by_finite_gradients_is_not_saved(tmp_path, optimizer, rate, named):
    gradient = 3.0 if optimizer == "sgd" else 1e30
    tiny_runs.run(
        tmp_path,
        tiny_runs.one_weight([0.0] * 3),
        max_number_of_steps=1,
        optimizer=optimizers.OptimizerConfig(optimizer),
    )
    before = tiny_runs.variables(tmp_path)
    with pytest.raises(NumericsError, match=f"not finite after step 2.*: {named}") as caught:
        tiny_runs.run(
            tmp_path,
            tiny_runs.one_weight([0.0, gradient, 0.0]),
            optimizer=optimizers.OptimizerConfig(optimizer),
            learning_rate=optimizers.LearningRateConfig(rate, "fixed"),
            save_interval_secs=0,
        )
    assert caught.value.exit_code == 4
    tiny_runs.assert_equal_bits(tiny_runs.variables(tmp_path), before)
