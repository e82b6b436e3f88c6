"""Where the crops of an evaluation lie: one in the centre, or Krizhevsky's ten.

Ten are the four corners, the centre, and the mirror images of these five (Krizhevsky, Sutskever
and Hinton, "ImageNet Classification with Deep Convolutional Neural Networks", 2012, section 4.1).
"""

from slim_mp.compat import tf

START, MIDDLE, END = "start", "middle", "end"
CENTRE = ((MIDDLE, MIDDLE),)
FIVE = ((START, START), (START, END), (END, START), (END, END), (MIDDLE, MIDDLE))


def offset(place, full, part, middle=None):
    """Where a part of a side begins.

    Args:
      place: `START`, `MIDDLE` or `END`.
      full: the length of the side, int32 tensor [].
      part: the length of the part, an int or int32 tensor [].
      middle: where it begins in the middle, by default (full - part) // 2.
    """
    if place == START:
        return tf.constant(0)
    if place == END:
        return full - part
    return (full - part) // 2 if middle is None else middle


def central_part(side, fraction):
    """Length and beginning of the central fraction of a side, as tf.image.central_crop has them.

    Args:
      side: int32 tensor [], pixels.
      fraction: a float of (0, 1].

    Returns:
      (length, begin): int32 tensors [].
    """
    length = tf.cast(side, tf.float64)
    begin = tf.cast((length - length * fraction) / 2, tf.int32)
    return side - 2 * begin, begin


def with_mirrored(images):
    """Stacks images [height, width, channels] and then the mirror image of each."""
    stacked = tf.stack(images)
    return tf.concat([stacked, tf.reverse(stacked, axis=[2])], axis=0)
