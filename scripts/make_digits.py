"""Writes the record files of the digits set that ships with slim_mp.

    python scripts/make_digits.py [FOLDER]

The images are those of scikit-learn's `load_digits`: 1,797 handwritten digits of 8x8 pixels, the
test half of E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine
Learning Repository (CC BY 4.0). Values 0..16 become 0..255. Of each digit every fifth image, in
the order of the set, goes to the validation split: 355 of 1,797.
Running it again writes the same bytes.
"""

import os
import struct
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))

import numpy as np
from sklearn.datasets import load_digits

from slim_mp.compat import tf

DEFAULT_FOLDER = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), os.pardir, "slim_mp", "data", "digits"
)
VALIDATION_EVERY = 5


def encode_png(image):
    """Encodes a grey uint8 image [h, w] as a PNG file whose bytes no library version changes."""

    def chunk(kind, data):
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    height, width = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)
    # Stored, not compressed: compressed bytes differ between builds of zlib.
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows, 0))
        + chunk(b"IEND", b"")
    )


def make_example(image, label):
    """Serializes an image and its label under the feature names of TF-Slim's record files."""

    def integers(value):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value)]))

    def bytes_of(value):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    features = {
        "image/encoded": bytes_of(encode_png(image)),
        "image/format": bytes_of(b"png"),
        "image/class/label": integers(label),
        "image/height": integers(image.shape[0]),
        "image/width": integers(image.shape[1]),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)


def split_examples(labels):
    """Splits indices of examples; each class is in both splits in the same proportion.

    Args:
      labels: the label of each example.

    Returns:
      A dictionary from the name of the split to its indices.
    """
    splits, seen = {"train": [], "validation": []}, {}
    for index, label in enumerate(labels):
        seen[label] = seen.get(label, 0) + 1
        is_validation = seen[label] % VALIDATION_EVERY == 0
        splits["validation" if is_validation else "train"].append(index)
    return splits


def main(folder=DEFAULT_FOLDER):
    """Writes digits_train.tfrecord, digits_validation.tfrecord and labels.txt into `folder`."""
    digits = load_digits()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    for split, indices in split_examples(digits.target.tolist()).items():
        path = os.path.join(folder, f"digits_{split}.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for index in indices:
                writer.write(make_example(images[index], digits.target[index]))
        print(f"{path}: {len(indices)} examples")
    with open(os.path.join(folder, "labels.txt"), "w") as file:
        file.writelines(f"{label}:{label}\n" for label in range(10))


if __name__ == "__main__":
    main(*sys.argv[1:2])
