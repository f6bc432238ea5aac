"""Clipped meters and extremes of a series: against a look at each second."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_node_logs import meters

from offpeak.model.step_series import StepIntegral, integral
from sim_backend.nodes.bounds import clipped, least, most

SPANS = st.lists(st.tuples(st.integers(-10, 45), st.integers(1, 50)), max_size=9)


def value_at(meter: StepIntegral, second: int) -> float:
    return float(meter.value[max(np.searchsorted(meter.at_s, second, side="right") - 1, 0)])


@given(meters(), SPANS)
def test_extremes_are_those_of_the_seconds(meter: StepIntegral, spans) -> None:
    from_s, length_s = np.array(spans, np.int64).reshape(-1, 2).T
    values = [[value_at(meter, second) for second in range(at, at + length)] for at, length in spans]
    assert least(meter, from_s, from_s + length_s).tolist() == [min(value) for value in values]
    assert most(meter, from_s, from_s + length_s).tolist() == [max(value) for value in values]


def test_an_empty_stretch_has_the_value_that_holds_there() -> None:
    meter = StepIntegral(np.array([0, 10]), np.array([3.0, 5.0]), np.array([0.0, 30.0]))
    at_s = np.array([-1, 0, 9, 10, 12])
    assert least(meter, at_s, at_s).tolist() == [3.0, 3.0, 3.0, 5.0, 5.0]


@given(meters(), st.floats(-50, 0), st.floats(0, 400))
def test_a_clipped_series_is_held_in_each_second(meter: StepIntegral, lowest: float, highest: float) -> None:
    held = clipped(meter, lowest, highest)
    for second in range(-6, 42):
        expected = min(max(value_at(meter, second), lowest), highest)
        assert integral(held, second, second + 1) == pytest.approx(expected, abs=1e-6)
