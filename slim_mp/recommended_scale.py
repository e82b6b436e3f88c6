"""Which loss scale suits the gradients that were measured, and why.

After section 3.2 of Micikevicius et al., "Mixed Precision Training" (arXiv:1710.03740): a scale is
good when the largest gradient, multiplied by it, stays below the largest value of the dtype. The
larger the scale, the fewer small gradients are lost.
"""

import dataclasses

import numpy as np

from slim_mp.number_range import number, total

# Batches to come may have larger gradients than those that were measured.
HEADROOM = 8
# Where gradients are tiny now, a larger scale would take too many skipped steps to come down from.
LARGEST_EXPONENT = 24
SMALLEST_EXPONENT = -24


@dataclasses.dataclass(frozen=True)
class Choice:
    """A loss scale and why.

    Attributes:
      exponent: the scale is 2**exponent; None if there was nothing to go by.
      reason: a clause that ends a sentence "The scale is ..., since".
      layer: name of the layer with the largest gradient, or None.
      largest: that gradient, without scaling.
    """

    exponent: int | None
    reason: str
    layer: str | None = None
    largest: float = 0.0

    @property
    def scale(self):
        """The loss scale, a float, or None."""
        return None if self.exponent is None else 2.0**self.exponent

    def describe(self):
        """Says the scale as people read it: "8192 (2^13)"."""
        return "unknown" if self.exponent is None else f"{self.scale:.15g} (2^{self.exponent})"


def choose_scale(gradients, number_range):
    """Chooses the largest power of two that keeps the largest gradient `HEADROOM` below overflow.

    Args:
      gradients: dict of layer name to `Exponents`, unscaled.
      number_range: the `NumberRange` of the compute dtype.

    Returns:
      A `Choice`.
    """
    if not number_range.needs_scaling:
        return Choice(0, f"{number_range.name} holds gradients as small as float32 does")
    if total(gradients.values()).not_finite:
        return Choice(None, "there are gradients that are not finite without scaling")
    layer = max(gradients, key=lambda name: gradients[name].largest, default=None)
    largest = gradients[layer].largest if layer else 0.0
    if not largest:
        return Choice(None, "every gradient is zero")
    room = number_range.largest / HEADROOM / largest
    exponent = int(np.floor(np.log2(room)))
    bounded = int(np.clip(exponent, SMALLEST_EXPONENT, LARGEST_EXPONENT))
    scaled = largest * 2.0**bounded
    reason = (
        f"the largest gradient, {number(largest)} in {layer}, becomes {number(scaled)}, "
        f"{number(number_range.largest / scaled)} times below {number_range.largest:.5g}, the "
        f"largest value of {number_range.name}"
    )
    if bounded == exponent:
        reason += f"; twice the scale would leave later batches less than a factor of {HEADROOM}"
    else:
        reason += f"; scales beyond 2^{bounded} are not chosen"
    return Choice(bounded, reason, layer, largest)
