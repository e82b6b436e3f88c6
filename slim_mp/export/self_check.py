"""Whether an export answers as its checkpoint does, on images, after it was written.

What goes wrong between a checkpoint and an export is silent: a graph in training mode, weights in
place of their averages, another preprocessing, labels that are off by one. Here it is an error.
"""

import dataclasses

import numpy as np

from slim_mp.compat import tf
from slim_mp.data import image_kinds
from slim_mp.errors import CheckpointError, DataError, NumericsError
from slim_mp.export import checkpoint_model
from slim_mp.preprocessing import normalization

# By dtype: the largest difference of a logit from the checkpoint's in that dtype, as a share of how
# far the largest lies from the mean. Room for sums in another order; what a dtype itself rounds is
# no fault of an export, and is told apart from one (`Comparison.from_float32`).
TOLERANCES = {"fp32": 1e-3, "fp16": 5e-3, "bf16": 5e-2}
# Of weights in half, computed with in float32, from the checkpoint in float32: what rounding the
# weights does to a network of few classes, whose logits lie close together.
HALF_WEIGHTS_TOLERANCE = 5e-2
_SMALLEST_SCALE = 1e-6
_BATCH = 16


@dataclasses.dataclass(frozen=True)
class Samples:
    """Images and the checkpoint's answers to them.

    Attributes:
      batches: dict of the name of an input, as for `serving_graph`, to its batch.
      names: dict of the same names to what the images are called in messages.
      logits: dict of the same names to float32 [number, classes]: the checkpoint's answers in the
        dtype of the export.
      float32_logits: likewise, in float32.
    """

    batches: dict
    names: dict
    logits: dict
    float32_logits: dict

    def in_float32(self):
        """Returns the same with the answers in float32 alone."""
        return dataclasses.replace(self, logits=self.float32_logits)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How something that was written answers.

    Attributes:
      difference: the largest difference from the checkpoint, as in `TOLERANCES`.
      from_float32: likewise, from the checkpoint in float32.
      same_best: bool [number], whether the best class of an image is that in float32.
      answers: dict of the name of an output to its array.
    """

    difference: float
    from_float32: float
    same_best: np.ndarray
    answers: dict


def ask_checkpoint(networks, spec, weights, encoded, pixels=None):
    """Collects a checkpoint's answers.

    Args:
      networks: dict of the name of a dtype to the function that builds the network as an
        evaluation in that dtype does, as for `checkpoint_model.open_model`: "fp32", and that of
        the export, which comes last.
      spec: a `serving_graph.InputSpec`.
      weights: a `weights.Weights`.
      encoded: dict of name to image file, of `sample_images`.
      pixels: as of `sample_images.pictures`, or None for those of the files.

    Returns:
      A pair: `Samples`, and the `RestorePlan` of the checkpoint.

    Raises:
      CheckpointError: if the checkpoint does not fit, or its answers are not finite.
      DataError: if an image cannot be decoded.
      NumericsError: if only the answers in half are not finite.
    """
    names = {"images": list(encoded), "encoded": list(encoded)}
    if pixels is not None:
        names["images"] = [f"picture {number} made for the check" for number in range(len(pixels))]
    logits = {}
    for dtype, network_fn in networks.items():
        with checkpoint_model.open_model(network_fn, spec, weights, on_cpu=True) as (answer, plan):
            files = [_answer_file(answer, *item) for item in encoded.items()]
            if pixels is None:
                seen = np.concatenate([one["input"] for one in files])
                pixels = normalization.denormalize(spec.preprocessing, seen)
            logits[dtype] = {
                "images": answer("images", pixels)["logits"],
                "encoded": np.concatenate([one["logits"] for one in files]),
            }
        _check_finite(logits[dtype], dtype, weights.checkpoint)
    batches = {"images": pixels, "encoded": np.array(list(encoded.values()), object)}
    return Samples(batches, names, logits[list(networks)[-1]], logits["fp32"]), plan


def _check_finite(logits, dtype, checkpoint):
    if all(np.isfinite(array).all() for array in logits.values()):
        return
    if dtype == "fp32":
        raise CheckpointError(
            f"The answers of the checkpoint {checkpoint} are not finite: its weights are not, or "
            "overflow. Take an earlier checkpoint."
        )
    raise NumericsError(
        f"In {dtype} the answers of the checkpoint {checkpoint} are not finite, though they are in "
        "float32: weights or activations are too large for it. Export with --dtype=bf16 or fp32; "
        "python -m slim_mp.precision_report says which layers they are of."
    )


def _answer_file(answer, name, encoded):
    try:
        return answer("encoded", [encoded])
    except tf.errors.InvalidArgumentError as error:
        problem = image_kinds.problem_of(encoded) or "cannot be decoded: it is damaged"
        raise DataError(f"--sample_images: {name} {problem}.") from error


def compare(what, answer, samples, input_name, tolerance, batch_size=None):
    """Compares the answers of what was written with the checkpoint's.

    Args:
      what: what was written, for messages.
      answer: function of the name of an input and a batch that returns a dict of arrays.
      samples: `Samples`.
      input_name: which input to feed.
      tolerance: the largest difference that is allowed, as in `TOLERANCES`.
      batch_size: images to feed at a time, or None for any number.

    Returns:
      A `Comparison`.

    Raises:
      NumericsError: if the difference is larger than that.
    """
    answers = answer_in_batches(answer, input_name, samples.batches[input_name], batch_size)
    differences = _differences(answers["logits"], samples.logits[input_name])
    worst = int(np.argmax(np.where(np.isnan(differences), np.inf, differences)))
    if not differences[worst] <= tolerance:
        raise NumericsError(
            f"{what} does not answer as the checkpoint: a logit for "
            f"{samples.names[input_name][worst]} (input {input_name!r}) is off by "
            f"{differences[worst]:.2g} of the largest; {tolerance:g} is allowed (--tolerance). "
            "Nothing was written; please report it."
        )
    exact = samples.float32_logits[input_name]
    return Comparison(
        float(differences[worst]),
        float(_differences(answers["logits"], exact).max()),
        answers["logits"].argmax(axis=1) == exact.argmax(axis=1),
        answers,
    )


def _differences(logits, expected):
    """The largest difference for each image, as a share of how far the largest is from the mean."""
    centred = expected - expected.mean(axis=1, keepdims=True)
    # A network that tells no classes apart must not be held to its rounding.
    scale = max(np.abs(centred).max(), _SMALLEST_SCALE)
    return np.abs(logits - expected).max(axis=1) / scale


def answer_in_batches(answer, input_name, batch, batch_size=None):
    """Answers any number of images with a model that takes a certain number at a time.

    Args:
      answer: function of the name of an input and a batch that returns a dict of arrays.
      input_name: the input to feed.
      batch: array of at least one image.
      batch_size: images that the model takes, or None for any number.

    Returns:
      A dict of name to array, of as many answers as there are images.
    """
    size = batch_size or _BATCH
    parts = []
    for start in range(0, len(batch), size):
        part = batch[start : start + size]
        missing = (batch_size or len(part)) - len(part)
        # A model of a fixed batch size gets the last image as often as it needs.
        padded = np.concatenate([part, np.repeat(part[-1:], missing, axis=0)])
        parts.append({k: v[: len(part)] for k, v in answer(input_name, padded).items()})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def check_outputs(what, answers, label_names):
    """Checks what a SavedModel makes of its logits.

    Args:
      what: what was written, for messages.
      answers: of a `Comparison`: logits, probabilities, classes and class_names.
      label_names: the name of each class.

    Raises:
      NumericsError: if probabilities, classes or names do not follow from the logits.
    """
    logits, probabilities = answers["logits"], answers["probabilities"]
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    classes = answers["classes"]
    best = -np.sort(-probabilities, axis=1)[:, : classes.shape[1]]
    names = [[label_names[label].encode() for label in row] for row in classes]
    agree = {
        "probabilities": np.allclose(
            probabilities, powers / powers.sum(axis=1, keepdims=True), rtol=1e-3, atol=1e-5
        ),
        "classes": np.array_equal(np.take_along_axis(probabilities, classes, axis=1), best),
        "class_names": np.array_equal(answers["class_names"], np.array(names, object)),
    }
    for name, is_right in agree.items():
        if not is_right:
            raise NumericsError(
                f"{what} gives {name} that do not follow from its logits. Nothing was written; "
                "please report it."
            )
