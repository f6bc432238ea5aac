"""The series itself: invalid input, gaps, and filling them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadPrices
from offpeak.model.constants import WEEK_S
from offpeak.model.step_series import Series, fill_gaps, merge, split, value_at

pytestmark = pytest.mark.quick

HOUR_S = 3600
NAN = float("nan")


def series_of(lengths_s, values, start_s=0) -> Series:
    edges = start_s + np.cumsum([0, *lengths_s])
    return Series(edges[:-1], int(edges[-1]), np.array(values, float), "EUR/MWh", "test")


@st.composite
def some_series(draw, weeks=0):
    """Mixed hours, half-hours and quarter-hours with negative prices and gaps."""
    step_s = st.sampled_from([900, 1800, 3600, 6 * 3600])
    lengths = draw(st.lists(step_s, min_size=1, max_size=60))
    value = st.one_of(st.floats(-500, 4000), st.just(NAN))
    values = draw(st.lists(value, min_size=len(lengths), max_size=len(lengths)))
    return series_of(lengths * (1 + weeks), values * (1 + weeks), draw(st.integers(0, 10**9)))


def moments(series: Series) -> np.ndarray:
    return np.arange(series.start_s[0] - 900, series.end_s + 900, 450)


def same_everywhere(one: Series, other: Series) -> bool:
    at = moments(one)
    return np.array_equal(value_at(one, at), value_at(other, at), equal_nan=True)


@pytest.mark.parametrize(
    ("start_s", "end_s", "value"),
    [
        ([], 1, []),
        ([0, 1], 2, [1.0]),
        ([0, 0], 2, [1.0, 2.0]),
        ([2, 1], 3, [1.0, 2.0]),
        ([0, 1], 1, [1.0, 2.0]),
        ([0], 1, [float("inf")]),
    ],
)
def test_invalid_series_is_refused(start_s, end_s, value):
    with pytest.raises(BadPrices, match="test"):
        Series(np.array(start_s, np.int64), end_s, np.array(value), "EUR/MWh", "test")


def test_money_and_lengths():
    series = series_of([3600, 900], [1, 2])
    assert series.currency == "EUR"
    assert series.length_s.tolist() == [3600, 900]


def test_gaps_are_joined():
    series = series_of([10] * 6, [NAN, NAN, 1, NAN, 2, NAN])
    assert series.gaps() == ((0, 20), (30, 40), (50, 60))
    assert series_of([10], [1]).gaps() == ()


def test_values_outside_are_unknown():
    series = series_of([10, 10], [1, 2])
    assert value_at(series, np.array([-1, 0, 9, 10, 19, 20])).tolist()[1:5] == [1, 1, 2, 2]
    assert np.isnan(value_at(series, np.array([-1, 20]))).all()


@given(some_series(), st.lists(st.integers(-7200, 200_000), max_size=10))
def test_cutting_and_joining_change_no_value(series, cuts_s):
    cut = split(series, series.start_s[0] + np.array(cuts_s, np.int64))
    assert same_everywhere(series, cut)
    assert cut.end_s == series.end_s
    assert same_everywhere(series, merge(cut))
    assert len(merge(cut)) <= len(series)


def test_a_gap_is_filled_from_a_week_before_or_further_back():
    hours = np.arange(4 * 168.0)
    hours[200:206] = NAN
    hours[200 + 168] = NAN
    hours[200 + 2 * 168] = -7.5
    filled = fill_gaps(series_of([HOUR_S] * len(hours), hours))
    assert filled.value[200:206].tolist() == [32, 33, 34, 35, 36, 37]
    assert filled.value[200 + 168] == 32
    assert filled.value[200 + 2 * 168] == -7.5


def test_gap_without_a_week_before_stays():
    values = [1.0] * 336
    values[3] = values[3 + 168] = NAN
    assert len(fill_gaps(series_of([HOUR_S] * 336, values)).gaps()) == 2


def test_one_long_gap_takes_the_finer_intervals_of_the_week_before():
    quarters = np.arange(7 * 96.0)
    series = series_of([900] * 672 + [WEEK_S, HOUR_S], [*quarters, NAN, 5])
    filled = fill_gaps(series)
    assert filled.value.tolist() == [*quarters, *quarters, 5]
    assert set(filled.length_s[:-1].tolist()) == {900}


@given(some_series(weeks=1))
def test_filling_leaves_known_values(series):
    filled, at = fill_gaps(series), moments(series)
    before, after = value_at(series, at), value_at(filled, at)
    known = ~np.isnan(before)
    assert np.array_equal(before[known], after[known])
    assert np.array_equal(after, np.where(known, before, value_at(filled, at - WEEK_S)), equal_nan=True)
    assert (int(filled.start_s[0]), filled.end_s) == (int(series.start_s[0]), series.end_s)


@given(st.integers(1, 40), st.integers(0, 300), st.data())
def test_filling_over_whole_weeks(weeks, hour, data):
    values = np.tile(np.arange(168.0), weeks + 2)
    lost = data.draw(st.lists(st.integers(168, len(values) - 1), max_size=50))
    values[lost] = NAN
    values[168 + hour % 168 :: 168] = NAN
    filled = fill_gaps(series_of([HOUR_S] * len(values), values))
    assert filled.value.tolist() == np.tile(np.arange(168.0), weeks + 2).tolist()
