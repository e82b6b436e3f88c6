"""The picture of a precision report: exponents against the range of the dtype.

After figure 3 of Micikevicius et al., "Mixed Precision Training" (arXiv:1710.03740). It needs
matplotlib, which is in the extra `plot`.
"""

import dataclasses

import numpy as np

from slim_mp.figures.report_figure import Page, height_of, with_powers
from slim_mp.number_range import EXPONENTS, number
from slim_mp.report.report_findings import CAUTION, SAFE, UNSAFE, percent

COLOURS = {SAFE: "#1a7f37", CAUTION: "#9a6700", UNSAFE: "#cf222e"}
_LOST, _COARSE, _FULL = "#ffd8d3", "#fff1c9", "#e2f4e4"
SCALED, _UNSCALED, FORWARD = "#0b5cad", "#8a8f98", "#5e4b9b"
_INK = "#24292f"
# In inches, since the height depends on the number of layers.
_HISTOGRAM, _LAYER = 2.9, 0.17
_MOST_NAMES = 70
_MOST_IDLE = 4


@dataclasses.dataclass(frozen=True)
class _Axis:
    """The part of the exponents that is shown."""

    low: int
    high: int


def draw(findings, with_words=True):
    """Draws the report.

    Args:
      findings: `Findings`.
      with_words: whether the verdict and the reasons stand above the histograms.

    Returns:
      The picture, bytes of a PNG file.

    Raises:
      ImportError: if matplotlib is not installed.
    """
    rows = _LAYER * max(6, min(len(findings.layers), _MOST_NAMES))
    notes = [*findings.reasons, *_idle_notes(findings)] if with_words else []
    words = 1.25 + sum(map(height_of, notes)) if with_words else 0
    page = Page(2.5 + _HISTOGRAM + rows + words)
    if with_words:
        _write_words(page, findings, notes)
    page.skip(0.55 if with_words else 0.3)
    axis = _shown(findings)
    gradients, activations = page.panels(_HISTOGRAM)
    _draw_gradients(gradients, findings, axis)
    _draw_activations(activations, findings, axis)
    page.skip(1.0)
    gradients, activations = page.panels(rows)
    scaled = [layer.gradients.shifted(findings.shift) for layer in findings.layers]
    _draw_layers(gradients, findings, axis, scaled, SCALED)
    _draw_layers(
        activations, findings, axis, [layer.activations for layer in findings.layers], FORWARD
    )
    _name_layers(gradients, findings)
    return page.png()


def _write_words(page, findings, notes):
    page.write(findings.headline, size=19, weight="bold", color=COLOURS[findings.verdict])
    source = f"{findings.what['images']}; weights: {findings.what['weights']}"
    page.write(source, size=9.5, color="#57606a")
    page.skip(0.1)
    page.write(f"Train with {findings.flags}", size=11.5, color=_INK, weight="bold")
    for note in notes:
        page.write(note, color=_INK)


def _idle_notes(findings):
    shown = list(findings.idle[:_MOST_IDLE])
    if len(findings.idle) > _MOST_IDLE:
        shown.append(f"And {len(findings.idle) - _MOST_IDLE} more, in report.txt.")
    return [f"Tensor cores: {' '.join(shown)}"] if shown else []


def _shown(findings):
    """The exponents to show: the range of the dtype, and some of what lies below."""
    limits = findings.number_range
    low, high = max(limits.subnormal, -60), min(limits.overflow, 60)
    counts = (findings.gradients + findings.activations).counts[1:-1]
    seen = EXPONENTS[1:-1][counts > 1e-4 * counts.sum()]
    return _Axis(int(min(low - 14, max(seen.min(initial=low), low - 20))), high + 8)


def _draw_zones(axes, findings, axis):
    limits = findings.number_range
    edges = (axis.low, limits.subnormal, limits.normal, limits.overflow, axis.high)
    for left, right, colour in zip(edges, edges[1:], (_LOST, _COARSE, _FULL, _LOST), strict=False):
        axes.axvspan(max(left, axis.low), min(right, axis.high), color=colour, lw=0, zorder=0)
    for edge in (limits.subnormal, limits.overflow):
        axes.axvline(edge, color=COLOURS[UNSAFE], lw=1.2, zorder=4)
    axes.set_xlim(axis.low, axis.high)


def _name_zones(axes, findings, axis, lost, overflowing):
    limits = findings.number_range
    places = (
        ((axis.low + limits.subnormal) / 2, f"too small:\nbecomes 0\n{lost}"),
        ((limits.subnormal + limits.normal) / 2, "fewer\ndigits"),
        ((limits.normal + limits.overflow) / 2, f"full precision\nof {limits.name}"),
        ((limits.overflow + axis.high) / 2, f"too large:\noverflow\n{overflowing}"),
    )
    for x, text in places:
        if axis.low < x < axis.high:
            _write_at(axes, x, 0.98, text, size=8)


def _write_at(axes, x, y, text, **style):
    """Writes text at an exponent and a share of the height."""
    settings = {"ha": "center", "va": "top", "color": _INK, "zorder": 6, **style}
    axes.text(x, y, text, transform=axes.get_xaxis_transform(), **settings)


def _shares(exponents):
    counts = exponents.counts[1:-1]
    return EXPONENTS[1:-1] + 0.5, 100 * counts / max(exponents.nonzero, 1)


def _draw_gradients(axes, findings, axis):
    _draw_zones(axes, findings, axis)
    if findings.shift:
        x, shares = _shares(findings.gradients)
        axes.stairs(
            shares,
            np.append(x - 0.5, x[-1] + 0.5),
            color=_UNSCALED,
            lw=1.4,
            label="without scaling",
        )
    scaled = findings.gradients.shifted(findings.shift)
    x, shares = _shares(scaled)
    label = f"times the loss scale {findings.choice.describe()}" if findings.shift else "unscaled"
    style = {"color": SCALED, "alpha": 0.85, "label": with_powers(label), "zorder": 3}
    axes.bar(x, shares, 0.86, **style)
    _finish_histogram(axes, "Gradients of all layers: a loss scale moves them", shares)
    lost = percent(findings.lost(scaled=True))
    if findings.shift:
        lost = f"{percent(findings.lost(scaled=False))} unscaled\n{lost} scaled"
    _name_zones(axes, findings, axis, lost, percent(findings.overflowing(scaled=True)))
    _mark_largest(axes, findings, axis, scaled.largest, SCALED)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.09), ncol=2, frameon=False, fontsize=9)
    axes.set_ylabel("share of the values\nthat are not zero (%)", size=9, color=_INK)


def _draw_activations(axes, findings, axis):
    _draw_zones(axes, findings, axis)
    x, shares = _shares(findings.activations)
    axes.bar(x, shares, 0.86, color=FORWARD, alpha=0.85, zorder=3)
    _finish_histogram(axes, "Activations of all layers: no loss scale moves them", shares)
    limits = findings.number_range
    lost = percent(findings.activations.share_below(limits.subnormal))
    overflowing = percent(findings.activations.share_from(limits.overflow))
    _name_zones(axes, findings, axis, lost, overflowing)
    _mark_largest(axes, findings, axis, findings.activations.largest, FORWARD)


def _mark_largest(axes, findings, axis, largest, colour):
    """Shows how far the largest value is from overflow."""
    if not largest or not axis.low < np.log2(largest) < axis.high:
        return
    limit = findings.number_range.overflow
    x = np.log2(largest)
    axes.plot([x, x], [0, 0.64], color=colour, lw=1.4, ls="--", zorder=5, transform=_mixed(axes))
    if limit > axis.high:
        return
    if limit - x > 1:
        axes.annotate(
            "",
            (limit, 0.61),
            (x, 0.61),
            xycoords=_mixed(axes),
            textcoords=_mixed(axes),
            arrowprops={"arrowstyle": "<->", "color": colour, "lw": 1.2},
            zorder=6,
        )
    room = findings.number_range.largest / largest
    fate = f"{number(room)} times\nbelow overflow" if room >= 1 else "overflows"
    text = f"largest value:\n{fate}"
    place = {"x": x, "ha": "right"} if limit - x < 9 else {"x": (x + limit) / 2, "ha": "center"}
    _write_at(axes, place["x"] - 0.4, 0.83, text, size=8.5, ha=place["ha"], color=colour)


def _mixed(axes):
    return axes.get_xaxis_transform()


def _finish_histogram(axes, title, shares):
    axes.set_title(title, size=11.5, loc="left", color=_INK, weight="bold")
    # Room for the names of the zones above the bars.
    axes.set_ylim(0, 1.75 * max(shares.max(initial=0), 1))
    _finish(axes)


def _finish(axes):
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(MultipleLocator(8 if high - low <= 80 else 16))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"$2^{{{x:.0f}}}$"))
    axes.tick_params(labelsize=9, colors=_INK)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def _draw_layers(axes, findings, axis, exponents, ink):
    """A row of darkness for each layer: where its values lie."""
    _draw_zones(axes, findings, axis)
    shares = np.array([item.counts[1:-1] / max(item.nonzero, 1) for item in exponents])
    visible = slice(axis.low + 126, axis.high + 126)
    image = np.zeros((*shares[:, visible].shape, 4))
    image[..., :3] = [int(ink[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    # From white at one value in 100,000 to full colour at all of them.
    image[..., 3] = np.clip(1 + np.log10(np.maximum(shares[:, visible], 1e-9)) / 5, 0, 1)
    extent = (axis.low, axis.high, len(exponents), 0)
    axes.imshow(image, aspect="auto", extent=extent, interpolation="nearest", zorder=3)
    axes.set_ylim(len(exponents), 0)
    axes.set_yticks([])
    kind = "the scaled gradient" if ink == SCALED and findings.shift else "the value"
    axes.set_xlabel(f"size of {kind}; each row is a layer, darker: more values", size=9, color=_INK)
    _finish(axes)
    axes.set_xlim(axis.low, axis.high)


def _name_layers(axes, findings):
    step = -(-len(findings.layers) // _MOST_NAMES)
    style = {"ha": "right", "va": "center", "color": _INK, "transform": axes.get_yaxis_transform()}
    for i, layer in enumerate(findings.layers):
        if i % step == 0:
            name = layer.name if len(layer.name) <= 36 else f"…{layer.name[-35:]}"
            axes.text(-0.15, i + 0.5, name, size=7.5, **style)
            axes.text(-0.01, i + 0.5, percent(layer.lost_scaled), size=7.5, **style)
    title = {**style, "va": "bottom", "transform": axes.transAxes, "weight": "bold", "size": 8.5}
    axes.text(-0.15, 1.01, "layer", **title)
    axes.text(-0.01, 1.01, "lost", **title)
