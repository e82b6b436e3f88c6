"""Which files, classes and counts a dataset has, and what is said where it cannot be opened."""

import json
import os
import pathlib

import pytest
from toy_records import make_record, plain_image, write_numbered, write_records

from slim_mp import data
from slim_mp.compat import tf
from slim_mp.data import datasets, record_files
from slim_mp.errors import DataError, UsageError

ROOT = pathlib.Path(__file__).parents[1]


# ---- bad files


def test_a_cut_off_file_is_named_when_it_is_opened(tmp_path):
    write_numbered(tmp_path, (4, 6))
    path = tmp_path / "toy_train_001.tfrecord"
    whole = path.read_bytes()
    record_bytes = len(whole) // 6
    for size in (len(whole) - 1, 3 * record_bytes + 5, 3 * record_bytes + 30):
        path.write_bytes(whole[:size])
        with pytest.raises(
            DataError, match=rf"{path} is cut off in record {size // record_bytes} "
        ):
            data.open_dataset("toy", "train", tmp_path, num_classes=10)


def test_files_that_are_no_record_files_are_named(tmp_path):
    path = tmp_path / "toy_train.tfrecord"
    for content in (plain_image(0), b"0:daisy\n" * 10):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"{path} is not a TFRecord file"):
            data.open_dataset("toy", "train", tmp_path, num_classes=10)


def test_files_without_examples_are_named(tmp_path):
    (tmp_path / "toy_train.tfrecord").write_bytes(b"")
    with pytest.raises(DataError, match=r"no examples in .*toy_train.tfrecord"):
        data.open_dataset("toy", "train", tmp_path, num_classes=10)


def test_some_files_without_examples_are_warned_of(tmp_path, caplog):
    write_numbered(tmp_path, (2, 3, 4))
    assert "no examples" not in caplog.text
    (tmp_path / "toy_train_001.tfrecord").write_bytes(b"")
    for _ in ("counted", "cached"):
        caplog.clear()
        assert data.open_dataset("toy", "train", tmp_path, 10).examples_per_file == (2, 0, 4)
        assert "1 of 3 record files hold no examples: toy_train_001.tfrecord." in caplog.text


def test_counting_agrees_with_tensorflow():
    path = ROOT / "slim_mp/data/digits/digits_train.tfrecord"
    count = sum(1 for _ in tf.python_io.tf_record_iterator(str(path)))
    assert record_files.count_records(str(path)) == count


# ---- files that cannot be read


def refuse(monkeypatch, refused):
    """Lets no reader open one path, as for a user who is not root."""

    def opener(opens, error):
        def open_others(path, *arguments, **options):
            if os.fspath(path) == str(refused):
                raise error
            return opens(path, *arguments, **options)

        return open_others

    denied = tf.errors.PermissionDeniedError(None, None, f"{refused}; Permission denied")
    monkeypatch.setattr(
        "builtins.open", opener(open, PermissionError(13, "Permission denied", str(refused)))
    )
    monkeypatch.setattr(tf.io.gfile, "GFile", opener(tf.io.gfile.GFile, denied))
    monkeypatch.setattr(tf.io.gfile, "listdir", opener(tf.io.gfile.listdir, denied))


@pytest.mark.parametrize("name", ["toy_train_000.tfrecord", "labels.txt", "."])
def test_what_may_not_be_read_is_named(tmp_path, monkeypatch, name):
    write_numbered(tmp_path, (2,))
    (tmp_path / "labels.txt").write_text("0:a\n1:b\n")
    os.remove(tmp_path / record_files.CACHE_NAME)
    refuse(monkeypatch, tmp_path / name)
    words = rf"^{tmp_path / name} cannot be read \(Permission denied\); "
    with pytest.raises(DataError, match=words):
        data.open_dataset("toy", "train", tmp_path)


@pytest.mark.parametrize("name", ["toy_train_001.tfrecord", "labels.txt"])
def test_a_link_to_nowhere_is_named(tmp_path, name):
    write_numbered(tmp_path, (2,))
    (tmp_path / name).symlink_to("nowhere")
    with pytest.raises(DataError, match=rf"{tmp_path / name} cannot be read \(No such file"):
        data.open_dataset("toy", "train", tmp_path, num_classes=10)


def test_a_folder_in_place_of_the_labels_file_is_named(tmp_path):
    write_numbered(tmp_path, (2,))
    (tmp_path / "labels.txt").mkdir()
    with pytest.raises(DataError, match=r"labels.txt cannot be read \(Is a directory\)"):
        data.open_dataset("toy", "train", tmp_path)


def test_a_file_name_that_is_no_text_is_named(tmp_path):
    write_numbered(tmp_path, (2,))
    with open(os.fsencode(tmp_path) + b"/\xff", "wb"):
        pass
    with pytest.raises(DataError, match=r"a name that is not UTF-8: b'\\xff'"):
        data.open_dataset("toy", "train", tmp_path, num_classes=10)


def test_a_file_name_does_not_reach_the_terminal_raw(tmp_path):
    for name in ("\x1b[31m.rec", "x" * 200, "\x1b_train.tfrecord", "toy_\x07_0.tfrecord"):
        (tmp_path / name).touch()
    for name, said in (("imagenet", r"holds '\\x1b\[31m\.rec', "), ("toy", r"splits: '\\x07'")):
        with pytest.raises(DataError, match=said) as raised:
            data.open_dataset(name, "train", tmp_path)
        assert str(raised.value).isprintable()
        assert "x" * 100 not in str(raised.value)


def test_a_cache_that_may_not_be_read_is_not_used(tmp_path, monkeypatch):
    write_numbered(tmp_path, (2,))
    refuse(monkeypatch, tmp_path / record_files.CACHE_NAME)
    assert data.open_dataset("toy", "train", tmp_path, 10).num_examples == 2


# ---- names, splits, classes


@pytest.mark.parametrize(
    ("name", "split", "files", "num_classes"),
    [
        ("flowers", "validation", ["flowers_validation_00000-of-00001.tfrecord"], 5),
        ("cifar10", "test", ["cifar10_test.tfrecord"], 10),
        ("mnist", "train", ["mnist_train.tfrecord"], 10),
        ("imagenet", "train", ["train-00000-of-00002", "train-00001-of-00002"], 1001),
        ("visualwakewords", "val", ["val.record-00000-of-00002", "val.record-00001-of-00002"], 2),
        ("birds", "dev", ["birds_dev_0.tfrecord", "birds_dev_1.tfrecord"], 4),
        ("birds", "dev", ["birds_dev.tfrecord"], 4),
        ("tfrecord", "dev", ["dev-00000-of-00001"], 4),
    ],
)
def test_files_are_found_by_the_conventions_of_slim(tmp_path, name, split, files, num_classes):
    folder = tmp_path / "with [brackets]"
    folder.mkdir()
    for other in (*files, "flowers_train_0.tfrecord", "validation-00000-of-00128"):
        write_records(folder / other, [make_record(plain_image(0), 0)])
    asked = num_classes if name in ("birds", "tfrecord") else None
    dataset = data.open_dataset(name, split, folder, num_classes=asked)
    assert [os.path.basename(path) for path in dataset.files] == files
    assert (dataset.num_classes, dataset.num_examples) == (num_classes, len(files))


def test_a_file_pattern_takes_the_place_of_the_conventions(tmp_path):
    (tmp_path / "a").mkdir()
    write_records(tmp_path / "a/x.dev.rec", [make_record(plain_image(0), 0)])
    dataset = data.open_dataset("mine", "dev", tmp_path, 3, file_pattern="a/*.%s.rec")
    assert dataset.files == (str(tmp_path / "a/x.dev.rec"),)


def test_labels_file_gives_the_classes_and_their_names(tmp_path):
    write_numbered(tmp_path, (2,))
    (tmp_path / "labels.txt").write_bytes(b"\xef\xbb\xbf1:daisy\r\n3:a: rose\r\n\r\n")
    dataset = data.open_dataset("toy", "train", tmp_path)
    assert dataset.num_classes == 4
    assert dataset.label_names == ("", "daisy", "", "a: rose")
    with pytest.raises(DataError, match=r"labels.txt has 4 classes, but 5 were asked for"):
        data.open_dataset("toy", "train", tmp_path, num_classes=5)


@pytest.mark.parametrize("line", ["rose", "x:rose", "0:again", "-1:rose", "99999999999:rose"])
def test_a_bad_line_of_the_labels_file_is_named(tmp_path, line):
    write_numbered(tmp_path, (2,))
    (tmp_path / "labels.txt").write_text(f"0:daisy\n{line}\n")
    with pytest.raises(DataError, match=rf"Line 2 of .*labels.txt is '{line}'"):
        data.open_dataset("toy", "train", tmp_path)


@pytest.mark.parametrize("label", [2**20, 99999999999, "9" * 5000, "0" * 5000])
def test_a_label_is_believed_only_where_a_head_could_have_it(tmp_path, label):
    write_numbered(tmp_path, (2,))
    (tmp_path / "labels.txt").write_text(f"1:daisy\n{label}:rose\n")
    if set(str(label)) == {"0"}:
        assert data.open_dataset("toy", "train", tmp_path).label_names == ("rose", "daisy")
        return
    with pytest.raises(DataError, match=r"Line 2 of .*; a label must be below 1048576") as raised:
        data.open_dataset("toy", "train", tmp_path)
    assert len(str(raised.value)) < 300
    with pytest.raises(UsageError, match=r"--num_classes.* must be 1 to 1048576"):
        data.open_dataset("synthetic", num_classes=2**20 + 1)


def test_what_a_labels_file_holds_does_not_reach_the_terminal_raw(tmp_path):
    write_numbered(tmp_path, (2,))
    (tmp_path / "labels.txt").write_bytes(b"\x1b[31m\x07\x00\xff" * 1000)
    with pytest.raises(DataError, match=r"Line 1 of .* is '\\x1b\[31m") as raised:
        data.open_dataset("toy", "train", tmp_path)
    assert str(raised.value).isprintable() and len(str(raised.value)) < 400


def test_a_label_that_is_there_twice_is_named_with_both_lines(tmp_path):
    write_numbered(tmp_path, (2,))
    (tmp_path / "labels.txt").write_text("\n0:a\n1:b\n00:c\n")
    with pytest.raises(DataError, match=r"Line 4 .* '00:c', but label 0 is already in line 2;"):
        data.open_dataset("toy", "train", tmp_path)


def test_missing_things_are_said_early_and_kindly(tmp_path):
    write_numbered(tmp_path, (2,))
    with pytest.raises(DataError, match=r"classes of 'toy' is unknown.*labels.txt.*--num_classes"):
        data.open_dataset("toy", "train", tmp_path)
    with pytest.raises(DataError, match=r"needs the folder.*'digits' and 'synthetic'"):
        data.open_dataset("flowers")
    with pytest.raises(DataError, match=r"nowhere does not exist"):
        data.open_dataset("toy", "train", tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"toy_dev_\*.* there are files of the splits: train\."):
        data.open_dataset("toy", "dev", tmp_path, 10)
    with pytest.raises(DataError, match=r"no split 'test'; its splits are train and validation"):
        data.open_dataset("digits", "test")
    with pytest.raises(DataError, match=r"the folder holds slim_mp_counts.json, toy_train_000"):
        data.open_dataset("birds", "train", tmp_path, 10)
    with pytest.raises(DataError, match=r"'digits' has 10 classes.*=11.* leave --num_classes out"):
        data.open_dataset("digits", num_classes=11)
    with pytest.raises(UsageError, match=r"number of classes is 0"):
        data.open_dataset("synthetic", num_classes=0)


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_name_of_the_set_that_is_there_is_offered(tmp_path, split):
    write_numbered(tmp_path, (2, 3))
    with pytest.raises(DataError, match=r"of 'toy': --dataset_name=toy reads them\.$"):
        data.open_dataset("imagenet", split, tmp_path)
    write_records(tmp_path / "a_b_validation.tfrecord", [make_record(plain_image(0), 0)])
    with pytest.raises(DataError, match=r"files of a_b, toy: give --dataset_name\.$"):
        data.open_dataset("imagenet", split, tmp_path)


# ---- the cache of counts


def test_counts_are_cached_and_a_changed_file_is_counted_again(tmp_path, monkeypatch):
    counted = []
    count_records = record_files.count_records

    def count_and_note(path):
        counted.append(os.path.basename(path))
        return count_records(path)

    monkeypatch.setattr(record_files, "count_records", count_and_note)
    assert write_numbered(tmp_path, (4, 6)).num_examples == 10
    assert sorted(counted) == ["toy_train_000.tfrecord", "toy_train_001.tfrecord"]
    assert data.open_dataset("toy", "train", tmp_path, 10).examples_per_file == (4, 6)
    assert len(counted) == 2
    # Another file of the same size: only the time of modification tells.
    path = tmp_path / "toy_train_001.tfrecord"
    write_records(path, [bytes(path.stat().st_size - 16)])
    assert data.open_dataset("toy", "train", tmp_path, 10).examples_per_file == (4, 1)
    assert counted[2:] == ["toy_train_001.tfrecord"]
    assert set(os.listdir(tmp_path)) == {record_files.CACHE_NAME, *counted[:2]}


@pytest.mark.parametrize("content", ["", "[]", "{", '{"toy_train_000.tfrecord": 5}', "[" * 10**5])
def test_a_damaged_cache_is_not_believed(tmp_path, content):
    write_numbered(tmp_path, (4,))
    cache = tmp_path / record_files.CACHE_NAME
    cache.write_text(content)
    assert data.open_dataset("toy", "train", tmp_path, 10).num_examples == 4
    assert json.loads(cache.read_text())["toy_train_000.tfrecord"][2] == 4


@pytest.mark.parametrize("count", [None, "4", 4.0, True, -1, 10**9, [4]])
def test_a_count_that_cannot_be_is_not_believed(tmp_path, count):
    write_numbered(tmp_path, (4,))
    cache = tmp_path / record_files.CACHE_NAME
    entries = json.loads(cache.read_text())
    entries["toy_train_000.tfrecord"][2] = count
    cache.write_text(json.dumps(entries))
    found = data.open_dataset("toy", "train", tmp_path, 10).num_examples
    assert (found, type(found)) == (4, int)


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path):
    write_numbered(tmp_path, (4,))
    os.remove(tmp_path / record_files.CACHE_NAME)
    (tmp_path / record_files.CACHE_NAME).mkdir()
    (tmp_path / record_files.CACHE_NAME / "in the way").touch()
    assert data.open_dataset("toy", "train", tmp_path, 10).num_examples == 4
    assert len(os.listdir(tmp_path)) == 2


def test_the_package_itself_is_not_written_to():
    data.open_dataset()
    assert record_files.CACHE_NAME not in os.listdir(datasets._DIGITS_FOLDER)
