"""The busiest window: no other of those tried is busier, and it holds few enough jobs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.step_integrals import Usage
from offpeak.sim_backend.comparison.figures import SHORTEST_S, TRIED_PER_WINDOW, BusiestWindow, busiest_window
from offpeak.sim_backend.nodes.power_curve import PowerCurve, power_curve
from offpeak.sim_backend.replay.schedule import Schedule

HOUR_S = 3600


def made(start_h: list[int], length_h: list[int]) -> tuple[PowerCurve, Schedule]:
    """Jobs of one unit."""
    start_s, length_s = HOUR_S * np.array(start_h), HOUR_S * np.array(length_h)
    end_s = start_s + length_s
    ones = np.ones(len(start_s), np.int64)
    period = int(start_s.min()), int(end_s.max())
    return power_curve(Usage(ones, ones * 100.0, start_s, end_s, 1000, 0.0, *period)), Schedule(start_s, end_s, 0.0)


JOBS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30)), min_size=1, max_size=40)


@given(JOBS, st.integers(2, 60))
def test_no_window_tried_is_busier(jobs: list[tuple[int, int]], longest_h: int) -> None:
    curve, schedule = made(*map(list, zip(*jobs, strict=True)))
    longest_s = HOUR_S * longest_h
    window = busiest_window(curve, [schedule], most_jobs=1000, longest_s=longest_s)

    def busy_s(each: BusiestWindow) -> int:
        inside = np.minimum(schedule.end_s, each.until_s) - np.maximum(schedule.start_s, each.from_s)
        return int(np.maximum(inside, 0).sum())

    begin_s = int(schedule.start_s.min())
    if curve.until_s - begin_s <= longest_s:
        assert window == BusiestWindow(begin_s, curve.until_s)
    else:
        tried = range(begin_s, curve.until_s - longest_s + 1, longest_s // TRIED_PER_WINDOW)
        assert busy_s(window) == max(busy_s(BusiestWindow(from_s, from_s + longest_s)) for from_s in tried)
        assert window.until_s - window.from_s == longest_s


def test_it_is_halved_until_it_holds_few_enough_jobs() -> None:
    curve, schedule = made([12 * at for at in range(64)], [12] * 64)
    window = busiest_window(curve, [schedule], most_jobs=9, longest_s=32 * 12 * HOUR_S)
    assert window.until_s - window.from_s == 8 * 12 * HOUR_S
    assert np.count_nonzero(window.holds(schedule)) <= 9


def test_but_not_below_half_a_day() -> None:
    curve, schedule = made([0] * 50, [60] * 50)
    window = busiest_window(curve, [schedule], most_jobs=3, longest_s=48 * HOUR_S)
    assert window.until_s - window.from_s == SHORTEST_S


def test_a_log_of_no_time_is_its_own_window() -> None:
    curve, schedule = made([3], [0])
    assert busiest_window(curve, [schedule], most_jobs=5) == BusiestWindow(3 * HOUR_S, 3 * HOUR_S)
