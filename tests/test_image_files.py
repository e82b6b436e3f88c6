"""Images in folders: which classes and splits there are, and what is refused."""

import os
import shutil
import unicodedata

import pytest
from made_images import divided, logged, make_folder, relative

from slim_mp.data import image_files
from slim_mp.errors import DataError

# ---- classes


def test_sub_folders_are_the_classes_in_the_order_of_their_names(tmp_path):
    divided(tmp_path, "tulip", "Aster", "daisy 2")
    images = image_files.from_folder(tmp_path, "train")
    assert images.label_names == ("Aster", "daisy 2", "tulip")
    names = [path.split(os.sep)[1] for path in relative(images, tmp_path)]
    assert names == [name for name in images.label_names for _ in range(4)]
    assert images.labels == (0,) * 4 + (1,) * 4 + (2,) * 4
    assert list(images.paths) == sorted(images.paths)


def test_the_labels_do_not_depend_on_how_a_disk_writes_unicode(tmp_path):
    names = ("e", "é", "z", "ü")
    found = []
    for form in ("NFC", "NFD"):
        divided(tmp_path / form, *(unicodedata.normalize(form, name) for name in names))
        images = image_files.from_folder(tmp_path / form, "train")
        assert all(map(os.path.exists, images.paths))
        found.append((images.label_names, images.labels))
    assert found[0] == found[1] == (("e", "z", "é", "ü"), (0,) * 4 + (1,) * 4 + (2,) * 4 + (3,) * 4)


@pytest.mark.parametrize(
    ("names", "quoted"),
    [
        (("Rose", "rose"), "'Rose' and 'rose'"),
        (("É", "e\u0301"), "'e\u0301' and 'É'"),
        (("\xfc", "u\u0308"), r"'u\\u0308' and '\\xfc'"),
        (("rose", "rose "), "'rose' and 'rose '"),
    ],
)
def test_classes_that_another_disk_would_take_for_one_are_both_named(tmp_path, names, quoted):
    make_folder(tmp_path, *names)
    with pytest.raises(DataError, match=rf"classes {quoted}, which differ only in case"):
        image_files.from_folder(tmp_path, "train")


@pytest.mark.parametrize("name", ["a\x1b[31m", "a\nb", b"\xff".decode("utf-8", "surrogateescape")])
def test_a_class_that_cannot_be_shown_is_quoted(tmp_path, name):
    make_folder(tmp_path, "b", name)
    with pytest.raises(DataError, match=r"has a class '.*\\.*'.*; rename it") as raised:
        image_files.from_folder(tmp_path, "train")
    assert str(raised.value).isprintable()


def test_a_single_class_is_refused_with_the_folder_that_may_be_meant(tmp_path):
    make_folder(tmp_path / "photos", "a", "b")
    with pytest.raises(DataError, match=rf"single class, 'photos',.* {tmp_path}/photos, give that"):
        image_files.from_folder(tmp_path, "train")


def test_folders_without_classes_or_images_say_what_belongs_there(tmp_path):
    with pytest.raises(DataError, match=r"has no sub-folders; put the images"):
        image_files.from_folder(tmp_path, "train")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "notes.txt").touch()
    with pytest.raises(DataError, match=r"no images in its sub-folders"):
        image_files.from_folder(tmp_path, "train")
    with pytest.raises(DataError, match=r"nowhere cannot be read \(No such file"):
        image_files.from_folder(tmp_path / "nowhere", "train")


def test_an_empty_class_keeps_its_label_and_is_named(tmp_path, monkeypatch):
    log = logged(monkeypatch)
    divided(tmp_path, "a", "c")
    (tmp_path / "train" / "b").mkdir()
    images = image_files.from_folder(tmp_path, "train")
    assert (images.label_names, set(images.labels)) == (("a", "b", "c"), {0, 2})
    assert log == [f"{tmp_path}/train has no images for this split of these classes: b."]


# ---- splits that are folders


@pytest.mark.parametrize("name", ["validation", "val", "Valid", "VAL"])
@pytest.mark.parametrize("asked", ["validation", "val"])
def test_folders_of_the_splits_are_the_splits(tmp_path, name, asked):
    divided(tmp_path, "a", "b", "c", count=3)
    divided(tmp_path, "c", "a", split=name, count=2)
    validation = image_files.from_folder(tmp_path, asked)
    assert validation.label_names == ("a", "b", "c")
    assert validation.labels == (0, 0, 2, 2)
    assert all(path.startswith(f"{tmp_path}/{name}/") for path in validation.paths)
    assert len(image_files.from_folder(tmp_path, "train").paths) == 9
    with pytest.raises(DataError, match=r"no folder for the split 'dev'; it has test, train, va"):
        image_files.from_folder(tmp_path, "dev")
    with pytest.raises(DataError, match=r"/test has no images in its sub-folders"):
        image_files.from_folder(tmp_path, "test")


def test_a_class_that_training_lacks_is_named_before_training(tmp_path):
    divided(tmp_path, "a", "b")
    divided(tmp_path, "a", "B", split="val")
    divided(tmp_path, "a", "unknown", split="test")
    for split in ("train", "validation"):
        words = rf"^{tmp_path}/val has classes that {tmp_path}/train lacks: B; "
        with pytest.raises(DataError, match=words):
            image_files.from_folder(tmp_path, split)
    shutil.move(tmp_path / "val" / "B", tmp_path / "val" / "b")
    assert len(image_files.from_folder(tmp_path, "train").paths) == 8
    with pytest.raises(DataError, match=r"/test has classes that .*/train lacks: unknown"):
        image_files.from_folder(tmp_path, "test")


def test_a_folder_for_training_alone_is_divided_by_content(tmp_path):
    make_folder(tmp_path / "train", "a", "b", count=40)
    for split in ("train", "validation"):
        here = image_files.from_folder(tmp_path, split)
        assert here == image_files.from_folder(tmp_path / "train", split)


def test_a_folder_for_validation_alone_is_read_as_a_whole(tmp_path):
    make_folder(tmp_path / "val", "a", "b", count=40)
    assert len(image_files.from_folder(tmp_path, "validation").paths) == 80


def test_train_may_be_a_class(tmp_path):
    for classes in (("bus", "train/steam", "train/maglev"), ("bus", "test", "train")):
        make_folder(tmp_path / classes[1], *classes, count=20)
        images = image_files.from_folder(tmp_path / classes[1], "train")
        assert images.label_names == tuple(sorted({name.split("/")[0] for name in classes}))


def test_images_in_the_folder_of_a_split_itself_have_no_class(tmp_path):
    make_folder(tmp_path, "train", "test", count=20)
    with pytest.raises(DataError, match=rf"^{tmp_path}/train has no sub-folders; put the images"):
        image_files.from_folder(tmp_path, "train")


def test_folders_beside_those_of_the_splits_are_named(tmp_path, monkeypatch):
    log = logged(monkeypatch)
    divided(tmp_path, "a", "b")
    divided(tmp_path, "a", "b", split="test")
    make_folder(tmp_path, "annotations")
    assert len(image_files.from_folder(tmp_path, "train").paths) == 8
    assert log == [
        f"{tmp_path} is divided into test and train; it is read without the folders beside them: "
        "annotations."
    ]


def test_two_folders_for_a_split_are_refused(tmp_path):
    for split in ("train", "val", "validation"):
        divided(tmp_path, "a", "b", split=split)
    with pytest.raises(DataError, match=r"two folders for the same split, val and validation; put"):
        image_files.from_folder(tmp_path, "train")
