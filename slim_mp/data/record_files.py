"""Record files as files: how many examples each holds, counted once and cached beside them.

A TFRecord file is a row of records: length (uint64), its checksum, the bytes, their checksum
(masked CRC-32C). Counting reads lengths only; TensorFlow checks the bytes when it reads them.
"""

import contextlib
import itertools
import json
import os
import struct
from multiprocessing.pool import ThreadPool

from absl import logging

from slim_mp.compat import tf
from slim_mp.errors import DataError
from slim_mp.files.input_files import few, reading

CACHE_NAME = "slim_mp_counts.json"

_HEADER = struct.Struct("<QI")
_FOOTER_BYTES = 4
_COUNTING_THREADS = 16


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_CRC_TABLE = _crc_table()


def _masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _open(path):
    # Python's own file reads less than GFile's buffer of 512 KB for every length.
    return open(path, "rb") if os.path.exists(path) else tf.io.gfile.GFile(path, "rb")


def _lengths(path):
    """Yields the length of each record of a TFRecord file, from its header alone."""
    position, count = 0, 0
    with reading(path), _open(path) as file:
        size = tf.io.gfile.stat(path).length
        while position < size:
            header = file.read(_HEADER.size)
            if len(header) == _HEADER.size:
                length, checksum = _HEADER.unpack(header)
                if _masked_crc(header[:8]) != checksum:
                    raise DataError(_not_a_record(path, count, position))
                position += _HEADER.size + length + _FOOTER_BYTES
            if len(header) < _HEADER.size or position > size:
                raise DataError(
                    f"{path} is cut off in record {count} (counting from 0), at {size} bytes; copy "
                    "the file again, or convert the images again."
                )
            yield length
            file.seek(position)
            count += 1


def count_records(path):
    """Counts the records of a TFRecord file and checks that they fill it exactly.

    Args:
      path: the file.

    Returns:
      The number of records, 0 for an empty file.

    Raises:
      DataError: if it cannot be read, is not a TFRecord file or is cut off; the message names the
        record.
    """
    return sum(1 for _ in _lengths(path))


class RecordFile:
    """A TFRecord file of which any record can be read, whatever is wrong with the others.

    TensorFlow's reader goes on with the next file once it has met a damaged record. This one is
    slow, and for the rest of such a file only.
    """

    def __init__(self, path):
        """Finds the records.

        Args:
          path: the file.

        Raises:
          DataError: as `count_records`.
        """
        self._path = path
        self._lengths = list(_lengths(path))
        sizes = (_HEADER.size + length + _FOOTER_BYTES for length in self._lengths)
        self._starts = list(itertools.accumulate(sizes, initial=0))

    def read(self, number):
        """Reads a record.

        Args:
          number: its place in the file, from 0.

        Returns:
          Its bytes.

        Raises:
          DataError: if its bytes are not those that its checksum was made of, or the file cannot
            be read.
        """
        length = self._lengths[number]
        with reading(self._path), _open(self._path) as file:
            file.seek(self._starts[number] + _HEADER.size)
            record, footer = file.read(length), file.read(_FOOTER_BYTES)
        if _masked_crc(record).to_bytes(_FOOTER_BYTES, "little") != footer:
            raise DataError("its bytes are not those that its checksum was made of")
        return record


def _not_a_record(path, count, position):
    if count == 0:
        return (
            f"{path} is not a TFRecord file (or is compressed, which is not supported); write it "
            "with tf.io.TFRecordWriter or choose other files by the file pattern."
        )
    return (
        f"{path} is damaged in record {count} (counting from 0), at byte {position}; copy the file "
        "again, or convert the images again."
    )


def _read_cache(path):
    try:
        with tf.io.gfile.GFile(path) as file:
            cache = json.load(file)
        return cache if isinstance(cache, dict) else {}
    except (tf.errors.OpError, ValueError, RecursionError):
        return {}


def _write_cache(path, cache):
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with tf.io.gfile.GFile(temporary, "w") as file:
            json.dump(cache, file, indent=1, sort_keys=True)
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except tf.errors.OpError:
        logging.info("The number of examples is not cached: %s cannot be written.", path)
        with contextlib.suppress(tf.errors.OpError):
            tf.io.gfile.remove(temporary)


def _identity(path):
    with reading(path):
        if os.path.exists(path):
            stat = os.stat(path)
            return [stat.st_size, stat.st_mtime_ns]
        # A remote file, whose time TensorFlow gives in whole seconds.
        stat = tf.io.gfile.stat(path)
        return [stat.length, stat.mtime_nsec]


def _cached_count(entry, identity):
    """The count of an entry of the cache; None for nonsense, or where the file is another now."""
    if not (isinstance(entry, list) and len(entry) == 3 and entry[:2] == identity):
        return None
    count, most = entry[2], identity[0] // (_HEADER.size + _FOOTER_BYTES)
    return count if type(count) is int and 0 <= count <= most else None


def _count_all(files, known):
    """Counts of `files`, from `known` where size and time of the file are as they were."""
    identities = {path: _identity(path) for path in files}
    counts = {}
    for path in files:
        count = _cached_count(known.get(os.path.basename(path)), identities[path])
        if count is not None:
            counts[path] = count
    unknown = [path for path in files if path not in counts]
    if unknown:
        logging.info("Counting the examples in %d record files.", len(unknown))
        with ThreadPool(_COUNTING_THREADS) as pool:
            counts.update(zip(unknown, pool.map(count_records, unknown), strict=True))
    entries = {os.path.basename(path): [*identities[path], counts[path]] for path in files}
    return counts, entries, bool(unknown)


def examples_per_file(files, cached=True):
    """Counts the examples of each record file.

    The counts are kept in a small JSON file beside the records, by name, size and time of
    modification, so that an entry of a changed file is not believed. It is replaced in one
    step; where it cannot be written, counting is repeated the next time.

    Args:
      files: paths of TFRecord files in one folder.
      cached: whether counts are read from and written to that folder.

    Returns:
      A tuple with a number for each file; a warning names those that are empty, as some writers
      leave them, and as a copy that failed does.

    Raises:
      DataError: if a file cannot be read, is damaged or is not a TFRecord file, or if all are
        empty.
    """
    cache_path = os.path.join(os.path.dirname(files[0]), CACHE_NAME)
    known = _read_cache(cache_path) if cached else {}
    counts, entries, changed = _count_all(files, known)
    if not any(counts.values()):
        raise DataError(
            f"There are no examples in {files[0]}"
            + (f" and {len(files) - 1} more files" if len(files) > 1 else "")
            + "; convert the images again."
        )
    empty = [os.path.basename(path) for path in files if not counts[path]]
    if empty:
        logging.warning(
            "%d of %d record files hold no examples: %s. If they should, copy them again.",
            len(empty),
            len(files),
            few(empty),
        )
    if cached and changed:
        _write_cache(cache_path, {**known, **entries})
    return tuple(counts[path] for path in files)


def total_bytes(files):
    """The bytes that `files` hold together."""
    return sum(tf.io.gfile.stat(path).length for path in files)
