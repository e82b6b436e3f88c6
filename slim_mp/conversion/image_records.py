"""Makes records of image files in parallel: their bytes as they are, if they can be decoded."""

import collections
import dataclasses
import os
import random
from multiprocessing.pool import ThreadPool

from absl import logging

from slim_mp.compat import tf
from slim_mp.conversion.record_writer import make_example
from slim_mp.data.image_kinds import BMP, GIF, JPEG, PNG, kind_of, problem_of
from slim_mp.errors import DataError
from slim_mp.preprocessing.orientation import UPRIGHT, orientation_of

_SEED = 0
# Images that are read and not written yet, for each worker: the bound of the memory needed.
_IMAGES_PER_WORKER = 16
_NAMED = 5
# What slim's tools call the formats.
_FORMATS = {JPEG: b"jpg", PNG: b"png", GIF: b"gif", BMP: b"bmp"}


def spread_evenly(labels):
    """Shuffles examples so that each class is spread evenly over all of them.

    Args:
      labels: the class of each example.

    Returns:
      The indices of the examples in the new order, a list; always the same for the same labels.
    """
    # Of the module random, only this function is promised to stay as it is.
    draw = random.Random(_SEED).random
    members = collections.defaultdict(list)
    for index in sorted(range(len(labels)), key=lambda _: draw()):
        members[labels[index]].append(index)
    places = [
        ((place + draw()) / len(indices), index)
        for indices in members.values()
        for place, index in enumerate(indices)
    ]
    return [index for _, index in sorted(places)]


@dataclasses.dataclass(frozen=True)
class _Outcome:
    """What came of an image file: its record, or what is wrong with it."""

    record: bytes | None = None
    problem: str | None = None
    is_turned: bool = False


class ImageRecords:
    """Makes records of image files; a context manager.

    Attributes:
      left_out: paths of the files that are no usable images.
      num_turned: how many images lie on their side or are mirrored, by their Exif orientation.
    """

    def __init__(self, num_workers, max_bad_images=0):
        """Prepares.

        Args:
          num_workers: threads that read and decode.
          max_bad_images: how many files that are no usable images may be left out.
        """
        self.left_out = []
        self.num_turned = 0
        self._num_workers = num_workers
        self._limit = max_bad_images
        self._problems = []

    def __enter__(self):
        # Not on a GPU, whose memory another program may be using.
        settings = tf.ConfigProto(device_count={"GPU": 0}, intra_op_parallelism_threads=1)
        with tf.Graph().as_default() as graph:
            encoded = tf.placeholder(tf.string, [])
            image = tf.io.decode_image(encoded, channels=3, expand_animations=False)
            results = tf.shape(image), orientation_of(encoded)
        self._session = tf.Session(graph=graph, config=settings)
        self._examine = self._session.make_callable(results, [encoded])
        self._pool = ThreadPool(self._num_workers)
        return self

    def __exit__(self, *_):
        self._pool.terminate()
        self._session.close()

    def make(self, images, indices, base, on_progress):
        """Makes the records of some images.

        Args:
          images: an `image_files.ImageFiles`.
          indices: which of them, in order.
          base: the folder that the names of the files in the records are relative to.
          on_progress: is called once for each image.

        Yields:
          The bytes of each record. Its height and width are those of the image as it is stored.

        Raises:
          DataError: if more files than may be left out are no usable images.
        """

        def outcome_of(index):
            path, label = images.paths[index], images.labels[index]
            return self._outcome(path, label, images.label_names[label], base)

        size = self._num_workers * _IMAGES_PER_WORKER
        for start in range(0, len(indices), size):
            chunk = indices[start : start + size]
            for index, outcome in zip(chunk, self._pool.map(outcome_of, chunk, 1), strict=True):
                on_progress()
                self.num_turned += outcome.is_turned
                if outcome.problem:
                    self._leave_out(images.paths[index], outcome.problem)
                else:
                    yield outcome.record

    def _outcome(self, path, label, text, base):
        try:
            with open(path, "rb") as file:
                encoded = file.read()
        except OSError as error:
            return _Outcome(problem=f"cannot be read ({error.strerror})")
        problem = problem_of(encoded)
        if problem:
            return _Outcome(problem=problem)
        kind = kind_of(encoded)
        try:
            (height, width, _), orientation = self._examine(encoded)
        except tf.errors.OpError:
            return _Outcome(
                problem=f"is a {kind} file of {len(encoded)} bytes that cannot be decoded: it is "
                "cut off or damaged"
            )
        name = os.path.relpath(path, base)
        record = make_example(encoded, _FORMATS[kind], label, height, width, text, name)
        return _Outcome(record, is_turned=orientation != UPRIGHT)

    def _leave_out(self, path, problem):
        shown_path = path if path.isprintable() else repr(path)
        self.left_out.append(path)
        self._problems.append(f"{shown_path} {problem}")
        count = len(self._problems)
        if count <= self._limit:
            logging.warning(
                "Left out, bad image %d of at most %d: %s.", count, self._limit, self._problems[-1]
            )
            return
        advice = "mend or remove it, or allow for bad images with --max_bad_images"
        if not self._limit:
            raise DataError(f"{self._problems[0]}; {advice}.")
        more = f"; and {count - _NAMED} more" if count > _NAMED else ""
        raise DataError(
            f"{count} images are bad and at most {self._limit} may be (--max_bad_images): "
            f"{'; '.join(self._problems[:_NAMED])}{more}."
        )
