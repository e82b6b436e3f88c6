"""A matplotlib figure that is filled from the top, with words and with pairs of axes."""

import io
import re
import textwrap

_DPI = 130
_WIDTH, _LEFT, _PANEL, _GAP = 13.2, 3.05, 4.75, 0.35
_LINE, _BETWEEN = 0.21, 0.05
_CHARACTERS = 165


def is_available():
    """Whether matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def _lines(text):
    return textwrap.wrap(text, _CHARACTERS)


def height_of(text):
    """The height in inches of a text of the usual size."""
    return len(_lines(text)) * _LINE + _BETWEEN


def with_powers(text):
    """Writes "2^-24" as matplotlib shows a power."""
    return re.sub(r"2\^(-?\d+)", r"$2^{\1}$", text)


class Page:
    """A figure that is filled from the top."""

    def __init__(self, height):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self._figure = Figure(figsize=(_WIDTH, height), facecolor="white")
        FigureCanvasAgg(self._figure)
        self._height = height
        self._top = 0.2

    def write(self, text, size=10.5, **style):
        """Writes text below what there is."""
        for line in _lines(text):
            self._top += _LINE * size / 10.5
            at = (0.25 / _WIDTH, 1 - self._top / self._height)
            self._figure.text(*at, with_powers(line), size=size, **style)
        self._top += _BETWEEN

    def skip(self, inches):
        """Leaves room."""
        self._top += inches

    def panels(self, height):
        """Makes two axes side by side."""
        bottom = 1 - (self._top + height) / self._height
        lefts = (_LEFT, _LEFT + _PANEL + _GAP)
        self._top += height
        return [
            self._figure.add_axes(
                (left / _WIDTH, bottom, _PANEL / _WIDTH, height / self._height), facecolor="none"
            )
            for left in lefts
        ]

    def png(self):
        """The picture as bytes."""
        file = io.BytesIO()
        self._figure.savefig(file, format="png", dpi=_DPI)
        return file.getvalue()
