"""Writes a folder of photographs to try the programs on: one sub-folder a class.

    pip install scikit-image scikit-learn
    python scripts/make_photographs.py FOLDER

The images are windows of photographs that come with those two packages, one photograph a class: a
set to try commands on, not to measure by. As in a folder that has
grown over years, names are not ASCII and hold spaces, formats differ, and one file is broken.
Running it again writes the same images.
"""

import os
import sys

import numpy as np
import skimage.data
from PIL import Image
from sklearn.datasets import load_sample_image

WINDOWS = 60
BROKEN = os.path.join("café", "abgebrochene Übertragung.jpg")


def photographs():
    """The photograph of each class, uint8 [h, w, 3], by the name of the class."""
    return {
        "Astronautin": skimage.data.astronaut(),
        "Kätzchen": skimage.data.chelsea(),
        "café": skimage.data.coffee(),
        "fleur": load_sample_image("flower.jpg"),
        "寺": load_sample_image("china.jpg"),
    }


def windows(photograph, count, chance):
    """Cuts windows of 60 to 100 % of the shorter side out of a photograph, mirrored or not."""
    height, width, _ = photograph.shape
    for _ in range(count):
        side = int(min(height, width) * chance.uniform(0.6, 1.0))
        top, left = chance.randint(height - side + 1), chance.randint(width - side + 1)
        window = photograph[top : top + side, left : left + side]
        yield window[:, ::-1] if chance.randint(2) else window


def write_folder(folder):
    """Writes the windows of each class, and the broken file."""
    chance = np.random.RandomState(0)
    for name, photograph in photographs().items():
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        for number, window in enumerate(windows(photograph, WINDOWS, chance)):
            ending = "png" if number % 10 == 0 else "jpg"
            image = Image.fromarray(window).resize((256, 256))
            image.save(os.path.join(folder, name, f"{name} nº {number}.{ending}"), quality=90)
    whole = os.path.join(folder, "café", "café nº 1.jpg")
    with open(whole, "rb") as file, open(os.path.join(folder, BROKEN), "wb") as broken:
        broken.write(file.read()[:3000])
    names = ", ".join(photographs())
    print(f"{folder}: {WINDOWS} images of each class, {names}; and a broken file.")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python scripts/make_photographs.py FOLDER")
    write_folder(sys.argv[1])
