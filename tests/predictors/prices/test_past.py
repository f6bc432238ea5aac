"""Whole days of a market's clock: changes of the clocks, gaps, holidays, and the day that has not ended."""

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.constants import DAY_S
from offpeak.model.zones import parse_zone
from offpeak.predictors.prices.history import SUNDAY, PriceHistory, day_kinds, fill_days, split_days

pytestmark = pytest.mark.quick

BERLIN = parse_zone("Europe/Berlin")
NAN = float("nan")


def unix_s(*date: int) -> int:
    return int(datetime(*date, tzinfo=UTC).timestamp())


def past_from(start_s: int, price, step_s: int = 3600):
    return fill_days(split_days(PriceHistory(start_s, step_s, np.asarray(price, float)), BERLIN), ahead=2, holidays="")


def test_the_missing_hour_of_march_lies_between_its_neighbours():
    # 2021-03-28: 01:59:59 is followed by 03:00:00.
    past = past_from(unix_s(2021, 3, 27, 23), np.arange(23.0))
    assert past.price[0, :5].tolist() == [0, 1, 1.5, 2, 3]
    assert past.known.tolist() == [True]


def test_the_doubled_hour_of_october_is_its_mean():
    past = past_from(unix_s(2021, 10, 30, 22), np.arange(25.0))
    assert past.price[0, :5].tolist() == [0, 1, 2.5, 4, 5]


@pytest.mark.parametrize(("month", "hours"), [(3, 23), (10, 25)])
@pytest.mark.parametrize("step_s", [900, 1800, 3600])
def test_after_a_change_of_the_clocks_each_hour_is_at_home_again(month, hours, step_s):
    day = 28 if month == 3 else 31
    start_s = unix_s(2021, month, day - 1, 23 if month == 3 else 22)
    of_day = np.concatenate([np.zeros(hours), np.arange(24.0)]).repeat(3600 // step_s)
    assert past_from(start_s, of_day, step_s).price[1].tolist() == list(range(24))


@pytest.mark.parametrize("step_s", [900, 1800, 3600])
def test_a_day_that_has_not_ended_is_no_past(step_s):
    hours = np.arange(24.0 + 12)
    past = past_from(unix_s(2021, 1, 3, 23), hours.repeat(3600 // step_s), step_s)
    assert past.price.tolist() == [list(range(24))]


def test_a_short_gap_is_bridged_and_a_long_one_has_last_weeks_prices():
    price = np.arange(24.0 * 9)
    price[24 * 7 + 3] = NAN
    price[24 * 8 : 24 * 8 + 10] = NAN
    past = past_from(unix_s(2021, 1, 3, 23), price)
    assert past.price[7, 3] == 24 * 7 + 3
    assert past.price[8, :10].tolist() == list(range(24, 34))
    assert past.known.tolist() == [True] * 8 + [False]


@given(st.integers(0, 10**6), st.lists(st.sampled_from([1.0, -5.0, 80.0, NAN, float("inf")]), max_size=24 * 12))
def test_a_past_is_finite_whatever_is_missing(hours, price):
    past = past_from(hours * 3600, price)
    assert np.isfinite(past.price).all()
    assert len(past.kind) == len(past) + 2


def test_a_public_holiday_is_a_sunday():
    days = np.array([datetime(2021, 5, day, tzinfo=UTC).timestamp() // DAY_S for day in (1, 3, 4, 9, 13)], np.int64)
    assert day_kinds(days, "").tolist() == [5, 0, 1, 6, 3]
    assert day_kinds(days, "DE").tolist() == [SUNDAY, 0, 1, SUNDAY, SUNDAY]
    assert day_kinds(days, None).tolist() == [0] * 5


def test_until_and_followed_by_undo_each_other(past):
    ten = past(10)
    again = ten.until(9).followed_by(ten.price[9])
    np.testing.assert_array_equal(again.price, ten.price)
    assert again.known.tolist() == [True] * 9 + [False]
    assert again.kind is ten.kind
