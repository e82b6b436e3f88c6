"""The flags of the input, from the command line to the config and to a run."""

import json
import types

import programs
import pytest
import tiny_runs
from absl import flags as absl_flags
from test_dataset_service import running_service
from toy_records import make_record, plain_image, write_records

from slim_mp.data.augmentation import AugmentationConfig
from slim_mp.errors import UsageError
from slim_mp.flags import flag_groups, flags


def config_of(*arguments):
    """The InputConfig that a training run with some flags has."""
    network = types.SimpleNamespace(preprocessing="vgg", default_image_size=32, channels=3)
    choices = types.SimpleNamespace(image_size=None, preprocessing=None, labels_offset=0)
    with programs.without_new_flags():
        flag_groups.define_training_flags()
        absl_flags.FLAGS(["program", *arguments])
        return flags.input_config(network, choices)


def test_the_flags_of_the_input_reach_its_config():
    config = config_of(
        "--num_readers=3",
        "--num_preprocessing_threads=5",
        "--max_bad_records=7",
        "--cache",
        "--random_erasing=0.25",
        "--mixup=0.2",
        "--cutmix=1",
        "--randaugment=2,9",
    )
    assert (config.num_readers, config.num_preprocessing_threads) == (3, 5)
    assert (config.max_bad_records, config.cache) == (7, True)
    assert config.augmentation == AugmentationConfig(0.25, 0.2, 1.0, 2, 9.0)
    assert config_of("--dataset_service=grpc://there:5000").dataset_service == "grpc://there:5000"


def test_all_of_it_is_off_by_default():
    config = config_of()
    assert (config.num_readers, config.num_preprocessing_threads) == (None, None)
    assert (config.max_bad_records, config.cache, config.dataset_service) == (0, False, None)
    assert config.augmentation == AugmentationConfig()


@pytest.mark.parametrize(
    "argument",
    [
        "--max_bad_records=-1",
        "--random_erasing=1.1",
        "--random_erasing=nan",
        "--mixup=-0.1",
        "--cutmix=inf",
        "--randaugment=2",
        "--randaugment=0,9",
        "--randaugment=11,9",
        "--randaugment=2,10.5",
        "--randaugment=2,nan",
        "--randaugment=two,9",
        "--dataset_service=there",
    ],
)
def test_a_value_that_makes_no_sense_is_refused(argument):
    with pytest.raises((UsageError, absl_flags.Error), match=argument[2:].partition("=")[0]):
        config_of(argument)


# ---- runs


def train(folder, *arguments):
    return programs.call(
        programs.TRAIN,
        "--model_name=lenet",
        "--batch_size=4",
        "--max_number_of_steps=12",
        "--log_every_n_steps=1",
        "--optimizer=sgd",
        "--learning_rate=0.001",
        "--seed=1",
        f"--train_dir={folder / 'train'}",
        *arguments,
    )


@pytest.fixture
def damaged(tmp_path):
    """Flags of a set of 16 records of which two are bad."""
    records = [make_record(plain_image(n), n % 2) for n in range(16)]
    records[3], records[9] = make_record(b"no image", 1), make_record(plain_image(9), 7)
    write_records(tmp_path / "toy_train.tfrecord", records)
    return ["--dataset_name=toy", f"--dataset_dir={tmp_path}", "--num_classes=2"]


def test_a_run_counts_the_bad_records_that_it_leaves_out(tmp_path, damaged, caplog):
    code, _, err = train(tmp_path, *damaged, "--max_bad_records=2")
    assert code == 0, err
    rows = tiny_runs.metrics(tmp_path)
    # Three epochs, and what is read ahead counts too.
    assert rows[-1]["bad_records"] == 2 and rows[-1]["step"] == 12
    told = [line for line in caplog.messages if line.startswith("Left out, bad record")]
    assert len(told) == 2
    code, _, err = programs.call(
        programs.EVALUATE,
        "--model_name=lenet",
        *damaged,
        "--dataset_split_name=train",
        f"--checkpoint_path={tmp_path / 'train'}",
        f"--eval_dir={tmp_path}",
        "--max_bad_records=2",
    )
    assert code == 0, err
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert (metrics["num_examples"], metrics["bad_records"]) == (14, 2)


@pytest.mark.parametrize("limit", [0, 1])
def test_one_bad_record_more_than_may_be_ends_a_run(tmp_path, damaged, limit):
    code, _, err = train(tmp_path, *damaged, f"--max_bad_records={limit}")
    assert code == 3 and err.count("\n") == 1
    assert "Record 3 (counting from 0) of" in err and "toy_train.tfrecord" in err
    assert "--max_bad_records" in err
    if limit:
        assert "Record 9" in err
        assert "bad_records" in tiny_runs.metrics(tmp_path)[0]


def test_a_run_with_every_augmentation_goes_on_where_it_stopped(tmp_path):
    arguments = ["--random_erasing=0.5", "--mixup=0.2", "--cutmix=1", "--randaugment=1,5"]
    for folder, stops in (("whole", (12,)), ("parts", (5, 12))):
        for stop in stops:
            code, _, err = train(tmp_path / folder, *arguments, f"--max_number_of_steps={stop}")
            assert code == 0, err
    parts, whole = (tiny_runs.variables(tmp_path / folder) for folder in ("parts", "whole"))
    tiny_runs.assert_equal_bits(parts, whole)


def test_a_run_takes_its_batches_from_a_service(tmp_path):
    with running_service(1) as address:
        code, _, err = train(tmp_path, f"--dataset_service={address}", "--max_number_of_steps=2")
    assert code == 0, err
