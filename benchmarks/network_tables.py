"""The text and the tables of docs/networks.md, from what networks_in_half has measured."""

import math

_INTRODUCTION = """# The networks in half precision

Measured by `python -m benchmarks.networks_in_half` on a CPU, with float32 kernels between casts:
values are rounded to half between operations, products accumulate in float32. The variables have
random values: without trained statistics the activations of some networks exceed what fp16 holds.
"""

_GRAPH = """
## What is in the graph

The training graph in fp16, without float32 kernels, at the published image size; bf16 has the
same one. *Variables*: the number of model variables, whose names, shapes and dtype (float32) are
those of the published checkpoint. *Multiply-adds*: those of convolutions and matrix products,
forward, for one image; *in half*: the share of them that runs in half, forward and backward pass
together. *Casts* between float32 and half: in the forward pass, and with the backward pass; most
are casts of weights. *Float32 operations* of the forward pass, by reason:

- moving averages: batch norm's statistics are float32, and so are the updates of their averages
  (fused batch norm itself takes half images, and float32 scale, offset and statistics);
- weight decay: regularizers act on the float32 variables;
- reductions: average pooling, means, sums and softmax inside the network would overflow or lose
  small terms in half;
- local response normalization (LRN): has no bf16 kernel, and sums squares;
- drop path: its random draw and the schedule; the images it multiplies are half.

All have one more: the softmax of the float32 logits.
"""

_LOGITS = """
## How near the logits are

On two images of noise with the values of the oracle (`tests/oracle.py`), in evaluation mode.
*Statistics*: of batch norm, the oracle's, or where its activations exceed {limit:,} in float32,
and so come near what fp16 holds, those of the images, from a pass in training mode. *fp32*: largest
difference from the logits of the original network on TensorFlow 1.15, as a share of the largest
logit; *fp16* and *bf16*: the same from ours in float32. *Top-1* and *top-5*: the share of the two
best, and of the ten classes among the five best, that is the original's (with statistics of the
images: that of ours in float32). Deep networks of random weights amplify rounding.
"""

_STEPS = """
## The first steps

From the network's own initialisation on images of noise of the least size, with the guarded
optimizer (gradient descent, 0.001). The scale of fp16 starts at 32768 and is divided by four
whenever a step is skipped; *finite at* is where it stood when two steps had been applied;
*overflows at 128* says how many of the gradients were not finite at the default scale. In bf16 the
scale is 1. All losses, and all variables after each step, were finite; skipped steps changed no bit
of the variables.
"""

_SHORT = {"local response normalization": "LRN"}


def _table(header, rows):
    is_text = [isinstance(value, str) and not value[0].isdigit() for value in rows[0]]
    lines = [header, ["---" if text else "--:" for text in is_text], *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def _percent(share):
    # Rounding must not make a whole of what is none.
    return "100%" if share == 1 else f"{min(share, 0.9999):.2%}"


def _graph_row(name, row):
    graph = row["graph"]
    variables = graph["variables"] if graph["as_published"] else "**differ**"
    reasons = [
        f"{_SHORT.get(reason, reason)} {count}"
        for reason, count in graph["float32_operations"].items()
        if reason != "predictions"
    ]
    return [
        name,
        variables,
        f"{graph['multiply_adds_an_image'] / 1e6:,.0f} M",
        _percent(graph["share_in_half"]),
        f"{graph['casts_forward']:,} / {graph['casts']:,}",
        ", ".join(reasons),
    ]


def _logits_row(name, row):
    logits = row["logits"]
    halves = [logits["fp16"], logits["bf16"]]
    return [
        name,
        logits["size"],
        f"{logits['activation_absmax']:,.0f}",
        logits["statistics"],
        f"{logits['fp32_error']:.1e}",
        *(f"{half['difference']:.1e}" for half in halves),
        " / ".join(f"{half['top1']:.0%}" for half in halves),
        " / ".join(f"{half['top5']:.0%}" for half in halves),
    ]


def _overflows_at_128(taken):
    at_128 = [step for step in taken if step["loss_scale"] == 128]
    if all(step["is_applied"] for step in at_128):
        return "none"
    worst = max(at_128, key=lambda step: step["overflows"])
    return f"{worst['overflows']} of {worst['gradients']}"


def _losses(taken):
    return ", ".join(f"{step['loss']:.2f}" for step in taken if step["is_applied"])


def _steps_row(name, row):
    steps = row["steps"]
    fp16 = steps["fp16"]
    return [
        name,
        f"{steps['batch_size']} x {steps['size']} px",
        f"{fp16[-1]['loss_scale']:.0f}" if fp16[-1]["is_applied"] else "none",
        sum(not step["is_applied"] for step in fp16),
        _overflows_at_128(fp16),
        _losses(fp16),
        _losses(steps["bf16"]),
    ]


def is_sound(row):
    """Tells whether the steps of a network went as the text above the table says of all."""
    for taken in (row["steps"]["fp16"], row["steps"]["bf16"]):
        if sum(step["is_applied"] for step in taken) != 2:
            return False
        for step in taken:
            is_finite = math.isfinite(step["loss"]) and step["is_finite"]
            if not is_finite or step["is_change"] != step["is_applied"]:
                return False
    return True


def _farthest(results, precision):
    """Names the network whose logits are farthest from float32, and says how far."""

    def difference(name):
        return results[name]["logits"][precision]["difference"]

    name = max(results, key=difference)
    return f"{name} ({difference(name):.1e} of the largest logit)"


def _notes(results, limit):
    as_published = sum(row["graph"]["as_published"] for row in results.values())
    lines = [
        f"Variables are those of the published checkpoint in {as_published} of {len(results)}."
    ]
    near = {n: r for n, r in results.items() if r["logits"]["statistics"] == "oracle"}
    if near:
        same_best = sum(row["logits"]["fp16"]["top1"] == 1 for row in near.values())
        lines.append(
            f"Of the {len(near)} networks whose activations stay below {limit:,}, fp16 is farthest "
            f"from float32 in {_farthest(near, 'fp16')}, bf16 in {_farthest(near, 'bf16')}. The "
            f"best class in fp16 is the original's in {same_best} of them."
        )
    overflowing = [n for n, r in results.items() if _overflows_at_128(r["steps"]["fp16"]) != "none"]
    lines.append(
        "At a fixed loss scale of 128, first steps overflow in fp16, and are skipped, in "
        f"{', '.join(overflowing) or 'none'}. `--loss_scale=dynamic` trains all of them."
    )
    unsound = [name for name, row in results.items() if not is_sound(row)]
    if unsound:
        lines.append(
            f"**Not finite, not trained, or moved by a skipped step: {', '.join(unsound)}.**"
        )
    return "".join(f"- {line}\n" for line in lines)


def document(results, limit):
    """Writes the document.

    Args:
      results: dict from the name of each network to what `networks_in_half.measure` returned.
      limit: the activations above which batch norm had the statistics of the images.

    Returns:
      The text, in Markdown.
    """
    graph = ["network", "variables", "multiply-adds", "in half", "casts", "float32 operations left"]
    logits = ["network", "px", "activations up to", "statistics", "fp32", "fp16", "bf16"]
    logits += ["top-1 fp16 / bf16", "top-5 fp16 / bf16"]
    steps = ["network", "batch", "finite at", "skipped before", "overflows at 128"]
    steps += ["losses, fp16", "losses, bf16"]
    rows = list(results.items())
    return (
        _INTRODUCTION
        + "\n"
        + _notes(results, limit)
        + (_GRAPH + "\n" + _table(graph, [_graph_row(*row) for row in rows]))
        + (_LOGITS.format(limit=limit) + "\n" + _table(logits, [_logits_row(*row) for row in rows]))
        + (_STEPS + "\n" + _table(steps, [_steps_row(*row) for row in rows]))
    )
