"""One record: from a serialized tf.train.Example to the bytes of an image, its pixels and a label.

On the hot path a bad record only fails; `input_errors` finds it and says why.
"""

from slim_mp.compat import tf
from slim_mp.preprocessing.bmp_palette import with_palette


def decode_image(encoded, channels):
    """Decodes an image by its content, whatever its format is said to be.

    Grey, palette, CMYK, alpha and 16-bit images are converted; of an animation the first
    frame is taken. JPEG is decoded as by tf.image.decode_jpeg's default, with which the published
    networks were trained.

    Args:
      encoded: string tensor []: a JPEG, PNG, GIF or BMP file.
      channels: 1 (grey, ITU-R 601 luma) or 3 (RGB).

    Returns:
      uint8 tensor [h, w, channels].
    """
    image = tf.io.decode_image(encoded, channels=3, expand_animations=False)
    image.set_shape([None, None, 3])
    image = with_palette(image, encoded)
    # Not decoded as grey at once: that fails for CMYK, GIF and BMP.
    return image if channels == 3 else luma(image)


def luma(image):
    """Makes an image grey: uint8 [h, w, 3] to uint8 [h, w, 1], the luma of ITU-R 601."""
    weighted = tf.cast(image, tf.float32) * [0.299, 0.587, 0.114]
    return tf.cast(tf.rint(tf.reduce_sum(weighted, axis=-1, keepdims=True)), tf.uint8)


def parse_example(serialized, dataset, labels_offset):
    """Reads image file and label of a record.

    Args:
      serialized: string tensor []: a tf.train.Example with the features that `dataset` names.
      dataset: the `Dataset`, for those and the number of classes of the record files.
      labels_offset: an int that is subtracted from the label.

    Returns:
      (encoded, label): string [], the bytes of an image file, and int64 [] in
      [0, num_classes - labels_offset). Running them fails if a feature is missing or the label is
      out of range.
    """
    features = tf.io.parse_single_example(
        serialized,
        {
            dataset.image_key: tf.FixedLenFeature([], tf.string),
            dataset.label_key: tf.FixedLenFeature([], tf.int64),
        },
    )
    label = features[dataset.label_key]
    return features[dataset.image_key], check_label(label, dataset.num_classes, labels_offset)


def check_label(label, num_classes, labels_offset):
    """Subtracts the offset from a label in the graph, and checks the label first.

    Args:
      label: int64 tensor [].
      num_classes: the number of classes before the subtraction.
      labels_offset: an int.

    Returns:
      int64 tensor [] in [0, num_classes - labels_offset). Running it fails if it is out of range.
    """
    in_range = tf.logical_and(label >= labels_offset, label < num_classes)
    with tf.control_dependencies([tf.debugging.Assert(in_range, ["label out of range:", label])]):
        return tf.identity(label - labels_offset)
