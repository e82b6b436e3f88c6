"""The checkpoint that ships with the project, exported: what its users see, in real processes."""

import json
import os
import subprocess
import sys

import numpy as np
import programs
import pytest
import skimage.data
import tiny_exports

from slim_mp.compat import tf
from slim_mp.export import frozen_graph, tflite_model

EXPORT = "export_inference_graph"
# Photographs, and what is on them by ImageNet's numbers with a background class.
CLASSES = {"chelsea": (286, "Egyptian cat"), "coffee": (968, "espresso")}
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("published_export")]


def size(folder):
    parents = os.walk(folder)
    return sum(
        os.path.getsize(os.path.join(path, name)) for path, _, names in parents for name in names
    )


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Folder of the exports in fp32 (version 1) and fp16 (version 2), and files of each."""
    folder = tmp_path_factory.mktemp("exports")
    for dtype in ("fp32", "fp16"):
        code, out, err = programs.run(
            EXPORT,
            f"--checkpoint_path={programs.ROOT / 'checkpoints' / 'mobilenet_v1_1.0_224'}",
            f"--dtype={dtype}",
            f"--export_dir={folder / 'model'}",
            f"--frozen_graph={folder / dtype}.pb",
            f"--tflite={folder / dtype}.tflite",
        )
        assert code == 0, err
        assert out.count(f" in {dtype}, ") == 3
        assert "Traceback" not in err
    return folder


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photographs")
    for name in CLASSES:
        image = getattr(skimage.data, name)()
        (folder / f"{name}.jpg").write_bytes(tiny_exports.encode(image, "JPEG"))
    return [str(folder / f"{name}.jpg") for name in CLASSES]


def predict(model, *arguments):
    """Runs slim_mp.predict as a process; returns its rows."""
    command = [sys.executable, "-m", "slim_mp.predict", str(model), *arguments, "--json"]
    finished = subprocess.run(command, cwd=programs.ROOT, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines()]


@pytest.mark.parametrize("model", ["mobilenet_v1", "model"])
def test_checkpoint_and_exports_see_what_is_there(exports, photographs, model):
    rows = predict(exports / model if model == "model" else model, *photographs)
    best = [row["classes"][0] for row in rows]
    assert [(item["number"], item["name"]) for item in best] == list(CLASSES.values())


def pixels(photographs):
    """The photographs, cropped and resized as an evaluation does, as float32 pixel values."""
    with tf.Graph().as_default(), tf.Session() as session:
        images = [
            tf.image.resize_images(
                tf.image.central_crop(tf.io.decode_jpeg(tf.io.read_file(path)), 0.875), [224, 224]
            )
            for path in photographs
        ]
        return session.run(tf.stack(images))


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_files_of_one_kind_or_another_see_the_same(exports, photographs, dtype):
    images, numbers = pixels(photographs), [number for number, _ in CLASSES.values()]
    for ending, open_model in (
        (".pb", frozen_graph.open_model),
        (".tflite", tflite_model.open_model),
    ):
        with open_model((exports / f"{dtype}{ending}").read_bytes()) as answer:
            assert answer("images", images)["probabilities"].argmax(axis=1).tolist() == numbers


def test_an_export_in_half_is_half_the_size(exports):
    single, half = (size(exports / "model" / version) for version in "12")
    assert half < 0.55 * single
    for ending in (".pb", ".tflite"):
        single, half = (os.path.getsize(exports / f"{dtype}{ending}") for dtype in ("fp32", "fp16"))
        assert half < 0.55 * single


def run_cli(*arguments):
    """Runs TensorFlow's saved_model_cli as a process; returns what it prints."""
    command = [sys.executable, "-m", "tensorflow.python.tools.saved_model_cli", *arguments]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_saved_model_cli_gets_answers_from_both_signatures(exports, photographs, tmp_path):
    folder = str(exports / "model" / "2")
    np.save(tmp_path / "images.npy", pixels(photographs))
    # The tool takes literals alone, and splits them at each semicolon.
    small = tiny_exports.encode(skimage.data.coffee()[::4, ::4], "JPEG")
    encoded = repr([small]).replace(";", r"\x3b")
    requests = {
        "serving_default": (["--inputs", f"images={tmp_path / 'images.npy'}"], CLASSES.values()),
        "encoded": (["--input_exprs", f"encoded={encoded}"], [CLASSES["coffee"]]),
    }
    for signature, (inputs, expected) in requests.items():
        out = tmp_path / signature
        run_cli(
            *("run", "--dir", folder, "--tag_set", "serve", "--signature_def", signature, *inputs),
            *("--outdir", str(out)),
        )
        classes, names = (
            np.load(out / f"{key}.npy", allow_pickle=True) for key in ("classes", "class_names")
        )
        best = [(int(row[0]), name[0].decode()) for row, name in zip(classes, names, strict=True)]
        assert best == list(expected)


def test_a_program_of_tensorflow_2_loads_it(exports, photographs):
    program = (
        "import sys, tensorflow as tf\n"
        "model = tf.saved_model.load(sys.argv[1])\n"
        "files = tf.stack([tf.io.read_file(path) for path in sys.argv[2:]])\n"
        "print(*model.signatures['encoded'](encoded=files)['classes'][:, 0].numpy())\n"
    )
    command = [sys.executable, "-c", program, str(exports / "model" / "2"), *photographs]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.stdout.split() == ["286", "968"], finished.stderr
