"""The reliability diagram: whether answers of a confidence are right as often as it says.

After figure 1 of Guo et al., "On Calibration of Modern Neural Networks" (arXiv:1706.04599).
"""

import numpy as np

from slim_mp.evaluation.calibration import BINS

_INK, _GREY = "#24292f", "#57606a"
_HITS, _GAP = "#79a9dd", "#cf222e"


def draw_reliability(reliability, what):
    """Draws a reliability diagram over a histogram of the confidences.

    Args:
      reliability: a `Reliability`.
      what: a line about what was evaluated.

    Returns:
      A matplotlib figure.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 7.6), facecolor="white")
    shares, counts = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    figure.subplots_adjust(hspace=0.08)
    _draw_shares(shares, reliability)
    _draw_counts(counts, reliability)
    shares.set_title(
        "Is the network right as often as it is sure?", loc="left", size=13, weight="bold", pad=24
    )
    shares.text(
        0, 1.02, what, size=9, color=_GREY, transform=shares.transAxes, va="bottom"
    ).set_parse_math(False)
    for axes in (shares, counts):
        axes.tick_params(labelsize=9, colors=_INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(0, 1)
    return figure


def _bins(reliability):
    """The middles of the bins that hold an answer, and their mean confidence and share of hits."""
    is_used = reliability.counts > 0
    counts = reliability.counts[is_used]
    middles = (np.arange(BINS)[is_used] + 0.5) / BINS
    return middles, reliability.confidences[is_used] / counts, reliability.hits[is_used] / counts


def _draw_shares(axes, reliability):
    middles, confidences, right = _bins(reliability)
    width = 1 / BINS
    axes.bar(middles, right, width, color=_HITS, edgecolor="white", label="share of right answers")
    axes.bar(
        middles,
        confidences - right,
        width,
        bottom=right,
        color=_GAP,
        alpha=0.25,
        edgecolor=_GAP,
        hatch="//",
        lw=0.8,
        label="gap to the mean confidence",
    )
    axes.plot([0, 1], [0, 1], color=_GREY, ls="--", lw=1.2, label="perfect calibration")
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share of right answers", size=10, color=_INK)
    axes.legend(loc="upper left", frameon=False, fontsize=9)
    error = reliability.error()
    text = "no answer" if error is None else f"expected calibration error {error:.2%}"
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    axes.text(0.98, 0.04, text, ha="right", size=10, weight="bold", color=_INK, bbox=box)


def _draw_counts(axes, reliability):
    total = max(reliability.counts.sum(), 1)
    middles = (np.arange(BINS) + 0.5) / BINS
    axes.bar(middles, reliability.counts / total, 1 / BINS, color=_GREY, edgecolor="white")
    axes.set_ylabel("share of images", size=10, color=_INK)
    axes.set_xlabel("confidence: the probability of the class that was chosen", size=10, color=_INK)
