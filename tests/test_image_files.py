"""Images in folders: which files, classes and splits are found, and what is refused."""

import os
import pathlib
import shutil
import unicodedata

import pytest
from absl import logging
from toy_records import plain_image

from slim_mp import image_files, image_split
from slim_mp.errors import DataError

VALIDATION_SHARE = image_split.VALIDATION_SHARE


def make_folder(folder, *classes, count=4):
    """Folders of images that are all different."""
    for number, name in enumerate(classes):
        os.makedirs(folder / name, exist_ok=True)
        for index in range(count):
            # What follows the end of a PNG is not part of the image, but makes another file of it.
            content = plain_image(index % 256) + bytes([number]) + os.fsencode(name)
            (folder / name / f"{index:03d}.png").write_bytes(content)
    return folder


def divided(folder, *classes, split="train", **options):
    """A folder with images of one split and no images of another."""
    os.makedirs(folder / "test", exist_ok=True)
    return make_folder(folder / split, *classes, **options).parent


def relative(images, folder):
    return [os.path.relpath(path, folder) for path in images.paths]


@pytest.fixture
def log(monkeypatch):
    """The lines that are logged, as they are read."""
    lines = []

    def note(words, *arguments):
        lines.append(words % arguments)

    for level in ("info", "warning"):
        monkeypatch.setattr(logging, level, note)
    return lines


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


def test_an_empty_class_keeps_its_label_and_is_named(tmp_path, log):
    divided(tmp_path, "a", "c")
    (tmp_path / "train" / "b").mkdir()
    images = image_files.from_folder(tmp_path, "train")
    assert (images.label_names, set(images.labels)) == (("a", "b", "c"), {0, 2})
    assert log == [f"{tmp_path}/train has no images for this split of these classes: b."]


# ---- what is an image


def test_images_are_told_by_their_endings_and_the_others_listed_once(tmp_path, log):
    make_folder(tmp_path, "a", "b", count=40)
    for name in (".DS_Store", "Thumbs.db", "._000.png", "desktop.ini"):
        (tmp_path / "a" / name).write_bytes(plain_image(0))
    (tmp_path / "__MACOSX").mkdir()
    make_folder(tmp_path, ".hidden", "a/.thumbs", "a/@eaDir")
    (tmp_path / "a" / "B.JPEG").write_bytes(plain_image(250))
    (tmp_path / "a" / "notes.txt").touch()
    (tmp_path / "b" / "x.xml").touch()
    (tmp_path / "c").touch()
    paths = []
    for split in ("train", "validation"):
        images = image_files.from_folder(tmp_path, split)
        assert images.label_names == ("a", "b")
        paths += relative(images, tmp_path)
    numbered = [f"{name}/{index:03d}.png" for name in "ab" for index in range(40)]
    assert sorted(paths) == sorted(["a/B.JPEG", *numbered])
    line = f"{tmp_path}: ignored 3 files that are not images by their names: c, notes.txt, x.xml."
    assert log == [line] * 2


def test_a_name_without_an_ending_is_an_image_if_the_content_is(tmp_path):
    divided(tmp_path, "a", "b", count=1)
    for name, content in (
        ("jpeg", b"\xff\xd8\xff\xe0"),
        ("png", plain_image(0)),
        ("gif", b"GIF89a"),
        ("bmp", b"BM0000"),
        ("text", b"hello"),
        ("empty", b""),
    ):
        (tmp_path / "train" / "a" / name).write_bytes(content)
    images = image_files.from_folder(tmp_path, "train")
    names = ["000.png", "bmp", "gif", "jpeg", "png"]
    assert [os.path.basename(path) for path in images.paths[:-1]] == names


def test_images_of_formats_that_cannot_be_read_are_counted_aloud(tmp_path, log):
    divided(tmp_path, "a", "b")
    (tmp_path / "train" / "a" / "x.webp").touch()
    (tmp_path / "train" / "b" / "y.TIFF").touch()
    image_files.from_folder(tmp_path, "train")
    assert len(log) == 1
    assert "2 images are left out" in log[0] and "convert them" in log[0]
    assert log[0].endswith("x.webp, y.TIFF.")


def test_folders_in_classes_and_links_are_followed_once(tmp_path):
    divided(tmp_path, "a", "a/deep/er", "b", count=1)
    folder = tmp_path / "train"
    outside = make_folder(tmp_path / "outside", "more", count=1)
    (folder / "a" / "link.png").symlink_to(folder / "b" / "000.png")
    (folder / "a" / "more").symlink_to(outside / "more")
    (folder / "a" / "here").symlink_to(".")
    (folder / "a" / "up").symlink_to("..")
    (folder / "a" / "deep" / "a").symlink_to("../../a")
    (folder / "c").symlink_to(outside / "more")
    shutil.move(tmp_path / "outside", tmp_path / "train" / ".outside")
    for link in ("a/more", "c"):
        (folder / link).unlink()
        (folder / link).symlink_to(folder / ".outside" / "more")
    images = image_files.from_folder(tmp_path, "train")
    assert relative(images, folder) == [
        "a/000.png",
        "a/deep/er/000.png",
        "a/link.png",
        "a/more/000.png",
        "b/000.png",
        "c/000.png",
    ]


@pytest.mark.parametrize("target", ["nowhere", "x.png"])
def test_a_link_that_leads_nowhere_is_named(tmp_path, target):
    divided(tmp_path, "a", "b")
    link = tmp_path / "train" / "a" / "x.png"
    link.symlink_to(target)
    with pytest.raises(DataError, match=rf"^{link} cannot be read \("):
        image_files.from_folder(tmp_path, "train")


def test_what_would_be_waited_for_is_no_image(tmp_path):
    divided(tmp_path, "a", "b")
    for name in ("pipe.png", "pipe"):
        os.mkfifo(tmp_path / "train" / "a" / name)
    assert len(image_files.from_folder(tmp_path, "train").paths) == 8


def test_a_folder_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    make_folder(tmp_path, "a", "b")
    scandir = os.scandir

    def scan_others(path):
        if os.fspath(path) == str(tmp_path / "b"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan_others)
    with pytest.raises(DataError, match=rf"^{tmp_path}/b cannot be read \(Permission denied\)"):
        image_files.from_folder(tmp_path, "train")


def test_names_with_spaces_and_beyond_ascii_are_read_and_others_refused(tmp_path):
    divided(tmp_path, "rosa canina", "薔薇", count=1)
    (tmp_path / "train" / "薔薇" / "ein Photo №1.png").write_bytes(plain_image(9))
    images = image_files.from_folder(tmp_path, "train")
    assert images.label_names == ("rosa canina", "薔薇")
    assert os.path.basename(images.paths[-1]) == "ein Photo №1.png"
    with open(os.fsencode(tmp_path / "train" / "薔薇") + b"/\xff\x1b.png", "wb"):
        pass
    with pytest.raises(DataError, match=r"\\xff\\x1b\.png' is not UTF-8; rename it") as raised:
        image_files.from_folder(tmp_path, "train")
    assert str(raised.value).isprintable()


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
    make_folder(tmp_path, "bus", "train", "train/steam", "ship", count=20)
    names = image_files.from_folder(tmp_path, "train").label_names
    assert names == ("bus", "ship", "train")


def test_folders_beside_those_of_the_splits_are_named(tmp_path, log):
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


# ---- the split by content


def test_the_split_by_content_is_one_share_and_nothing_on_both_sides(tmp_path):
    make_folder(tmp_path, *"abcd", count=250)
    sides = [
        set(image_files.from_folder(tmp_path, split).paths) for split in ("train", "validation")
    ]
    assert not sides[0] & sides[1]
    assert len(sides[0] | sides[1]) == 1000
    # Four standard deviations of a binomial distribution.
    assert abs(len(sides[1]) / 1000 - VALIDATION_SHARE) < 4 * (0.1 * 0.9 / 1000) ** 0.5


def test_a_file_stays_on_its_side_whatever_it_is_called_and_whatever_is_added(tmp_path):
    before = make_folder(tmp_path / "before", "a", "b", count=60)
    sides = {}
    for split in ("train", "validation"):
        for path in image_files.from_folder(before, split).paths:
            sides[pathlib.Path(path).read_bytes()] = split
    after = make_folder(tmp_path / "after", "x", "y", count=30)
    for number, content in enumerate(sides):
        (after / "x" / f"new name {number}.png").write_bytes(content)
        (after / "y" / f"copy {number}.png").write_bytes(content)
    seen = 0
    for split in ("train", "validation"):
        for path in image_files.from_folder(after, split).paths:
            content = pathlib.Path(path).read_bytes()
            if content in sides:
                assert sides[content] == split
                seen += 1
    assert seen == 240


def test_the_sides_are_the_same_on_every_machine(tmp_path):
    path = tmp_path / "x"
    # What b2sum -l 64 of coreutils says of the size in eight bytes and the content.
    for content, number in ((b"", 0xCA08EA5BCA49CC18), (b"slim", 0x74D708E16588697E)):
        path.write_bytes(content)
        assert image_split.fingerprint(str(path)) == number


@pytest.mark.parametrize("size", [1, 16384, 16385, 32768, 32769, 100_000])
def test_the_fingerprint_sees_size_and_both_ends(tmp_path, size):
    path = tmp_path / "x"
    content = os.urandom(size)

    def fingerprint(content):
        path.write_bytes(content)
        return image_split.fingerprint(str(path))

    changed = [content + b"x", content[:-1] + bytes([content[-1] ^ 1])]
    changed.append(bytes([content[0] ^ 1]) + content[1:])
    if size <= 32768:
        middle = size // 2
        changed.append(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    numbers = {fingerprint(one) for one in (content, *changed)}
    assert len(numbers) == len({content, *changed})
    assert fingerprint(content) in numbers


def test_copies_in_two_classes_are_counted_aloud(tmp_path, log):
    make_folder(tmp_path, "a", "b", count=40)
    for name in ("x.png", "y.png"):
        shutil.copy(tmp_path / "a" / "000.png", tmp_path / "b" / name)
    shutil.copy(tmp_path / "a" / "001.png", tmp_path / "a" / "z.png")
    image_files.from_folder(tmp_path, "train")
    assert log == [
        "2 image files have a copy in another class: a/000.png and b/x.png, a/000.png and b/y.png."
    ]


def test_a_side_without_images_is_refused_with_what_to_do(tmp_path):
    make_folder(tmp_path, "a", "b", count=1)
    for split in ("train", "validation"):
        with pytest.raises(DataError, match=r"has 2 images, and none of them is for .*folders"):
            image_files.from_folder(tmp_path, split)


def test_a_split_that_nobody_made_is_refused(tmp_path):
    make_folder(tmp_path, "a", "b", count=40)
    with pytest.raises(DataError, match=r"no split 'test': choose one of the two \(--dataset_spl"):
        image_files.from_folder(tmp_path, "test")


def test_the_size_of_all_files_is_estimated(tmp_path):
    divided(tmp_path, "a", "b", count=300)
    images = image_files.from_folder(tmp_path, "train")
    size = sum(os.path.getsize(path) for path in images.paths)
    assert abs(images.estimated_bytes() - size) < 0.02 * size
