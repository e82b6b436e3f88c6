"""The graph that an exported network is: what goes in, what comes out, and under which names.

All of it stands for one network, which is built once. Fed one by one, its inputs are:

- `encoded`: string [batch], JPEG, PNG, GIF or BMP files, of any size, with the whole preprocessing
  of an evaluation (a SavedModel only);
- `images`: float32 [batch, image_size, image_size, channels], pixel values 0..255 of images that
  are cropped and resized already;
- `input`: float32 of the same shape, normalised too, as the graphs of research/slim take them.
"""

import dataclasses
from typing import Any

from slim_mp import preprocessing
from slim_mp.compat import tf
from slim_mp.preprocessing.normalization import normalize

TOP = 5


@dataclasses.dataclass(frozen=True)
class InputSpec:
    """What the input of an exported network is like.

    Attributes:
      preprocessing: a style of `preprocessing.PREPROCESSINGS`.
      image_size: height and width of the network's images, in pixels.
      channels: 1 or 3.
      batch_size: images that are answered at once, or None for any number. It does not hold for a
        SavedModel, whose inputs take any number.
    """

    preprocessing: str
    image_size: int
    channels: int
    batch_size: int | None = None

    @property
    def image_shape(self):
        """The shape of one image."""
        return [self.image_size, self.image_size, self.channels]


@dataclasses.dataclass(frozen=True)
class Tensors:
    """Inputs and outputs of a serving graph.

    Attributes:
      inputs: dict of name to tensor, of the names in this file's description.
      outputs: dict of name to tensor: `logits` and `probabilities`, float32 [batch, classes].
    """

    inputs: dict[str, Any]
    outputs: dict[str, Any]


def _answer(network_fn, normalised):
    """Builds the network on its input, and names what comes out."""
    network_input = tf.identity(normalised, name="input")
    logits, _ = network_fn(network_input)
    outputs = {
        "logits": tf.identity(logits, name="logits"),
        "probabilities": tf.nn.softmax(logits, name="probabilities"),
    }
    return network_input, outputs


def build_for_images(network_fn, spec):
    """Builds the graph that takes `images`, or `input`.

    Args:
      network_fn: function of images that returns float32 logits [batch, classes] and end points.
      spec: an `InputSpec`.

    Returns:
      `Tensors`.
    """
    images = tf.placeholder(tf.float32, [spec.batch_size, *spec.image_shape], name="images")
    normalised = normalize(spec.preprocessing, images)
    network_input, outputs = _answer(network_fn, normalised)
    return Tensors({"images": images, "input": network_input}, outputs)


def build_for_serving(network_fn, spec):
    """Builds the graph that takes `images` or `encoded`.

    Whatever is not fed is an empty batch, and the network sees one after the other, so that it need
    not be built twice.

    Args:
      network_fn: as for `build_for_images`.
      spec: an `InputSpec`.

    Returns:
      `Tensors`.
    """
    nothing = tf.zeros([0, *spec.image_shape])
    images = tf.placeholder_with_default(nothing, [None, *spec.image_shape], name="images")
    no_files = tf.constant([], tf.string)
    encoded = tf.placeholder_with_default(no_files, [None], name="encoded")
    normalised = tf.concat(
        [normalize(spec.preprocessing, images), preprocess_files(encoded, spec)],
        axis=0,
    )
    _, outputs = _answer(network_fn, normalised)
    return Tensors({"images": images, "encoded": encoded}, outputs)


def preprocess_files(encoded, spec):
    """Decodes and preprocesses image files as an evaluation does.

    Args:
      encoded: string tensor [batch]: JPEG, PNG, GIF or BMP files.
      spec: an `InputSpec`.

    Returns:
      float32 tensor [batch, image_size, image_size, channels]. Running it fails if a file cannot be
      decoded.
    """

    def prepare(file):
        return preprocessing.preprocess_encoded(
            spec.preprocessing,
            file,
            spec.channels,
            spec.image_size,
            spec.image_size,
            is_training=False,
        )

    # Only a CPU decodes, and images of different sizes keep no accelerator busy.
    with tf.device("/device:CPU:0"):
        images = tf.map_fn(prepare, encoded, dtype=tf.float32)
    images.set_shape([None, *spec.image_shape])
    return images


def add_best_classes(outputs, name_of):
    """Adds the best classes of each image to the outputs of a graph.

    Args:
      outputs: the outputs of `Tensors`; `classes`, int64 [batch, 5] (fewer where the network has
        fewer), the best first, and `class_names`, string, of the same shape, are added.
      name_of: function of an int64 tensor of classes that returns a string tensor of their names.
    """
    probabilities = outputs["probabilities"]
    best = tf.nn.top_k(probabilities, min(TOP, probabilities.shape[-1])).indices
    outputs["classes"] = tf.cast(best, tf.int64, name="classes")
    outputs["class_names"] = tf.identity(name_of(outputs["classes"]), name="class_names")
