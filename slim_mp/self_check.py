"""Whether an export answers as its checkpoint does, on images, after it was written.

What goes wrong between a checkpoint and an export is silent: a graph in training mode, weights in
place of their averages, another preprocessing, labels that are off by one. Here it is an error.
"""

import dataclasses

import numpy as np

from slim_mp import checkpoint_model, image_kinds, sample_images
from slim_mp.compat import tf
from slim_mp.errors import CheckpointError, DataError, NumericsError

# By dtype: the largest difference of a logit, as a share of how far the largest lies from the mean.
# fp32 leaves room for another order of sums. A MobileNet of few classes, whose logits lie close
# together, is off by 0.02 in fp16 and 0.2 in bf16, which has three bits less.
TOLERANCES = {"fp32": 1e-3, "fp16": 5e-2, "bf16": 4e-1}
_SMALLEST_SCALE = 1e-6
_BATCH = 16


@dataclasses.dataclass(frozen=True)
class Samples:
    """Images and the checkpoint's float32 answers to them.

    Attributes:
      batches: dict of the name of an input, as for `serving_graph`, to its batch.
      logits: dict of the same names to float32 [number, classes].
      names: dict of the same names to what the images are called in messages.
    """

    batches: dict
    logits: dict
    names: dict


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How something that was written answers.

    Attributes:
      difference: the largest difference from the checkpoint, as in `TOLERANCES`.
      same_best: bool [number], whether the best class of an image is the checkpoint's.
      answers: dict of the name of an output to its array.
    """

    difference: float
    same_best: np.ndarray
    answers: dict


def ask_checkpoint(network_fn, spec, weights, encoded):
    """Collects a checkpoint's answers.

    Args:
      network_fn: the network in float32, as for `checkpoint_model.open_model`.
      spec: a `serving_graph.InputSpec`.
      weights: a `weights.Weights`.
      encoded: dict of name to image file, of `sample_images`.

    Returns:
      A pair: `Samples`, and the `RestorePlan` of the checkpoint.

    Raises:
      CheckpointError: if the checkpoint does not fit, or its answers are not finite.
      DataError: if an image cannot be decoded.
    """
    pixels = sample_images.pictures(spec)
    made = [f"picture {number} made for the check" for number in range(len(pixels))]
    with checkpoint_model.open_model(network_fn, spec, weights, on_cpu=True) as (answer, plan):
        images = answer("images", pixels)["logits"]
        files = np.concatenate([_answer_file(answer, *item) for item in encoded.items()])
    for logits in (images, files):
        if not np.isfinite(logits).all():
            raise CheckpointError(
                f"The answers of the checkpoint {weights.checkpoint} are not finite: its weights "
                "are not, or overflow. Take an earlier checkpoint."
            )
    batches = {"images": pixels, "encoded": np.array(list(encoded.values()), object)}
    samples = Samples(
        batches, {"images": images, "encoded": files}, {"images": made, "encoded": list(encoded)}
    )
    return samples, plan


def _answer_file(answer, name, encoded):
    try:
        return answer("encoded", [encoded])["logits"]
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
    batch, expected = samples.batches[input_name], samples.logits[input_name]
    answers = answer_in_batches(answer, input_name, batch, batch_size)
    centred = expected - expected.mean(axis=1, keepdims=True)
    # A network that tells no classes apart must not be held to its rounding.
    scale = max(np.abs(centred).max(), _SMALLEST_SCALE)
    differences = np.abs(answers["logits"] - expected).max(axis=1) / scale
    worst = int(np.argmax(np.where(np.isnan(differences), np.inf, differences)))
    if not differences[worst] <= tolerance:
        raise NumericsError(
            f"{what} does not answer as the checkpoint: a logit for "
            f"{samples.names[input_name][worst]} (input {input_name!r}) is off by "
            f"{differences[worst]:.2g} of the largest; {tolerance:g} is allowed (--tolerance). "
            "Nothing was written. If --dtype is fp16 or bf16, try another; else please report it."
        )
    same_best = answers["logits"].argmax(axis=1) == expected.argmax(axis=1)
    return Comparison(float(differences[worst]), same_best, answers)


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
