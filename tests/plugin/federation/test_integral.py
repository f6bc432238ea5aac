"""Integrals of series are exact, published values hold wherever there are any, and forecasts only behind them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadPrices
from offpeak.model.step_series import Series, value_at
from offpeak.plugin.federation.sites import integrate_series

HOUR_S = 3600


def hours(*value: float, start_s: int = 0, unit: str = "EUR/MWh") -> Series:
    start = start_s + HOUR_S * np.arange(len(value))
    return Series(start, start_s + HOUR_S * len(value), np.array(value), unit, "test")


@given(
    st.lists(st.integers(-100, 100), min_size=1, max_size=30),
    st.integers(0, 30 * HOUR_S),
    st.integers(0, 30 * HOUR_S),
)
def test_within_the_series_it_is_the_sum_of_its_seconds(values: list[int], one_s: int, other_s: int) -> None:
    series = hours(*map(float, values))
    from_s, until_s = sorted(min(value, series.end_s) for value in (one_s, other_s))
    found = integrate_series(series).between(np.array([float(from_s)]), np.array([float(until_s)]))
    edges = np.unique(np.clip(np.append(series.start_s, series.end_s), from_s, until_s))
    assert found[0] == pytest.approx(float(np.sum(value_at(series, edges[:-1]) * np.diff(edges))), abs=1e-6)


def test_behind_the_series_its_last_day_goes_on() -> None:
    series = hours(*[1000.0] * 24, *[10.0] * 12, *[30.0] * 12)
    found = integrate_series(series).between(np.array([float(series.end_s)]), np.array([series.end_s + 10.0]))
    assert found[0] == pytest.approx(10 * 20.0)


def test_before_the_series_its_first_value_holds_and_gaps_count_as_the_mean() -> None:
    of = integrate_series(hours(10.0, np.nan, 30.0))
    assert of.between(np.array([-5.0]), np.array([0.0]))[0] == pytest.approx(50.0)
    assert of.between(np.array([3600.0]), np.array([7200.0]))[0] == pytest.approx(3600 * 20.0)
    with pytest.raises(BadPrices, match="has no known value"):
        integrate_series(hours(np.nan))
