"""A precision report as text and as one self-contained HTML page."""

import base64
import html
import re

from slim_mp.number_range import number
from slim_mp.report.report_findings import percent, tightest
from slim_mp.report.report_plot import COLOURS

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #24292f; max-width: 68rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { margin-bottom: 0.2rem; } h2 { margin-top: 2.2rem; }
.what { color: #57606a; } code { background: #f2f4f6; padding: 0.15rem 0.4rem; }
img { width: 100%; margin-top: 1rem; }
table { border-collapse: collapse; font-size: 0.88rem; width: 100%; }
th, td { text-align: right; padding: 0.2rem 0.6rem; border-bottom: 1px solid #e4e7eb; }
th:first-child, td:first-child { text-align: left; }
.bad { background: #ffd8d3; }
"""
_COLUMNS = (
    "layer",
    "largest activation",
    "times below overflow",
    "largest gradient",
    "scaled: times below overflow",
    "lost unscaled",
    "lost scaled",
    "zeros",
)


def _how_to_read(limits):
    return (
        f"{limits.name} holds values between two red lines: what is larger overflows, what is "
        f"smaller becomes 0, and between 2^{limits.subnormal} and 2^{limits.normal} it has fewer "
        "digits. Overflow spoils a step; values that are lost do little harm while they are few, "
        "since the largest gradients decide where training goes.",
        "A loss scale multiplies the loss, and so every gradient, by a constant before half "
        "precision sees it, and divides by it in float32 afterwards: it moves the whole histogram "
        "of the gradients to the right. A good scale moves it as far as the right red line allows, "
        "with room for batches to come. It does not move the activations.",
        "Counted are the values that half precision would hold: the outputs of all layers, the "
        "gradients with respect to them, and the gradients of kernels and biases. They were "
        "computed in float32. Zeros, such as a ReLU makes, are left out of the shares. The method "
        "is that of Micikevicius et al., Mixed Precision Training (arXiv:1710.03740).",
    )


def _row(layer):
    gradients = layer.gradients
    zeros = 1 - gradients.nonzero / max(gradients.total, 1)
    return (
        layer.name,
        number(layer.activations.largest),
        number(layer.activation_room),
        number(gradients.largest),
        number(layer.gradient_room),
        percent(layer.lost_unscaled),
        percent(layer.lost_scaled),
        percent(zeros),
    )


def _together(findings):
    limits = findings.number_range
    rows = [
        (
            "gradients, unscaled",
            percent(findings.lost(scaled=False)),
            percent(findings.overflowing(scaled=False)),
        ),
        (
            f"gradients, times {findings.choice.describe()}",
            percent(findings.lost(scaled=True)),
            percent(findings.overflowing(scaled=True)),
        ),
        (
            "activations",
            percent(findings.activations.share_below(limits.subnormal)),
            percent(findings.activations.share_from(limits.overflow)),
        ),
    ]
    if not findings.shift:
        del rows[1]
    head = ("all layers", f"below 2^{limits.subnormal}", f"above {limits.largest:.5g}")
    return [head, *rows]


def _closest(findings):
    forward = tightest(findings.layers, "activation_room")
    backward = tightest(findings.layers, "gradient_room")
    return (
        f"Closest to overflow: forwards {forward.name} ({number(forward.activation_room)} times "
        f"below), backwards {backward.name} ({number(backward.gradient_room)} times below, scaled)."
    )


def _table(rows):
    """Writes rows in columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def write_text(findings):
    """Writes the report as text.

    Args:
      findings: `Findings`.

    Returns:
      A str of lines.
    """
    what = [f"{name + ':':10}{value}" for name, value in findings.what.items()]
    idle = findings.idle or ("All channels are multiples of 8.",)
    parts = (
        [findings.headline, f"Train with {findings.flags}"],
        [*what, f"{'loss:':10}{findings.loss:.4g}"],
        findings.reasons,
        [_closest(findings)],
        _table(_together(findings)),
        _table([_COLUMNS, *map(_row, findings.layers)]),
        ["Tensor cores:", *(f"  {line}" for line in idle)],
    )
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _escaped(text):
    return re.sub(r"2\^(-?\d+)", r"2<sup>\1</sup>", html.escape(text))


def _html_table(rows):
    head, *body = rows
    cells = "".join(f"<th>{_escaped(cell)}</th>" for cell in head)
    lines = [f"<tr>{cells}</tr>"]
    for row in body:
        cells = "".join(f"<td>{_escaped(cell)}</td>" for cell in row)
        lines.append(f"<tr>{cells}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _paragraphs(texts):
    return "".join(f"<p>{_escaped(text)}</p>\n" for text in texts)


def write_page(findings, png):
    """Writes the report as an HTML page that needs nothing else.

    Args:
      findings: `Findings`.
      png: bytes of the picture of `report_plot.draw`.

    Returns:
      A str.
    """
    image = base64.b64encode(png).decode("ascii")
    what = "; ".join(f"{name}: {value}" for name, value in findings.what.items())
    idle = "".join(f"<li>{html.escape(line)}</li>" for line in findings.idle)
    idle = idle or "<li>All channels are multiples of 8.</li>"
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{html.escape(findings.headline)}</title>
<style>{_STYLE}</style></head>
<body>
<h1 style="color: {COLOURS[findings.verdict]}">{html.escape(findings.headline)}</h1>
<p class="what">{html.escape(what)}; loss: {findings.loss:.4g}</p>
<p>Train with <code>{html.escape(findings.flags)}</code></p>
{_paragraphs((*findings.reasons, _closest(findings)))}
{_html_table(_together(findings))}
<img alt="Histograms of the exponents of gradients and activations"
 src="data:image/png;base64,{image}">
<h2>How to read the picture</h2>
{_paragraphs(_how_to_read(findings.number_range))}
<h2>Layer by layer</h2>
{_html_table([_COLUMNS, *map(_row, findings.layers)])}
<h2>Tensor cores</h2>
<p>They multiply matrices in tiles of 8 values; where channels are no multiple of 8, part of each
tile is idle.</p>
<ul>{idle}</ul>
</body>
</html>
"""
