"""The split by content: a share for validation, and no file on both sides."""

import os
import pathlib
import shutil

import pytest
from made_images import divided, logged, make_folder

from slim_mp.data import image_files, image_split
from slim_mp.errors import DataError


def test_the_split_by_content_is_one_share_and_nothing_on_both_sides(tmp_path):
    make_folder(tmp_path, *"abcd", count=250)
    sides = [
        set(image_files.from_folder(tmp_path, split).paths) for split in ("train", "validation")
    ]
    assert not sides[0] & sides[1]
    assert len(sides[0] | sides[1]) == 1000
    # Four standard deviations of a binomial distribution.
    assert abs(len(sides[1]) / 1000 - image_split.VALIDATION_SHARE) < 4 * (0.1 * 0.9 / 1000) ** 0.5


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


def test_copies_in_two_classes_are_counted_aloud(tmp_path, monkeypatch):
    log = logged(monkeypatch)
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
