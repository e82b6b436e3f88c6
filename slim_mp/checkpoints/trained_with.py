"""What a run was trained with, beside its checkpoints, so that an evaluation need not be told."""

import dataclasses
import json
import os

from absl import logging

from slim_mp.errors import UsageError
from slim_mp.files.output_files import write_whole
from slim_mp.preprocessing import PREPROCESSINGS

FILE_NAME = "trained_with.json"
# Names of more classes than this are left out: the file is for facts, not for a dictionary.
MOST_NAMES = 10_000


@dataclasses.dataclass(frozen=True)
class TrainedWith:
    """What an evaluation of a run must have in common with it.

    Attributes:
      model_name: name of the network, or None for one without a name.
      num_classes: classes of the network.
      labels_offset: what was subtracted from the labels.
      preprocessing: the style of preprocessing.
      image_size: height and width of the images in pixels.
      label_names: the name of each class of the network, or None where they are not known or are
        more than `MOST_NAMES`.
      max_number_of_steps: the step at which the run is to end, so that whoever follows it knows, or
        None.
    """

    model_name: str | None
    num_classes: int
    labels_offset: int
    preprocessing: str
    image_size: int
    label_names: tuple | None = None
    max_number_of_steps: int | None = None

    def problem(self):
        """Says which value no run can have written, as `name is value`; None if there is none."""
        for name, is_possible in _POSSIBLE.items():
            value = getattr(self, name)
            if not is_possible(value):
                return f"{name} is {repr(value)[:40]}"
        if self.label_names is not None and len(self.label_names) != self.num_classes:
            return f"label_names has {len(self.label_names)} names for {self.num_classes} classes"
        return None


def names_of_classes(label_names, labels_offset):
    """Returns the names of a network's classes, of those of a dataset's, or None.

    Args:
      label_names: the name of each label of the dataset, or None.
      labels_offset: what is subtracted from the labels.
    """
    names = tuple(label_names or ())[labels_offset:]
    return names if 0 < len(names) <= MOST_NAMES else None


def _are_names(value):
    if value is None:
        return True
    return isinstance(value, tuple) and all(isinstance(name, str) for name in value)


def _at_least(low):
    return lambda value: type(value) is int and value >= low


_POSSIBLE = {
    "model_name": lambda value: value is None or isinstance(value, str),
    "num_classes": _at_least(1),
    "labels_offset": _at_least(0),
    "preprocessing": lambda value: isinstance(value, str) and value in PREPROCESSINGS,
    "image_size": _at_least(1),
    "max_number_of_steps": lambda value: value is None or _at_least(1)(value),
    "label_names": _are_names,
}


def write(train_dir, facts):
    """Writes the facts of a run into its folder.

    Raises:
      UsageError: if the folder cannot be written.
    """
    text = json.dumps(dataclasses.asdict(facts), indent=2, ensure_ascii=False) + "\n"
    try:
        write_whole(os.path.join(train_dir, FILE_NAME), text)
    except OSError as error:
        raise UsageError(
            f"--train_dir={train_dir} cannot be written ({error.strerror}): give a folder that can."
        ) from error


def read(checkpoint):
    """Reads the facts of the run that wrote a checkpoint.

    Args:
      checkpoint: its prefix.

    Returns:
      A `TrainedWith`, or None if no run of ours wrote it, or its file cannot be read or holds
      nonsense, of which a warning tells.
    """
    path = os.path.join(os.path.dirname(checkpoint), FILE_NAME)
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            fields = dict(json.load(file))
        if isinstance(fields.get("label_names"), list):
            fields["label_names"] = tuple(fields["label_names"])
        facts = TrainedWith(**fields)
        problem = facts.problem()
    except (OSError, ValueError, TypeError, RecursionError) as error:
        problem = str(error)
    if problem:
        logging.warning("%s is not used: %s.", path, problem)
        return None
    return facts
