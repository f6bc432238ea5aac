"""Laws of energy from watts: nothing invented, nothing lost, and gaps stay gaps."""

from dataclasses import replace
from functools import reduce
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.power.meters.energy import Energy, add_reading
from offpeak.power.meters.port import Reading

pytestmark = pytest.mark.quick

HOLD_S = 60.0


def reading(at_s: float, power_w: float | None, resolution_w: float = 1.0) -> Reading:
    return Reading("pdu1", "snmp", "total", power_w, at_s, resolution_w=resolution_w)


def energy(readings: list[Reading], so_far: Energy = Energy()) -> Energy:  # noqa: B008
    return reduce(lambda each, next_one: add_reading(each, next_one, longest_hold_s=HOLD_S), readings, so_far)


powers = st.none() | st.floats(0, 1e5)
steps = st.floats(0.001, 1e4)


@st.composite
def series(draw: st.DrawFn) -> list[Reading]:
    pairs = draw(st.lists(st.tuples(steps, powers), min_size=1, max_size=30))
    times = accumulate(step for step, _ in pairs)
    return [reading(1.7e9 + at_s, power_w) for at_s, (_, power_w) in zip(times, pairs, strict=True)]


def test_a_value_holds_until_the_next() -> None:
    reply = energy([reading(0, 12.0), reading(5, 100.0)])
    assert (reply.energy_j, reply.covered_s, reply.gap_s, reply.mean_w) == (60.0, 5.0, 0.0, 12.0)


def test_a_long_silence_is_a_gap_beyond_what_a_value_holds() -> None:
    reply = energy([reading(0, 100.0), reading(200, 100.0)])
    assert (reply.energy_j, reply.covered_s, reply.gap_s) == (6000.0, 60.0, 140.0)


def test_no_value_ends_what_was_held() -> None:
    reply = energy([reading(0, 100.0), reading(10, None), reading(30, 100.0), reading(40, 0.0)])
    assert (reply.energy_j, reply.covered_s, reply.gap_s, reply.readings) == (2000.0, 20.0, 20.0, 3)


def test_rounding_is_reported() -> None:
    reply = energy([reading(0, 100.0, 10.0), reading(60, 100.0, 10.0)])
    assert (reply.rounding_j, reply.rounding_j / reply.energy_j) == (300.0, 0.05)


def test_a_clock_that_goes_back_changes_nothing() -> None:
    before = energy([reading(0, 100.0), reading(10, 100.0)])
    assert add_reading(before, reading(9, 1e9), longest_hold_s=HOLD_S) == before


@given(series())
def test_covered_and_gaps_are_all_of_the_time(readings: list[Reading]) -> None:
    reply = energy(readings)
    span_s = readings[-1].at_unix_s - readings[0].at_unix_s
    assert reply.covered_s + reply.gap_s == pytest.approx(span_s, rel=1e-9, abs=1e-6)
    assert reply.energy_j >= 0
    assert reply.energy_j <= 1e5 * reply.covered_s * (1 + 1e-9)


@given(series(), st.integers(0, 29))
def test_parts_add_up_to_the_whole(readings: list[Reading], cut: int) -> None:
    cut = min(cut, len(readings) - 1)
    whole, first, second = energy(readings), energy(readings[: cut + 1]), energy(readings[cut:])
    for name in ("energy_j", "covered_s", "gap_s", "rounding_j"):
        assert getattr(whole, name) == pytest.approx(getattr(first, name) + getattr(second, name), rel=1e-9, abs=1e-6)


@given(series())
def test_repeating_a_value_in_between_changes_nothing(readings: list[Reading]) -> None:
    doubled = [readings[0]]
    for before, after in pairwise(readings):
        middle_s = (before.at_unix_s + after.at_unix_s) / 2
        # Else the repetition would be held anew.
        if after.at_unix_s - before.at_unix_s <= HOLD_S and before.at_unix_s < middle_s < after.at_unix_s:
            doubled.append(replace(before, at_unix_s=middle_s))
        doubled.append(after)
    assert energy(doubled).energy_j == pytest.approx(energy(readings).energy_j, rel=1e-6, abs=1e-3)


def test_no_readings_give_no_energy() -> None:
    assert Energy().mean_w is None
