"""The errors a user can do something about, each with the exit code of the command it ends.

A message says what was got, what is allowed and what to do. The scripts print it as the only
line on stderr; in a program the classes are ordinary exceptions.
"""

import itertools

EXIT_OK = 0
EXIT_UNEXPECTED = 1
EXIT_STOPPED = 75
EXIT_INTERRUPTED = 130
# With the number of the signal added, as shells report it.
EXIT_BY_SIGNAL = 128


def reason(error):
    """Returns the one line of an error that says why, without TensorFlow's account of where.

    Args:
      error: an exception, such as a tf.errors.OpError or an OSError.
    """
    lines = str(getattr(error, "message", error)).splitlines() or [type(error).__name__]
    pairs = itertools.pairwise(lines)
    after_node = [following for line, following in pairs if line.startswith("Node: ")]
    return (after_node or lines)[0].strip()


class SlimMPError(Exception):
    """Base of the errors that end a command without a traceback."""

    exit_code = EXIT_UNEXPECTED


class UsageError(SlimMPError, ValueError):
    """A flag or an argument cannot be used as given."""

    exit_code = 2


class RequirementError(UsageError, ImportError):
    """A package that slim_mp needs is missing or of an unfit version."""


class DataError(SlimMPError, ValueError):
    """A dataset, a record or an image cannot be used."""

    exit_code = 3


class NumericsError(SlimMPError, ArithmeticError):
    """Training cannot go on, or an export is not written, since its numbers are not right."""

    exit_code = 4


class CheckpointError(SlimMPError, ValueError):
    """A checkpoint is missing, damaged or does not fit the network."""

    exit_code = 5
