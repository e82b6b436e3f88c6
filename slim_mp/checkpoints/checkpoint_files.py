"""Finding checkpoints on disk and telling complete ones from damaged ones.

TensorFlow writes a checkpoint as one file (format V1, most published slim checkpoints) or as
PREFIX.index and PREFIX.data-00000-of-00001 or more shards (format V2). Its reader opens a V2
checkpoint by the index alone, so that a data file which was cut short is noticed only when a tensor
is read; here it is found at once, by size.
"""

import dataclasses
import difflib
import math
import os
import re

from absl import logging

from slim_mp.compat import tf
from slim_mp.errors import CheckpointError

_V2_SUFFIX = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
_SHARD = re.compile(r"\.data-(\d{5})-of-(\d{5})$")
_V1_NAME = re.compile(r"\.ckpt(-\d+)?$")
_STEP = re.compile(r"-(\d+)$")
_NUMBERED = re.compile(r"^(.*-(\d+))\.index$")
_ARCHIVE = re.compile(r"\.(tar|tar\.gz|tgz|zip|gz)$")
_READ_ERRORS = (tf.errors.OpError, RuntimeError, ValueError, IndexError)


@dataclasses.dataclass(frozen=True)
class Contents:
    """What a checkpoint holds.

    Args:
      prefix: path that tf.train.Saver takes.
      shapes: mapping of variable name to shape, a tuple of ints.
      dtypes: mapping of variable name to the tf.DType that is stored.
    """

    prefix: str
    shapes: dict
    dtypes: dict


def read_contents(prefix):
    """Opens a checkpoint and checks that all of it is there.

    Args:
      prefix: path that tf.train.Saver takes; of a V1 checkpoint, its file.

    Returns:
      Contents.

    Raises:
      CheckpointError: if there is no checkpoint, or what is there is damaged, cut short or lacks a
        shard.
    """
    _check_path(prefix)
    try:
        reader = tf.train.NewCheckpointReader(prefix)
        shapes = {name: tuple(s) for name, s in reader.get_variable_to_shape_map().items()}
        contents = Contents(prefix, shapes, dict(reader.get_variable_to_dtype_map()))
        if tf.io.gfile.exists(prefix + ".index"):
            _check_data_files(contents, reader)
    except _READ_ERRORS as error:
        if isinstance(error, CheckpointError):
            raise
        hint = "unpack it first" if _ARCHIVE.search(prefix) else "copy or download it again"
        raise CheckpointError(
            f"{prefix} cannot be read as a TensorFlow checkpoint: it is cut short, damaged or of "
            f"another kind ({str(error)[:120]!r}); {hint}."
        ) from error
    return contents


def find_checkpoint(path):
    """Finds the checkpoint that a path means.

    Args:
      path: a V1 file, a V2 prefix, one of the files of a V2 checkpoint, or a folder, where the
        one named by its `checkpoint` file is taken, or else the newest complete one.

    Returns:
      The prefix that tf.train.Saver takes.

    Raises:
      CheckpointError: if there is none, or it is damaged; the message names what was looked for.
    """
    path = os.path.expanduser(path)
    if not path:
        raise CheckpointError("The path of the checkpoint is empty; give a file or a folder.")
    _check_path(path)
    if tf.io.gfile.isdir(path):
        return _find_in_folder(path)
    prefix = _V2_SUFFIX.sub("", path)
    if not any(tf.io.gfile.exists(name) for name in (prefix + ".index", prefix)):
        raise CheckpointError(_not_found(path, prefix))
    return read_contents(prefix).prefix


def latest_checkpoint(train_dir):
    """Finds the checkpoint from which a stopped or killed run goes on.

    Args:
      train_dir: folder that the run wrote to.

    Returns:
      The prefix of the one that the `checkpoint` file names if that is complete, else of the
      complete one with the highest step, or None. Damaged ones that were passed over are warned of.

    Raises:
      CheckpointError: if TensorFlow could not read from a folder of this name.
    """
    _check_path(train_dir)
    if not tf.io.gfile.isdir(train_dir):
        return None
    passed_over = []
    found = _newest_complete(train_dir, passed_over)
    for problem in passed_over:
        logging.warning("Passed over a checkpoint that is not complete: %s", problem)
    return found


def numbered_checkpoints(folder):
    """Lists the checkpoints that a run has written, whether they are complete or not.

    Args:
      folder: the folder, which need not be there.

    Returns:
      The prefixes PREFIX-STEP, lowest step first.

    Raises:
      CheckpointError: if TensorFlow could not read from a folder of this name.
    """
    _check_path(folder)
    if not tf.io.gfile.isdir(folder):
        return []
    found = (_NUMBERED.search(name) for name in tf.io.gfile.listdir(folder))
    steps = {int(match[2]): match[1] for match in found if match}
    return [os.path.join(folder, steps[step]) for step in sorted(steps)]


def global_step_of(checkpoint):
    """Reads the global step that a checkpoint was saved at.

    Args:
      checkpoint: prefix of a checkpoint.

    Returns:
      An int, or None if the checkpoint holds no global step.

    Raises:
      CheckpointError: if the checkpoint cannot be read.
    """
    if tf.GraphKeys.GLOBAL_STEP not in read_contents(checkpoint).shapes:
        return None
    try:
        reader = tf.train.NewCheckpointReader(checkpoint)
        return int(reader.get_tensor(tf.GraphKeys.GLOBAL_STEP))
    except _READ_ERRORS as error:
        raise CheckpointError(f"The global step of {checkpoint} cannot be read.") from error


def _check_path(path):
    if "[" in path or "\\" in path:
        raise CheckpointError(
            f"TensorFlow writes checkpoints to {path} but takes '[' and '\\' in it for a pattern "
            "and cannot read them again; use a path without these characters."
        )


def _shards(prefix):
    """Sizes of the data files of a checkpoint, as {number of shards: {shard: bytes}}."""
    folder, base = os.path.split(prefix)
    groups = {}
    for name in tf.io.gfile.listdir(folder or "."):
        shard = _SHARD.search(name)
        if shard and name[: shard.start()] == base:
            size = tf.io.gfile.stat(os.path.join(folder, name)).length
            groups.setdefault(int(shard[2]), {})[int(shard[1])] = size
    return groups


def _check_data_files(contents, reader):
    """Compares the sizes of the data files with what the index says they hold.

    A writer packs the tensors without gaps, so a file that lost its end is too short by sum. Only
    strings have no size in the index; they are read, and everything else with them.
    """
    groups = _shards(contents.prefix)
    complete = [sizes for count, sizes in groups.items() if len(sizes) == count]
    if not complete:
        have = sum(len(sizes) for sizes in groups.values())
        raise CheckpointError(
            f"{contents.prefix}.index is there, but of its data files "
            f"({contents.prefix}.data-?????-of-{max(groups, default=1):05d}) only {have} of "
            f"{max(groups, default=1)}; copy the missing ones next to it."
        )
    if any(dtype in (tf.string, tf.variant, tf.resource) for dtype in contents.dtypes.values()):
        for name in contents.shapes:
            reader.get_tensor(name)
        return
    needed = sum(math.prod(s) * contents.dtypes[n].size for n, s in contents.shapes.items())
    have = max(sum(sizes.values()) for sizes in complete)
    if have < needed:
        raise CheckpointError(
            f"The checkpoint {contents.prefix} is cut short: its data files have {have} bytes of "
            f"the {needed} that its index lists; copy or download it again."
        )


def _candidates(folder):
    """Names of all checkpoints in a folder, newest first, complete or not."""
    newest = {}
    for name in tf.io.gfile.listdir(folder):
        base = _V2_SUFFIX.sub("", name)
        if (base != name and not name.endswith(".meta")) or _V1_NAME.search(name):
            modified = tf.io.gfile.stat(os.path.join(folder, name)).mtime_nsec
            newest[base] = max(newest.get(base, 0), modified)

    def age(base):
        step = _STEP.search(base)
        return int(step[1]) if step else -1, newest[base]

    return sorted(newest, key=age, reverse=True)


def _named_by_state_file(folder):
    try:
        state = tf.train.get_checkpoint_state(folder)
    except _READ_ERRORS:
        return None
    # Only the last part counts: folders are moved and copied, and the file may hold full paths.
    return os.path.basename(state.model_checkpoint_path) if state else None


def _newest_complete(folder, passed_over):
    names = _candidates(folder)
    named = _named_by_state_file(folder)
    if named in names:
        names = [named] + [name for name in names if name != named]
    elif named:
        passed_over.append(f"{folder} has no {named}, which its file `checkpoint` names.")
    for name in names:
        try:
            return read_contents(os.path.join(folder, name)).prefix
        except CheckpointError as error:
            passed_over.append(str(error))
    return None


def _find_in_folder(folder):
    passed_over = []
    found = _newest_complete(folder, passed_over)
    if found is None:
        raise CheckpointError(
            f"The folder {folder} has no complete checkpoint; looked for the one that its file "
            "`checkpoint` names, for *.index with *.data-?????-of-????? and for *.ckpt."
            + "".join(f" {problem}" for problem in passed_over)
        )
    for problem in passed_over:
        logging.warning("Took %s and passed over: %s", found, problem)
    return found


def _not_found(path, prefix):
    folder, base = os.path.split(prefix)
    message = f"No checkpoint at {path}: looked for the files {prefix} and {prefix}.index"
    if not tf.io.gfile.isdir(folder or "."):
        return f"{message}, but there is no folder {folder}."
    if _shards(prefix):
        return f"{message}; its data files are there, but without the index they cannot be read."
    there = _candidates(folder or ".")
    near = difflib.get_close_matches(base, there, n=1, cutoff=0.5) or there[:1]
    hint = f"; did you mean {os.path.join(folder, near[0])}?" if near else "."
    return f"{message} and for a folder {path}{hint}"
