"""What of an answer cannot be believed, by its name; a good answer passes."""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.step_series import Series
from offpeak.predictors.feeds.feed import SENTINELS, CheckContext, check_series
from offpeak.predictors.feeds.port import (
    CARBON,
    OUTSIDE_TEMPERATURE,
    FeedCondition,
    FeedQuantity,
    Window,
    clip_series,
    price_quantity,
)
from offpeak.prices.file import read_series
from offpeak.prices.layout import parse_layout

pytestmark = pytest.mark.quick

HOUR = 3600
BERLIN = ZoneInfo("Europe/Berlin")
EUR = price_quantity("EUR")


def midnight(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=BERLIN).timestamp())


WINDOW = Window(midnight("2024-11-04"), midnight("2024-11-06"))


def series(values, *, from_s: int = WINDOW.from_s, step_s: int = HOUR, unit: str = "EUR/MWh") -> Series:
    start_s = from_s + step_s * np.arange(len(values), dtype=np.int64)
    return Series(start_s, from_s + step_s * len(values), np.array(values, float), unit, "test")


def day(hours: int = 48) -> np.ndarray:
    return 80 + 30 * np.sin(np.arange(hours) / 3) + np.arange(hours) % 5


def condition(answer: Series, *, window=WINDOW, quantity=EUR, last=None, own=False):
    found = check_series(answer, CheckContext(window, quantity, BERLIN, last), own=own)
    return found and found.condition


def with_value(value: float, at: int = 20) -> np.ndarray:
    values = day()
    values[at] = value
    return values


@pytest.mark.parametrize("step_s", [900, 1800, 3600])
def test_a_good_answer(step_s):
    assert condition(series(day(48 * HOUR // step_s), step_s=step_s)) is None


@pytest.mark.parametrize(("date", "hours"), [("2025-03-30", 23), ("2024-10-27", 25)])
def test_days_of_23_and_25_hours_are_whole(date, hours):
    from_s = midnight(date)
    window = Window(from_s, midnight(date[:-2] + str(int(date[-2:]) + 1)))
    assert condition(series(day(hours), from_s=from_s), window=window) is None
    assert condition(series(day(24), from_s=from_s), window=window) is (
        None if hours < 24 else FeedCondition.HALF_MISSING
    )


@pytest.mark.parametrize("value", SENTINELS)
@pytest.mark.parametrize("own", [False, True])
def test_marks_of_no_value(value, own):
    assert condition(series(with_value(value)), own=own) is FeedCondition.IMPLAUSIBLE


def test_a_true_price_of_the_same_number_lies_among_others_like_it():
    valley = with_value(-127.0)
    valley[18:20] = [-100.0, -118.0]
    assert condition(series(valley)) is None


def test_a_true_load_of_the_same_number_lies_among_others_like_it():
    mw = FeedQuantity("MW", 10.0, 2e5, final=False)
    loads = 4000 + 10 * day()
    loads[20] = 9999.0
    assert condition(series(loads, unit="MW"), quantity=mw) is FeedCondition.IMPLAUSIBLE
    loads[18:20] = [9500.0, 9800.0]
    assert condition(series(loads, unit="MW"), quantity=mw) is None


@pytest.mark.parametrize(
    ("value", "unit", "quantity"),
    [
        (7000.0, "EUR/MWh", EUR),
        (-1.0, "g/kWh", CARBON),
        (85.0, "degC", OUTSIDE_TEMPERATURE),
        (9999.0, "degC", OUTSIDE_TEMPERATURE),
    ],
)
def test_values_outside_what_can_be(value, unit, quantity):
    assert condition(series(with_value(value), unit=unit), quantity=quantity) is FeedCondition.IMPLAUSIBLE


def test_another_currency():
    assert condition(series(day(), unit="SEK/MWh")) is FeedCondition.WRONG_CURRENCY


def test_an_auction_is_not_flat_all_day_but_a_tariff_may_be():
    flat = day()
    flat[10:34] = 55.0
    assert condition(series(flat)) is FeedCondition.IMPLAUSIBLE
    assert condition(series(flat), own=True) is None
    assert condition(series(flat, unit="g/kWh"), quantity=CARBON) is None


def test_odd_steps():
    assert condition(series(day(48 * 6), step_s=600)) is FeedCondition.IMPLAUSIBLE


def test_local_time_stamped_as_utc_without_anything_to_compare_with():
    assert condition(series(day(), from_s=WINDOW.from_s + HOUR)) is FeedCondition.SHIFTED_CLOCK


def test_local_time_stamped_as_utc_by_the_last_good_one():
    last = series(day())
    assert condition(series(day()[:40], from_s=WINDOW.from_s + HOUR), last=last) is FeedCondition.SHIFTED_CLOCK
    assert condition(series(day()), last=last) is None


def test_another_auction_by_the_last_good_one():
    other = series(day() + 20)
    assert condition(other, last=series(day())) is FeedCondition.WRONG_AUCTION
    assert condition(other, last=series(day()), own=True) is None
    temperature = {"quantity": OUTSIDE_TEMPERATURE, "last": series(day() - 80, unit="degC")}
    assert condition(series(day() - 77, unit="degC"), **temperature) is None


def test_half_a_day_missing():
    values = day()
    assert condition(series(values[:36])) is FeedCondition.HALF_MISSING
    values[24:36] = np.nan
    assert condition(series(values)) is FeedCondition.HALF_MISSING


def test_tomorrow_is_not_yet_published():
    assert condition(series(day(24))) is FeedCondition.NOT_YET_PUBLISHED
    nulls = day()
    nulls[24:] = np.nan
    assert condition(series(nulls)) is FeedCondition.NOT_YET_PUBLISHED
    assert condition(series(day(), from_s=WINDOW.from_s - 96 * HOUR)) is FeedCondition.NOT_YET_PUBLISHED


@given(
    st.lists(st.none() | st.floats(-1e9, 1e9), min_size=1, max_size=60),
    st.sampled_from([300, 900, 3600]),
    st.integers(-60, 60),
    st.booleans(),
)
def test_no_series_raises_and_what_passes_covers_the_window(values, step_s, from_h, own):
    found = series([np.nan if v is None else v for v in values], step_s=step_s, from_s=WINDOW.from_s + from_h * HOUR)
    if condition(found, own=own, last=series(day())) is None:
        part = clip_series(found, WINDOW)
        assert part is not None
        assert part.known.all()
        assert ((part.value >= EUR.low) & (part.value <= EUR.high)).all()


@pytest.mark.parametrize("file", ["DE-LU_2020-2024_eur", "FR_2020-2024_eur", "US-CAL-CISO_2020-2024_usd"])
def test_true_prices_of_a_dear_year_are_believed(shared, file):
    years = read_series(shared / "data" / "prices" / f"price_{file}_per_mwh.csv.gz", parse_layout(""))
    quantity, year = (
        price_quantity(years.currency),
        clip_series(years, Window(midnight("2022-01-01"), midnight("2023-01-01"))),
    )
    for from_s in range(midnight("2022-01-03"), midnight("2022-12-20"), 10 * 86_400):
        window = Window(from_s, from_s + 48 * HOUR)
        part = clip_series(year, window)
        if part.known.all():
            last = clip_series(year, Window(from_s - 24 * HOUR, from_s + 24 * HOUR))
            assert condition(part, window=window, quantity=quantity, last=last) is None
