"""What counts as an image in a folder, and what is said of the rest."""

import os
import shutil

import pytest
from made_images import divided, logged, make_folder, relative
from toy_records import plain_image

from slim_mp.data import image_files
from slim_mp.errors import DataError


def test_images_are_told_by_their_endings_and_the_others_listed_once(tmp_path, monkeypatch):
    log = logged(monkeypatch)
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


def test_images_of_formats_that_cannot_be_read_are_counted_aloud(tmp_path, monkeypatch):
    log = logged(monkeypatch)
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
