"""Folders that are filled under another name, and removed if they are never finished.

A lock on the folder goes with the process that fills it: one without its lock is an orphan.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile


@contextlib.contextmanager
def temporary_folder(parent, prefix):
    """Makes a folder inside another, and removes those that killed processes left there.

    Args:
      parent: a folder that can be written.
      prefix: what the names of all such folders begin with.

    Yields:
      The path of the folder, which may be renamed. If the block ends with an exception, whatever it
      is, it is removed.

    Raises:
      OSError: if it cannot be made.
    """
    with _lock(parent):
        # While others wait to make theirs, none is there that is not locked yet.
        _remove_orphans(parent, prefix)
        folder = tempfile.mkdtemp(prefix=prefix, dir=parent)
        lock = _lock(folder)
    with lock:
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


@contextlib.contextmanager
def _opened(folder):
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(folder):
    """Locks a folder until the returned context ends, where its file system has locks."""
    with contextlib.ExitStack() as stack:
        descriptor = stack.enter_context(_opened(folder))
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        return stack.pop_all()


def _remove_orphans(parent, prefix):
    for name in os.listdir(parent):
        folder = os.path.join(parent, name)
        if name.startswith(prefix) and os.path.isdir(folder) and _is_free(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_free(folder):
    try:
        with _opened(folder) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        # It is being filled, or nobody can tell.
        return False
    return True
