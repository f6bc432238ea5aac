"""Counters: never less than nothing, never a wrap, and how they contradict the watts."""

from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.power.meters.energy import CounterTotal, Energy, add_counter_value, find_contradiction

pytestmark = pytest.mark.quick

looks = st.lists(st.none() | st.integers(0, 10**9).map(float), max_size=30)


def count(reply: list[float | None]) -> CounterTotal:
    return reduce(add_counter_value, reply, CounterTotal())


def test_a_decrease_is_a_reset_and_nothing_is_added_over_it() -> None:
    assert count([100.0, 150.0, 0.0, 20.0]) == CounterTotal(70.0, 1, 20.0)


def test_near_the_end_of_32_bits_a_decrease_is_a_reset_too() -> None:
    assert count([2**32 - 10.0, 5.0]) == CounterTotal(0.0, 1, 5.0)


def test_no_value_is_no_reset() -> None:
    assert count([100.0, None, 150.0]) == CounterTotal(50.0, 0, 150.0)


@given(looks)
def test_counted_energy_is_never_negative(reply: list[float | None]) -> None:
    known = [value for value in reply if value is not None]
    counting = count(reply)
    assert counting.energy_j >= 0
    assert counting.resets == sum(after < before for before, after in pairwise(known))
    if not counting.resets and known:
        assert counting.energy_j == known[-1] - known[0]


@given(looks, st.integers(0, 30))
def test_counter_can_be_stopped_and_resumed(reply: list[float | None], cut: int) -> None:
    assert reduce(add_counter_value, reply[cut:], count(reply[:cut])) == count(reply)


@pytest.mark.parametrize(
    ("count_j", "resets", "watts_j", "gap_s", "contradicts"),
    [
        (3.6e6, 0, 3.6e6, 0, False),
        (36e6, 0, 3.6e6, 0, True),
        (3.6e6, 0, 36e6, 0, True),
        # Watts miss what a gap hides, the counter what a reset hides.
        (36e6, 0, 3.6e6, 600, False),
        (3.6e6, 1, 36e6, 0, False),
        (36e6, 1, 3.6e6, 0, True),
        # One step of 0.1 kWh.
        (0.36e6, 0, 0.0, 0, False),
    ],
)
def test_counter_that_contradicts_watts_is_reported(
    count_j: float, resets: int, watts_j: float, gap_s: float, contradicts: bool
) -> None:
    energy = Energy(watts_j, 3600, gap_s, 60)
    assert bool(find_contradiction(CounterTotal(count_j, resets), energy, step_j=0.36e6)) is contradicts
