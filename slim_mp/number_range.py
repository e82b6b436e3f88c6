"""What a dtype can hold, and how values spread over the powers of two.

Pure functions of counts, without TensorFlow: `exponents` measures, this room calculates.
"""

import dataclasses
import types

import numpy as np

# A bin for each biased exponent of float32: 0 holds zeros (and what is below 2**-126), the last
# one what is not finite.
BINS = 256
_BIAS = 127
_ZERO, _NOT_FINITE = 0, BINS - 1
EXPONENTS = np.arange(BINS) - _BIAS


@dataclasses.dataclass(frozen=True)
class NumberRange:
    """The range of a floating-point dtype (IEEE 754, and bfloat16).

    Attributes:
      name: what `--dtype` calls it.
      subnormal: binary exponent of the smallest positive value; what is smaller is lost.
      normal: binary exponent of the smallest value with all digits.
      largest: the largest finite value.
    """

    name: str
    subnormal: int
    normal: int
    largest: float

    @property
    def needs_scaling(self):
        """Whether it lacks small values that float32 has."""
        return self.normal > RANGES["fp32"].normal

    @property
    def overflow(self):
        """The least binary exponent that is too large."""
        return int(np.floor(np.log2(self.largest))) + 1


RANGES = types.MappingProxyType(
    {
        row.name: row
        for row in (
            NumberRange("fp32", -149, -126, 2.0**127 * (2 - 2.0**-23)),
            NumberRange("fp16", -24, -14, 65504.0),
            NumberRange("bf16", -133, -126, 2.0**127 * (2 - 2.0**-7)),
        )
    }
)


@dataclasses.dataclass(frozen=True)
class Exponents:
    """How many values there are in each power of two.

    Attributes:
      counts: int64 [BINS]; bin b counts values v with floor(log2|v|) == EXPONENTS[b].
      largest: the largest finite absolute value.
    """

    counts: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(BINS, np.int64))
    largest: float = 0.0

    @classmethod
    def of(cls, values):
        """Counts the values of an array; for tests, and to say what a graph must count.

        Args:
          values: float array of any shape.
        """
        values = np.abs(np.ravel(np.asarray(values, np.float32)))
        counts = np.bincount(values.view(np.int32) >> 23, minlength=BINS)
        finite = values[np.isfinite(values)]
        return cls(counts.astype(np.int64), float(finite.max()) if finite.size else 0.0)

    def __add__(self, other):
        return Exponents(self.counts + other.counts, max(self.largest, other.largest))

    @property
    def nonzero(self):
        """How many values are not zero."""
        return int(self.counts[_ZERO + 1 :].sum())

    @property
    def total(self):
        """How many values there are."""
        return int(self.counts.sum())

    @property
    def not_finite(self):
        """How many values are infinite or NaN."""
        return int(self.counts[_NOT_FINITE])

    def share_below(self, exponent):
        """The share of the values below 2**exponent among those that are not zero, 0 to 1."""
        first = exponent + _BIAS
        return float(self.counts[_ZERO + 1 : max(first, _ZERO + 1)].sum()) / max(self.nonzero, 1)

    def share_from(self, exponent):
        """The share of the values of 2**exponent and above (or not finite), as `share_below`."""
        return float(self.counts[max(exponent + _BIAS, _ZERO + 1) :].sum()) / max(self.nonzero, 1)

    def shifted(self, exponent):
        """The counts of the values times 2**exponent."""
        counts = np.zeros(BINS, np.int64)
        target = np.clip(np.arange(BINS) + exponent, _ZERO + 1, _NOT_FINITE - 1)
        target[[_ZERO, _NOT_FINITE]] = _ZERO, _NOT_FINITE
        np.add.at(counts, target, self.counts)
        return Exponents(counts, self.largest * 2.0**exponent)


def number(value):
    """Writes a positive number for people: "5,051", "39.5", "0.00213"."""
    return f"{value:,.0f}" if 100 <= value < 1e7 else f"{value:.3g}"


def total(exponents):
    """Adds up some `Exponents`."""
    return sum(exponents, Exponents())
