"""Writes sets of record files, with the names and features of TF-Slim's tools: whole or absent.

The files of a set are written into a hidden folder beside their place, and moved there when all of
them are complete. A run that is killed leaves that folder, which no reader looks into and which the
next run removes. If it is killed while it moves files, the folder has another name, by which the
next run knows that all of the set is there, and moves the rest; a reader knows by the numbers in
the names that are missing.
"""

import contextlib
import os
import re
import shutil

from absl import logging

from slim_mp.compat import tf
from slim_mp.data.label_names import LABELS_FILE, read_label_names
from slim_mp.errors import UsageError, reason
from slim_mp.files.input_files import few, reading

_UNFINISHED = ".unfinished"
_RECORD_FILE = re.compile(r"\.tfrecord$|-[0-9]+-of-[0-9]+$")


def shard_names(name, split, num_shards):
    """Returns the names of the files of a split, such as flowers_train_00000-of-00005.tfrecord."""
    return [
        f"{name}_{split}_{shard:05d}-of-{num_shards:05d}.tfrecord" for shard in range(num_shards)
    ]


def make_example(encoded, image_format, label, height, width, text=None, filename=None):
    """Makes the record of an image.

    Args:
      encoded: the bytes of the image file.
      image_format: bytes, such as b"jpg".
      label: an int.
      height, width: in pixels, of the image as it is decoded.
      text: the name of the class, a str, or None to leave that out.
      filename: the name of the file, a str, or None to leave that out.

    Returns:
      The bytes of a tf.train.Example; the same for the same arguments.
    """
    features = {
        "image/encoded": _bytes(encoded),
        "image/format": _bytes(image_format),
        "image/class/label": _integer(label),
        "image/height": _integer(height),
        "image/width": _integer(width),
    }
    for key, value in (("image/class/text", text), ("image/filename", filename)):
        if value is not None:
            features[key] = _bytes(value.encode("utf-8"))
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)


def _bytes(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _integer(value):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def files_of(folder, name):
    """Returns the names of the record files of a set, of any split, in a folder, sorted.

    Raises:
      DataError: if the folder cannot be read.
    """
    form = re.compile(rf"{re.escape(name)}_[^_]+(_[0-9]+-of-[0-9]+)?\.tfrecord")
    with reading(folder):
        return sorted(filter(form.fullmatch, os.listdir(folder)))


def finish_move(folder, name, flag):
    """Moves to their place what a run that was killed while it moved a set has left to be moved.

    Args:
      folder, name, flag: as for `new_set`.

    Returns:
      Whether there was such a set; it is whole now.

    Raises:
      UsageError: if the files cannot be moved; they are kept.
      DataError: if the folder cannot be read.
    """
    if not os.path.isdir(_moving(folder, name)):
        return False
    logging.info("A run was killed while it moved the files of %r; the rest is moved.", name)
    with _explained(folder, flag):
        _move_files(folder, name)
    return True


def _moving(folder, name):
    return os.path.join(folder, f".moving-{name}")


def _move_files(folder, name):
    moving = _moving(folder, name)
    if os.path.exists(os.path.join(moving, LABELS_FILE)):
        # It is moved before all others, so that the record files that are there are old ones.
        for old in files_of(folder, name):
            os.remove(os.path.join(folder, old))
        os.replace(os.path.join(moving, LABELS_FILE), os.path.join(folder, LABELS_FILE))
    for new in files_of(moving, name):
        os.replace(os.path.join(moving, new), os.path.join(folder, new))
    shutil.rmtree(moving)


@contextlib.contextmanager
def _explained(path, flag):
    """Turns what the file system says into an error that a user can mend."""
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        words = getattr(error, "strerror", None) or reason(error).rsplit("; ", 1)[-1]
        raise UsageError(
            f"{path} cannot be written ({words}); make room, or give another --{flag}."
        ) from error


class NewSet:
    """A set of record files that is being written; `new_set` opens it.

    Attributes:
      scratch: a folder for what is needed meanwhile.
    """

    def __init__(self, folder, name, flag):
        self.scratch = os.path.join(folder, _UNFINISHED)
        self._folder = folder
        self._name = name
        self._flag = flag

    def begin(self):
        """Makes the folder that the files are written into, and removes what was left there.

        Raises:
          UsageError: if it cannot be made.
        """
        with _explained(self._folder, self._flag):
            if os.path.isdir(self.scratch):
                logging.info("%s is what a killed run has left; it is removed.", self.scratch)
                shutil.rmtree(self.scratch)
            os.mkdir(self.scratch)

    def write_records(self, name, examples):
        """Writes a record file.

        Args:
          name: its name.
          examples: the bytes of each record, an iterable.

        Returns:
          The number of records.

        Raises:
          UsageError: if it cannot be written.
        """
        count = 0
        with self._writing(name) as path, tf.io.TFRecordWriter(path) as writer:
            for example in examples:
                writer.write(example)
                count += 1
        return count

    def write_labels(self, label_names):
        """Writes labels.txt, with lines such as `0:daisy`.

        Args:
          label_names: the name of each class.

        Raises:
          UsageError: if it cannot be written.
        """
        with self._writing(LABELS_FILE) as path, open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{label}:{name}\n" for label, name in enumerate(label_names))

    def move(self):
        """Moves the files to their place; from then on there is this set and not the old one.

        Raises:
          UsageError: if they cannot be moved; `finish_move` goes on with it.
        """
        with _explained(self._folder, self._flag):
            os.rename(self.scratch, _moving(self._folder, self._name))
            _move_files(self._folder, self._name)

    @contextlib.contextmanager
    def _writing(self, name):
        with _explained(os.path.join(self._folder, name), self._flag):
            yield os.path.join(self.scratch, name)


@contextlib.contextmanager
def new_set(folder, name, label_names, flag, overwrite=False):
    """Opens a set of record files to be written; at the end all take their place, or none does.

    Args:
      folder: the folder, which no other run may write to meanwhile (`output_files.only_run_in`).
      name: the name of the set.
      label_names: the name of each class.
      flag: name of the flag that gave the folder, for errors.
      overwrite: whether a set of that name may be replaced; None if there is no flag that says so.
        The set of a run that was killed while it moved files may be replaced anyway: it is likely
        that the same command was given again.

    Yields:
      A `NewSet`. If the block ends with an exception, all is as it was, but that such a set is
      whole: its move is finished first.

    Raises:
      UsageError: if there is a set of that name, if the folder holds other sets of other classes,
        or if it cannot be written to.
      DataError: if what is there cannot be read.
    """
    half_moved = finish_move(folder, name, flag)
    _check_replaceable(folder, name, label_names, flag, overwrite, half_moved)
    files = NewSet(folder, name, flag)
    files.begin()
    try:
        files.write_labels(label_names)
        yield files
    except BaseException:
        shutil.rmtree(files.scratch, ignore_errors=True)
        raise
    files.move()


def _check_replaceable(folder, name, label_names, flag, overwrite, half_moved):
    """Refuses to write where a set is that must not be replaced, or sets of other classes."""
    elsewhere = f"give another --{flag}"
    advice = elsewhere if overwrite is None else f"give --overwrite to replace it, or {elsewhere}"
    may_replace = overwrite or half_moved
    old_files = files_of(folder, name)
    if old_files and not may_replace:
        raise UsageError(
            f"{folder} holds a set {name!r} already ({few(old_files, most=2)}); {advice}."
        )
    known = read_label_names(os.path.join(folder, LABELS_FILE))
    if known in (None, tuple(label_names)):
        return
    # Other sets must not get other classes.
    others = filter(_RECORD_FILE.search, set(os.listdir(folder)) - set(old_files))
    has_others = any(others)
    if has_others or not may_replace:
        raise UsageError(
            f"{folder} has a {LABELS_FILE} of other classes ({few(known)}); "
            f"{elsewhere if has_others else advice}."
        )
