"""A run with a seed that is killed again and again ends as one that was not."""

import dataclasses
import os
import random
import signal
import time

import numpy as np
import programs
import pytest
import tiny_runs
from fakes import tiny_arg_scope

import slim_mp
from slim_mp import data
from slim_mp.compat import slim, tf
from slim_mp.training import optimizers, train, train_config

DTYPES = ["fp32", "fp16", "bf16"]
STEPS = 40
KILLS = 3


class Killed(BaseException):
    """Ends a run as abruptly as a process can end itself."""


def network(dtype):
    """Batch norm, dropout with noise of a uniform and of a normal kind, and weight decay."""

    def network_fn(images):
        with (
            tf.variable_scope("tiny", reuse=tf.AUTO_REUSE),
            slim.arg_scope(tiny_arg_scope(1e-3)),
            slim_mp.arg_scope(slim_mp.get_precision(dtype).compute_dtype, float32_kernels=True),
        ):
            net = slim.conv2d(images, 4, 3, stride=2, scope="conv1")
            net += tf.random.normal(net.shape, stddev=0.1, dtype=net.dtype)
            net = slim.dropout(tf.reduce_mean(net, [1, 2]), 0.5)
            net = slim.fully_connected(net, 3, activation_fn=None, scope="logits")
        return tf.cast(net, tf.float32), {}

    return network_fn


def read(folder):
    reader = tf.train.NewCheckpointReader(tf.train.latest_checkpoint(str(folder)))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def train_on(folder, dtype):
    """Trains with augmentation, or goes on, to the last step."""
    config = tiny_runs.config(
        folder,
        dtype=dtype,
        clones=2,
        batch_size=2,
        optimizer=optimizers.OptimizerConfig("momentum"),
        loss_scale=train_config.LossScaleConfig(init=8.0, incr_every_n_steps=7),
        moving_average_decay=0.9,
        max_number_of_steps=STEPS,
    )
    # Random crops, flips and colours.
    inputs = data.InputConfig("inception", 8, 3, 2, slim_mp.get_precision(dtype).compute_dtype)
    config = dataclasses.replace(config, input=inputs)
    dataset = tiny_runs.dataset(str(folder) + "-data")
    return train.train(config, network(dtype), dataset).step


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_run_that_was_killed_ends_as_one_that_was_not(tmp_path, monkeypatch, dtype):
    assert train_on(tmp_path / "whole", dtype) == STEPS
    expected = read(tmp_path / "whole")
    chance = random.Random(KILLS)
    monkeypatch.setattr(train.CheckpointWriter, "is_due", lambda _: chance.random() < 0.3)
    report = train.Reporter.report
    steps_run, steps_left = [], []

    def report_or_die(self, step, values):
        report(self, step, values)
        steps_run.append(step)
        steps_left[-1] -= 1
        if steps_left[-1] == 0:
            raise Killed

    monkeypatch.setattr(train.Reporter, "report", report_or_die)
    for _ in range(KILLS):
        steps_left.append(chance.randrange(2, 6))
        with pytest.raises(Killed):
            train_on(tmp_path / "killed", dtype)
    steps_left.append(STEPS + 1)
    assert train_on(tmp_path / "killed", dtype) == STEPS
    # Some steps were lost and run again.
    assert len(steps_run) > len(set(steps_run)) == STEPS
    tiny_runs.assert_equal_bits(read(tmp_path / "killed"), expected)
    assert expected["loss_scale/scale"] > 8.0


def test_dropout_and_augmentation_differ_from_step_to_step_and_from_seed_to_seed(tmp_path):
    """Which a run that repeats itself would pass without."""
    losses = {}
    for seed in (1, 2):
        tiny_runs.run(
            tmp_path / str(seed),
            network("fp32"),
            seed=seed,
            learning_rate=optimizers.LearningRateConfig(0.0, "fixed"),
            max_number_of_steps=6,
            examples=4,
        )
        losses[seed] = [row["loss"] for row in tiny_runs.metrics(tmp_path / str(seed))]
    assert len({*losses[1], *losses[2]}) == 12


@pytest.mark.slow
def test_a_process_killed_ten_times_ends_as_one_that_was_not(tmp_path):
    chance = random.Random(0)

    def start(folder, last_step):
        return programs.start(
            programs.TRAIN,
            "--model_name=lenet",
            "--batch_size=4",
            "--seed=3",
            "--optimizer=momentum",
            "--moving_average_decay=0.99",
            "--loss_scale=dynamic",
            "--dtype=fp16",
            "--log_every_n_steps=1",
            "--save_interval_secs=0",
            f"--max_number_of_steps={last_step}",
            f"--train_dir={folder}",
        )

    def size_of(path):
        return os.path.getsize(path) if path.exists() else 0

    for _ in range(10):
        process = start(tmp_path / "killed", last_step=10**6)
        log = tmp_path / "killed" / "metrics.jsonl"
        before = size_of(log)
        while process.poll() is None and size_of(log) <= before:
            time.sleep(0.05)
        time.sleep(chance.random())
        process.send_signal(signal.SIGKILL)
        code, _, err = programs.finish(process)
        assert code == -signal.SIGKILL, err
    # How far the killed runs came depends on the machine.
    last_step = read(tmp_path / "killed")["global_step"] + 5
    for folder in ("killed", "whole"):
        code, _, err = programs.finish(start(tmp_path / folder, last_step))
        assert code == 0, err
    expected = read(tmp_path / "whole")
    assert expected["global_step"] == last_step
    assert np.abs(expected["LeNet/fc4/weights/Momentum"]).max() > 0
    tiny_runs.assert_equal_bits(read(tmp_path / "killed"), expected)
