"""Lists of images and labels: what they may look like, and which line is named if it is wrong."""

import csv
import json
import os
import shutil

import pytest
from toy_records import plain_image

from slim_mp.data import image_files
from slim_mp.errors import DataError

FILES = ("a.png", "with, comma.png", 'with "quotes".png', "été/薔薇.png")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "été").mkdir()
    for number, name in enumerate(FILES):
        (tmp_path / name).write_bytes(plain_image(number))
    return tmp_path


def write_rows(path, rows, **options):
    with open(path, "w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, **options).writerows(rows)
    return path


def write_objects(path, objects):
    path.write_text("".join(f"{json.dumps(one)}\n" for one in objects), encoding="utf-8")
    return path


def write_split(folder, *labels, split="train", name="list.csv"):
    """A list of the first files, all of one split."""
    rows = [(file, label, split) for file, label in zip(FILES, labels, strict=False)]
    return write_rows(folder / name, [("file", "label", "split"), *rows])


def read(path, split="train"):
    images = image_files.from_list(path, split)
    names = [os.path.relpath(name, path.parent) for name in images.paths]
    return names, images.labels, images.label_names


# ---- what they may look like


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "header",
    [("file", "label", "split"), ("Filename ", " Class", "SPLIT"), ("path", "label", "split")],
)
def test_a_csv_is_read_with_quotes_marks_and_either_end_of_line(folder, header, ending):
    rows = [(file, label, "train") for file, label in zip(FILES, "bcab", strict=True)]
    path = write_rows(folder / "x.CSV", [header, *rows], lineterminator=ending)
    assert read(path) == (list(FILES), (1, 2, 0, 1), ("a", "b", "c"))


def test_a_json_list_says_the_same_as_a_csv(folder):
    objects = [
        {"label": label, "file": file, "split": "train", "width": 4}
        for file, label in zip(FILES, "bcab", strict=True)
    ]
    path = write_objects(folder / "x.jsonl", objects)
    assert read(path) == (list(FILES), (1, 2, 0, 1), ("a", "b", "c"))


def test_columns_that_mean_nothing_and_empty_lines_are_passed_over(folder):
    path = folder / "x.csv"
    path.write_text("id,label,split,file\n\n7, a ,train,a.png\n\n8,b,train,été/薔薇.png\n")
    assert read(path) == (["a.png", "été/薔薇.png"], (0, 1), ("a", "b"))


def test_paths_begin_at_the_folder_of_the_list(folder, monkeypatch):
    (folder / "lists").mkdir()
    rows = [("../a.png", "x", "train"), (str(folder / FILES[1]), "y", "train")]
    write_rows(folder / "lists" / "l.csv", [("file", "label", "split"), *rows])
    monkeypatch.chdir(folder)
    images = image_files.from_list("lists/l.csv", "train")
    assert images.paths == ("a.png", str(folder / FILES[1]))


def test_the_split_of_a_list_is_obeyed(folder):
    rows = list(zip(FILES, "abab", ("train", "val", "dev", "train"), strict=True))
    path = write_rows(folder / "l.csv", [("file", "label", "split"), *rows])
    for split, indices in (("train", (0, 3)), ("validation", (1,)), ("val", (1,)), ("dev", (2,))):
        assert read(path, split)[0] == [FILES[index] for index in indices]
    with pytest.raises(DataError, match=r"split 'test'; its splits are: dev, train, validation \("):
        read(path, "test")


def test_a_list_without_splits_is_divided_as_a_folder_is(tmp_path):
    rows = []
    for number in range(120):
        name = f"photos/{'ab'[number % 2]}/{number:03d}.png"
        os.makedirs(tmp_path / os.path.dirname(name), exist_ok=True)
        (tmp_path / name).write_bytes(plain_image(number))
        rows.append((name, "ab"[number % 2]))
    path = write_rows(tmp_path / "l.csv", [("file", "label"), *rows])
    for split in ("train", "validation"):
        listed = image_files.from_list(path, split)
        found = image_files.from_folder(tmp_path / "photos", split)
        assert sorted(zip(listed.paths, listed.labels, strict=True)) == sorted(
            zip(found.paths, found.labels, strict=True)
        )


# ---- classes


def test_numbers_are_labels(folder):
    images = image_files.from_list(write_split(folder, "3", "10", "03", "0"), "train")
    assert images.labels == (3, 10, 3, 0)
    assert (images.label_names, images.only_numbers) == (tuple(map(str, range(11))), True)


def test_a_json_list_may_hold_numbers_as_such(folder):
    objects = [{"file": file, "label": n, "split": "train"} for n, file in enumerate(FILES)]
    assert read(write_objects(folder / "x.jsonl", objects))[1] == (0, 1, 2, 3)


def test_labels_txt_names_numbers_and_numbers_names(folder):
    (folder / "labels.txt").write_text("0:rose\n1:aster\n4:薔薇\n", encoding="utf-8")
    names = ("rose", "aster", "", "", "薔薇")
    assert read(write_split(folder, "4", "0"))[1:] == ((4, 0), names)
    assert read(write_split(folder, "薔薇", "rose"))[1:] == ((4, 0), names)
    with pytest.raises(DataError, match=r"Line 3 of .* has the label '5'; it must be 0 to 4\."):
        read(write_split(folder, "4", "5"))
    with pytest.raises(DataError, match=r"Line 2 of .* class 'Rose', which .*txt does not name;"):
        read(write_split(folder, "Rose", "aster"))
    (folder / "labels.txt").write_text("0:rose\n1:rose\n2:a\n")
    with pytest.raises(DataError, match=r"Line 3 of .* class 'rose', which .*txt names twice;"):
        read(write_split(folder, "a", "rose"))


@pytest.mark.parametrize("label", ["-1", "1048576", "9" * 5000])
def test_a_label_that_no_head_could_have_is_named(folder, label):
    with pytest.raises(DataError, match=r"Line 3 of .* has the label '.*; it must be 0") as raised:
        read(write_split(folder, "0", label))
    assert len(str(raised.value)) < 300


def test_classes_that_differ_in_case_and_a_single_one_are_refused(folder):
    with pytest.raises(DataError, match=r"classes 'Rose' and 'rose', which differ only in case"):
        read(write_split(folder, "rose", "Rose"))
    with pytest.raises(DataError, match=r"a single class, 'rose', .* add images of other classes"):
        read(write_split(folder, "rose", "rose"))


# ---- lines that are wrong


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", r"lists no images"),
        ("\n\n", r"lists no images"),
        ("file,label\n", r"lists no images"),
        ("a.png,b\n", r"Line 1 of .* is 'a\.png,b'; it must be a header with the columns file and"),
        ("file;label\na.png;b\n", r"Line 1 of .* is 'file;label'; it must be a header"),
        ("file,path,label\na,b,c\n", r"has file and path, which mean the same; keep one"),
        ("file,label\na.png,a\nb,c.png,b\n", r"Line 3 of .* has 3 fields, but the header has 2;"),
        ("file,label\n\na.png\n", r"Line 3 of .* has 1 fields, but the header has 2;"),
        ("file,label\na.png, \n", r"Line 2 of .* has an empty label;"),
        ("file,label\n,a\n", r"Line 2 of .* has an empty file;"),
        ("file,label,split\na.png,a,\n", r"Line 2 of .* has an empty split;"),
        ('file,label\n"a.png,a\n', r"of .* is not CSV \(unexpected end of data\)"),
        ('file,label\n"a"b,a\n', r"Line 2 of .* is not CSV"),
    ],
)
def test_a_line_of_a_csv_that_is_wrong_is_named(folder, content, words):
    (folder / "l.csv").write_text(content)
    with pytest.raises(DataError, match=words):
        read(folder / "l.csv")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a.png", r"Line 2 of .* is 'a\.png'; each line must be a JSON object"),
        ("[" * 100_000, r"Line 2 of .* is '\[\["),
        ("[1]", r"Line 2 of .* is '\[1\]'; each line must be a JSON object"),
        ('{"label": "a"}', r"Line 2 of .* has no file;"),
        ('{"file": "a.png"}', r"Line 2 of .* has no label;"),
        ('{"file": "a.png", "label": 1.0}', r"has the label '1\.0'; it must be text or a whole"),
        ('{"file": "a.png", "label": true}', r"has the label 'True'; it must be text or a whole"),
        ('{"file": "a.png", "label": null}', r"has the label 'None'; it must be text or a whole"),
        ('{"file": 1, "label": "a"}', r"has the file '1'; it must be text\."),
        ('{"file": "a.png", "label": "a", "split": "train"}', r"Line 1 of .* has no split, but"),
    ],
)
def test_a_line_of_a_json_list_that_is_wrong_is_named(folder, line, words):
    (folder / "l.jsonl").write_text('{"file": "a.png", "label": "b"}\n' + line + "\n")
    with pytest.raises(DataError, match=words) as raised:
        read(folder / "l.jsonl")
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize("key", ["file", "label", "split"])
def test_half_a_character_is_named_with_the_line(folder, key):
    name = os.fsdecode(b"a\xff.png")
    shutil.copy(folder / "a.png", folder / name)
    rows = [{"file": "a.png", "label": "a", "split": "train"} for _ in range(2)]
    rows[1][key] = name
    with pytest.raises(DataError, match=rf"Line 2 of .* has the {key} 'a\\udcff.png', which is no"):
        read(write_objects(folder / "l.jsonl", rows))


def test_a_list_that_is_not_utf_8_is_named_with_the_line(folder):
    (folder / "l.csv").write_bytes("file,label\na.png,a\nb.png,é\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"Line 3 of .*l\.csv is not UTF-8; save the list as UTF-8"):
        read(folder / "l.csv")
    (folder / "l.csv").write_bytes("file,label\n".encode("utf-16"))
    with pytest.raises(DataError, match=r"Line 1 of .*l\.csv is not UTF-8"):
        read(folder / "l.csv")


def test_what_a_list_holds_does_not_reach_the_terminal_raw(folder):
    for content in ("\x1b[31m", "file,label\n\x1b[31m,a\n,b\n", "file,label\n\x1b,a\na.png,b\n"):
        (folder / "l.csv").write_text(content)
        with pytest.raises(DataError) as raised:
            read(folder / "l.csv")
        assert str(raised.value).isprintable()


def test_a_missing_list_is_named(folder):
    with pytest.raises(DataError, match=r"none\.csv cannot be read \(No such file"):
        read(folder / "none.csv")


# ---- files that are wrong


def test_missing_files_are_counted_and_the_first_ones_named(folder):
    rows = [(f"no {number}.png", "ab"[number % 2]) for number in range(9)]
    path = write_rows(folder / "l.csv", [("file", "label"), ("a.png", "a"), *rows])
    words = (
        r"9 of the 10 files of .*: 'no 0.png', .*'no 4.png' and 4 more; the first is in line 3\."
    )
    with pytest.raises(DataError, match=words):
        read(path)
    for name in ("été", "a\0b"):
        write_objects(
            folder / "l.jsonl", [{"file": "a.png", "label": 0}, {"file": name, "label": 1}]
        )
        with pytest.raises(DataError, match=r"1 of the 2 files of .* do not exist"):
            read(folder / "l.jsonl")


def test_a_file_with_two_labels_or_splits_is_named_with_both_lines(folder):
    rows = [("a.png", "a", "train"), (FILES[1], "b", "train"), ("./a.png", "b", "train")]
    path = write_rows(folder / "l.csv", [("file", "label", "split"), *rows])
    with pytest.raises(DataError, match=r"Lines 2 and 4 of .* give '\./a\.png' different labels;"):
        read(path)
    rows[2] = ("été/../a.png", "a", "validation")
    write_rows(path, [("file", "label", "split"), *rows])
    with pytest.raises(DataError, match=r"Lines 2 and 4 of .* different splits; correct one"):
        read(path)
    rows[2] = ("a.png", "a", "train")
    write_rows(path, [("file", "label", "split"), *rows])
    assert read(path)[0] == ["a.png", FILES[1], "a.png"]


def test_a_file_that_cannot_be_read_is_named(folder):
    shutil.copy(folder / "a.png", folder / "b.png")
    path = write_rows(folder / "l.csv", [("file", "label"), ("a.png", "a"), ("b.png", "b")])
    (folder / "b.png").unlink()
    (folder / "b.png").symlink_to("nowhere")
    with pytest.raises(DataError, match=r"1 of the 2 files of .* do not exist: 'b.png'"):
        read(path)
