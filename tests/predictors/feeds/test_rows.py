"""From rows to a series, the part of it in a window, and how much of the window is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.step_series import Series, value_at
from offpeak.predictors.feeds.port import FeedCondition, Window, build_series, clip_series, known_s

pytestmark = pytest.mark.quick

HOUR = 3600
rows = st.dictionaries(st.integers(0, 60), st.none() | st.floats(-500, 4000), min_size=2, max_size=40)


def test_a_missing_row_and_a_missing_value_are_gaps():
    series = build_series("test", "EUR/MWh", [0, HOUR, 2 * HOUR, 5 * HOUR], [1.0, None, 3.0, 4.0])
    assert series.gaps() == ((HOUR, 2 * HOUR), (3 * HOUR, 5 * HOUR))
    assert series.end_s == 6 * HOUR


@pytest.mark.parametrize(
    ("start_s", "values", "condition"),
    [
        ([], [], FeedCondition.NOT_YET_PUBLISHED),
        ([0, HOUR], [1.0], FeedCondition.GARBAGE),
        ([0], [1.0], FeedCondition.GARBAGE),
        ([0, 0], [1.0, 2.0], FeedCondition.GARBAGE),
        ([HOUR, 0], [1.0, 2.0], FeedCondition.GARBAGE),
    ],
)
def test_rows_that_make_no_series(start_s, values, condition):
    assert build_series("test", "EUR/MWh", start_s, values).condition is condition


def test_periods_that_overlap_make_no_series():
    found = build_series("test", "EUR/MWh", [0, HOUR], [1.0, 2.0], length_s=np.array([2 * HOUR, HOUR]))
    assert found.condition is FeedCondition.GARBAGE


@given(rows)
def test_every_row_keeps_its_value_and_nothing_is_added(rows):
    start_s = sorted(HOUR * hour for hour in rows)
    values = [rows[start // HOUR] for start in start_s]
    series = build_series("test", "EUR/MWh", start_s, values, length_s=np.full(len(rows), HOUR))
    np.testing.assert_array_equal(value_at(series, np.array(start_s)), np.array(values, float))
    assert series.length_s[series.known].sum() == HOUR * sum(value is not None for value in values)


@given(rows, st.integers(-10, 70), st.integers(1, 50))
def test_what_is_known_of_a_window(rows, from_h, hours):
    start_s = sorted(HOUR * hour for hour in rows)
    series = build_series(
        "test", "EUR/MWh", start_s, [rows[s // HOUR] for s in start_s], length_s=np.full(len(rows), HOUR)
    )
    window = Window(HOUR * from_h, HOUR * (from_h + hours))
    inside = [hour for hour, value in rows.items() if value is not None and from_h <= hour < from_h + hours]
    assert known_s(series, window) == HOUR * len(inside)
    part = clip_series(series, window)
    if part is not None:
        assert window.from_s <= part.start_s[0] < part.end_s <= window.until_s


def test_empty_series_cover_no_time():
    assert known_s(None, Window(0, HOUR)) == 0
    assert clip_series(Series(np.array([0]), HOUR, np.array([1.0]), "EUR/MWh", "test"), Window(HOUR, 2 * HOUR)) is None
