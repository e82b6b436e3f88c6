"""What follows from a checkpoint without flags, what is refused, and what is only warned of."""

import dataclasses
import json
import os

import numpy as np
import programs
import pytest
from made_checkpoints import network_arrays, save

from slim_mp.checkpoints.checkpoint_defaults import (
    EVALUATE,
    RESUME,
    WARM_START,
    Choices,
    Given,
    Known,
    choose,
    know,
)
from slim_mp.checkpoints.identity import Identity
from slim_mp.errors import CheckpointError, UsageError

IMAGENET = 1001
DEFAULT = "inception_v3"


def known(network, num_classes, **facts):
    if facts:
        facts = {"source": "a test", **facts}
    return Known("DIR/model.ckpt", Identity((network,), num_classes), **facts)


RESNET_V1 = known("resnet_v1_50", 1000, preprocessing="vgg", image_size=224)
RESNET_V2 = known("resnet_v2_50", 1001, preprocessing="inception", image_size=299)


def test_without_a_checkpoint_the_flags_are_all_there_is():
    assert choose(Given(), None, 10, WARM_START, DEFAULT) == Choices(DEFAULT)
    given = Given("lenet", "vgg", 20, 1, "LeNet/fc4")
    choices = choose(given, None, 10, WARM_START, DEFAULT)
    assert choices == Choices("lenet", None, 1, "vgg", 20, "LeNet/fc4")


@pytest.mark.parametrize("purpose", [EVALUATE, WARM_START, RESUME])
def test_everything_follows_from_the_checkpoint_and_is_said_in_one_line(purpose):
    choices = choose(Given(), RESNET_V2, IMAGENET, purpose, DEFAULT)
    checkpoint = None if purpose == RESUME else "DIR/model.ckpt"
    (notice,) = choices.notices
    assert choices == Choices("resnet_v2_50", checkpoint, 0, "inception", 299, None, (notice,))
    for word in ("resnet_v2_50", "inception", "299", "offset 0", "a test", "DIR/model.ckpt"):
        assert word in notice


def test_flags_that_contradict_are_obeyed_with_a_warning_each():
    given = Given(preprocessing="vgg", image_size=224)
    choices = choose(given, RESNET_V2, IMAGENET, EVALUATE, DEFAULT)
    assert (choices.preprocessing, choices.image_size) == ("vgg", 224)
    assert len(choices.warnings) == 2
    assert all("224" in line or "vgg" in line for line in choices.warnings)
    agreed = Given("resnet_v2_50", "inception", 299, 0)
    assert choose(agreed, RESNET_V2, IMAGENET, EVALUATE, DEFAULT).warnings == ()


def test_another_network_is_obeyed_with_a_warning_and_nothing_follows():
    choices = choose(Given("vgg_16"), RESNET_V2, IMAGENET, EVALUATE, DEFAULT)
    assert dataclasses.replace(choices, warnings=()) == Choices("vgg_16", "DIR/model.ckpt")
    assert len(choices.warnings) == 1
    assert "--model_name=vgg_16" in choices.warnings[0]
    assert "resnet_v2_50" in choices.warnings[0]


@pytest.mark.parametrize("purpose", [EVALUATE, WARM_START, RESUME])
@pytest.mark.parametrize(
    ("head", "dataset", "trained_with", "offset"),
    [
        (1000, 1001, None, 1),
        (1001, 1001, None, 0),
        (1000, 1000, None, 0),
        (5, 5, None, 0),
        (5, 6, 1, 1),
        (5, 8, 3, 3),
        (1000, 1001, 1, 1),
        (5, 5, 1, 0),
    ],
)
def test_the_labels_offset_is_chosen(purpose, head, dataset, trained_with, offset):
    checkpoint = known("resnet_v1_50", head, labels_offset=trained_with)
    choices = choose(Given(), checkpoint, dataset, purpose, DEFAULT)
    assert choices.labels_offset == offset
    assert choices.exclude_scopes is None


@pytest.mark.parametrize("purpose", [EVALUATE, WARM_START, RESUME])
@pytest.mark.parametrize(("head", "given", "right"), [(1000, 0, 1), (1001, 1, 0), (1000, 2, 1)])
def test_a_labels_offset_that_cannot_be_is_an_error(purpose, head, given, right):
    checkpoint = known("resnet_v1_50", head)
    with pytest.raises(UsageError, match=f"--labels_offset={given} contradicts") as caught:
        choose(Given(labels_offset=given), checkpoint, IMAGENET, purpose, DEFAULT)
    assert f"--labels_offset={right}," in str(caught.value)
    assert "--checkpoint_exclude_scopes=resnet_v1_50/logits" in str(caught.value)


def test_a_labels_offset_is_free_where_the_head_is_trained_anew():
    given = Given(labels_offset=0, exclude_scopes="resnet_v1_50/logits")
    choices = choose(given, RESNET_V1, IMAGENET, WARM_START, DEFAULT)
    assert (choices.labels_offset, choices.exclude_scopes) == (0, "resnet_v1_50/logits")
    given = Given(exclude_scopes="resnet_v1_50/block1")
    assert choose(given, RESNET_V1, IMAGENET, WARM_START, DEFAULT).labels_offset == 1


@pytest.mark.parametrize(
    ("network", "scopes"),
    [
        ("inception_v3", "InceptionV3/AuxLogits,InceptionV3/Logits"),
        ("resnet_v1_50", "resnet_v1_50/logits"),
        ("nasnet_large", "aux_11/aux_logits,final_layer/FC"),
    ],
)
def test_the_head_is_left_out_for_another_number_of_classes(network, scopes):
    for head in (1001, None):
        choices = choose(Given(), known(network, head), 5, WARM_START, DEFAULT)
        assert choices.exclude_scopes == scopes
        assert f"--checkpoint_exclude_scopes={scopes}" in choices.notices[-1]
        assert "5 classes" in choices.notices[-1]


def test_given_scopes_mean_what_they_say_and_a_resume_leaves_nothing_out():
    for scopes in ("", "resnet_v1_50/conv1"):
        choices = choose(Given(exclude_scopes=scopes), RESNET_V1, 5, WARM_START, DEFAULT)
        assert choices.exclude_scopes == scopes
    assert choose(Given(), RESNET_V1, 5, RESUME, DEFAULT).exclude_scopes is None


def test_a_head_of_other_classes_cannot_be_evaluated():
    with pytest.raises(CheckpointError, match=r"head of 1000 classes, and the dataset has 10"):
        choose(Given(), RESNET_V1, 10, EVALUATE, DEFAULT)


def test_a_checkpoint_of_no_or_several_networks_needs_the_name():
    for networks in ((), ("vgg_16", "vgg_19")):
        checkpoint = Known("DIR/model.ckpt", Identity(networks))
        with pytest.raises(CheckpointError, match=r"--model_name, one of: .*vgg_19"):
            choose(Given(), checkpoint, 10, WARM_START, DEFAULT)
    several = Known("DIR/model.ckpt", Identity(("vgg_16", "vgg_19"), 10))
    assert choose(Given("vgg_19"), several, 10, EVALUATE, DEFAULT).warnings == ()


def test_what_the_run_wrote_goes_before_what_is_published(tmp_path, caplog):
    prefix = save(tmp_path / "model.ckpt", network_arrays("mobilenet_v1_025"))
    published = know(prefix)
    assert published.source == "the published mobilenet_v1_0.25_128"
    assert (published.preprocessing, published.image_size) == ("inception", 128)
    facts = {
        "model_name": "mobilenet_v1_025",
        "num_classes": 1001,
        "labels_offset": 2,
        "preprocessing": "vgg",
        "image_size": 64,
    }
    file = tmp_path / "trained_with.json"
    file.write_text(json.dumps(facts))
    own = know(prefix)
    assert (own.preprocessing, own.image_size, own.labels_offset) == ("vgg", 64, 2)
    nonsense = [
        {"model_name": "lenet"},
        {"model_name": 5},
        {"num_classes": 0},
        {"num_classes": True},
        {"labels_offset": None},
        {"labels_offset": -1},
        {"preprocessing": ["vgg"]},
        {"preprocessing": "vggg"},
        {"image_size": -4},
        {"image_size": 64.0},
        {"label_names": "name"},
        {"label_names": [1] * 1001},
        {"label_names": ["one"]},
    ]
    assert caplog.messages == []
    for text in ("{}", "[", "[]", *(json.dumps({**facts, **change}) for change in nonsense)):
        file.write_text(text)
        caplog.clear()
        assert know(prefix) == published
        [line] = caplog.messages
        assert "trained_with.json" in line and "is not used: " in line and "\n" not in line


def train(folder, *arguments):
    return programs.call(
        programs.TRAIN, "--batch_size=4", "--max_number_of_steps=1", f"--train_dir={folder}",
        "--seed=1", *arguments,
    )  # fmt: skip


def evaluate(checkpoint, folder, *arguments):
    """Evaluates a checkpoint in fp16 with no flag that says what it is; returns its metrics."""
    code, _, err = programs.call(
        programs.EVALUATE,
        f"--checkpoint_path={checkpoint}",
        "--dtype=fp16",
        "--max_num_batches=1",
        "--batch_size=2",
        f"--eval_dir={folder}",
        *arguments,
    )
    assert code == 0, err
    with open(os.path.join(folder, "metrics.json"), encoding="utf-8") as file:
        return json.load(file)


def logged(caplog, level):
    return "\n".join(record.message for record in caplog.records if record.levelname == level)


@pytest.fixture
def log(caplog):
    caplog.set_level("INFO")
    return caplog


def test_a_run_is_evaluated_resumed_and_fine_tuned_without_its_flags(tmp_path, log):
    run = tmp_path / "run"
    code, _, err = train(
        run, "--model_name=lenet", "--train_image_size=12", "--preprocessing_name=cifarnet"
    )
    assert code == 0, err
    log.clear()
    assert evaluate(run, tmp_path / "eval")["num_examples"] == 2
    assert "network lenet, preprocessing cifarnet, image size 12" in logged(log, "INFO")
    assert "fc3" not in logged(log, "WARNING")

    log.clear()
    code, _, err = train(run, "--max_number_of_steps=2")
    assert code == 0, err
    assert "network lenet, preprocessing cifarnet, image size 12" in logged(log, "INFO")

    log.clear()
    synthetic = ["--dataset_name=synthetic", "--num_classes=3"]
    code, _, err = train(tmp_path / "other", f"--checkpoint_path={run}", *synthetic)
    assert code == 0, err
    assert "--checkpoint_exclude_scopes=LeNet/fc4" in logged(log, "INFO")
    assert "6 variables restored" in logged(log, "INFO")
    code, _, err = train(
        tmp_path / "new", f"--checkpoint_path={run}", "--checkpoint_exclude_scopes=", *synthetic
    )
    assert code == 5
    assert "LeNet/fc4/weights" in err


def test_a_name_of_the_catalogue_is_a_checkpoint_path(tmp_path, log, monkeypatch):
    monkeypatch.chdir(programs.ROOT)
    flags = ["--dataset_name=synthetic", "--num_classes=5", "--checkpoint_path=mobilenet_v1"]
    code, _, err = train(tmp_path / "run", "--train_image_size=32", *flags)
    assert code == 0, err
    assert "network mobilenet_v1, preprocessing inception" in logged(log, "INFO")
    assert "--checkpoint_exclude_scopes=MobilenetV1/Logits" in logged(log, "INFO")
    assert "135 variables restored" in logged(log, "INFO")
    assert "image size 32 as the flag says" in logged(log, "WARNING")
    code, _, err = train(tmp_path / "other", f"--checkpoints_dir={tmp_path}", *flags)
    assert code == 5
    assert f"python -m slim_mp.fetch mobilenet_v1 --checkpoints_dir={tmp_path}" in err


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--model_name=mobilenet_v9", ["'mobilenet_v9'", "mobilenet_v1"]),
        ("--train_image_size=31", ["31x31", "32x32"]),
        ("--labels_offset=1", ["--labels_offset=1 contradicts", "--labels_offset=0"]),
    ],
)
def test_what_cannot_be_is_said_before_any_work(tmp_path, flag, words):
    flags = ["--dataset_name=synthetic", "--num_classes=1001"]
    checkpoint = programs.ROOT / "checkpoints" / "mobilenet_v1_1.0_224"
    code, _, err = train(tmp_path / "run", f"--checkpoint_path={checkpoint}", *flags, flag)
    assert code == 2
    for word in words:
        assert word in err
    assert not list(tmp_path.rglob("*ckpt*"))


def test_a_published_layout_stored_in_half_is_evaluated_at_its_size(tmp_path, log):
    arrays = network_arrays("mobilenet_v1_025")
    half = {name: value.astype(np.float16) for name, value in arrays.items()}
    dataset = ["--dataset_name=synthetic", "--num_classes=1001"]
    losses = [
        evaluate(save(tmp_path / kind / "model.ckpt", held), tmp_path / "eval", *dataset)["loss"]
        for kind, held in (("float32", arrays), ("half", half))
    ]
    assert "image size 128, labels offset 0" in logged(log, "INFO")
    assert "137 variables that are stored as float16" in logged(log, "INFO")
    assert losses[0] != losses[1]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-2)
