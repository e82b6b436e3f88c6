"""The CSV file of predictions: in order, in UTF-8, with names, whole or absent."""

import csv
import os

import numpy as np
import programs
import pytest
import table_runs
from made_checkpoints import network_arrays, save
from table_runs import CLASSES, COUNT, labels, table
from toy_records import encode, make_feature, plain_image, write_records

from slim_mp import data
from slim_mp.compat import tf
from slim_mp.data.class_names import Classes
from slim_mp.errors import UsageError
from slim_mp.evaluation import evaluate
from slim_mp.evaluation.predictions import open_predictions

NAMES = ("daisy", 'Müller, "Hans"', "line\nfeed", "猫", "=1+1", "b\x00", "rose")


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def run(folder, logits, path, classes=CLASSES, **changes):
    dataset = table_runs.numbered_dataset(folder / "data", classes)
    config = table_runs.config(folder, outputs={"predictions_csv": str(path)}, **changes)
    evaluate.evaluate(config, table_runs.network(logits), dataset)
    return read(path)


@pytest.mark.parametrize(("batch_size", "clones"), [(5, 2), (100, 1)])
def test_each_image_has_a_row_in_the_order_of_the_dataset(tmp_path, batch_size, clones):
    path = tmp_path / "new folder" / "predictions.csv"
    rows = run(tmp_path, table(), path, batch_size=batch_size, clones=clones)
    half = COUNT // 2
    assert [row["file"] for row in rows] == [
        *(f"toy_test_0.tfrecord#{n}" for n in range(half)),
        *(f"toy_test_1.tfrecord#{n}" for n in range(COUNT - half)),
    ]
    assert [int(row["label"]) for row in rows] == labels().tolist()
    probabilities = np.exp(table().astype(np.float64))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    order = np.argsort(-probabilities, axis=1)
    for rank in range(5):
        found = [int(row[f"top{rank + 1}"]) for row in rows]
        assert found == order[:, rank].tolist()
        shown = [float(row[f"top{rank + 1}_probability"]) for row in rows]
        expected = np.take_along_axis(probabilities, order, axis=1)[:, rank]
        np.testing.assert_allclose(shown, expected, rtol=1e-6)
    assert len(rows[0]) == 3 + 3 * 5
    assert {row["label_name"] for row in rows} == {""}


def test_fewer_than_five_classes_have_fewer_columns(tmp_path):
    rows = run(tmp_path, table(3), tmp_path / "p.csv", classes=3)
    assert [name for name in rows[0] if name.endswith("_probability")] == [
        f"top{rank}_probability" for rank in (1, 2, 3)
    ]
    total = sum(float(rows[0][f"top{rank}_probability"]) for rank in (1, 2, 3))
    assert total == pytest.approx(1, abs=1e-6)


def answers(names, label=0, is_finite=True):
    count = len(names)
    return {
        "names": np.array(names, object),
        "labels": np.full(count, label),
        "best": np.tile(np.arange(5), (count, 1)),
        "log_probability": np.log(np.tile([0.4, 0.3, 0.2, 0.06, 0.04], (count, 1))),
        "is_finite": np.full(count, is_finite),
    }


@pytest.mark.parametrize("offset", [0, 1])
def test_labels_and_names_are_those_of_the_dataset(tmp_path, offset):
    path = tmp_path / "p.csv"
    with open_predictions(str(path), Classes(CLASSES - offset, offset, NAMES)) as write:
        write(answers([b"a.jpg"]))
    [row] = read(path)
    assert (row["label"], row["label_name"]) == (str(offset), NAMES[offset])
    for rank in range(5):
        label = rank + offset
        assert row[f"top{rank + 1}"] == str(label)
        assert row[f"top{rank + 1}_name"] == NAMES[label]
    assert row["top1_probability"] == "0.4"


def test_any_file_name_can_be_read_back(tmp_path):
    names = ["plain.jpg", "with space, and comma.jpg", 'Ångström/猫 "1".png', "two\nlines", "🙂"]
    encoded = [name.encode() for name in names]
    path = tmp_path / "p.csv"
    with open_predictions(str(path), Classes(CLASSES)) as write:
        write(answers([*encoded, "Ångström".encode("latin-1")]))
    assert [row["file"] for row in read(path)] == [*names, "\\xc5ngstr\\xf6m"]


def test_the_name_of_an_image_is_that_in_its_record(tmp_path):
    features = {
        "image/encoded": make_feature(plain_image(3)),
        "image/class/label": make_feature(2),
        "image/filename": make_feature("Möwe 3.png".encode()),
    }
    record = tf.train.Example(features=tf.train.Features(feature=features))
    write_records(tmp_path / "toy_test.tfrecord", [record.SerializeToString()])
    dataset = data.open_dataset("toy", "test", tmp_path, num_classes=CLASSES)
    path = tmp_path / "p.csv"
    config = table_runs.config(tmp_path, outputs={"predictions_csv": str(path)})
    evaluate.evaluate(config, table_runs.network(table()), dataset)
    assert [(row["file"], row["label"]) for row in read(path)] == [("Möwe 3.png", "2")]


def test_an_image_without_an_answer_has_no_classes(tmp_path):
    path = tmp_path / "p.csv"
    with open_predictions(str(path), Classes(CLASSES)) as write:
        write(answers([b"a", b"b"], is_finite=False))
    assert [row["top1"] + row["top5_probability"] for row in read(path)] == ["", ""]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_the_file_is_whole_or_as_it_was(tmp_path, error):
    path = tmp_path / "p.csv"
    path.write_text("before")

    def write_and_fail():
        with open_predictions(str(path), Classes(CLASSES)) as write:
            write(answers([b"a"] * 1000))
            raise error

    with pytest.raises(error):
        write_and_fail()
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["p.csv"]


@pytest.mark.parametrize("place", ["folder", "file/p.csv"])
def test_a_place_that_cannot_be_written_is_found_before_the_work(tmp_path, place):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    config = table_runs.config(tmp_path, "none", {"predictions_csv": str(tmp_path / place)})
    with pytest.raises(UsageError, match="--predictions_csv="):
        evaluate.evaluate(config, None, None)


def test_the_list_of_images_is_not_replaced_though_it_may_be_predictions(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.png").write_bytes(encode(np.zeros([28, 28], np.uint8)))
    path = tmp_path / "list.csv"
    text = "file,label,label_name,top1,split\na.png,0,,,train\nb.png,1,,,test\n"
    path.write_text(text)
    code, _, err = programs.call(
        programs.EVALUATE,
        f"--checkpoint_path={save(tmp_path / 'model.ckpt', network_arrays('lenet', 2))}",
        "--model_name=lenet",
        f"--dataset_dir={path}",
        "--dataset_split_name=test",
        f"--eval_dir={tmp_path / 'eval'}",
        f"--predictions_csv={tmp_path / '.' / 'list.csv'}",
    )
    assert code == 2, err
    assert "is the list of images in --dataset_dir" in err
    assert path.read_text() == text
