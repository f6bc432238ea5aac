"""Readings that cannot be are refused, real draws are booked, and what a node draws against its state is named."""

import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.orders import NodeState
from offpeak.power.meters.plausibility import (
    CONFIRM_READINGS,
    CONFIRM_S,
    STUCK_IN_BOTH_S,
    STUCK_S,
    DrawBound,
    PartHistory,
    check_reading,
    find_draw_bound,
    find_enclosure_bound,
)
from offpeak.power.meters.port import Reading

pytestmark = pytest.mark.quick

SERVER = bundled_node_class("server")
OFF, ON, UNKNOWN = (find_draw_bound(SERVER, state) for state in (NodeState.OFF, NodeState.ON, NodeState.UNKNOWN))
NO_CLASS = DrawBound()


def reading(at_s: float, power_w: float | None) -> Reading:
    return Reading("n1", "dcmi", "total", power_w, at_s, node="n1", why="" if power_w is not None else "silent")


def booked(
    values: Iterable[float | None], bound: DrawBound, history: PartHistory | None = None, *, every_s: float = 60.0
) -> tuple[list[float], PartHistory]:
    """Return the values that are booked in the end, and the history."""
    history, kept = history or PartHistory(), []
    begin_s = 0.0 if math.isinf(history.last_unix_s) else history.last_unix_s + every_s
    for number, power_w in enumerate(values):
        checked, confirmed, history = check_reading(reading(begin_s + every_s * number, power_w), history, bound)
        kept += [each.power_w for each in (*confirmed, checked) if each.power_w is not None]
    return kept, history


@pytest.mark.parametrize(
    ("bound", "power_w", "why"),
    [
        (ON, 25_550.0, "25,550 W, more than 1,050 W, the most that is possible for a node of class server"),
        (OFF, 25_550.0, "25,550 W, more than 1,050 W, the most that is possible for a node of class server"),
        (OFF, 700.0, "700 W, more than 200 W, the most expected of a node of class server in this state"),
        (NO_CLASS, -5.0, "-5 W is not a power"),
        (NO_CLASS, math.nan, "nan W is not a power"),
        (NO_CLASS, 1555.0, "1,555 W, more than 40 W, twice the highest draw that lasted"),
    ],
)
def test_a_spike_is_refused_and_counted(bound: DrawBound, power_w: float, why: str) -> None:
    _, before = booked([20.0] * 5, bound)
    checked, _, _ = check_reading(reading(300.0, power_w), before, bound)
    assert (checked.power_w, checked.why) == (None, f"refused: {why}")
    kept, history = booked([power_w, 20.0], bound, before)
    assert (kept, history.refused, history.problem) == ([20.0], 1, f"has readings that are refused: {why}")


@pytest.mark.parametrize("before_w", [[], [200.0]])
def test_a_node_that_keeps_drawing_more_than_its_class_asks_for_the_class(before_w: list[float]) -> None:
    kept, history = booked(before_w + [2000.0] * 5, ON)
    assert (kept, history.refused) == (before_w, 5)
    assert history.problem.endswith("; it lasts: is node_class right, and the meter's unit?")


@pytest.mark.parametrize("bound", [OFF, NO_CLASS])
def test_a_draw_that_lasts_is_booked_from_its_first_reading(bound: DrawBound) -> None:
    kept, history = booked([20.0] * 5 + [400.0, 410.0, 390.0, 400.0], bound)
    assert kept == [20.0] * 5 + [400.0, 410.0, 390.0, 400.0]
    assert history.refused == 0


@pytest.mark.parametrize("bound", [OFF, NO_CLASS, UNKNOWN])
@pytest.mark.parametrize(
    ("job_w", "every_s"),
    [([900.0] * 9 + [400.0], 10.0), ([900.0, 300.0], 10.0), ([300.0, 900.0], 60.0), ([900.0, 410.0, 900.0], 60.0)],
)
def test_a_job_whose_draw_swings_is_booked_whole(bound: DrawBound, job_w: list[float], every_s: float) -> None:
    values = [100.0] * 30 + (job_w * 360)[:360]
    kept, history = booked(values, bound, every_s=every_s)
    assert (kept, history.refused) == (values, 0)


def test_a_draw_that_falls_back_within_two_minutes_is_refused() -> None:
    kept, history = booked([100.0] * 30 + [900.0, 400.0, 1555.0] * 4 + [100.0], NO_CLASS, every_s=10.0)
    assert (kept, history.refused, history.held_w) == ([100.0] * 31, 12, 100.0)


def test_a_spike_within_a_real_draw_does_not_raise_what_is_usual() -> None:
    _, history = booked([100.0] * 5 + [900.0, 25_550.0, 900.0] + [900.0] * 3, NO_CLASS)
    assert history.held_w == 900.0
    assert booked([25_550.0, 900.0], NO_CLASS, history)[0] == [900.0]


def test_a_node_in_an_unknown_state_does_not_count_as_asleep() -> None:
    assert (UNKNOWN.expected_w, UNKNOWN.asleep) == (None, None)
    assert find_enclosure_bound("chassis", [OFF, UNKNOWN]).asleep is None
    assert booked([20.0] * 5 + [400.0] * 4, UNKNOWN)[1].problem == ""


def test_a_node_that_draws_much_although_it_is_off_is_named_until_it_does_not() -> None:
    _, history = booked([20.0] * 5 + [400.0] * 4, OFF)
    assert history.problem == "draws 400 W although it sleeps; `offpeak nodes` shows its state"
    assert booked([20.0], OFF, history)[1].problem == ""


def test_a_spike_that_a_bmc_repeats_for_a_minute_is_refused() -> None:
    kept, history = booked([20.0] * 30 + [800.0] * 6 + [20.0], OFF, every_s=10.0)
    assert (kept, history.refused) == ([20.0] * 31, 6)


def test_a_node_that_wakes_keeps_its_first_reading() -> None:
    _, history = booked([20.0] * 5 + [350.0], OFF)
    assert booked([360.0], ON, history)[0] == [350.0, 360.0]


def test_readings_that_are_missing_confirm_nothing() -> None:
    kept, history = booked([20.0] * 5 + [1555.0, None, 1555.0, None, 1555.0, None], NO_CLASS)
    assert (kept, history.refused) == ([20.0] * 5, 3)


def test_a_clock_that_goes_back_loses_no_reading_for_long() -> None:
    _, history = booked([20.0] * 5 + [400.0], NO_CLASS)
    kept = []
    for at_s in range(0, 600, 60):
        checked, confirmed, history = check_reading(reading(at_s, 400.0), history, NO_CLASS)
        kept += [each for each in (*confirmed, checked) if each.power_w is not None]
    assert len(kept) >= 10


def test_a_reading_that_never_changes_is_named() -> None:
    hours = int(STUCK_S // 3600)
    _, history = booked([150.0] * (hours + 1), ON, every_s=3600.0)
    assert history.problem == "shows exactly 150 W for 24.0 h; is its meter stuck?"
    assert booked([151.0], ON, history)[1].problem == ""
    assert booked([10.0] * 100, OFF, every_s=3600.0)[1].problem == ""


def test_a_reading_that_is_the_same_with_the_node_up_and_asleep_is_named() -> None:
    each = int(STUCK_IN_BOTH_S // 60)
    _, up = booked([150.0] * (each + 1), ON)
    _, history = booked([150.0] * each, OFF, up)
    assert up.problem == ""
    assert history.problem == "shows exactly 150 W for 0.3 h, with the node up and asleep; is its meter stuck?"


@given(
    st.lists(st.none() | st.floats(0, 1e5, allow_nan=False), max_size=60),
    st.sampled_from([OFF, ON, NO_CLASS]),
    st.sampled_from([1.0, 10.0, 60.0]),
)
def test_each_value_is_booked_refused_or_waits(values: list[float | None], bound: DrawBound, every_s: float) -> None:
    kept, history = booked(values, bound, every_s=every_s)
    known = [power_w for power_w in values if power_w is not None]
    assert len(kept) + history.refused + len(history.waiting) == len(known)
    assert kept == [power_w for power_w in known if power_w in kept][: len(kept)] or len(set(known)) < len(known)
    assert bound.possible_w is None or all(power_w <= bound.possible_w for power_w in kept)
    assert len(history.waiting) <= max(CONFIRM_READINGS, CONFIRM_S / every_s + 1)
