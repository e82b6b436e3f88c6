"""A checkpoint of every published layout is recognised, restored and evaluated without a flag."""

import json
import re
import shutil

import numpy as np
import oracle
import programs
import pytest
from made_checkpoints import network_arrays, save
from network_rows import rows

from nets.nets_factory import NETWORKS
from slim_mp.checkpoints.signatures import get_signature

# Where activations stay below this in float32, the logits are finite in half.
LARGEST_ACTIVATION = 20_000
QUICK = ("lenet", "cifarnet", "mobilenet_v1_025", "mobilenet_v3_small", "inception_v1")


@pytest.fixture
def checkpoint_of(tmp_path):
    """Makes the checkpoint of a network; removes it after the test, since some are large."""

    def make(name):
        return save(tmp_path / "weights" / "model.ckpt", network_arrays(name))

    yield make
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("name", rows(QUICK))
def test_evaluated_in_half_with_no_flag_but_the_checkpoint(name, checkpoint_of, tmp_path, caplog):
    caplog.set_level("INFO")
    manifest = oracle.manifest(name)
    classes = manifest["num_classes"]
    prefix = checkpoint_of(name)
    code, _, err = programs.call(
        programs.EVALUATE,
        f"--checkpoint_path={prefix}",
        "--dtype=fp16",
        "--dataset_name=synthetic",
        f"--num_classes={1001 if classes == 1000 else classes}",
        "--batch_size=1",
        "--max_num_batches=1",
        f"--eval_dir={tmp_path / 'eval'}",
    )
    assert code == 0, err
    assert f"network {name}, " in caplog.text or f"network {name}\n" in caplog.text
    assert f"labels offset {int(classes == 1000)}." in caplog.text
    restored = len(manifest["variables"]) - len(manifest["eval_missing_variables"])
    assert f"{restored} variables restored" in caplog.text
    metrics = json.loads((tmp_path / "eval" / "metrics.json").read_text())
    assert metrics["num_examples"] == 1
    if oracle.activation_absmax(name) < LARGEST_ACTIVATION:
        assert np.isfinite(metrics["loss"])

    code, out, err = programs.call("slim_mp.inspect", prefix, "--num_classes=5")
    assert code == 0, err
    report = re.sub(" +", " ", out)
    heads = ", ".join(get_signature(name).head_scopes)
    assert f"Into {name} with 5 classes" in report
    assert f"({heads})\n missing: 0\n wrong shape: 0\n" in report


@pytest.mark.parametrize("name", rows(QUICK, ["mobilenet_v1_025", "resnet_v1_50", "inception_v3"]))
def test_fine_tuned_to_five_classes_with_the_head_left_out(name, checkpoint_of, tmp_path, caplog):
    caplog.set_level("INFO")
    heads = ",".join(get_signature(name).head_scopes)
    code, _, err = programs.call(
        programs.TRAIN,
        f"--checkpoint_path={checkpoint_of(name)}",
        "--dtype=fp16",
        "--dataset_name=synthetic",
        "--num_classes=5",
        "--batch_size=2",
        "--max_number_of_steps=1",
        f"--train_image_size={max(NETWORKS[name].min_image_size, 32)}",
        f"--train_dir={tmp_path / 'train'}",
    )
    assert code == 0, err
    assert f"--checkpoint_exclude_scopes={heads}" in caplog.text
