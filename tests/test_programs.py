"""The programs as a user runs them: processes that end, are stopped, are killed and go on."""

import json
import os
import pathlib
import signal
import time

import numpy as np
import oracle
import programs
import pytest
import tiny_runs

from slim_mp.compat import tf

# Of a training run that no network's checkpoint has, and no more.
EXTRAS = {
    "global_step",
    "loss_scale/applied_steps",
    "loss_scale/skipped_steps",
    "loss_scale/consecutive_skips",
}


def metrics(train_dir):
    """The rows of metrics.jsonl, without a line that is still being written."""
    path = pathlib.Path(train_dir) / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


@pytest.mark.slow
def test_the_command_of_the_readme_trains_resnet_in_half_precision(tmp_path):
    code, out, err = programs.run(
        programs.TRAIN,
        "--model_name=resnet_v1_50",
        "--dtype=fp16",
        "--loss_scale=128",
        "--train_image_size=64",
        "--batch_size=4",
        "--max_number_of_steps=3",
        f"--train_dir={tmp_path}",
    )
    assert code == 0, err
    assert out == ""
    reader = tf.train.NewCheckpointReader(str(tmp_path / "model.ckpt-3"))
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    network = {name: shape for name, shape in shapes.items() if name.startswith("resnet_v1_50/")}
    slots = {name for name in network if name.endswith(("/RMSProp", "/RMSProp_1"))}
    expected = oracle.manifest("resnet_v1_50")["variables"]
    assert network.keys() - slots == expected.keys()
    assert len(slots) == 2 * len(oracle.manifest("resnet_v1_50")["trainable"])
    assert shapes.keys() - network.keys() == EXTRAS
    published = oracle.manifest("resnet_v1_50")["num_classes"]
    for name in expected:
        # Only the head is of another size, that of the ten digits.
        shape = [10 if size == published else size for size in expected[name]]
        assert shapes[name] == (shape if "/logits/" in name else list(expected[name])), name
    assert {dtypes[name] for name in network} == {tf.float32}
    assert reader.get_tensor("global_step") == 3
    rows = metrics(tmp_path)
    assert [row["step"] for row in rows] == [1, 3]
    for row in rows:
        assert list(row) == tiny_runs.METRICS
        assert np.isfinite([row["loss"], row["gradient_norm"]]).all()
        assert row["loss_scale"] == 128.0
        assert row["skipped_steps"] == 0


def start_lenet(train_dir, *arguments):
    return programs.start(
        programs.TRAIN,
        "--model_name=lenet",
        "--train_image_size=8",
        "--batch_size=8",
        "--save_interval_secs=1",
        "--log_every_n_steps=1",
        "--dtype=fp16",
        f"--train_dir={train_dir}",
        *arguments,
    )


def wait_until(process, condition, seconds=120):
    """Waits until a condition holds while a process runs."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


@pytest.mark.slow
def test_a_run_that_is_killed_and_stopped_goes_on_to_its_end(tmp_path):
    process = start_lenet(tmp_path)
    wait_until(process, lambda: (tmp_path / "checkpoint").exists() and len(metrics(tmp_path)) > 30)
    process.kill()
    assert programs.finish(process)[0] == -signal.SIGKILL
    reached = len(metrics(tmp_path))

    for number in (signal.SIGTERM, signal.SIGINT):
        process = start_lenet(tmp_path)
        wait_until(process, lambda lines=reached + 5: len(metrics(tmp_path)) > lines)
        process.send_signal(number)
        code, out, err = programs.finish(process)
        assert code == 75, err
        assert out == ""
        assert "Traceback" not in err
        reached = metrics(tmp_path)[-1]["step"]
        assert f"Stopped by {number.name}; saved step {reached}." in err
        assert (tmp_path / f"model.ckpt-{reached}.index").exists()

    code, _, err = programs.finish(start_lenet(tmp_path, f"--max_number_of_steps={reached + 5}"))
    assert code == 0, err
    assert f"starting at step {reached}." in err
    steps = [row["step"] for row in metrics(tmp_path)]
    assert steps == list(range(1, reached + 6))
    assert [row["applied_steps"] for row in metrics(tmp_path)] == steps
    assert not [name for name in os.listdir(tmp_path) if "temp" in name]


def test_a_process_that_is_refused_writes_one_message_and_nothing_else():
    code, out, err = programs.run(programs.TRAIN, "--dtype=fp8")
    assert (code, out) == (2, "")
    assert err.startswith("train_image_classifier.py: error: ")
    assert err.count("\n") <= 2
    assert "fp8" in err
    assert "fp16" in err


ADAM = [
    "--model_name=lenet",
    "--optimizer=adam",
    "--opt_epsilon=1e-8",
    "--learning_rate=0.001",
    "--batch_size=32",
    "--max_number_of_steps=400",
    "--log_every_n_steps=100",
    "--seed=1",
]


@pytest.mark.slow
def test_digits_are_learnt_equally_well_in_every_dtype(tmp_path):
    top1 = {}
    for dtype in ("fp32", "fp16", "bf16"):
        folder = tmp_path / dtype
        code, _, err = programs.call(
            programs.TRAIN, *ADAM, f"--dtype={dtype}", f"--train_dir={folder}"
        )
        assert code == 0, err
        code, out, err = programs.call(
            programs.EVALUATE,
            "--model_name=lenet",
            f"--dtype={dtype}",
            f"--checkpoint_path={folder}",
            f"--eval_dir={folder}",
        )
        assert code == 0, err
        found = json.loads((folder / "metrics.json").read_text())
        assert out.startswith(f"{found['num_examples']} images, top-1 ")
        assert found["num_examples"] == 355
        assert found["step"] == 400
        top1[dtype] = found["top1"]
    assert top1["fp16"] >= 0.97
    assert max(top1.values()) - min(top1.values()) <= 0.01, top1
