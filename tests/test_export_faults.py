"""Exports with a fault planted in them are not there, and say which fault it was."""

import dataclasses
import os
import signal
import time

import numpy as np
import programs
import pytest
import tiny_exports
from tiny_exports import config, run

from slim_mp.checkpoints import weights
from slim_mp.compat import tf
from slim_mp.errors import CheckpointError, NumericsError, UsageError
from slim_mp.export import frozen_graph, saved_model, self_check, serving_graph, tflite_model

OUTPUTS = ("export_dir", "frozen_graph", "tflite")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("export"))
    tiny_exports.checkpoint(path)
    return path


def add_to_a_class(value, dtype):
    value = value.astype(dtype.as_numpy_dtype)
    if value.shape == (8, tiny_exports.CLASSES):
        value[:, 0] += value.dtype.type(0.5)
    return value


def other_preprocessing(encoded, spec):
    other = serving_graph.InputSpec("vgg", spec.image_size, spec.channels)
    return genuine_preprocessing(encoded, other)


genuine_preprocessing = serving_graph.preprocess_files
FAULTS = {
    "another preprocessing": (serving_graph, "preprocess_files", other_preprocessing, "encoded"),
    "no normalisation": (serving_graph, "normalize", lambda style, pixels: pixels, "images"),
    "changed weights": (weights, "_cast", add_to_a_class, "images"),
}


# bf16 has the widest tolerance.
@pytest.mark.parametrize(
    ("fault", "dtype"), [*((fault, "fp32") for fault in FAULTS), ("changed weights", "bf16")]
)
def test_an_export_that_answers_otherwise_is_not_there(folder, tmp_path, monkeypatch, fault, dtype):
    module, name, replacement, said = FAULTS[fault]
    settings = config(folder, dtype, export_dir=str(tmp_path / "model"))
    monkeypatch.setattr(module, name, replacement)
    with pytest.raises(NumericsError, match=f"does not answer as the checkpoint: .*'{said}'"):
        run(settings)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("output", ["frozen_graph", "tflite"])
def test_a_fault_in_one_output_leaves_none(folder, tmp_path, monkeypatch, output):
    module = {"frozen_graph": frozen_graph, "tflite": tflite_model}[output]
    genuine = module.make

    def with_another_style(network_fn, spec, *rest):
        other = serving_graph.InputSpec("lenet", spec.image_size, spec.channels)
        return genuine(lambda images: network_fn(2 * images), other, *rest)

    monkeypatch.setattr(module, "make", with_another_style)
    paths = {name: str(tmp_path / name) for name in OUTPUTS}
    before = {"frozen_graph": b"node {}", "tflite": b"1234TFL3"}[output]
    (tmp_path / output).write_bytes(before)
    with pytest.raises(NumericsError, match="does not answer as the checkpoint"):
        run(config(folder, **paths))
    assert os.listdir(tmp_path) == [output]
    assert (tmp_path / output).read_bytes() == before


def test_labels_that_are_off_by_one_are_found(folder, tmp_path, monkeypatch):
    genuine = saved_model._names_in
    monkeypatch.setattr(
        saved_model, "_names_in", lambda file: lambda classes: genuine(file)(classes - 1)
    )
    with pytest.raises(NumericsError, match="class_names that do not follow"):
        run(config(folder, export_dir=str(tmp_path / "model")))
    assert os.listdir(tmp_path) == []


def test_the_tolerance_decides(folder, tmp_path):
    settings = config(folder, "fp16", tflite=str(tmp_path / "model"), tolerance=1e-9)
    with pytest.raises(NumericsError, match=r"1e-09 is allowed \(--tolerance\)"):
        run(settings)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("name", "factor"), [("logits", 1e6), ("conv1", 3e4)])
def test_weights_and_activations_that_fp16_cannot_hold_are_said_to_be(tmp_path, name, factor):
    folder = str(tmp_path)
    prefix = tiny_exports.checkpoint(folder)
    change(prefix, f"tiny/{name}/weights", lambda value: value * factor)
    with pytest.raises(NumericsError, match=r"In fp16 the answers .* not finite, though they are"):
        run(config(folder, "fp16", outputs=("frozen_graph",)))
    assert os.listdir(tmp_path / "out") == []
    assert len(run(config(folder, "bf16", outputs=("frozen_graph",)))) == 1


def change(prefix, name, function):
    """Writes a checkpoint anew with one variable changed."""
    reader = tf.train.NewCheckpointReader(prefix)
    arrays = {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}
    with tf.Graph().as_default(), tf.Session() as session:
        for key, value in arrays.items():
            value = function(value) if key == name else value
            tf.get_variable(key, initializer=value.astype(value.dtype))
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, prefix, write_meta_graph=False)


def test_a_checkpoint_whose_answers_are_not_finite_is_refused(tmp_path):
    prefix = tiny_exports.checkpoint(str(tmp_path))
    change(prefix, "tiny/logits/weights", lambda value: value * np.nan)
    with pytest.raises(CheckpointError, match="are not finite"):
        run(config(str(tmp_path)))


def test_a_folder_that_cannot_be_written_is_found_first(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(self_check, "ask_checkpoint", None)
    (tmp_path / "file").write_text("")
    for name in OUTPUTS:
        with pytest.raises(UsageError, match=rf"--{name}=.* cannot be written \((Not a|File)"):
            run(config(folder, **{name: str(tmp_path / "file" / "x")}))


@pytest.mark.parametrize("output", ["frozen_graph", "tflite"])
def test_a_fault_that_only_a_users_image_shows_is_found(folder, tmp_path, monkeypatch, output):
    """Brighter than what is made for the check, so that no other image reaches the clipping."""
    white = tmp_path / "white.png"
    white.write_bytes(tiny_exports.encode(np.full([20, 20, 3], 255, np.uint8), "PNG"))

    def clipped(style, pixels):
        is_white = tf.reduce_all(pixels > 254.0, axis=[1, 2, 3], keepdims=True)
        return genuine_normalize(style, tf.where_v2(is_white, 0.0, pixels))

    settings = config(folder, **{output: str(tmp_path / output)})
    monkeypatch.setattr(serving_graph, "normalize", clipped)
    assert len(run(settings)) == 1
    with pytest.raises(NumericsError, match=r"does not answer .*white\.png \(input 'images'"):
        run(dataclasses.replace(settings, sample_images=(str(white),)))


genuine_normalize = serving_graph.normalize


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_export_that_is_told_to_end_leaves_nothing(tmp_path, number):
    """Between the folder that is filled and its name lie seconds, in which the signal comes."""
    export_dir, graph = tmp_path / "model", tmp_path / "graph.pb"
    process = programs.start(
        "export_inference_graph",
        "--checkpoint_path=mobilenet_v1",
        f"--export_dir={export_dir}",
        f"--frozen_graph={graph}",
        # A test run under nohup hands on that the signal is ignored.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    while not list(export_dir.glob(".export-*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(number)
    code, _, _ = programs.finish(process)
    assert code == 128 + number
    assert os.listdir(tmp_path) == []
