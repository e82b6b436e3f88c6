"""Sets of numbered record files of which some are missing, and what a set is read as."""

import pytest
from toy_records import make_record, plain_image, write_records

from slim_mp import data
from slim_mp.data import record_sets
from slim_mp.errors import DataError


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["{}00000-of-00003.{}", "{}00002-of-00003.{}"], "missing: {}00001-of-00003.{}"),
        (["{}00002-of-00003.{}"], "missing: {}00000-of-00003.{}, {}00001-of-00003.{}"),
        (["{}0-of-11.{}"], "missing: {}1-of-11.{}"),
        (["{}0-of-1.{}", "{}00000-of-99999999.{}"], "missing: {}00001-of-99999999.{}"),
        (
            ["{}00000-of-00001.{}", "{}00000-of-00002.{}", "{}00001-of-00002.{}"],
            "holds two sets in one, {}*-of-00001.{}, {}*-of-00002.{};",
        ),
    ],
)
def test_a_part_of_a_set_does_not_pass_for_the_whole(tmp_path, files, said):
    def named(text):
        return text.replace(".{}", ".tfrecord").replace("{}", "toy_train_")

    for file in files:
        write_records(tmp_path / named(file), [make_record(plain_image(0), 0)])
    with pytest.raises(DataError, match="--file_pattern") as raised:
        data.open_dataset("toy", "train", tmp_path, 10)
    assert named(said) in str(raised.value)
    part = data.open_dataset("toy", "train", tmp_path, 10, file_pattern="toy_%s_*")
    assert part.num_examples == len(files)


@pytest.mark.parametrize(
    ("name", "split", "file", "is_read"),
    [
        ("flowers", "train", "flowers_train_00000-of-00005.tfrecord", True),
        ("flowers", "test", "flowers_test_00000-of-00005.tfrecord", False),
        ("birds", "dev", "birds_dev_00000-of-00005.tfrecord", True),
        ("birds", "dev", "birds_dev.tfrecord", True),
        ("cifar10", "train", "cifar10_train_00000-of-00005.tfrecord", False),
        ("imagenet", "train", "imagenet_train_00000-of-00005.tfrecord", False),
    ],
)
def test_a_name_says_which_files_are_read(name, split, file, is_read):
    assert record_sets.is_read(name, split, file) == is_read
