"""A checkpoint whose head has other classes, and scopes that are mistyped: what to do is said."""

import numpy as np
import oracle
import programs
import pytest
from lenet_runs import assert_refused, train

from slim_mp.compat import tf


def write_checkpoint(path, name, num_classes):
    """Writes a checkpoint of a network with a head of some classes."""
    variables = oracle.manifest(name)["variables"]
    published = oracle.manifest(name)["num_classes"]
    with tf.Graph().as_default(), tf.Session() as session:
        for variable, shape in variables.items():
            shape = [num_classes if size == published else size for size in shape]
            tf.get_variable(variable, initializer=np.zeros(shape, np.float32))
        session.run(tf.global_variables_initializer())
        return tf.train.Saver().save(session, str(path), write_meta_graph=False)


def test_a_head_of_other_classes_is_explained_and_the_advice_works(tmp_path):
    path = programs.ROOT / "checkpoints" / "mobilenet_v1_1.0_224"
    arguments = [
        "--model_name=mobilenet_v1",
        "--train_image_size=32",
        f"--checkpoint_path={path}",
        "--max_number_of_steps=1",
    ]
    result = train(tmp_path, *arguments, "--checkpoint_exclude_scopes=")
    shapes = "[1, 1, 1024, 1001] in the checkpoint, [1, 1, 1024, 10] in the network"
    advice = "--checkpoint_exclude_scopes=MobilenetV1/Logits"
    assert_refused(result, 5, "MobilenetV1/Logits/Conv2d_1c_1x1/weights: " + shapes, advice + "\n")
    assert not list((tmp_path / "train").glob("*ckpt*"))
    code, _, err = train(tmp_path, *arguments, advice)
    assert code == 0, err


@pytest.mark.slow
def test_the_advice_for_a_head_takes_the_auxiliary_one_too(tmp_path):
    path = write_checkpoint(tmp_path / "inception_v3.ckpt", "inception_v3", 1001)
    arguments = [
        "--model_name=inception_v3",
        f"--train_dir={tmp_path / 'train'}",
        f"--checkpoint_path={path}",
        "--train_image_size=107",
        "--batch_size=2",
        "--max_number_of_steps=1",
    ]
    result = programs.call(programs.TRAIN, *arguments, "--checkpoint_exclude_scopes=")
    shapes = "[1, 1, 2048, 1001] in the checkpoint, [1, 1, 2048, 10] in the network"
    assert_refused(result, 5, "InceptionV3/Logits/Conv2d_1c_1x1/weights: " + shapes, "AuxLogits")
    words = result[2].split()
    [advice] = [word for word in words if word.startswith("--checkpoint_exclude_scopes=")]
    scopes = advice.partition("=")[2].split(",")
    assert sorted(scopes) == ["InceptionV3/AuxLogits", "InceptionV3/Logits"]
    code, _, err = programs.call(programs.TRAIN, *arguments, advice)
    assert code == 0, err
    assert (tmp_path / "train" / "model.ckpt-1.index").exists()


@pytest.mark.parametrize("flag", ["checkpoint_exclude_scopes", "trainable_scopes"])
def test_a_scope_is_a_whole_component_and_a_mistyped_one_offers_near_names(tmp_path, flag):
    checkpoint = programs.ROOT / "checkpoints" / "mobilenet_v1_1.0_224"
    result = train(
        tmp_path,
        "--model_name=mobilenet_v1",
        "--train_image_size=32",
        f"--checkpoint_path={checkpoint}",
        f"--{flag}=MobilenetV1/Logit",
    )
    assert_refused(result, 2, f"--{flag}", "'MobilenetV1/Logit'", "MobilenetV1/Logits")
