"""The confusion matrix as a picture, from three classes to thousands."""

import numpy as np
from absl import logging

from slim_mp.evaluation.metrics import NO_ANSWER
from slim_mp.figures.figure_fonts import families_for
from slim_mp.files.input_files import few

_INK, _GREY = "#24292f", "#57606a"
# Up to so many classes a cell holds its number, and up to so many a row its name.
_MOST_NUMBERS, _MOST_NAMES = 25, 120
# Cells of the heat map; of more classes, several share one.
_MOST_CELLS = 400
_LONGEST_NAME = 28
_PAIRS = 15
# Width in inches, at the size of the names.
_LETTER = 0.1


def draw_confusion(pairs, classes, what):
    """Draws a confusion matrix: a row for each label, a column for each answer.

    Up to 25 classes each cell has its count and the shade of its share of the row; up to 120 each
    row has its name; the counts of more are a heat map on a logarithmic scale.

    Args:
      pairs: of `metrics.Sums`.
      classes: the `Classes`.
      what: a line about what was evaluated.

    Returns:
      A matplotlib figure.
    """
    from matplotlib.figure import Figure

    names = _Names(classes)
    size = _size(classes.count)
    figure = Figure(figsize=(size, size), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    if classes.count <= _MOST_NUMBERS:
        _draw_numbers(axes, _matrix(pairs, classes), names)
    else:
        _draw_heat_map(axes, pairs, classes, names)
        _list_pairs(axes, pairs, names)
    axes.set_title("Confusion matrix", loc="left", size=13, weight="bold", color=_INK, pad=24)
    _write(axes, names, what, (0, 1), (0, 7), size=9, color=_GREY, va="bottom")
    axes.set_ylabel("label", size=11, color=_INK)
    axes.set_xlabel("answer of the network", size=11, color=_INK)
    return figure


def _size(count):
    """Height and width of the matrix in inches."""
    if count <= _MOST_NUMBERS:
        return max(4.2, 0.45 * count)
    return max(8.0, 0.13 * count) if count <= _MOST_NAMES else 8.0


class _Names:
    """What stands beside the rows: names that can be shown, or else numbers."""

    def __init__(self, classes):
        self._classes = classes
        shown = [classes.name(index) or "" for index in range(classes.count)]
        self.families, self._missing = families_for(shown)
        if self._missing:
            logging.info(
                "No font here has %s: where a name needs one, its label stands in the picture.",
                few(sorted(self._missing)),
            )

    def of(self, index):
        """The name of a class, cut to what there is room for."""
        if index == NO_ANSWER:
            return "no answer"
        label, name = self._classes.label(index), self._classes.name(index)
        if name is None or self._missing & set(name):
            return str(label)
        name = few([name])
        return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _matrix(pairs, classes):
    """Counts [classes, classes], with one more column if some images have no answer."""
    has_none = any(choice == NO_ANSWER for _, choice in pairs)
    matrix = np.zeros((classes.count, classes.count + has_none), np.int64)
    for (label, choice), count in pairs.items():
        # Without an answer it is -1, which is the last column.
        matrix[label, choice] = count
    return matrix


def _draw_numbers(axes, matrix, names):
    rows, columns = matrix.shape
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.15, aspect="auto")
    for row, column in zip(*np.nonzero(matrix), strict=True):
        colour = "white" if shares[row, column] > 0.55 else _INK
        style = {"ha": "center", "va": "center", "size": 9, "color": colour}
        axes.text(column, row, f"{matrix[row, column]}", **style)
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#d0d7de", lw=0.6)
    axes.tick_params(which="minor", length=0)
    indices = [*range(rows), *([NO_ANSWER] if columns > rows else [])]
    _name(axes, [names.of(index) for index in indices], rows, names, size=9)


def _name(axes, texts, rows, names, size):
    style = {"size": size, "color": _INK, "family": names.families, "parse_math": False}
    fits = max(map(len, texts)) * _LETTER < _size(rows) / len(texts)
    turn = {} if fits else {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(texts)), texts, **style, **turn)
    axes.set_yticks(range(rows), texts[:rows], **style)
    axes.tick_params(which="major", length=0)


def _draw_heat_map(axes, pairs, classes, names):
    block = -(-classes.count // _MOST_CELLS)
    counts = _block_counts(pairs, classes.count, block)
    # In the labels of the dataset, each at the middle of its cell.
    first, last = classes.label(0) - 0.5, classes.label(len(counts) * block) - 0.5
    picture = axes.imshow(
        np.ma.masked_equal(counts, 0),
        **_shades(counts.max()),
        interpolation="nearest",
        extent=(first, last, last, first),
    )
    _explain_shades(axes, picture, block)
    axes.tick_params(labelsize=9, colors=_INK)
    if classes.count <= _MOST_NAMES:
        texts = [names.of(index) for index in range(classes.count)]
        places = [classes.label(index) for index in range(classes.count)]
        style = {"size": 7, "color": _INK, "family": names.families, "parse_math": False}
        axes.set_xticks(places, texts, rotation=90, **style)
        axes.set_yticks(places, texts, **style)
        axes.tick_params(length=0)


def _block_counts(pairs, count, block):
    """The counts of answers, where a cell is `block` by `block` classes."""
    cells = -(-count // block)
    counts = np.zeros((cells, cells))
    for (label, choice), number in pairs.items():
        if choice != NO_ANSWER:
            counts[label // block, choice // block] += number
    return counts


def _shades(largest):
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap, LogNorm

    # Without the palest part: a single image must be seen too.
    blues = ListedColormap(colormaps["Blues"](np.linspace(0.4, 1, 256)))
    return {"cmap": blues, "norm": LogNorm(1, max(largest, 2))}


def _explain_shades(axes, picture, block):
    from matplotlib.ticker import NullLocator

    bar = axes.figure.colorbar(picture, ax=axes, fraction=0.03, pad=0.015)
    cell = "images" if block == 1 else f"images; a cell is {block} by {block} classes"
    bar.set_label(cell, size=9, color=_INK)
    largest = picture.norm.vmax
    ticks = [10**power for power in range(10) if 10**power < 0.6 * largest] + [largest]
    bar.set_ticks(ticks, labels=[f"{tick:.0f}" for tick in ticks], size=9, color=_INK)
    bar.ax.yaxis.set_minor_locator(NullLocator())


def _list_pairs(axes, pairs, names):
    """Lists what is confused most often, since nobody finds it in a large matrix."""
    wrong = [(count, pair) for pair, count in pairs.items() if pair[0] != pair[1]]
    wrong.sort(key=lambda item: (-item[0], item[1]))
    lines = [
        f"{count:>6}  {names.of(label)}  →  {names.of(choice)}"
        for count, (label, choice) in wrong[:_PAIRS]
    ]
    text = "\n".join(["Most often confused:", "", *(lines or ["nothing"])])
    _write(axes, names, text, (1, 1), (95, 0), size=9, color=_INK, va="top", linespacing=1.5)


def _write(axes, names, text, place, offset, **style):
    """Writes text at a place of the axes, moved by some points."""
    axes.annotate(
        text,
        place,
        offset,
        xycoords="axes fraction",
        textcoords="offset points",
        family=names.families,
        annotation_clip=False,
        parse_math=False,
        **style,
    )
