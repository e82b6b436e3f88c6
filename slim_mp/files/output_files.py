"""Folders and files that a run writes: checked before the work, written whole or not at all."""

import contextlib
import dataclasses
import errno
import fcntl
import json
import math
import os
import re
import tempfile

from slim_mp.errors import UsageError


def make_folder(path, flag):
    """Makes a folder, if need be, and checks that files can be written there.

    Args:
      path: the folder.
      flag: name of the flag that gave it, for the error.

    Raises:
      UsageError: if it cannot be made or written to.
    """
    try:
        os.makedirs(path, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise UsageError(
            f"--{flag}={path} cannot be written ({error.strerror}): give a folder that can."
        ) from error


@contextlib.contextmanager
def writing(flag, path):
    """While open, an error of the file system is about what a flag asked to be written.

    Args:
      flag: name of the flag.
      path: its value.

    Yields:
      Nothing.

    Raises:
      UsageError: in place of any such error.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"--{flag}={path} cannot be written ({error.strerror}): give another that can."
        ) from error


@dataclasses.dataclass(frozen=True)
class FileKind:
    """A kind of file that is written, and may take the place of another of its kind.

    Attributes:
      name: what it is, with an article.
      beginning: what the first bytes of all such files match, a compiled pattern.
    """

    name: str
    beginning: re.Pattern


def check_file(path, flag, kind):
    """Makes sure that a file can be written and takes the place of nothing of another kind.

    What a run reads, such as its checkpoint or its dataset, is of another kind.

    Args:
      path: the file, whose folder is made if need be.
      flag: name of the flag that gave it, for the error.
      kind: its `FileKind`. An empty file may be replaced as well.

    Raises:
      UsageError: if not.
    """
    make_folder(os.path.dirname(path) or ".", flag)
    beginning = b""
    with writing(flag, path), contextlib.suppress(FileNotFoundError):
        _check_regular(path)
        with open(path, "rb") as file:
            beginning = file.read(64)
    if beginning and not kind.beginning.match(beginning):
        raise UsageError(
            f"--{flag}={path} is not {kind.name}, and would be replaced by one: give another path, "
            "or move that file."
        )


def _check_regular(path):
    """A device or a pipe that is there must not be replaced."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "it is no regular file", path)


def reserve(stack, path, flag, kind):
    """Opens a file before the work, which is in vain if it cannot be written.

    Args:
      stack: a contextlib.ExitStack; the file gets its name when it is closed, and is removed if
        that is after an error.
      path, flag, kind: as for `check_file`.

    Returns:
      The open file, for bytes.

    Raises:
      UsageError: as `check_file`.
    """
    check_file(path, flag, kind)
    with writing(flag, path):
        return stack.enter_context(open_whole(path, mode="wb"))


@contextlib.contextmanager
def only_run_in(folder, flag="train_dir"):
    """While open, no other run may write to a folder; the lock goes with the process.

    Args:
      folder: a folder that can be written.
      flag: name of the flag that gave it, for the error.

    Yields:
      Nothing.

    Raises:
      UsageError: if another run is writing there, or the file of the lock cannot be opened.
    """
    path = os.path.join(folder, "run.lock")
    try:
        lock = open(path, "w")  # noqa: SIM115 (what the block raises is not about the lock)
    except OSError as error:
        raise UsageError(
            f"{path}, by which runs know of one another, cannot be opened ({error.strerror}): "
            f"remove it if no run of another user writes there, or give another --{flag}."
        ) from error
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"Another run is writing to {folder}: wait for it, or give another --{flag}."
            ) from error
        except OSError:
            # A file system without locks.
            pass
        yield


def to_json(numbers, indent=None):
    """Writes a dict of name to number as JSON, which has no NaN or infinity: they become null."""
    plain = {
        name: None if isinstance(number, float) and not math.isfinite(number) else number
        for name, number in numbers.items()
    }
    return json.dumps(plain, indent=indent, allow_nan=False)


def write_whole(path, content):
    """Replaces a file so that a reader finds the old text or the new, never a part.

    Args:
      path: the file; of a link, what it points to is replaced.
      content: str, or bytes.

    Raises:
      OSError: if it cannot be written; the old file is then as it was.
    """
    content = content.encode("utf-8") if isinstance(content, str) else content
    with open_whole(path, mode="wb") as file:
        file.write(content)


@contextlib.contextmanager
def open_whole(path, **options):
    """Opens a file that takes the place of the one at a path when all of it is written.

    Args:
      path: the file; of a link, what it points to is replaced.
      **options: of the built-in `open`.

    Yields:
      The open file. If the block ends with an exception, whatever it is, the file is removed, and
      the old one is as it was.

    Raises:
      OSError: if it cannot be written, or something other than a file is there.
    """
    _check_regular(path)
    path = os.path.realpath(path)
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False, **options) as file:
        try:
            yield file
            file.flush()
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(file.name)
            # What found no room is still to be written; a second error would hide the first.
            with contextlib.suppress(OSError):
                file.close()
            raise
