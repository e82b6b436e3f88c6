"""Keeps the records or image files of a split in memory, as they are on disk."""

import contextlib
import os

from absl import logging

from slim_mp.compat import tf
from slim_mp.data.example_sources import open_source
from slim_mp.errors import DataError

# Of the memory that is free; the rest is for the network, the shuffle buffer and the batches.
_LARGEST_SHARE = 0.8
_MEMORY_OF_SYSTEM = "/proc/meminfo"
_MEMORY_OF_CONTROL_GROUP = "/sys/fs/cgroup/memory.{}"


def available_bytes():
    """Returns the bytes of memory that can still be had, within the limit of the control group."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, KeyError, ValueError):
        lines = dict(line.split(":") for line in _read(_MEMORY_OF_SYSTEM).splitlines())
        # What the system holds as a cache of files and would give back counts too.
        free = int(lines["MemAvailable"].split()[0]) * 1024
    with contextlib.suppress(OSError, ValueError):
        limit, used = (int(_read(_MEMORY_OF_CONTROL_GROUP.format(n))) for n in ("max", "current"))
        free = min(free, limit - used)
    return free


def _read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


class ExampleCache:
    """The bytes of each example of a split, by its number."""

    def __init__(self, dataset, may_leave_out=False):
        """Reads the split.

        Args:
          dataset: a `Dataset` that has files.
          may_leave_out: as for `open_source`.

        Raises:
          DataError: if it does not fit into memory, or a record file cannot be read.
        """
        available = available_bytes()
        if dataset.num_bytes > _LARGEST_SHARE * available:
            raise DataError(
                f"--cache: the split '{dataset.split}' of '{dataset.name}' holds "
                f"{_mebibytes(dataset.num_bytes)}, more than {_LARGEST_SHARE:.0%} of the "
                f"{_mebibytes(available)} of memory that are free; leave --cache out, or use a "
                "machine with more."
            )
        source = open_source(dataset, may_leave_out=may_leave_out)
        self._contents = [content for _, content in source.contents()]
        logging.info(
            "Cached the %d examples of the split '%s' in memory: %s.",
            len(self._contents),
            dataset.split,
            _mebibytes(sum(map(len, self._contents))),
        )

    def read(self, number):
        """Returns the bytes of an example."""
        return self._contents[number]

    def lookup(self, number):
        """Returns the bytes of an example in the graph, a string tensor []."""
        content = tf.numpy_function(lambda n: self._contents[n], [number], tf.string)
        content.set_shape([])
        return content


def _mebibytes(count):
    return f"{count / 2**20:.1f} MiB"
