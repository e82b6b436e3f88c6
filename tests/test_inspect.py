"""The report of a checkpoint: what it holds, what a network takes from it, what cannot be read."""

import re
import shutil

import numpy as np
import programs
import pytest
from made_checkpoints import network_arrays, network_shapes, save

MOBILENET = programs.ROOT / "checkpoints" / "mobilenet_v1_1.0_224"


def inspect(*arguments):
    """Runs the program; returns the report as text with single blanks."""
    code, out, err = programs.call("slim_mp.inspect", *arguments)
    assert code == 0, err
    return re.sub(" +", " ", out)


def assert_refused(exit_code, words, *arguments):
    code, out, err = programs.call("slim_mp.inspect", *arguments)
    assert (code, out) == (exit_code, "")
    assert err.startswith("slim_mp.inspect.py: error: ")
    for word in words:
        assert word in err


def test_the_weights_that_come_with_the_project():
    report = inspect(MOBILENET)
    for line in (
        "network: mobilenet_v1\n",
        "classes: 1001\n",
        "preprocessing inception, image size 224 (the published mobilenet_v1)\n",
        "holds: 137 variables of 4,254,889 values\n",
        "stored as: 137 float32\n",
        "averages: none\n",
        "optimizer: none\n",
        "loss scale: none\n",
        "step: not stored\n",
        "Into mobilenet_v1 with 1001 classes, for training:\n",
        "restored: 137\n",
        "missing: 0\n",
        "wrong shape: 0\n",
    ):
        assert line in report
    flags = report.splitlines()[-1]
    assert flags.startswith("Flags: --model_name=mobilenet_v1 --checkpoint_path=")
    assert flags.endswith("--preprocessing_name=inception --train_image_size=224")


def test_another_number_of_classes_leaves_the_head_out():
    report = inspect(MOBILENET, "--num_classes=5")
    assert "restored: 135\n excluded: 2 (MobilenetV1/Logits)\n missing: 0\n" in report
    assert "--checkpoint_exclude_scopes=MobilenetV1/Logits\n" in report


def test_given_scopes_mean_what_they_say(caplog):
    report = inspect(
        MOBILENET, "--num_classes=5", "--checkpoint_exclude_scopes=MobilenetV1/Conv2d_0"
    )
    assert caplog.messages == []
    assert "excluded: 5 (MobilenetV1/Conv2d_0)\n missing: 0\n wrong shape: 2\n" in report
    assert "MobilenetV1/Logits/Conv2d_1c_1x1/biases [1001] in the checkpoint, [5] in the" in report
    assert "--checkpoint_exclude_scopes=MobilenetV1/Conv2d_0,MobilenetV1/Logits\n" in report
    assert_refused(
        2, ["--checkpoint_exclude_scopes"], MOBILENET, "--checkpoint_exclude_scopes=Conv"
    )


def test_another_network():
    report = inspect(MOBILENET, "--model_name=mobilenet_v1_050")
    assert "Into mobilenet_v1_050 with 1001 classes" in report
    assert "wrong shape: 136\n" in report
    report = inspect(MOBILENET, "--model_name=resnet_v1_50")
    assert report.endswith("of another network than resnet_v1_50: nothing can be restored.\n")
    assert_refused(2, ["no network 'resnet'"], MOBILENET, "--model_name=resnet")


def test_a_run_with_everything(tmp_path):
    code, _, err = programs.call(
        programs.TRAIN,
        "--model_name=lenet",
        "--train_image_size=8",
        "--batch_size=4",
        "--max_number_of_steps=2",
        "--optimizer=momentum",
        "--moving_average_decay=0.9",
        "--dtype=fp16",
        "--loss_scale=dynamic",
        f"--train_dir={tmp_path}",
    )
    assert code == 0, err
    report = inspect(tmp_path)
    for line in (
        f"{tmp_path}/model.ckpt-2\n",
        "network: lenet\n",
        "classes: 10\n",
        "image size 8 (what its run wrote to trained_with.json)\n",
        "averages: 8\n",
        "optimizer: 8 Momentum\n",
        "step: 2\n",
        "restored: 8\n",
    ):
        assert line in report
    scale = re.search("loss scale: (.*)", report)[1].split(", ")
    assert {"loss_scale/scale", "loss_scale/good_steps"} <= set(scale)


@pytest.mark.parametrize(
    ("make", "lines"),
    [
        (lambda name, value: (name, value.astype(np.float16)), ["stored as: 10 float16\n"]),
        (
            lambda name, value: (f"{name}/ExponentialMovingAverage", value),
            ["averages: 10\n", "missing: 10\n", "It holds moving averages only"],
        ),
    ],
    ids=["half", "only averages"],
)
def test_other_ways_to_store(tmp_path, make, lines):
    arrays = dict(make(*item) for item in network_arrays("cifarnet").items())
    report = inspect(save(tmp_path / "model.ckpt", arrays))
    for line in ["network: cifarnet\n", *lines]:
        assert line in report
    if "float16" in lines[0]:
        assert "Cast to float32: 10 variables that are stored as float16.\n" in report


def test_a_checkpoint_of_features_and_one_of_no_network(tmp_path):
    shapes = network_shapes("cifarnet")
    arrays = {
        name: np.zeros(shape, np.float32) for name, shape in shapes.items() if "logits" not in name
    }
    path = save(tmp_path / "features" / "model.ckpt", arrays)
    assert inspect(path).endswith(
        "Into cifarnet: give --num_classes; the checkpoint does not say it.\n"
    )
    assert "excluded: 2 (CifarNet/logits)" in inspect(path, "--num_classes=3")

    path = save(tmp_path / "own" / "model.ckpt", {"dense/kernel": np.zeros([3, 4], np.float32)})
    report = inspect(path)
    assert "network: none of ours\n" in report
    assert report.endswith("step: not stored\n")


def test_what_cannot_be_read_is_one_sentence_and_exit_code_5(tmp_path):
    assert_refused(5, ["missing"], tmp_path / "missing")
    assert_refused(5, ["no complete checkpoint"], tmp_path)
    foreign = tmp_path / "weights.h5"
    foreign.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(1000))
    assert_refused(5, ["cannot be read as a TensorFlow checkpoint"], foreign)
    copy = tmp_path / "copy"
    shutil.copytree(MOBILENET, copy)
    (data,) = copy.glob("*.data-*")
    data.write_bytes(data.read_bytes()[:-1])
    assert_refused(5, ["is cut short"], copy)
    assert_refused(2, ["Name one checkpoint"])
    assert_refused(2, ["Name one checkpoint"], MOBILENET, copy)
