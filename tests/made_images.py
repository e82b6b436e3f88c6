"""Folders of small image files that are all different."""

import os

from absl import logging
from toy_records import plain_image


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
    """The paths of ImageFiles as they are below a folder."""
    return [os.path.relpath(path, folder) for path in images.paths]


def logged(monkeypatch):
    """Returns a list that gets the lines which are logged from now on, as they are read."""
    lines = []

    def note(words, *arguments):
        lines.append(words % arguments)

    for level in ("info", "warning"):
        monkeypatch.setattr(logging, level, note)
    return lines
