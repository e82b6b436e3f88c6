"""The graph file of research/slim: what old scripts read from it."""

import os
import subprocess
import sys

import numpy as np
import programs
import pytest
from made_checkpoints import network_arrays, save

from nets import nets_factory
from slim_mp.checkpoints import warm_start
from slim_mp.compat import tf

EXPORT = "export_inference_graph"
CLASSES = 5


def nodes(path, as_text=False):
    """The nodes of a graph file by name."""
    if as_text:
        lines = path.read_text().splitlines()
        return {line.split('"')[1] for line in lines if line.startswith("  name: ")}
    graph_def = tf.GraphDef.FromString(path.read_bytes())
    return {node.name: node for node in graph_def.node}


def sizes(node):
    return [dim.size for dim in node.attr["shape"].shape.dim]


def test_freeze_graph_freezes_it_with_a_checkpoint(tmp_path):
    prefix = save(tmp_path / "model.ckpt", network_arrays("lenet", CLASSES))
    graph, frozen = tmp_path / "lenet.pb", tmp_path / "frozen.pb"
    code, out, err = programs.call(
        EXPORT, "--model_name=lenet", f"--num_classes={CLASSES}", f"--output_file={graph}"
    )
    assert code == 0, err
    assert out == f"{graph}: the graph of lenet, without weights.\n"
    output = "LeNet/Predictions/Reshape_1"
    arguments = [
        f"--input_graph={graph}",
        f"--input_checkpoint={prefix}",
        "--input_binary=true",
        f"--output_graph={frozen}",
        f"--output_node_names={output}",
    ]
    command = [sys.executable, "-m", "tensorflow.python.tools.freeze_graph", *arguments]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    images = np.random.RandomState(0).uniform(-1, 1, [2, 28, 28, 1]).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        graph_def = tf.GraphDef.FromString(frozen.read_bytes())
        [actual] = tf.import_graph_def(graph_def, {"input": images}, [f"{output}:0"])
        _, end_points = nets_factory.get_network_fn("lenet", CLASSES)(tf.constant(images))
        warm_start.restore_fn(warm_start.plan_evaluation(prefix, tf.global_variables()))(session)
        actual, expected = session.run([actual, end_points["Predictions"]])
    np.testing.assert_allclose(actual, expected, atol=1e-6)
    assert np.ptp(expected) > 0.01


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ((), [-1, 28, 28, 1]),
        (("--batch_size=3", "--image_size=32"), [3, 32, 32, 1]),
        (("--model_name=cifarnet",), [-1, 32, 32, 3]),
        (("--model_name=cifarnet", "--use_grayscale"), [-1, 32, 32, 1]),
    ],
)
def test_the_placeholder_is_as_the_flags_say(tmp_path, arguments, shape):
    graph = tmp_path / "new" / "graph.pb"
    code, _, err = programs.call(EXPORT, "--model_name=lenet", f"--output_file={graph}", *arguments)
    assert code == 0, err
    placeholder = nodes(graph)["input"]
    assert (placeholder.op, sizes(placeholder)) == ("Placeholder", shape)


def test_the_number_of_classes_is_that_of_the_dataset(tmp_path):
    (tmp_path / "labels.txt").write_text("0:a\n1:b\n2:c\n")
    for arguments, classes in (
        ((), 1001),
        (("--labels_offset=1",), 1000),
        (("--dataset_name=flowers",), 5),
        (("--dataset_name=unknown", f"--dataset_dir={tmp_path}"), 3),
        (("--num_classes=4", "--labels_offset=1"), 3),
    ):
        graph = tmp_path / "graph.pb"
        code, _, err = programs.call(
            EXPORT, "--model_name=lenet", f"--output_file={graph}", *arguments
        )
        assert code == 0, err
        assert sizes(nodes(graph)["LeNet/fc4/weights"]) == [1024, classes]


def test_a_graph_for_training_has_dropout_and_may_be_text(tmp_path):
    graph = tmp_path / "graph.pbtxt"
    arguments = ["--model_name=lenet", f"--output_file={graph}", "--write_text_graphdef"]
    for training in (False, True):
        code, _, err = programs.call(EXPORT, *arguments, f"--is_training={training}")
        assert code == 0, err
        has_dropout = any("dropout" in name and "random" in name for name in nodes(graph, True))
        assert has_dropout == training


def test_in_half_the_variables_are_those_of_the_checkpoints(tmp_path):
    graph = tmp_path / "graph.pb"
    code, _, err = programs.call(
        EXPORT, "--model_name=lenet", "--dtype=fp16", f"--output_file={graph}"
    )
    assert code == 0, err
    dtypes = {
        name: tf.as_dtype(node.attr["dtype"].type)
        for name, node in nodes(graph).items()
        if node.op == "VariableV2"
    }
    assert len(dtypes) == 8
    assert set(dtypes.values()) == {tf.float32}
    assert nodes(graph)["LeNet/conv1/Conv2D"].attr["T"].type == tf.float16.as_datatype_enum


@pytest.mark.parametrize("failing", ["output_file", "frozen_graph"])
def test_of_several_outputs_none_is_there_unless_all_are(tmp_path, failing):
    prefix = save(tmp_path / "model.ckpt", network_arrays("lenet", CLASSES))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()
    paths = {name: tmp_path / "out" / name for name in ("output_file", "frozen_graph")}
    paths[failing] = tmp_path / "out" / "file" / "x.pb"
    outputs = [f"--{name}={path}" for name, path in paths.items()]
    code, out, err = programs.call(
        EXPORT, "--model_name=lenet", f"--checkpoint_path={prefix}", *outputs
    )
    assert (code, out) == (2, "")
    assert f"--{failing}=" in err
    assert os.listdir(tmp_path / "out") == ["file"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Say what to write: --output_file"),
        (["--output_file=x", "--quantize"], "--quantize needs tf.contrib.quantize"),
        (["--output_file=x", "--is_video_model"], "--is_video_model and --num_frames are for"),
        (["--output_file=x", "--num_frames=8"], "--is_video_model and --num_frames are for"),
        (["--output_file=x", "--model_name=lent"], "Did you mean lenet"),
        (["--output_file=x", "--image_size=0"], "image_size"),
        (["--output_file=x", "--batch_size=0"], "--batch_size is 0; it must be at least 1"),
        (["--output_file=x", "--dataset_name=birds"], "Nothing says how many classes"),
        (["--output_file=x", "--labels_offset=1001"], "it must be 0 to 1000"),
        (["--output_file=x", "--model_name=vgg_a", "--image_size=32"], "at least 224x224"),
        (["--output_file=."], "--output_file=. is a folder"),
        (["--export_dir=x"], "--export_dir needs a checkpoint: --checkpoint_path"),
        (["--tflite=x", "--frozen_graph=y"], "--frozen_graph and --tflite needs a checkpoint"),
        (["--tflite=x", "--checkpoint_path=c", "--dtype=bf16"], "TFLite has no bf16"),
        (["--tflite=x", "--checkpoint_path=c", "--is_training"], "--is_training is for"),
        (["--tflite=./x", "--frozen_graph=x", "--checkpoint_path=c"], "are the same file"),
        (["--export_dir=x", "--checkpoint_path=c", "--tolerance=-1"], "--tolerance is -1.0; it"),
        (["--export_dir=x", "--checkpoint_path=c", "--tolerance=nan"], "--tolerance is nan; it"),
        (["--export_dir=x", "--checkpoint_path=c", "--tolerance=inf"], "--tolerance is inf; it"),
        (["--output_file=x", "--tolerance=0.1"], "--tolerance is for --export_dir, --frozen"),
        (["--output_file=x", "--sample_images=y"], "--sample_images is for --export_dir, --fr"),
        (["--output_file=x", "--float32_kernels"], "--float32_kernels is for --dtype=fp16 or bf16"),
        (["--tflite=x", "--checkpoint_path=c", "--write_text_graphdef"], "is for --output_file"),
    ],
)
def test_flags_that_make_no_sense_are_refused(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = programs.call(EXPORT, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == []
