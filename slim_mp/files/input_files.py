"""What the readers of a dataset's files share: one line for a file that cannot be read."""

import contextlib

from slim_mp.compat import tf
from slim_mp.errors import DataError


def _reason(error):
    """The words of an error of the file system, without the path that TensorFlow repeats."""
    if isinstance(error, UnicodeDecodeError):
        return f"a name that is not UTF-8: {shown(error.object)}"
    words = error.message if isinstance(error, tf.errors.OpError) else error.strerror
    return str(words or error).rsplit("; ", 1)[-1]


@contextlib.contextmanager
def reading(path):
    """While open, an error of the file system is about a path that is read.

    Args:
      path: a file or folder.

    Yields:
      Nothing.

    Raises:
      DataError: in place of any such error; the message names the path and the reason.
    """
    try:
        yield
    except (OSError, UnicodeDecodeError, tf.errors.OpError) as error:
        raise DataError(
            f"{path if path.isprintable() else repr(path)} cannot be read ({_reason(error)}); "
            "correct its permissions, or put a readable one in its place."
        ) from error


def few(names, most=5):
    """Lists the first of some names; one that could do a terminal harm is quoted, or cut."""
    clean = [name if name.isprintable() and len(name) <= 80 else shown(name) for name in names]
    more = f" and {len(clean) - most} more" if len(clean) > most else ""
    return ", ".join(clean[:most]) + more


def shown(text, most=40):
    """Quotes what a file holds so that it can do a terminal no harm, and cuts it."""
    return repr(text[:most]) + ("..." if len(text) > most else "")
