"""The best classes of image files, by anything that answers: a checkpoint or an export of one."""

import dataclasses
import json

import numpy as np

from slim_mp.compat import tf
from slim_mp.data import image_kinds
from slim_mp.errors import CheckpointError, NumericsError, reason


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One of the best classes of an image.

    Attributes:
      number: the class, counted from 0 as the network does.
      name: what it is called.
      probability: from 0 to 1.
    """

    number: int
    name: str
    probability: float


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What came out for a file.

    Attributes:
      path: the file.
      candidates: a tuple of `Candidate`, the best first; empty if there is a problem.
      problem: why the file cannot be used, the rest of a sentence that begins with it, or None.
    """

    path: str
    candidates: tuple = ()
    problem: str | None = None

    def text(self):
        """Returns some lines for people."""
        lines = [
            f"  {item.probability:8.2%}  {item.number:5d}  {item.name}" for item in self.candidates
        ]
        return "\n".join([printable(self.path), *lines])

    def json_line(self):
        """Returns a JSON object in one line of ASCII."""
        if self.problem:
            return json.dumps({"file": self.path, "problem": self.problem})
        classes = [dataclasses.asdict(item) for item in self.candidates]
        return json.dumps({"file": self.path, "classes": classes})


def printable(path):
    """Returns a path as a terminal can show it."""
    return path if path.isprintable() else repr(path)


def predict(answer, paths, label_names, top, batch_size):
    """Predicts the classes of image files.

    Args:
      answer: function of the name of an input, which is `encoded`, and a batch of files that
        returns a dict with `probabilities`, [batch, classes].
      paths: the files.
      label_names: the name of each class.
      top: how many of the best classes are wanted.
      batch_size: files to answer at once.

    Yields:
      A `Prediction` for each path, in their order.

    Raises:
      CheckpointError: if there are not as many names as classes.
      NumericsError: if the answer to an image is not finite.
    """
    for start in range(0, len(paths), batch_size):
        files = [_read(path) for path in paths[start : start + batch_size]]
        answers = iter(_answer_all(answer, [one.encoded for one in files if not one.problem]))
        for one in files:
            result = one.problem or next(answers)
            if isinstance(result, str):
                yield Prediction(one.path, problem=result)
            else:
                yield Prediction(one.path, _best(result, label_names, top, one.path))


@dataclasses.dataclass(frozen=True)
class _File:
    path: str
    encoded: bytes = b""
    problem: str | None = None


def _read(path):
    try:
        with open(path, "rb") as file:
            encoded = file.read()
    except OSError as error:
        return _File(path, problem=f"cannot be read: {error.strerror}")
    return _File(path, encoded, image_kinds.problem_of(encoded))


def _answer_all(answer, encoded):
    """The probabilities of each image, or the problem of one that cannot be decoded."""
    if not encoded:
        return []
    try:
        return list(answer("encoded", encoded)["probabilities"])
    except tf.errors.InvalidArgumentError as error:
        if len(encoded) == 1:
            return [f"cannot be decoded: {reason(error)}"]
    return [result for one in encoded for result in _answer_all(answer, [one])]


def _best(probabilities, label_names, top, path):
    if len(probabilities) != len(label_names):
        raise CheckpointError(
            f"The network has {len(probabilities)} classes, but {len(label_names)} names; export "
            "it again."
        )
    if not np.isfinite(probabilities).all():
        raise NumericsError(
            f"The answer to {printable(path)} is not finite: the weights are not, or the network "
            "overflows in half precision; give --dtype=fp32, or another checkpoint or export."
        )
    best = np.argsort(-probabilities, kind="stable")[:top]
    return tuple(
        Candidate(int(number), label_names[number], float(probabilities[number])) for number in best
    )
