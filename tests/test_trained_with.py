"""What a run writes beside its checkpoints: the names of its classes."""

import os

import tiny_runs

from slim_mp.checkpoints import trained_with
from slim_mp.training import train

FACTS = trained_with.TrainedWith("lenet", 2, 1, "lenet", 28, ("tulipán", "роза"))


def test_names_are_read_as_they_were_written(tmp_path):
    trained_with.write(tmp_path, FACTS)
    assert trained_with.read(str(tmp_path / "model.ckpt-1")) == FACTS
    assert "tulipán" in (tmp_path / trained_with.FILE_NAME).read_text("utf-8")


def test_a_file_of_before_there_were_names_is_read(tmp_path):
    trained_with.write(tmp_path, FACTS)
    file = tmp_path / trained_with.FILE_NAME
    before, _, _ = file.read_text("utf-8").partition(',\n  "label_names"')
    file.write_text(before + "}")
    assert trained_with.read(str(tmp_path / "model.ckpt-1")).label_names is None


def test_the_labels_offset_drops_the_first_names():
    assert trained_with.names_of_classes(("background", "a", "b"), 1) == ("a", "b")
    assert trained_with.names_of_classes(None, 1) is None


def test_a_great_many_names_are_left_out():
    names = tuple(map(str, range(trained_with.MOST_NAMES + 1)))
    assert trained_with.names_of_classes(names, 1) == names[1:]
    assert trained_with.names_of_classes(names, 0) is None


def test_a_run_writes_the_names_of_its_classes(tmp_path):
    data = tmp_path / "data"
    tiny_runs.dataset(data)
    (data / "labels.txt").write_text("0:красный\n1:green\n2:blue\n", "utf-8")
    dataset = tiny_runs.data.open_dataset("toy", "train", data)
    train.train(
        tiny_runs.config(tmp_path / "train", max_number_of_steps=1), tiny_runs.network(), dataset
    )
    facts = trained_with.read(os.path.join(tmp_path, "train", "model.ckpt-1"))
    assert facts.label_names == ("красный", "green", "blue")
