"""A folder of small photographs of three classes, and what a conversion of it leaves."""

import hashlib
import os
import pathlib

from skimage import data as photographs
from toy_records import encode

from slim_mp.compat import tf
from slim_mp.conversion import convert

CONVERT = "convert_images"
CLASSES = ("daisy", "ökö haus", "花")
PER_CLASS = 20


def make_photos(folder, count=PER_CLASS):
    """A folder with folders of train and validation: crops of a photograph, all different."""
    cat = photographs.chelsea()
    number = 0
    for split, share in (("train", count), ("val", count // 5)):
        for name in CLASSES:
            (folder / split / name).mkdir(parents=True)
            for index in range(share):
                crop = cat[number : number + 40, number : number + 60]
                path = folder / split / name / f"bild {index} ä.jpg"
                path.write_bytes(encode(crop, "JPEG"))
                number += 1
    return folder


def config(source, folder, **changes):
    return convert.ConversionConfig(str(source), str(folder), num_workers=2, **changes)


def digests(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in pathlib.Path(folder).iterdir()
        if path.name.endswith((".tfrecord", ".txt"))
    }


def examples(path):
    """The features of the records of a file."""
    return [
        tf.train.Example.FromString(record).features.feature
        for record in tf.python_io.tf_record_iterator(str(path))
    ]


def assert_nothing_is_there(folder):
    assert set(os.listdir(folder)) <= {"run.lock"}
