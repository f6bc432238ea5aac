"""Means by the hour of the local clock: against sums over minutes, with half-hour zones and changes of the clock."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sleeping_comparisons import sleeping_comparisons

from offpeak.model.constants import J_PER_KWH
from offpeak.model.step_integrals import Usage
from offpeak.model.step_series import Series
from offpeak.sim_backend.case.electricity import AlignedSeries
from offpeak.sim_backend.comparison.compare import Comparison, curve_of_run
from offpeak.sim_backend.comparison.figures import HOURS, clock_hours, mean_by_hour, mean_price_by_hour
from offpeak.sim_backend.nodes.power_curve import power_curve

ZONES = (UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata"), ZoneInfo("Australia/Lord_Howe"))


def aligned(zone: tzinfo, offset_s: int, value: list[float]) -> AlignedSeries:
    """Prices that change every hour from trace second 0 on."""
    start_s = offset_s + 3600 * np.arange(len(value))
    return AlignedSeries(
        Series(start_s, int(start_s[-1]) + 3600, np.array(value), "EUR/MWh", "test"), offset_s, zone, ()
    )


@given(
    st.sampled_from(ZONES),
    # Around both changes of the clock of the year.
    st.sampled_from(["2023-03-25", "2023-10-28", "2023-03-31", "2023-09-30"]),
    st.integers(0, 1439),
    st.integers(1, 3 * 1440),
    st.integers(0, 10**6),
)
def test_means_are_those_of_the_minutes_that_the_clock_shows(
    zone: tzinfo, day: str, minute: int, minutes: int, seed: int
) -> None:
    offset_s = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) + 60 * minute
    rng = np.random.default_rng(seed)
    start_s = 60 * rng.integers(0, minutes, 20)
    end_s = np.minimum(start_s + 60 * rng.integers(1, 300, 20), 60 * minutes)
    usage = Usage(np.ones(20, np.int64), rng.integers(1, 9, 20) * 1.0, start_s, end_s, 20, 0.5, 0, 60 * minutes)
    curve = power_curve(usage)
    prices = aligned(zone, offset_s, rng.normal(50, 20, 1 + minutes // 60).tolist())

    at_s = 60 * np.arange(minutes)
    hour = np.array([datetime.fromtimestamp(int(at) + offset_s, zone).hour for at in at_s])
    power_w = curve.total_w[np.searchsorted(curve.at_s, at_s, side="right") - 1]
    price = prices.series.value[at_s // 3600]
    hours = clock_hours(prices, 0, 60 * minutes)
    of_power, of_price = mean_by_hour(hours, curve, curve.total_w), mean_price_by_hour(hours, prices)
    for index in range(HOURS):
        inside = hour == index
        expected = (power_w[inside].mean(), price[inside].mean()) if inside.any() else (np.nan, np.nan)
        assert (of_power[index], of_price[index]) == pytest.approx(expected, nan_ok=True)


def test_an_hour_whose_price_is_a_gap_has_no_mean() -> None:
    prices = aligned(UTC, 0, [10.0, np.nan, 30.0])
    mean = mean_price_by_hour(clock_hours(prices, 0, 3 * 3600), prices)
    assert mean[:3].tolist() == pytest.approx([10.0, np.nan, 30.0], nan_ok=True)


def test_a_period_of_no_time_has_no_means() -> None:
    hours = clock_hours(aligned(UTC, 0, [10.0]), 5, 5)
    assert (hours.edges_s.tolist(), hours.hour.tolist()) == ([5, 5], [0])


@given(sleeping_comparisons(st.sampled_from(ZONES)))
def test_with_nodes_that_sleep_the_hours_hold_all_the_energy(comparison: Comparison) -> None:
    for run, outcome in zip(comparison.runs, comparison.outcomes, strict=True):
        hours = clock_hours(comparison.case.prices.aligned, run.usage.begin_s, run.usage.until_s)
        length_s = np.bincount(hours.hour, weights=np.diff(hours.edges_s), minlength=HOURS)
        curve = curve_of_run(run.usage, run.sleep)
        power_w = mean_by_hour(hours, curve, curve.total_w)
        assert np.nansum(power_w * length_s) / J_PER_KWH == pytest.approx(outcome.energy_kwh)
