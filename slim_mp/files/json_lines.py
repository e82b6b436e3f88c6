"""Files of one JSON object a line, to which a run appends, and goes on after it was killed."""

import contextlib
import json
import os

from slim_mp.errors import UsageError
from slim_mp.files.input_files import shown
from slim_mp.files.output_files import to_json, write_whole


def read_rows(path):
    """Reads the rows that have a step.

    Args:
      path: the file.

    Returns:
      A list of dicts; lines that a killed run cut short, or that are something else, are left out.
    """
    rows = []
    with (
        contextlib.suppress(FileNotFoundError),
        open(path, encoding="utf-8", errors="replace") as file,
    ):
        for line in file:
            with contextlib.suppress(ValueError, RecursionError):
                row = json.loads(line)
                if isinstance(row, dict) and isinstance(row.get("step"), int):
                    rows.append(row)
    return rows


def check_rows(path, column, flag):
    """Refuses a file of something else, which `drop_rows_after` would empty.

    Args:
      path: the file, if there is one; a pipe or a device is left alone.
      column: a name that the rows of its kind have, besides the step.
      flag: name of the flag that gave it, for the error.

    Raises:
      UsageError: if a line is neither a row nor one that a killed run cut short.
      OSError: if it cannot be read.
    """
    if not os.path.isfile(path):
        return
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if not _may_be_row(line, column):
                raise UsageError(
                    f"{path} holds {shown(line.rstrip())}, which is no row that a run appends, and "
                    f"would be lost: give another --{flag}, or move that file."
                )


def _may_be_row(line, column):
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return line.strip() in ("", "{") or line.startswith('{"')
    return isinstance(row, dict) and isinstance(row.get("step"), int) and column in row


def drop_rows_after(path, step):
    """Takes the rows of steps that will be run again out of a file, if there is one.

    Args:
      path: the file; a pipe or a device is left alone.
      step: the last step that is kept.

    Raises:
      OSError: if it cannot be written.
    """
    if os.path.isfile(path):
        kept = [row for row in read_rows(path) if row["step"] <= step]
        write_whole(path, "".join(json.dumps(row) + "\n" for row in kept))


def append_row(path, row):
    """Appends a row, in a line of its own even if the last one was cut short.

    Args:
      path: the file, which is made if there is none.
      row: dict of name to number, text or None.

    Raises:
      OSError: if it cannot be written.
    """
    with open(path, "ab+") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        begin = "" if file.read(1) in (b"", b"\n") else "\n"
        file.write(f"{begin}{to_json(row)}\n".encode())
