"""Lists of image files and their labels, as CSV with a header or as JSON-lines."""

import collections
import csv
import dataclasses
import io
import json
import os
import re

from slim_mp.data.label_names import (
    LABELS_FILE,
    MOST_CLASSES,
    number_classes,
    plain_name,
    read_label_names,
)
from slim_mp.errors import DataError
from slim_mp.files.input_files import reading, shown

CSV, JSON_LINES = ".csv", ".jsonl"

# What a list may call what it says of a file; the first name is the one that messages give.
_COLUMNS = {
    "file": ("file", "filename", "path", "image"),
    "label": ("label", "class"),
    "split": ("split",),
}


@dataclasses.dataclass(frozen=True)
class Row:
    """What a list says of one file.

    Attributes:
      line: number of the line, from 1 on, on which the row ends.
      file: its path as it is written there.
      label: its class as it is written there: a name, or a number.
      split: its split as it is written there, or None if the list says nothing of splits.
    """

    line: int
    file: str
    label: str
    split: str | None


def is_list(path):
    """Returns whether a path is that of a list, by its ending."""
    return path.lower().endswith((CSV, JSON_LINES))


def read_rows(path):
    """Reads a list.

    Args:
      path: a .csv file with a header of `file`, `label` and, if need be, `split` (or another name
        of these in `_COLUMNS`), or a .jsonl file with an object of these keys on each line. UTF-8.

    Returns:
      The `Row`s, a list.

    Raises:
      DataError: if it cannot be read or lists nothing, or a row lacks something; the message names
        the line.
    """
    text = _text(path)
    records = _csv_records(path, text) if path.lower().endswith(CSV) else _json(path, text)
    rows = [_row(record, f"Line {line} of {path}", line) for line, record in records]
    if not rows:
        raise DataError(f"{path} lists no images; write a line for each.")
    without = [row.line for row in rows if row.split is None]
    if 0 < len(without) < len(rows):
        raise DataError(f"Line {without[0]} of {path} has no split, but other lines have one.")
    return rows


def _text(path):
    with reading(path), open(path, "rb") as file:
        content = file.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"Line {line} of {path} is not UTF-8; save the list as UTF-8.") from error


def _csv_records(path, text):
    """The line and the dict of column to field of each row of a CSV file."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header = None
    try:
        for fields in reader:
            if not fields:
                continue
            what = f"Line {reader.line_num} of {path}"
            if header is None:
                header = [name.strip().lower() for name in fields]
                _check_header(header, what)
            elif len(fields) != len(header):
                raise DataError(
                    f"{what} has {len(fields)} fields, but the header has {len(header)}; correct "
                    "it, and put fields that hold a comma in double quotes."
                )
            else:
                yield reader.line_num, dict(zip(header, fields, strict=True))
    except csv.Error as error:
        raise DataError(f"Line {reader.line_num} of {path} is not CSV ({error}).") from error


def _check_header(header, what):
    for key in ("file", "label"):
        if not set(_COLUMNS[key]) & set(header):
            raise DataError(
                f"{what} is {shown(','.join(header))}; it must be a header with the columns file "
                "and label, separated by a comma."
            )


def _json(path, text):
    """The line and the object of each line of a JSON-lines file."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise DataError(
                f"Line {number} of {path} is {shown(line.strip())}; each line must be a JSON "
                'object such as {"file": "a.jpg", "label": "daisy"}.'
            )
        yield number, record


def _row(record, what, line):
    values = {}
    for key, names in _COLUMNS.items():
        found = [name for name in names if name in record]
        if len(found) > 1:
            raise DataError(f"{what} has {' and '.join(found)}, which mean the same; keep one.")
        if found:
            values[key] = _value(record[found[0]], key, what)
        elif key != "split":
            raise DataError(f"{what} has no {key}; add it.")
    return Row(line, values["file"], values["label"], values.get("split"))


def _value(value, key, what):
    if key == "label" and type(value) is int:
        value = str(value)
    if not isinstance(value, str):
        allowed = "text or a whole number" if key == "label" else "text"
        raise DataError(f"{what} has the {key} {shown(str(value))}; it must be {allowed}.")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        # JSON can spell halves of characters, "\\udcff", which no text may hold.
        raise DataError(
            f"{what} has the {key} {shown(value)}, which is not Unicode; correct it, and rename "
            "the file if it is called so."
        ) from error
    # A space may belong to the name of a file, but not to that of a class.
    value = value if key == "file" else value.strip()
    if not value:
        raise DataError(f"{what} has an empty {key}; fill it in or leave the line out.")
    return value


def classes_of(rows, path):
    """Numbers the classes of a list.

    Args:
      rows: the `Row`s.
      path: the list; a labels.txt beside it names the classes.

    Returns:
      The label of each row, a list of int; the name of each class, a tuple of str; and whether all
      labels are numbers without names, so that there may be more classes. The names are then those
      numbers.

    Raises:
      DataError: if a label is out of range or not in labels.txt, which the message says with the
        line, or if names cannot be told apart.
    """
    labels_file = os.path.join(os.path.dirname(path), LABELS_FILE)
    names = read_label_names(labels_file)
    if all(re.fullmatch(r"-?[0-9]+", row.label) for row in rows):
        most = len(names) if names else MOST_CLASSES
        labels = [_number(row, most, path) for row in rows]
        return labels, names or tuple(map(str, range(max(labels) + 1))), names is None
    classes = number_classes({row.label for row in rows}, path)
    if names is None:
        return [classes[row.label] for row in rows], tuple(map(plain_name, classes)), False
    return _labels_by_name(rows, path, names, labels_file), names, False


def _number(row, most, path):
    # Python refuses to make an int of thousands of digits.
    digits = row.label.lstrip("0") or "0"
    if len(digits) > len(str(MOST_CLASSES)) or not 0 <= int(digits) < most:
        raise DataError(
            f"Line {row.line} of {path} has the label {shown(row.label)}; it must be 0 to "
            f"{most - 1}."
        )
    return int(digits)


def _labels_by_name(rows, path, names, labels_file):
    numbers = {plain_name(name): label for label, name in enumerate(names)}
    times = collections.Counter(map(plain_name, names))
    for row in rows:
        name = plain_name(row.label)
        if times[name] != 1:
            wrong = "names twice" if times[name] else "does not name"
            raise DataError(
                f"Line {row.line} of {path} has the class {shown(row.label)}, which {labels_file} "
                f"{wrong}; correct one of them, or remove {LABELS_FILE}."
            )
    return [numbers[plain_name(row.label)] for row in rows]
