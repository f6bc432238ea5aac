"""The plane of the figure: everything lies in it, and its grid has round values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.price_capacity.report import LEFT, PLOT, RIGHT, Plot, ticks
from studies.report import Range, range_of
from studies.svg import WIDTH

HOURS = st.lists(st.floats(-5, 100), min_size=1, max_size=6)
SAVED = st.lists(st.floats(-50, 50), min_size=1, max_size=4).map(range_of)


@given(HOURS, st.lists(SAVED, min_size=1, max_size=6))
def test_every_point_lies_in_the_plane(hours: list[float], saved: list[Range]) -> None:
    plot = Plot.around(hours, saved)
    assert all(LEFT <= plot.x(hour) <= WIDTH - RIGHT for hour in (0.0, *hours))
    assert all(0 <= plot.y(pct) <= PLOT for each in saved for pct in (0.0, each.low, each.mean, each.high))


@given(st.floats(-50, 0), st.floats(0.01, 50))
def test_grid_lines_are_few_within_the_plane_and_one_is_0(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 0 in found
    assert 1 <= len(found) <= 7
    assert all(low - 1e-6 <= tick <= high + 1e-6 for tick in found)


def test_more_hours_are_further_right_and_more_saved_is_higher() -> None:
    plot = Plot.around([0.5, 3.0], [Range(1.0, -1.0, 4.0)])
    assert plot.x(0.5) < plot.x(3.0)
    assert plot.y(4.0) < plot.y(-1.0)
    assert plot.y(0.0) == pytest.approx(PLOT * plot.high / (plot.high - plot.low), abs=0.1)
