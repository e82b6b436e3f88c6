"""Exports answer as their checkpoint, or are not there."""

import os

import numpy as np
import pytest
import tiny_exports
from tiny_exports import NAMES, SIZE, config, run

from slim_mp.checkpoints import weights
from slim_mp.compat import tf
from slim_mp.errors import DataError, UsageError
from slim_mp.export import export, frozen_graph, saved_model, serving_graph, tflite_model

OUTPUTS = ("export_dir", "frozen_graph", "tflite")
# As a share of how far the largest logit lies from the mean.
FROM_FLOAT32 = {"fp32": 1e-5, "fp16": 1e-2, "bf16": 1e-1}
OF_DTYPE = {"fp32": OUTPUTS, "fp16": OUTPUTS, "bf16": OUTPUTS[:2]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("export"))
    tiny_exports.checkpoint(path)
    return path


@pytest.fixture(scope="module", params=OF_DTYPE)
def exported(request, tmp_path_factory):
    """The folder of a checkpoint, the dtype of its export, and what was written, by flag."""
    folder = str(tmp_path_factory.mktemp(request.param))
    tiny_exports.checkpoint(folder)
    outputs = OF_DTYPE[request.param]
    written = run(config(folder, request.param, outputs))
    return folder, request.param, dict(zip(outputs, written, strict=True))


def images():
    """Pixel values of images of the network's size."""
    return np.random.RandomState(0).randint(0, 256, [3, SIZE, SIZE, 3]).astype(np.float32)


def logits_of_images(folder):
    """The checkpoint's answers to `images`, which the style normalises to [-1, 1]."""
    with tf.Graph().as_default(), tf.Session() as session:
        logits, _ = tiny_exports.network()(tf.constant(images() / 127.5 - 1))
        tf.train.Saver().restore(session, os.path.join(folder, "model.ckpt"))
        return session.run(logits)


def assert_close(actual, expected, dtype):
    spread = np.abs(expected - expected.mean(axis=1, keepdims=True)).max()
    limit = FROM_FLOAT32[dtype] * spread
    np.testing.assert_allclose(actual, expected, rtol=0, atol=limit)


def test_a_saved_model_answers_image_files_as_the_checkpoint(exported):
    folder, dtype, written = exported
    encoded = list(tiny_exports.photographs().values())
    expected = tiny_exports.logits_of(folder, encoded)
    with saved_model.open_model(written["export_dir"].path) as answer:
        answers = answer("encoded", encoded)
    assert_close(answers["logits"], expected, dtype)
    np.testing.assert_allclose(
        answers["probabilities"], tiny_exports.softmax(answers["logits"]), atol=1e-6
    )
    np.testing.assert_array_equal(answers["classes"][:, 0], expected.argmax(axis=1))
    assert [name.decode() for name in answers["class_names"][0]] == [
        NAMES[label] for label in answers["classes"][0]
    ]
    assert {name: array.dtype.name for name, array in answers.items()} == {
        "logits": "float32",
        "probabilities": "float32",
        "classes": "int64",
        "class_names": "object",
    }


def test_each_kind_of_export_answers_images_as_the_checkpoint(exported):
    folder, dtype, written = exported
    expected = logits_of_images(folder)
    open_model = {
        "export_dir": saved_model.open_model,
        "frozen_graph": lambda path: frozen_graph.open_model(content(path)),
        "tflite": lambda path: tflite_model.open_model(content(path)),
    }
    for flag, one in written.items():
        with open_model[flag](one.path) as answer:
            answers = answer("images", images())
        assert_close(answers["logits"], expected, dtype)
        assert one.difference <= one.allowed
        assert one.from_float32 <= FROM_FLOAT32[dtype]
        assert one.same_best.mean() >= 0.8
        if dtype != "fp32" and flag != "tflite":
            # What rounding does is not counted as a difference from the checkpoint.
            assert one.difference < one.from_float32 / 10
    with frozen_graph.open_model(content(written["frozen_graph"].path)) as answer:
        normalised = images() / 127.5 - 1
        assert_close(answer("input", normalised)["logits"], expected, dtype)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def test_a_half_export_stores_and_computes_in_half(exported):
    _, dtype, written = exported
    half = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}[dtype]
    graph_def = tf.GraphDef.FromString(content(written["frozen_graph"].path))
    computed = {
        tf.as_dtype(node.attr["T"].type).name
        for node in graph_def.node
        if node.op in ("Conv2D", "MatMul")
    }
    assert computed == {half}
    reader = tf.train.NewCheckpointReader(
        os.path.join(written["export_dir"].path, "variables", "variables")
    )
    stored = reader.get_variable_to_dtype_map()
    weights_only = {name: kind.name for name, kind in stored.items() if name.endswith("/weights")}
    assert set(weights_only.values()) == {half}
    signatures = load(written["export_dir"].path).signature_def
    inputs = {name: list(signatures[name].inputs) for name in signatures}
    assert inputs == {"serving_default": ["images"], "images": ["images"], "encoded": ["encoded"]}
    assert signatures["images"].inputs["images"].dtype == tf.float32.as_datatype_enum


def load(path):
    with tf.Graph().as_default(), tf.Session() as session:
        return tf.saved_model.loader.load(session, [tf.saved_model.tag_constants.SERVING], path)


def test_what_is_exported_knows_nothing_of_this_machine(exported):
    folder, _, written = exported
    assert saved_model.read_labels(written["export_dir"].path) == NAMES
    for parent, _, names in os.walk(os.path.join(folder, "out")):
        for name in names:
            assert folder.encode() not in content(os.path.join(parent, name))
            assert os.stat(os.path.join(parent, name)).st_mode & 0o444 == 0o444


def test_each_export_is_a_version_of_its_own(tmp_path):
    def add():
        with saved_model.new_version(str(tmp_path / "model")) as version:
            with open(os.path.join(version.folder, saved_model.FILE_NAME), "w") as file:
                file.write("")
            assert saved_model.find(str(tmp_path / "model")) != version.folder
        return version.path

    first, second = add(), add()
    assert (first, second) == (str(tmp_path / "model" / "1"), str(tmp_path / "model" / "2"))
    os.rename(second, tmp_path / "model" / "10")
    (tmp_path / "model" / "11").write_text("in the way")
    assert add() == str(tmp_path / "model" / "12")
    with pytest.raises(KeyboardInterrupt), saved_model.new_version(str(tmp_path / "model")):
        raise KeyboardInterrupt
    assert sorted(os.listdir(tmp_path / "model")) == ["1", "10", "11", "12"]
    assert saved_model.find(str(tmp_path / "model")) == str(tmp_path / "model" / "12")


def test_moving_averages_are_exported_unless_told_otherwise(tmp_path):
    folder = str(tmp_path)
    prefix = tiny_exports.checkpoint(folder)
    tiny_exports.checkpoint(os.path.join(folder, "averages"), seed=1)
    reader = tf.train.NewCheckpointReader(os.path.join(folder, "averages", "model.ckpt"))
    with tf.Graph().as_default(), tf.Session() as session:
        for source, ending in ((tf.train.NewCheckpointReader(prefix), ""), (reader, "/Average")):
            for name in source.get_variable_to_shape_map():
                ending = ending and "/ExponentialMovingAverage"
                tf.get_variable(name + ending, initializer=source.get_tensor(name))
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, prefix, write_meta_graph=False)
    expected = logits_of_images(os.path.join(folder, "averages"))
    for use_averages, difference in ((True, 0.0), (False, 1.0)):
        chosen = weights.Weights(prefix, use_averages)
        [written] = run(config(folder, outputs=("frozen_graph",), weights=chosen))
        with frozen_graph.open_model(content(written.path)) as answer:
            actual = answer("images", images())["logits"]
        assert bool(np.abs(actual - expected).max() > 0.1) == bool(difference)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_files_may_take_a_fixed_number_of_images(folder, tmp_path, batch_size):
    spec = serving_graph.InputSpec("inception", SIZE, 3, batch_size)
    paths = {name: str(tmp_path / name) for name in OUTPUTS}
    run(config(folder, spec=spec, **paths))
    graph_def = tf.GraphDef.FromString(content(paths["frozen_graph"]))
    [shape] = [node.attr["shape"].shape for node in graph_def.node if node.name == "images"]
    assert [dim.size for dim in shape.dim] == [batch_size, SIZE, SIZE, 3]
    with tflite_model.open_model(content(paths["tflite"])) as answer:
        pixels = np.resize(images(), [batch_size, SIZE, SIZE, 3])
        assert answer("images", pixels)["logits"].shape[0] == batch_size


def test_samples_may_be_the_users_own(folder, tmp_path):
    photographs = tmp_path / "[my] photographs"
    tiny_exports.write_photographs(photographs)
    settings = config(folder, export_dir=str(tmp_path / "model"))
    patterns = (str(photographs / "Kätzchen.jpg"), str(tmp_path / "*photographs" / "*.png"))
    paths = {name: str(tmp_path / name) for name in ("frozen_graph", "tflite")}
    written = run(replaced(settings, sample_images=patterns, **paths))
    # Three files: as they are and cropped to pixels for a SavedModel, as pixels for the others.
    assert [one.same_best.size for one in written] == [6, 3, 3]
    for path in paths.values():
        os.remove(path)
    (photographs / "broken.jpg").write_bytes(b"\xff\xd8\xff" + bytes(100))
    with pytest.raises(DataError, match=r"broken\.jpg cannot be decoded"):
        run(replaced(settings, sample_images=(str(photographs / "broken.jpg"),)))
    with pytest.raises(UsageError, match=r"--sample_images: there is no file .*none\*"):
        run(replaced(settings, sample_images=(str(photographs / "none*"),)))
    assert os.listdir(tmp_path / "model") == ["1"]


def replaced(settings, **changes):
    return export.ExportConfig(**{**vars(settings), **changes})
