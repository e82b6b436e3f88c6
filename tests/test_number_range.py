"""Ranges of dtypes and counts of exponents, against numpy."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slim_mp.number_range import BINS, EXPONENTS, RANGES, Exponents, number, total

FLOATS = st.lists(st.floats(width=32), min_size=1, max_size=30)
DTYPES = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16}


@pytest.mark.parametrize("name", DTYPES)
def test_the_ranges_are_those_of_the_dtypes(name):
    info, row = ml_dtypes.finfo(DTYPES[name]), RANGES[name]
    assert row.largest == float(info.max)
    assert 2.0**row.normal == float(info.smallest_normal)
    assert 2.0**row.subnormal == float(info.smallest_subnormal)
    assert 2.0**row.overflow > row.largest >= 2.0 ** (row.overflow - 1)
    assert row.needs_scaling == (name == "fp16")


@given(FLOATS, FLOATS)
def test_counts_agree_with_logarithms_and_add_up(first, second):
    values = np.abs(np.array([*first, *second], np.float32)).astype(np.float64)
    counted = Exponents.of(first) + Exponents.of(second)
    regular = np.isfinite(values) & (values >= 2.0**-126)
    # A power of two that a logarithm rounds over has no place in the last digits of float64.
    exponents = np.frexp(values[regular])[1] - 1
    np.testing.assert_array_equal(
        counted.counts[1:-1], np.bincount(exponents + 127, minlength=BINS)[1:-1]
    )
    assert counted.not_finite == np.sum(~np.isfinite(values))
    assert counted.total == len(values)
    assert counted.nonzero == len(values) - np.sum(values < 2.0**-126)
    assert counted.largest == max(values[np.isfinite(values)], default=0.0)
    for exponent in (-200, -24, -14, 0, 16, 128):
        count = counted.nonzero
        below = np.sum(values[regular] < 2.0**exponent)
        assert counted.share_below(exponent) * max(count, 1) == pytest.approx(below)
        above = np.sum(~(values < 2.0 ** max(exponent, -126)))
        assert counted.share_from(exponent) * max(count, 1) == pytest.approx(above)


@given(FLOATS, st.integers(-20, 20))
def test_shifting_is_multiplying(values, shift):
    values = np.array(values, np.float32)
    small = values[(np.abs(values) < 2.0**100) & (np.abs(values) > 2.0**-100)]
    values = np.concatenate([small, [0.0, np.inf, np.nan]]).astype(np.float32)
    shifted, expected = Exponents.of(values).shifted(shift), Exponents.of(values * 2.0**shift)
    np.testing.assert_array_equal(shifted.counts, expected.counts)
    assert shifted.largest == expected.largest


def test_what_is_shifted_out_of_range_is_not_lost_from_the_counts():
    tiny = Exponents.of([2.0**-120, 2.0**120]).shifted(-30)
    assert (tiny.nonzero, tiny.counts[1]) == (2, 1)
    assert Exponents.of([2.0**120]).shifted(30).counts[-2] == 1


def test_the_total_of_nothing_is_nothing():
    assert total([]).total == 0
    assert total([]).share_below(0) == 0
    assert len(EXPONENTS) == BINS


@pytest.mark.parametrize(
    ("value", "text"), [(5051.2, "5,051"), (39.46, "39.5"), (0.002134, "0.00213"), (3e9, "3e+09")]
)
def test_numbers_for_people(value, text):
    assert number(value) == text
