"""From a checkpoint to files that answer without it: written, checked, and only then in place.

Everything is compared with the checkpoint's own answers before any of it gets its name, so that a
model that answers otherwise is never found where a server or an application looks for it.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable

import numpy as np
from absl import logging

from slim_mp.checkpoints.weights import Weights
from slim_mp.export import (
    frozen_graph,
    sample_images,
    saved_model,
    self_check,
    serving_graph,
    slim_graph,
    tflite_model,
)
from slim_mp.files.output_files import reserve, writing
from slim_mp.precision import Precision


@dataclasses.dataclass(frozen=True)
class ExportConfig:
    """What is exported, and where to.

    Attributes:
      weights: the `Weights`.
      spec: a `serving_graph.InputSpec`.
      precision: a `Precision`: what weights are stored in and the network computes in.
      label_names: the name of each class, a tuple of str.
      export_dir: folder of the versions of a SavedModel, or None.
      frozen_graph: path of a GraphDef, or None.
      tflite: path of a TFLite model, or None.
      sample_images: paths or patterns of the image files to compare on; made ones if empty.
      tolerance: the largest difference from the checkpoint, or None for those of `self_check`.
    """

    weights: Weights
    spec: serving_graph.InputSpec
    precision: Precision
    label_names: tuple
    export_dir: str | None = None
    frozen_graph: str | None = None
    tflite: str | None = None
    sample_images: tuple = ()
    tolerance: float | None = None


@dataclasses.dataclass(frozen=True)
class Networks:
    """The network in the three forms that an export needs.

    Each is a function of images that builds it for inference and returns its float32 logits [batch,
    classes] and end points.

    Attributes:
      float32: in float32.
      evaluated: in the precision of the export, with float32 variables, as an evaluation has it.
      exported: likewise, with variables of that precision.
    """

    float32: Callable
    evaluated: Callable
    exported: Callable


@dataclasses.dataclass(frozen=True)
class Written:
    """Something that was written and checked.

    Attributes:
      what: what it is, in words.
      path: the file or folder.
      num_bytes: its size.
      comparisons: a tuple of `self_check.Comparison`, one for each input.
      allowed: the largest difference from the checkpoint that was allowed.
    """

    what: str
    path: str
    num_bytes: int
    comparisons: tuple
    allowed: float

    @property
    def difference(self):
        """The largest difference from the checkpoint, as in `self_check.TOLERANCES`."""
        return max(one.difference for one in self.comparisons)

    @property
    def from_float32(self):
        """Likewise, from the checkpoint in float32."""
        return max(one.from_float32 for one in self.comparisons)

    @property
    def same_best(self):
        """Whether the best class of each sample image is the checkpoint's in float32."""
        return np.concatenate([one.same_best for one in self.comparisons])


def export(config, networks):
    """Writes what a config asks for, and checks that it answers as the checkpoint does.

    Args:
      config: an `ExportConfig`.
      networks: the `Networks`.

    Returns:
      A list of `Written`.

    Raises:
      CheckpointError: if the checkpoint does not fit the network, or is damaged.
      DataError: if a sample image cannot be used.
      NumericsError: if something does not answer as the checkpoint does, or half precision cannot
        hold its weights or activations.
      UsageError: if something cannot be written, or TFLite does not know an operation. With any of
        these nothing is written.
    """
    with contextlib.ExitStack() as stack:
        # Before the work, which is in vain if its results cannot be written.
        places = {flag: _reserve(config, flag, stack) for flag in _WRITERS if getattr(config, flag)}
        samples = _ask_checkpoint(config, networks)
        results = [
            _WRITERS[flag](config, place, networks, samples) for flag, place in places.items()
        ]
    # A version has its path only now.
    return [
        Written(what, getattr(config, flag) if flag in _FILES else place.path, *rest)
        for (flag, place), (what, *rest) in zip(places.items(), results, strict=True)
    ]


def _reserve(config, flag, stack):
    """Opens what gets its name when the stack is closed, and is removed after an error."""
    path = getattr(config, flag)
    if flag not in _FILES:
        return stack.enter_context(saved_model.new_version(path))
    return reserve(stack, path, flag, _FILES[flag])


def _ask_checkpoint(config, networks):
    if config.sample_images:
        images = [sample_images.read_files(config.sample_images)]
    else:
        images = [sample_images.files(config.spec), sample_images.pictures(config.spec)]
    to_ask = {"fp32": networks.float32, config.precision.name: networks.evaluated}
    samples, plan = self_check.ask_checkpoint(to_ask, config.spec, config.weights, *images)
    for line in plan.report().splitlines():
        logging.info("%s", line)
    return samples


def _allowed(config, default):
    return default if config.tolerance is None else config.tolerance


def _write_saved_model(config, version, networks, samples):
    """Writes and checks a SavedModel; returns the fields of `Written` but the path."""
    with writing("export_dir", config.export_dir):
        saved_model.write(
            version.folder, networks.exported, config.spec, config.weights, config.label_names
        )
    allowed = _allowed(config, self_check.TOLERANCES[config.precision.name])
    comparisons = []
    with saved_model.open_model(version.folder, on_cpu=True) as answer:
        for name in ("images", "encoded"):
            found = self_check.compare("The SavedModel", answer, samples, name, allowed)
            self_check.check_outputs("The SavedModel", found.answers, config.label_names)
            comparisons.append(found)
    return "SavedModel", _size_of(version.folder), tuple(comparisons), allowed


def _write_frozen_graph(config, file, networks, samples):
    content = frozen_graph.make(networks.exported, config.spec, config.weights)
    allowed = _allowed(config, self_check.TOLERANCES[config.precision.name])
    with frozen_graph.open_model(_written(config, "frozen_graph", file, content)) as answer:
        found = self_check.compare(
            "The frozen graph", answer, samples, "images", allowed, config.spec.batch_size
        )
    return "frozen graph", len(content), (found,), allowed


def _write_tflite(config, file, networks, samples):
    # TFLite stores weights in half, and leaves it to the device what to compute in.
    is_half = config.precision.name == "fp16"
    content = tflite_model.make(networks.float32, config.spec, config.weights, is_half)
    default = self_check.HALF_WEIGHTS_TOLERANCE if is_half else self_check.TOLERANCES["fp32"]
    allowed, batch_size = _allowed(config, default), config.spec.batch_size or 1
    with tflite_model.open_model(_written(config, "tflite", file, content)) as answer:
        found = self_check.compare(
            "The TFLite model", answer, samples.in_float32(), "images", allowed, batch_size
        )
    return "TFLite model", len(content), (found,), allowed


_WRITERS = {
    "export_dir": _write_saved_model,
    "frozen_graph": _write_frozen_graph,
    "tflite": _write_tflite,
}
_FILES = {"frozen_graph": slim_graph.GRAPH, "tflite": tflite_model.KIND}


def _written(config, flag, file, content):
    """Writes an open file; returns what it then holds."""
    with writing(flag, getattr(config, flag)):
        file.write(content)
        file.flush()
        with open(file.name, "rb") as written:
            return written.read()


def _size_of(folder):
    return sum(
        os.path.getsize(os.path.join(parent, name))
        for parent, _, names in os.walk(folder)
        for name in names
    )


def describe(config, written):
    """Says in one line what was written, how large it is and how it compares."""
    dtype, same_best = config.precision.name, written.same_best
    text = (
        f"{written.path}: {written.what} in {dtype}, {written.num_bytes / 1e6:,.1f} MB; a logit "
        f"differs from the checkpoint's by up to {written.difference:.1g} of the largest "
        f"({written.allowed:g} allowed)"
    )
    if dtype != "fp32":
        text += f", from float32 by {written.from_float32:.1g}"
    return f"{text}; the best class is the same for {same_best.sum()} of {same_best.size} images."
