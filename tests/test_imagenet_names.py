"""The names of ImageNet's classes stand in the order of the published checkpoints."""

import pytest
import toy_records

from slim_mp import data
from slim_mp.data import imagenet_names

# Facts that everyone who has used a published checkpoint knows by number.
KNOWN = {0: "tench", 281: "tabby", 285: "Egyptian cat", 504: "coffee mug", 967: "espresso"}


def test_the_classes_are_numbered_by_their_wordnet_ids():
    ids = list(imagenet_names.synsets())
    assert len(ids) == 1000
    assert ids == sorted(ids)
    assert all(len(key) == 9 and key[0] == "n" and key[1:].isdecimal() for key in ids)
    assert all(imagenet_names.synsets().values())


@pytest.mark.parametrize("number", KNOWN)
def test_a_head_with_background_counts_one_further(number):
    plain, with_background = map(imagenet_names.names_of_head, (1000, 1001))
    assert plain[number].split(", ")[0] == KNOWN[number]
    assert with_background[number + 1] == plain[number]
    assert with_background[0] == imagenet_names.BACKGROUND


def test_a_head_of_another_size_has_no_names():
    assert imagenet_names.names_of_head(5) is None


def test_the_record_files_of_imagenet_need_no_labels_file(tmp_path):
    toy_records.write_records(
        tmp_path / "train-00000-of-00001", [toy_records.make_record(b"image", 286)]
    )
    dataset = data.open_dataset("imagenet", "train", tmp_path)
    assert dataset.label_names[286] == "Egyptian cat"
    assert len(dataset.label_names) == dataset.num_classes
    (tmp_path / "labels.txt").write_text("0:none\n1000:other\n")
    assert data.open_dataset("imagenet", "train", tmp_path).label_names[1000] == "other"
    (tmp_path / "labels.txt").unlink()
    assert data.open_dataset("imagenet", "train", tmp_path, num_classes=5).label_names is None
