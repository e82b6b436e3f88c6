"""What a measurement says: is half precision safe, with which loss scale, and where is it closest.

Pure functions; `report_page` and `report_plot` show what they return.
"""

import dataclasses

from slim_mp.number_range import Exponents, NumberRange, number, total
from slim_mp.recommended_scale import HEADROOM, Choice, choose_scale

SAFE, CAUTION, UNSAFE = "safe", "caution", "unsafe"
# Shares of the gradient values. Losing the smallest does little harm: in a detection network of
# Micikevicius et al. those below 2**-27 made no difference, and a scale of 8 was enough.
_WORTH_A_SCALE = 1e-3
_MUCH_LOST = 0.05
# A tensor core multiplies half-precision matrices in tiles of this many values.
_TILE = 8


@dataclasses.dataclass(frozen=True)
class LayerFinding:
    """What was found of a layer.

    Attributes:
      name: the layer.
      activations: `Exponents` of its outputs.
      gradients: `Exponents` of its gradients of all kinds, unscaled.
      lost_unscaled: share of the gradient values below the smallest value of the dtype.
      lost_scaled: the same with the chosen scale.
      activation_room: the largest value of the dtype over the largest activation.
      gradient_room: the same of the largest gradient with the chosen scale.
    """

    name: str
    activations: Exponents
    gradients: Exponents
    lost_unscaled: float
    lost_scaled: float
    activation_room: float
    gradient_room: float


@dataclasses.dataclass(frozen=True)
class Findings:
    """What a measurement says.

    Attributes:
      verdict: SAFE, CAUTION or UNSAFE.
      headline: the verdict as a sentence.
      reasons: sentences that say why.
      choice: the `Choice` of the loss scale.
      number_range: the `NumberRange` of the dtype.
      layers: list of `LayerFinding`, in graph order.
      activations, gradients: `Exponents` of all layers together, unscaled.
      idle: sentences about layers that leave tensor cores idle.
      what: what was measured, dict of str to str.
      loss: the mean loss.
    """

    verdict: str
    headline: str
    reasons: tuple
    choice: Choice
    number_range: NumberRange
    layers: tuple
    activations: Exponents
    gradients: Exponents
    idle: tuple
    what: dict
    loss: float

    @property
    def flags(self):
        """The flags to train with."""
        if self.verdict == UNSAFE:
            return "--dtype=bf16"
        if not self.number_range.needs_scaling:
            return f"--dtype={self.number_range.name}"
        return f"--dtype={self.number_range.name} --loss_scale={self.choice.scale:.15g}"

    def lost(self, scaled):
        """The share of all gradient values below the smallest value of the dtype."""
        return _lost(self.gradients, self.number_range, self.shift if scaled else 0)

    def overflowing(self, scaled):
        """The share of all gradient values above the largest value of the dtype."""
        shift = self.shift if scaled else 0
        return self.gradients.share_from(self.number_range.overflow - shift)

    @property
    def shift(self):
        """The chosen scale as a power of two; 0 where there is none."""
        return self.choice.exponent or 0


def _lost(exponents, number_range, shift=0):
    return exponents.share_below(number_range.subnormal - shift)


def _room(number_range, largest):
    return number_range.largest / largest if largest else float("inf")


def find(measurement, number_range):
    """Draws conclusions from a measurement.

    Args:
      measurement: a `measurement.Measurement`.
      number_range: the `NumberRange` of the dtype in question.

    Returns:
      `Findings`.
    """
    gradients = {name: layer.all_gradients for name, layer in measurement.exponents.items()}
    choice = choose_scale(gradients, number_range)
    shift = choice.exponent or 0
    layers = tuple(
        LayerFinding(
            name,
            layer.activations,
            gradients[name],
            _lost(gradients[name], number_range),
            _lost(gradients[name], number_range, shift),
            _room(number_range, layer.activations.largest),
            _room(number_range, gradients[name].largest * 2.0**shift),
        )
        for name, layer in measurement.exponents.items()
    )
    all_gradients = total(gradients.values())
    lost = tuple(_lost(all_gradients, number_range, k) for k in (0, shift))
    verdict, headline = _verdict(measurement.what["network"], layers, choice, number_range, lost)
    return Findings(
        verdict,
        headline,
        tuple(_reasons(layers, choice, number_range, lost)),
        choice,
        number_range,
        layers,
        total(layer.activations for layer in layers),
        all_gradients,
        tuple(_idle(measurement)),
        measurement.what,
        measurement.loss,
    )


def tightest(layers, room):
    """The layer with the least room for "activation_room" or "gradient_room"."""
    return min(layers, key=lambda layer: getattr(layer, room))


def _verdict(network, layers, choice, number_range, lost):
    name = number_range.name
    least = tightest(layers, "activation_room").activation_room
    if least < 1:
        return UNSAFE, f"{name} is not safe for {network}: activations overflow. Use bf16."
    if choice.exponent is None:
        return UNSAFE, f"Whether {name} is safe for {network} cannot be told: {choice.reason}."
    if least < HEADROOM:
        return CAUTION, (
            f"{name} is a risk for {network}: activations come close to overflow; bf16 is safer."
        )
    if lost[1] > _MUCH_LOST:
        return CAUTION, (
            f"{name} is a risk for {network}: {percent(lost[1])} of the gradient is lost even with "
            f"a loss scale of {choice.scale:.15g}."
        )
    if not number_range.needs_scaling:
        return SAFE, f"{name} is safe for {network} and needs no loss scale."
    if lost[0] < _WORTH_A_SCALE:
        return SAFE, (
            f"{name} is safe for {network}; it hardly needs its loss scale of {choice.scale:.15g}."
        )
    return SAFE, f"{name} is safe for {network} with a loss scale of {choice.scale:.15g}."


def percent(share):
    """Writes a share for people: "12 %", "0.3 %", "0", "< 0.01 %"."""
    if share == 0:
        return "0 %"
    if share < 1e-4:
        return "< 0.01 %"
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"


def _reasons(layers, choice, number_range, lost):
    forward = tightest(layers, "activation_room")
    largest = number(forward.activations.largest)
    limit = f"{number_range.largest:.5g}"
    if forward.activation_room >= 1:
        yield (
            f"Forwards: the largest activation is {largest} (in "
            f"{forward.name}), {number(forward.activation_room)} times below {limit}, the largest "
            f"value of {number_range.name}. No loss scale changes activations."
        )
    else:
        yield (
            f"Forwards: an activation in {forward.name} is {largest}, and "
            f"{limit} is the largest value of {number_range.name}. No loss scale cures that."
        )
    if not number_range.needs_scaling:
        yield (
            f"Backwards: {choice.reason}. It pays with digits: 8 significant bits, where fp16 has "
            "11."
        )
        return
    if choice.exponent is None:
        yield f"Backwards: {choice.reason}."
        return
    yield (
        f"Backwards: without scaling, {percent(lost[0])} of the gradient values that are not zero "
        f"lie below 2^{number_range.subnormal}, the smallest value of {number_range.name}, and "
        f"would be lost; with a loss scale of {choice.describe()} it is {percent(lost[1])}"
        + (". So few of the smallest do no harm." if lost[1] <= _MUCH_LOST else ".")
    )
    yield f"Why {choice.scale:.15g}? With it {choice.reason}."


def _idle(measurement):
    """Which layers leave tensor cores idle."""
    products = [
        (name, product) for name, items in measurement.products.items() for product in items
    ]
    for name, product in products:
        if product.is_depthwise:
            continue
        odd = [
            f"{count} channel{'s' if count > 1 else ''} {way}"
            for count, way in ((product.inputs, "in"), (product.outputs, "out"))
            if count % _TILE
        ]
        if odd:
            yield f"{name}: {' and '.join(odd)}, not a multiple of {_TILE}."
    depthwise = sum(product.is_depthwise for _, product in products)
    if depthwise:
        yield f"Depthwise, which no tensor core computes: {depthwise} of {len(products)} layers."
    if measurement.batch_size % _TILE:
        yield f"The batch has {measurement.batch_size} images, not a multiple of {_TILE}."
