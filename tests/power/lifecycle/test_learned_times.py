"""Time-outs that are learned, and stay within what the inventory allows."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.power.lifecycle.node_context import (
    FEWEST_DURATIONS,
    LEAST_PATIENCE,
    MOST_DURATIONS,
    MOST_PATIENCE,
    NO_DURATIONS,
    MeasuredDurations,
    durations_from_json,
)
from offpeak.power.lifecycle.node_record import MeasuredDuration

pytestmark = pytest.mark.quick


def learned(*seconds: float) -> MeasuredDurations:
    times = NO_DURATIONS
    for value in seconds:
        times = times.learn(MeasuredDuration("boot", value))
    return times


def test_patience_until_enough_is_known() -> None:
    assert learned(*[10.0] * (FEWEST_DURATIONS - 1)).time_out_s("boot", 600) == 600
    assert learned(*[200.0] * FEWEST_DURATIONS).time_out_s("boot", 600) == 300
    assert learned(*[200.0] * FEWEST_DURATIONS).time_out_s("resume", 60) == 60


def test_one_slow_node_among_many_does_not_matter() -> None:
    assert learned(*[200.0] * 40, 1100.0).time_out_s("boot", 600) == 300


def test_expected_duration_is_the_median() -> None:
    assert learned(100, 110, 900).expected_s("boot") == 110
    assert learned(100).expected_s("suspend") is None


def test_old_times_are_forgotten() -> None:
    assert learned(*[500.0] * 60, *[100.0] * MOST_DURATIONS).time_out_s("boot", 600) == 150


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=80), st.floats(1, 1e5))
def test_a_time_out_is_always_within_its_bounds(seconds: list[float], patience_s: float) -> None:
    times = learned(*seconds)
    assert LEAST_PATIENCE * patience_s <= times.time_out_s("boot", patience_s) <= MOST_PATIENCE * patience_s
    assert len(times.seconds.get("boot", ())) <= MOST_DURATIONS
    assert all(math.isfinite(value) for value in times.seconds.get("boot", ()))
    assert durations_from_json(times.to_json()) == times
