"""Fine-tuning the published MobileNet weights on real photographs, in every dtype."""

import json

import numpy as np
import programs
import pytest
import skimage.data
from toy_records import encode, make_record, write_records

from slim_mp.compat import tf

DTYPES = ["fp32", "fp16", "bf16"]
CHECKPOINT = programs.ROOT / "checkpoints" / "mobilenet_v1_1.0_224"
MOBILENET = ["--model_name=mobilenet_v1", f"--checkpoint_path={CHECKPOINT}"]
PATCH = 96
TEXTURES = ["brick", "grass", "gravel"]


def evaluate(folder, *arguments):
    """Evaluates, and returns the metrics."""
    code, _, err = programs.call(
        programs.EVALUATE, f"--eval_dir={folder / 'eval'}", f"--dataset_dir={folder}", *arguments
    )
    assert code == 0, err
    return json.loads((folder / "eval" / "metrics.json").read_text())


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_published_weights_know_a_cat_and_a_cup_in_every_dtype(tmp_path, dtype):
    # Classes of ImageNet, counted from the background: Egyptian cat and espresso (of the cup).
    photographs = {286: skimage.data.chelsea(), 968: skimage.data.coffee()}
    records = [make_record(encode(image, "JPEG"), label) for label, image in photographs.items()]
    write_records(tmp_path / "photos_test.tfrecord", records)
    metrics = evaluate(
        tmp_path, *MOBILENET, f"--dtype={dtype}", "--dataset_name=photos", "--num_classes=1001"
    )
    assert metrics["num_examples"] == 2
    assert metrics["top1"] == metrics["top5"] == 1.0
    assert metrics["step"] is None


def write_textures(folder):
    """Patches of photographs of brick, grass and gravel, from their upper and lower parts."""
    folder.mkdir()
    (folder / "labels.txt").write_text("".join(f"{n}:{t}\n" for n, t in enumerate(TEXTURES)))
    random = np.random.RandomState(0)
    for split, rows, count in (("train", (0, 300), 24), ("validation", (300, 512), 12)):
        records = []
        for label, texture in enumerate(TEXTURES):
            image = getattr(skimage.data, texture)()
            for _ in range(count):
                top = random.randint(rows[0], rows[1] - PATCH + 1)
                left = random.randint(0, image.shape[1] - PATCH + 1)
                patch = image[top : top + PATCH, left : left + PATCH]
                records.append(make_record(encode(patch, "PNG"), label))
        write_records(folder / f"textures_{split}.tfrecord", records)


def fine_tune(folder, steps, *arguments):
    """Trains a new last layer on the published weights, in half precision."""
    return programs.call(
        programs.TRAIN,
        *MOBILENET,
        "--checkpoint_exclude_scopes=MobilenetV1/Logits",
        "--trainable_scopes=MobilenetV1/Logits",
        "--dataset_name=textures",
        f"--dataset_dir={folder / 'data'}",
        f"--train_dir={folder / 'train'}",
        f"--train_image_size={PATCH}",
        f"--max_number_of_steps={steps}",
        "--dtype=fp16",
        "--batch_size=12",
        "--optimizer=momentum",
        "--learning_rate=0.01",
        "--log_every_n_steps=1",
        "--seed=1",
        *arguments,
    )


@pytest.mark.slow
def test_fine_tuning_in_half_precision_improves_within_fifty_steps(tmp_path):
    write_textures(tmp_path / "data")
    found = {}
    for steps in (1, 40):
        code, _, err = fine_tune(tmp_path, steps)
        assert code == 0, err
        found[steps] = evaluate(
            tmp_path / "data",
            "--model_name=mobilenet_v1",
            f"--checkpoint_path={tmp_path / 'train'}",
            "--dataset_name=textures",
            "--dataset_split_name=validation",
            f"--eval_image_size={PATCH}",
            "--dtype=fp16",
        )
    assert found[1]["num_examples"] == 36
    lines = (tmp_path / "train" / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    assert len(losses) == 40
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5]), losses
    assert found[40]["loss"] < 0.5 * found[1]["loss"], found
    assert found[40]["top1"] > max(0.7, found[1]["top1"] + 0.2), found


def test_only_the_head_is_new_when_it_is_excluded(tmp_path):
    write_textures(tmp_path / "data")
    code, _, err = fine_tune(tmp_path, 1, "--optimizer=sgd", "--learning_rate=0")
    assert code == 0, err
    published = tf.train.NewCheckpointReader(str(CHECKPOINT / "mobilenet_v1_1.0_224.ckpt"))
    trained = tf.train.NewCheckpointReader(str(tmp_path / "train" / "model.ckpt-1"))
    shapes = trained.get_variable_to_shape_map()
    network = [n for n in shapes if n.startswith("MobilenetV1/")]
    assert len(network) == 137
    for name in network:
        if name.startswith("MobilenetV1/Logits/"):
            assert shapes[name][-1] == len(TEXTURES)
        elif "/moving_" not in name:
            np.testing.assert_array_equal(trained.get_tensor(name), published.get_tensor(name))
        else:
            # One step of a decay of 0.9997 or less has moved them, from where they were.
            assert not np.array_equal(trained.get_tensor(name), published.get_tensor(name))
