"""TFLite models: a network in one file for telephones and small boards."""

import contextlib
import re
import warnings

import numpy as np
from absl import logging

from slim_mp.compat import tf
from slim_mp.distribution import open_session
from slim_mp.errors import UsageError, reason
from slim_mp.export import serving_graph
from slim_mp.files.output_files import FileKind

KIND = FileKind("a TFLite model", re.compile(rb"(?s:....)TFL3"))
_OUTPUTS = ("logits", "probabilities")


def make(network_fn, spec, weights, half_weights):
    """Converts a float32 network.

    Args:
      network_fn, spec, weights: as for `saved_model.write`.
      half_weights: whether the weights are stored in fp16. A CPU computes with them in float32, a
        GPU in fp16.

    Returns:
      The bytes of a model with the input `images` and the outputs `logits` and `probabilities`, all
      float32.

    Raises:
      UsageError: if the network has an operation that TFLite does not know.
    """
    with tf.Graph().as_default(), open_session(on_cpu=True) as session:
        tensors = serving_graph.build_for_images(network_fn, spec)
        weights.load(session, tf.global_variables())
        converter = tf.lite.TFLiteConverter.from_session(
            session, [tensors.inputs["images"]], [tensors.outputs[name] for name in _OUTPUTS]
        )
        if half_weights:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.target_spec.supported_types = [tf.float16]
        try:
            with _without_notices():
                return converter.convert()
        except Exception as error:  # ConverterError lives in a package without a public name
            raise UsageError(
                f"TFLite cannot convert the network ({reason(error)[:200]!r}); leave --tflite out."
            ) from error


@contextlib.contextmanager
def _without_notices():
    """Holds back that the converter is a new one and that the interpreter moves elsewhere."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)


@contextlib.contextmanager
def open_model(content):
    """Opens a TFLite model.

    Args:
      content: its bytes.

    Yields:
      A function of the name of an input, which is `images`, and a batch that returns a dict of name
      to array.
    """
    with _without_notices():
        interpreter = tf.lite.Interpreter(model_content=content)
    [model_input] = interpreter.get_input_details()
    outputs = {output["name"]: output["index"] for output in interpreter.get_output_details()}

    def answer(name, batch):
        if name != model_input["name"]:
            raise ValueError(f"A TFLite model has no input {name}.")
        interpreter.resize_tensor_input(model_input["index"], batch.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(model_input["index"], batch.astype(np.float32))
        interpreter.invoke()
        return {name: interpreter.get_tensor(outputs[name]) for name in _OUTPUTS}

    yield answer
