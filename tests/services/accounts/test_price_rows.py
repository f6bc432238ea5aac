"""Prices in the ledger: each once, again if it changed, from the present quarter-hour on."""

import numpy as np
import pytest

from offpeak.ledger.rows import Price
from offpeak.model.step_series import Series
from offpeak.services.agent.observer import make_price_rows

pytestmark = pytest.mark.quick

HOUR_S = 3600


def series(*values: float, start_s: int = 0) -> Series:
    at_s = start_s + HOUR_S * np.arange(len(values), dtype=np.int64)
    return Series(at_s, int(at_s[-1]) + HOUR_S, np.array(values, np.float64), "EUR/MWh", "x")


def test_each_price_is_written_once() -> None:
    prices = series(10.0, 20.0, 30.0)
    basis = ("published", "published", "forecast from 28 days")
    before, first = make_price_rows({}, prices, basis, now_s=4000)
    assert first == (
        Price(3600.0, 7200.0, 20.0, "EUR", "published", known_unix_s=4000.0),
        Price(7200.0, 10_800.0, 30.0, "EUR", "forecast from 28 days", known_unix_s=4000.0),
    )
    assert make_price_rows(before, prices, basis, now_s=5000)[1] == ()
    _, changed = make_price_rows(before, series(10.0, 20.0, 33.0), ("published",) * 3, now_s=5000)
    assert changed == (Price(7200.0, 10_800.0, 33.0, "EUR", "published", known_unix_s=5000.0),)


def test_past_prices_are_forgotten_and_gaps_are_not_written() -> None:
    after, rows = make_price_rows({}, series(10.0, float("nan"), 30.0), ("published",) * 3, now_s=0)
    assert [row.from_unix_s for row in rows] == [0.0, 7200.0]
    assert list(make_price_rows(after, series(10.0, 20.0, 30.0), ("published",) * 3, now_s=9000)[0]) == [7200.0]


def test_carbon_is_that_of_the_middle_of_the_interval() -> None:
    carbon = Series(np.array([0, 1000], np.int64), 5000, np.array([100.0, 400.0]), "g/kWh", "x")
    _, rows = make_price_rows({}, series(10.0, 20.0), ("published",) * 2, now_s=0, carbon=carbon)
    assert [row.carbon_g_per_kwh for row in rows] == [400.0, None]


def test_prices_of_minutes_are_written_from_the_quarter_hour_on_in_which_the_agent_starts() -> None:
    minutes = Series(60 * np.arange(60, dtype=np.int64), HOUR_S, np.arange(60.0), "EUR/MWh", "x")
    _, rows = make_price_rows({}, minutes, ("published",) * 60, now_s=2000)
    assert [row.from_unix_s for row in rows] == [60.0 * minute for minute in range(30, 60)]
