"""From a checkpoint to files that answer without it: written, checked, and only then in place.

Everything is compared with the checkpoint's own answers before any of it gets its name, so that a
model that answers otherwise is never found where a server or an application looks for it.
"""

import contextlib
import dataclasses
import os

import numpy as np
from absl import logging

from slim_mp import (
    frozen_graph,
    sample_images,
    saved_model,
    self_check,
    serving_graph,
    tflite_model,
)
from slim_mp.output_files import make_folder, open_whole, writing
from slim_mp.precision import Precision
from slim_mp.weights import Weights


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
      tolerance: the largest difference from the checkpoint, or None for that of the precision in
        `self_check.TOLERANCES`.
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

    @property
    def allowed(self):
        """The largest difference from the checkpoint that is allowed."""
        default = self_check.TOLERANCES[self.precision.name]
        return default if self.tolerance is None else self.tolerance


@dataclasses.dataclass(frozen=True)
class Written:
    """Something that was written and checked.

    Attributes:
      what: what it is, in words.
      path: the file or folder.
      num_bytes: its size.
      difference: how far its answers are from the checkpoint's, as in `self_check.TOLERANCES`.
      same_best: bool array, whether the best class of each sample image is the checkpoint's.
    """

    what: str
    path: str
    num_bytes: int
    difference: float
    same_best: np.ndarray


def export(config, network_fn, exported_fn):
    """Writes what a config asks for, and checks that it answers as the checkpoint does.

    Args:
      config: an `ExportConfig`.
      network_fn: function of images that builds the float32 network for inference and returns its
        logits [batch, classes] and end points.
      exported_fn: likewise, of the network that is exported, in the config's precision.

    Returns:
      A list of `Written`.

    Raises:
      CheckpointError: if the checkpoint does not fit the network, or is damaged.
      DataError: if a sample image cannot be used.
      NumericsError: if something does not answer as the checkpoint does.
      UsageError: if something cannot be written, or TFLite does not know an operation. With any of
        these nothing is written.
    """
    with contextlib.ExitStack() as stack:
        # Before the work, which is in vain if its results cannot be written.
        places = {flag: _reserve(config, flag, stack) for flag in _WRITERS if getattr(config, flag)}
        samples = _ask_checkpoint(config, network_fn)
        results = [
            _WRITERS[flag](config, place, network_fn, exported_fn, samples)
            for flag, place in places.items()
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
    make_folder(os.path.dirname(path) or ".", flag)
    with writing(flag, path):
        return stack.enter_context(open_whole(path, mode="wb"))


def _ask_checkpoint(config, network_fn):
    if config.sample_images:
        encoded = sample_images.read_files(config.sample_images)
    else:
        encoded = sample_images.files(config.spec)
    samples, plan = self_check.ask_checkpoint(network_fn, config.spec, config.weights, encoded)
    for line in plan.report().splitlines():
        logging.info("%s", line)
    return samples


def _write_saved_model(config, version, network_fn, exported_fn, samples):
    """Writes and checks a SavedModel; returns the fields of `Written` but the path."""
    del network_fn
    with writing("export_dir", config.export_dir):
        saved_model.write(
            version.folder, exported_fn, config.spec, config.weights, config.label_names
        )
    comparisons = []
    with saved_model.open_model(version.folder, on_cpu=True) as answer:
        for name in ("images", "encoded"):
            found = self_check.compare("The SavedModel", answer, samples, name, config.allowed)
            self_check.check_outputs("The SavedModel", found.answers, config.label_names)
            comparisons.append(found)
    difference = max(found.difference for found in comparisons)
    same_best = np.concatenate([found.same_best for found in comparisons])
    return "SavedModel", _size_of(version.folder), difference, same_best


def _write_frozen_graph(config, file, network_fn, exported_fn, samples):
    del network_fn
    content = frozen_graph.make(exported_fn, config.spec, config.weights)
    with frozen_graph.open_model(_written(file, content, "frozen_graph")) as answer:
        found = self_check.compare(
            "The frozen graph", answer, samples, "images", config.allowed, config.spec.batch_size
        )
    return "frozen graph", len(content), found.difference, found.same_best


def _write_tflite(config, file, network_fn, exported_fn, samples):
    # TFLite stores weights in half, and leaves it to the device what to compute in.
    del exported_fn
    half_weights = config.precision.name == "fp16"
    content = tflite_model.make(network_fn, config.spec, config.weights, half_weights)
    batch_size = config.spec.batch_size or 1
    with tflite_model.open_model(_written(file, content, "tflite")) as answer:
        found = self_check.compare(
            "The TFLite model", answer, samples, "images", config.allowed, batch_size
        )
    return "TFLite model", len(content), found.difference, found.same_best


_WRITERS = {
    "export_dir": _write_saved_model,
    "frozen_graph": _write_frozen_graph,
    "tflite": _write_tflite,
}
_FILES = ("frozen_graph", "tflite")


def _written(file, content, flag):
    """Writes an open file; returns what it then holds."""
    with writing(flag, file.name):
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
    return (
        f"{written.path}: {written.what} in {config.precision.name}, "
        f"{written.num_bytes / 1e6:,.1f} MB; its logits differ from the checkpoint's by up to "
        f"{written.difference:.1g} of the largest ({config.allowed:g} allowed), and its best class "
        f"is the checkpoint's for {written.same_best.sum()} of {written.same_best.size} images."
    )
