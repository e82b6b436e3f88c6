"""Where the names of a checkpoint's classes come from."""

import pytest

from slim_mp.checkpoints.checkpoint_defaults import Known
from slim_mp.checkpoints.checkpoint_labels import label_names
from slim_mp.checkpoints.identity import Identity
from slim_mp.errors import DataError


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "given").mkdir()
    return tmp_path


def known(folder, **facts):
    return Known(str(folder / "model.ckpt"), Identity(), "its run", **facts)


def test_what_the_user_names_goes_before_what_the_run_wrote_and_what_lies_beside(folder):
    of_run = known(folder, label_names=("a", "b"))
    assert label_names(known(folder), 2, 0) == ("0", "1")
    (folder / "labels.txt").write_text("0:c\n1:d\n")
    assert label_names(known(folder), 2, 0) == ("c", "d")
    assert label_names(of_run, 2, 0) == ("a", "b")
    (folder / "given" / "labels.txt").write_text("0:e\n1:f\n")
    assert label_names(of_run, 2, 0, str(folder / "given")) == ("e", "f")


def test_a_published_checkpoint_has_the_names_of_imagenet(folder):
    published = known(folder, published="mobilenet_v1")
    assert label_names(published, 1001, 0)[286] == "Egyptian cat"
    assert label_names(published, 1000, 1)[285] == "Egyptian cat"
    assert label_names(known(folder), 1001, 0)[286] == "286"


def test_the_labels_offset_drops_names(folder):
    (folder / "labels.txt").write_text("0:background\n1:cat\n2:dog\n")
    assert label_names(known(folder), 2, 1) == ("cat", "dog")
    assert label_names(known(folder), 3, 0) == ("background", "cat", "dog")


def test_names_are_lines_and_never_empty(folder):
    names = ("two\nlines", "", "  tab\tbed  ")
    assert label_names(known(folder, label_names=names), 3, 0) == ("two lines", "1", "tab bed")


def test_names_of_another_number_of_classes_are_an_error(folder, tmp_path):
    (folder / "labels.txt").write_text("0:c\n1:d\n")
    with pytest.raises(DataError, match=r"names 2 classes, but the network has 5"):
        label_names(known(folder), 5, 0)
    with pytest.raises(DataError, match=r"There is no .*given"):
        label_names(known(folder), 2, 0, str(folder / "given"))
