"""Checkpoints on disks that are full, metrics files, event files, and the signals of a cluster."""

import errno
import glob
import json
import os
import signal
import stat
import subprocess

import numpy as np
import pytest
import tiny_runs

from slim_mp.compat import tf
from slim_mp.errors import CheckpointError, UsageError, reason
from slim_mp.stop_signals import StopSignals
from slim_mp.training import hooks, optimizers


@pytest.fixture
def small_disk(tmp_path):
    """A disk of one megabyte, where this machine lets us mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a disk can only be mounted by root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder, leave):
    """Writes a file that leaves some bytes of a disk free."""
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    (folder / "ballast").write_bytes(bytes(max(0, free - leave)))


def network_with(function, step):
    """A network function of a run that calls a Python function in a step, counted from 1."""

    def call(done):
        if done + 1 == step:
            function()
        return done

    def network_fn(images):
        done = tf.py_func(call, [tf.train.get_global_step()], tf.int64)
        with tf.control_dependencies([done]):
            return tiny_runs.network()(tf.identity(images))

    return network_fn


@pytest.mark.parametrize("leave", [0, 4096, 8192])
def test_a_disk_that_fills_up_ends_a_run_with_its_checkpoints_whole(small_disk, leave):
    tiny_runs.run(small_disk, max_number_of_steps=2)
    before = tiny_runs.variables(small_disk, 2)
    network_fn = network_with(lambda: fill(small_disk, leave), step=4)
    with pytest.raises(CheckpointError, match=r"model\.ckpt-5 cannot be written(.|\n)*make room"):
        tiny_runs.run(small_disk, network_fn, max_number_of_steps=5, save_summaries_secs=0)
    assert not [name for name in os.listdir(small_disk / "train") if "temp" in name]
    assert not glob.glob(str(small_disk / "train" / "checkpoint?*"))
    tiny_runs.assert_equal_bits(tiny_runs.variables(small_disk, 2), before)
    (small_disk / "ballast").unlink()
    assert tiny_runs.run(small_disk, max_number_of_steps=5).step == 5
    assert [row["step"] for row in tiny_runs.metrics(small_disk)] == [1, 2, 3, 4, 5]


def test_a_disk_that_is_full_at_the_start_is_refused(small_disk):
    tiny_runs.run(small_disk, max_number_of_steps=2)
    before = tiny_runs.variables(small_disk)
    files = set(os.listdir(small_disk / "train"))
    fill(small_disk, 0)
    with pytest.raises(UsageError, match=r"cannot be written \(No space left"):
        tiny_runs.run(small_disk, max_number_of_steps=4)
    assert set(os.listdir(small_disk / "train")) == files
    tiny_runs.assert_equal_bits(tiny_runs.variables(small_disk), before)
    (small_disk / "ballast").unlink()
    assert tiny_runs.run(small_disk, max_number_of_steps=4).step == 4
    assert [row["step"] for row in tiny_runs.metrics(small_disk)] == [1, 2, 3, 4]


def test_a_write_that_fails_at_any_place_is_a_checkpoint_error(tmp_path, monkeypatch):
    tiny_runs.run(tmp_path, max_number_of_steps=1)
    (tmp_path / "train" / "model.ckpt-7.data-00000-of-00001.tempstate123456").write_text("part")
    for error in (
        OSError(errno.ENOSPC, "No space left on device"),
        tf.errors.ResourceExhaustedError(None, None, "disk quota"),
        tf.errors.FailedPreconditionError(None, None, "stale\nfile handle"),
    ):

        def save(*_, error=error, **__):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(tf.train.Saver, "save", save)
            with pytest.raises(CheckpointError, match=r"model\.ckpt-2 cannot be written") as caught:
                tiny_runs.run(tmp_path, max_number_of_steps=2)
        assert "\n" not in str(caught.value)
    assert not glob.glob(str(tmp_path / "train" / "*temp*"))
    assert tiny_runs.variables(tmp_path)["global_step"] == 1


def test_a_train_dir_that_vanishes_does_not_end_a_run(tmp_path):
    network_fn = network_with(lambda: os.rename(tmp_path / "train", tmp_path / "moved"), step=2)
    tiny_runs.run(tmp_path, network_fn)
    assert tiny_runs.variables(tmp_path)["global_step"] == 3


def test_checkpoints_appear_at_their_interval_and_the_last_five_stay(tmp_path):
    for last in (4, 8):
        tiny_runs.run(tmp_path, max_number_of_steps=last, save_interval_secs=0)
    names = glob.glob(str(tmp_path / "train" / "model.ckpt-*.index"))
    assert sorted(names) == [str(tmp_path / f"train/model.ckpt-{n}.index") for n in range(4, 9)]
    state = tf.train.get_checkpoint_state(str(tmp_path / "train"))
    assert len(state.all_model_checkpoint_paths) == 5


def test_a_train_dir_can_be_moved(tmp_path):
    tiny_runs.run(tmp_path / "here", max_number_of_steps=2)
    os.rename(tmp_path / "here", tmp_path / "there")
    assert tiny_runs.run(tmp_path / "there", resume="must", max_number_of_steps=3).step == 3


def test_metrics_have_the_documented_keys_at_the_documented_steps(tmp_path):
    tiny_runs.run(tmp_path, log_every_n_steps=5, max_number_of_steps=12)
    rows = tiny_runs.metrics(tmp_path)
    assert [row["step"] for row in rows] == [1, 5, 10, 12]
    for row in rows:
        assert list(row) == tiny_runs.METRICS
        assert np.isfinite(list(row.values())).all()
    mode = stat.S_IMODE(os.stat(tmp_path / "train" / "metrics.jsonl").st_mode)
    assert mode == 0o644


def open_metrics(path, text, start_step):
    """What a metrics file of some text holds when a run goes on from a step."""
    path.write_text(text)
    with hooks._open_metrics(str(path), start_step) as file:
        file.write('{"step": 99}\n')
    return path.read_text().splitlines()


def test_lines_of_steps_that_are_run_again_are_replaced(tmp_path):
    lines = [f'{{"step": {n}}}' for n in range(1, 6)]
    text = "\n".join(lines)
    path = tmp_path / "metrics.jsonl"
    last = '{"step": 99}'
    assert open_metrics(path, text + '\n{"st', 3) == [*lines[:3], last]
    assert open_metrics(path, text, 5) == [*lines, last]
    assert open_metrics(path, text + "\nno JSON\n[]\n", 9) == [*lines, last]
    assert open_metrics(path, text, 0) == [last]
    assert os.listdir(tmp_path) == ["metrics.jsonl"]


def test_a_metrics_file_may_be_a_link_or_a_device(tmp_path):
    target = tmp_path / "elsewhere.jsonl"
    target.write_text("")
    (tmp_path / "link").symlink_to(target)
    tiny_runs.run(tmp_path / "one", metrics_file=str(tmp_path / "link"))
    assert len(target.read_text().splitlines()) == 3
    assert (tmp_path / "link").is_symlink()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    tiny_runs.run(tmp_path / "two", metrics_file=str(pipe))
    lines = os.read(reader, 10**5).splitlines()
    os.close(reader)
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)


@pytest.mark.parametrize("name", ["missing/metrics.jsonl", "folder"])
def test_a_metrics_file_that_cannot_be_written_is_refused(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match=r"The metrics file .* cannot be written"):
        tiny_runs.run(tmp_path, metrics_file=str(tmp_path / name))
    assert os.listdir(tmp_path / "folder") == []


def scalars(folder):
    """The scalars of the event files of a folder: {step: {tag: value}}."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "events.*"))):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                found.setdefault(event.step, {})[value.tag] = value.simple_value
    return found


def test_tensorboard_gets_the_metrics_of_the_first_and_the_last_step(tmp_path):
    tiny_runs.run(tmp_path, max_number_of_steps=4, save_summaries_secs=600)
    events = scalars(tmp_path / "train")
    rows = {row["step"]: row for row in tiny_runs.metrics(tmp_path)}
    assert set(events) == {1, 4}
    for step, values in events.items():
        assert values == pytest.approx({k: v for k, v in rows[step].items() if k != "step"})


def test_tensorboard_gets_a_loss_of_nan_as_it_is(tmp_path):
    network_fn = tiny_runs.network(loss_factor=tiny_runs.bad_steps(2, factor=np.nan))
    tiny_runs.run(tmp_path, network_fn, save_summaries_secs=0)
    events = scalars(tmp_path / "train")
    assert set(events) == {1, 2, 3}
    assert np.isnan(events[2]["loss"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_and_stops_and_the_run_can_go_on(tmp_path, number, caplog):
    caplog.set_level("INFO")
    handler = signal.getsignal(number)
    network_fn = network_with(lambda: os.kill(os.getpid(), number), step=2)
    result = tiny_runs.run(tmp_path, network_fn, max_number_of_steps=50)
    assert result.stopped
    assert 2 <= result.step < 50
    assert signal.getsignal(number) is handler
    assert f"Stopped by {signal.Signals(number).name}; saved step {result.step}." in caplog.text
    assert tiny_runs.variables(tmp_path)["global_step"] == result.step
    last = result.step + 2
    assert not tiny_runs.run(tmp_path, max_number_of_steps=last).stopped
    assert [row["step"] for row in tiny_runs.metrics(tmp_path)] == list(range(1, last + 1))


def test_a_second_interrupt_ends_at_once():
    with StopSignals() as signals:
        signals.at_once = False
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.received == "SIGTERM"
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert signals.received == "SIGTERM"


def test_a_signal_before_the_first_step_ends_the_run_with_nothing_written(tmp_path):
    def network(images):
        os.kill(os.getpid(), signal.SIGTERM)
        return tiny_runs.network()(images)

    result = tiny_runs.run(tmp_path, network)
    assert (result.step, result.stopped) == (0, True)
    assert not list((tmp_path / "train").glob("*.index"))
    assert tiny_runs.run(tmp_path).step == 3


def test_a_second_run_in_a_train_dir_is_refused(tmp_path):
    seen = []

    def network(images):
        with pytest.raises(UsageError, match="Another run is writing to"):
            tiny_runs.run(tmp_path)
        seen.append(images)
        return tiny_runs.network()(images)

    assert tiny_runs.run(tmp_path, network).step == 3
    assert seen


def test_a_train_dir_whose_only_checkpoint_is_damaged_is_left_alone(tmp_path):
    tiny_runs.run(tmp_path)
    (data,) = (tmp_path / "train").glob("*.data-*")
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="none that can be read"):
        tiny_runs.run(tmp_path, max_number_of_steps=5)
    assert len(tiny_runs.metrics(tmp_path)) == 3
    assert tiny_runs.run(tmp_path, resume="never", max_number_of_steps=2).step == 2


def test_a_change_of_optimizer_that_would_lose_slots_is_refused(tmp_path):
    tiny_runs.run(tmp_path, optimizer=optimizers.OptimizerConfig("momentum"))
    with pytest.raises(CheckpointError, match=r"slots or moving averages that this run would lose"):
        tiny_runs.run(tmp_path, max_number_of_steps=5)


def test_the_reason_of_a_tensorflow_error_is_not_where_it_happened():
    with tf.Graph().as_default(), tf.Session() as session:
        broken = tf.debugging.check_numerics(tf.constant(float("nan")), "planted")
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(broken)
    assert reason(caught.value).startswith("planted")
    assert reason(OSError(28, "No space left on device")) == "[Errno 28] No space left on device"


def test_a_run_on_a_terminal_has_a_progress_bar(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(hooks.sys.stderr, "isatty", lambda: True)
    tiny_runs.run(tmp_path)
    shown = capfd.readouterr().err
    assert "3/3" in shown
    assert "loss scale 1, 0 skipped" in shown
