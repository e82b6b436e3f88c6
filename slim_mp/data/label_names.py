"""The names of classes: labels.txt, which gives them, and which names may stand side by side."""

import os
import unicodedata

from slim_mp.compat import tf
from slim_mp.errors import DataError
from slim_mp.files.input_files import reading, shown

LABELS_FILE = "labels.txt"
# A head of more classes than this is a slip of the pen, and takes all memory before it says so.
MOST_CLASSES = 2**20


def read_label_names(path):
    """Reads labels.txt, with lines such as `0:daisy`.

    Args:
      path: the file.

    Returns:
      The name of each class from 0 on, a tuple of str, empty where the file leaves a number out;
      None if there is no such file.

    Raises:
      DataError: if it cannot be read, names no classes, or a line is not a number of its own below
        `MOST_CLASSES`, a colon and a name.
    """
    if not tf.io.gfile.exists(path) and not os.path.islink(path):
        return None
    with reading(path), tf.io.gfile.GFile(path, "rb") as file:
        lines = file.read().decode("utf-8-sig", errors="replace").splitlines()
    names, first_lines = {}, {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        label, name = _parse_line(line, f"Line {number} of {path} is {shown(line)}")
        if label in names:
            raise DataError(
                f"Line {number} of {path} is {shown(line)}, but label {label} is already in line "
                f"{first_lines[label]}; give each class a number of its own."
            )
        names[label], first_lines[label] = name, number
    if not names:
        raise DataError(f"{path} names no classes; write lines such as 0:daisy, or remove it.")
    return tuple(names.get(label, "") for label in range(max(names) + 1))


def _parse_line(line, what):
    label, colon, name = line.partition(":")
    if not (colon and label.strip().isdecimal()):
        raise DataError(
            f"{what}; each line must be a number of its own, a colon and the name of the class, "
            "such as 0:daisy."
        )
    # Python refuses to make an int of thousands of digits.
    digits = label.strip().lstrip("0") or "0"
    if len(digits) > len(str(MOST_CLASSES)) or int(digits) >= MOST_CLASSES:
        raise DataError(
            f"{what}; a label must be below {MOST_CLASSES}: number the classes from 0 on."
        )
    return int(digits), name.strip()


def number_classes(names, source):
    """Numbers classes in the order of their names.

    Args:
      names: the names, without repetition, in any order.
      source: the folder or list that they are from, for messages.

    Returns:
      A dict of name to label, from 0 on, in the order of the code points of the names in Unicode's
      composed form, which does not depend on the disk they lie on.

    Raises:
      DataError: if a name cannot be shown, or two differ only in case, in spaces around them or in
        the form in which Unicode writes them: such folders are one on another disk.
    """
    alike = {}
    for name in sorted(names):
        if not name.isprintable():
            raise DataError(
                f"{source} has a class {shown(name)}, whose name cannot be shown; rename it."
            )
        other = alike.setdefault(plain_name(name).lower(), name)
        if other != name:
            raise DataError(
                f"{source} has the classes {_told_apart(other, name)}, which differ only in case, "
                "in spaces or in how Unicode writes them; rename one, or make one class of both."
            )
    return {name: label for label, name in enumerate(sorted(names, key=plain_name))}


def plain_name(name):
    """The name of a class as it is compared and kept: composed (NFC), without spaces around it."""
    return unicodedata.normalize("NFC", name).strip()


def _told_apart(first, second):
    quote = ascii if plain_name(first) == plain_name(second) else shown
    return f"{quote(first)} and {quote(second)}"
