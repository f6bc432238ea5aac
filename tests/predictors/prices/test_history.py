"""Known prices: what is no step is refused, and later prices hold where two are told."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadPrices
from offpeak.model.step_series import Series
from offpeak.predictors.prices.history import PriceHistory, PriceSteps, join_histories, price_at, price_history

pytestmark = pytest.mark.quick

NAN = float("nan")
YEAR_S = 365 * 86400


@st.composite
def some_history(draw):
    step_s = draw(st.sampled_from([900, 1800, 3600]))
    start_s = 900 * draw(st.integers(0, 300))
    price = draw(st.lists(st.one_of(st.floats(-500, 4000), st.sampled_from([NAN, float("inf")])), max_size=40))
    return PriceHistory(start_s, step_s, np.array(price, float))


@pytest.mark.parametrize(("start_s", "step_s", "count"), [(0, 600, 1), (60, 900, 1), (0, 3600, -1)])
def test_invalid_step_is_refused(start_s, step_s, count):
    with pytest.raises(BadPrices) as problem:
        PriceSteps(start_s, step_s, count)
    assert problem.value.hint


def test_an_hour_has_four_quarters_and_the_end_is_where_the_last_ends():
    steps = PriceSteps(3600, 3600, 2)
    assert steps.quarter_s.tolist() == [3600 + 900 * i for i in range(8)]
    assert steps.end_s == 3 * 3600


@given(some_history(), some_history())
def test_joined_knows_what_either_knew_and_the_later_one_holds(earlier, later):
    both = join_histories(earlier, later, kept_s=YEAR_S)
    at_s = np.arange(0, 500 * 900, 900)
    one, other = price_at(earlier, at_s), price_at(later, at_s)
    np.testing.assert_array_equal(price_at(both, at_s), np.where(np.isnan(other), one, other))


@given(some_history(), st.integers(1, 50))
def test_of_a_long_history_the_end_is_kept(history, quarters):
    kept = join_histories(None, history, kept_s=900 * quarters)
    assert len(kept.price) == min(quarters, len(history.quarters()))
    np.testing.assert_array_equal(kept.price, history.quarters()[-quarters:])


def test_a_number_that_is_no_price_is_a_gap():
    reported = PriceHistory(0, 3600, np.array([1e300, -np.inf, NAN, 7.0])).quarters()
    assert np.isnan(reported[:12]).all()
    assert reported[12:].tolist() == [7.0] * 4


def test_a_series_by_quarter_hours():
    series = Series(np.array([0, 3600, 5400]), 7200, np.array([10.0, NAN, 30.0]), "EUR/MWh", "test")
    history = price_history(series)
    np.testing.assert_array_equal(history.price, [10] * 4 + [NAN] * 2 + [30] * 2)


def test_a_quarter_hour_in_which_the_price_changes_has_its_mean() -> None:
    nan = np.nan
    value = np.array([300.0, 0.0, 0.0, 30.0, nan, 60.0, nan, 10.0, 20.0, 33.3, 33.3])
    series = Series(np.arange(0, 3300, 300), 3300, value, "EUR/MWh", "five minutes")
    np.testing.assert_array_equal(price_history(series).price, [100.0, 45.0, nan, 33.3])


def test_a_series_that_ends_before_the_first_quarter_hour_has_none() -> None:
    assert len(price_history(Series(np.array([60]), 600, np.array([5.0]), "EUR/MWh", "short"))) == 0
