"""What an output may take the place of: files of its own kind, and nothing else."""

import contextlib
import os
import resource
import stat

import pytest
import tiny_exports

from slim_mp.compat import tf
from slim_mp.data.class_names import Classes
from slim_mp.errors import UsageError
from slim_mp.evaluation import predictions
from slim_mp.export import export, saved_model, slim_graph, tflite_model
from slim_mp.files.output_files import check_file, reserve, write_whole

KINDS = {
    "frozen_graph": slim_graph.GRAPH,
    "graph": slim_graph.GRAPH,
    "text_graph": slim_graph.GRAPH,
    "tflite": tflite_model.KIND,
    "csv": predictions.KIND,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint, files of each kind as they are written, and some of no kind."""
    path = tmp_path_factory.mktemp("outputs")
    tiny_exports.checkpoint(str(path))
    outputs = {name: str(path / name) for name in ("frozen_graph", "tflite")}
    tiny_exports.run(tiny_exports.config(str(path), **outputs))
    for name in ("graph", "text_graph"):
        shape, as_text = [None, tiny_exports.SIZE, tiny_exports.SIZE, 3], name == "text_graph"
        with slim_graph.written(tiny_exports.network(), str(path / name), shape, as_text):
            pass
    with predictions.open_predictions(str(path / "csv"), Classes(1)):
        pass
    (path / "list.csv").write_text("file,label\na.png,cat\n")
    (path / "list.jsonl").write_text('{"file": "a.png", "label": "cat"}\n')
    (path / "labels.txt").write_text("0:cat\n")
    (path / "metrics.json").write_text('{\n  "num_examples": 1\n}\n')
    tiny_exports.write_photographs(path)
    return path


@pytest.mark.parametrize("name", KINDS)
def test_only_files_of_its_own_kind_may_be_replaced(folder, name):
    check_file(str(folder / name), "f", KINDS[name])
    others = {other for other in os.listdir(folder) if KINDS.get(other) is not KINDS[name]}
    assert {"model.ckpt.index", "model.ckpt.data-00000-of-00001", "list.csv"} < others
    for other in others:
        with pytest.raises(UsageError, match=rf"--f=.* is not {KINDS[name].name}, .* or move"):
            check_file(str(folder / other), "f", KINDS[name])


def test_an_empty_file_and_none_may_be_replaced(tmp_path):
    (tmp_path / "empty").touch()
    for name in ("empty", "none", "new/none"):
        check_file(str(tmp_path / name), "f", tflite_model.KIND)


@pytest.mark.parametrize("name", ["pipe", "link"])
def test_a_pipe_or_a_device_is_never_replaced(tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    path = str(tmp_path / name)
    for output in ("frozen_graph", "tflite"):
        with pytest.raises(UsageError, match=rf"--{output}=.* \(it is no regular file\)"):
            tiny_exports.run(tiny_exports.config("none", **{output: path}))
    with pytest.raises(OSError, match="no regular file"):
        write_whole(path, "text")
    assert stat.S_ISFIFO(os.stat(path).st_mode)
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]


@contextlib.contextmanager
def small_files():
    """While open, no file can grow beyond 5000 bytes, as on a disk that gets full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [5001, 5_000_000])
def test_a_full_disk_is_said_to_be_full_under_the_path_that_was_given(tmp_path, size):
    settings = tiny_exports.config("none", tflite=str(tmp_path / "mine"))
    with (
        pytest.raises(UsageError, match=r"--tflite=.*/mine cannot be written \(File too large"),
        small_files(),
        contextlib.ExitStack() as stack,
    ):
        file = reserve(stack, settings.tflite, "tflite", tflite_model.KIND)
        export._written(settings, "tflite", file, bytes(size))
    assert os.listdir(tmp_path) == []


def test_a_full_disk_under_a_saved_model_is_one_line(folder, tmp_path, monkeypatch):
    def fail(*arguments):
        trace = "\n\t [[{{node save/SaveV2}}]]\n\nOriginal stack trace for 'save/SaveV2':\n  File"
        raise tf.errors.ResourceExhaustedError(None, None, f"x; No space left on device{trace}")

    monkeypatch.setattr(saved_model, "_save", fail)
    with pytest.raises(UsageError, match=r"--export_dir=.*\(No space left .*\): [^\n]*$"):
        tiny_exports.run(tiny_exports.config(str(folder), export_dir=str(tmp_path / "model")))
    assert os.listdir(tmp_path) == []


def test_a_reserved_file_has_its_name_only_at_the_end(tmp_path):
    path = tmp_path / "file"
    with contextlib.ExitStack() as stack:
        reserve(stack, str(path), "f", tflite_model.KIND).write(b"content")
        assert not path.exists()
    assert path.read_bytes() == b"content"
