"""Small record files whose examples can be told apart: example n is a plain image of grey n."""

import io
import pathlib

import numpy as np
from PIL import Image

from slim_mp import data
from slim_mp.compat import tf

CONFIG = data.InputConfig("lenet", 4, 1, 8, tf.float32, seed=1)


def encode(image, kind="PNG", mode=None):
    image = Image.fromarray(image)
    file = io.BytesIO()
    (image.convert(mode) if mode else image).save(file, kind)
    return file.getvalue()


def plain_image(number):
    return encode(np.full([4, 4], number, np.uint8))


def make_feature(*values):
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def make_record(image=None, *labels):
    features = {"image/format": make_feature(b"raw")}
    if image is not None:
        features["image/encoded"] = make_feature(image)
    if labels:
        features["image/class/label"] = make_feature(*labels)
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write_records(path, records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def flip_payload_byte(path, number):
    """Changes the last byte of a record of a file, so that its checksum is wrong."""
    content = bytearray(pathlib.Path(path).read_bytes())
    end = 0
    for _ in range(number + 1):
        begin, length = end, int.from_bytes(content[end : end + 8], "little")
        end = begin + 8 + 4 + length + 4
    content[end - 5] ^= 1
    pathlib.Path(path).write_bytes(content)


def write_numbered(folder, file_sizes, num_classes=10):
    """Files of the given numbers of examples; the label of example n is n % num_classes."""
    first = 0
    for number, size in enumerate(file_sizes):
        write_records(
            folder / f"toy_train_{number:03d}.tfrecord",
            [make_record(plain_image(n), n % num_classes) for n in range(first, first + size)],
        )
        first += size
    return data.open_dataset("toy", "train", folder, num_classes=num_classes)


def run_batches(batches, most=10**6):
    """Runs up to `most` batches: lists of images and of labels."""
    images, labels = [], []
    iterator = tf.data.make_one_shot_iterator(batches)
    following = iterator.get_next()
    with tf.Session() as session:
        for _ in range(most):
            try:
                image, label = session.run(following)
            except tf.errors.OutOfRangeError:
                break
            images.append(image)
            labels.append(label)
    return images, labels


def numbers_of(images):
    """The numbers of the plain images in batches of the lenet style."""
    return np.rint(np.concatenate(images)[:, 0, 0, 0] * 128 + 128).astype(int).tolist()
