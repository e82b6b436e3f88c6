"""The choice of a loss scale: its property, its bounds and what it says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slim_mp.number_range import RANGES, Exponents
from slim_mp.recommended_scale import HEADROOM, LARGEST_EXPONENT, SMALLEST_EXPONENT, choose_scale

FP16 = RANGES["fp16"]
ROOM = FP16.largest / HEADROOM


def choose(number_range=FP16, **layers):
    return choose_scale(
        {name: Exponents.of(values) for name, values in layers.items()}, number_range
    )


@given(st.lists(st.floats(2.0**-60, 2.0**60), min_size=1, max_size=5))
def test_it_is_the_largest_power_of_two_that_leaves_the_headroom(values):
    layers = {f"layer{i}": [value, value / 3] for i, value in enumerate(values)}
    choice = choose(**layers)
    largest = float(np.float32(max(values)))
    if choice.exponent > SMALLEST_EXPONENT:
        assert largest * choice.scale <= ROOM
    if choice.exponent < LARGEST_EXPONENT:
        assert 2 * largest * choice.scale > ROOM
    assert SMALLEST_EXPONENT <= choice.exponent <= LARGEST_EXPONENT
    assert float(np.float32(layers[choice.layer][0])) == largest
    assert choice.largest == largest


def test_it_says_why():
    choice = choose(early=[39.46], late=[0.5, 1e-9])
    assert choice.describe() == "128 (2^7)"
    assert "39.5 in early, becomes 5,051, 13 times below 65504" in choice.reason
    assert "twice the scale would leave later batches less than a factor of 8" in choice.reason


def test_tiny_gradients_do_not_ask_for_a_scale_that_cannot_come_down():
    choice = choose(layer=[1e-12])
    assert choice.scale == 2.0**LARGEST_EXPONENT
    assert "scales beyond 2^24 are not chosen" in choice.reason
    assert choose(layer=[1e30]).exponent == SMALLEST_EXPONENT


@pytest.mark.parametrize("name", ["bf16", "fp32"])
def test_a_dtype_with_the_exponents_of_float32_needs_none(name):
    choice = choose(RANGES[name], layer=[1e-30])
    assert choice.scale == 1.0
    assert "as small as float32 does" in choice.reason


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ({}, "every gradient is zero"),
        ({"layer": [0.0, 0.0]}, "every gradient is zero"),
        ({"layer": [1.0], "other": [np.nan]}, "not finite"),
    ],
)
def test_there_may_be_nothing_to_go_by(layers, reason):
    choice = choose(**layers)
    assert choice.scale is None
    assert choice.describe() == "unknown"
    assert reason in choice.reason
