"""Energy and money of jobs and idle units, against sums second by second."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.step_integrals import (
    Usage,
    charge,
    charge_by_job,
    integral,
    integrals,
    integrate_constant,
    integrate_known_time,
    integrate_series,
)
from offpeak.model.step_series import Series, split, value_at

NAN = float("nan")
BEGIN_S, UNTIL_S = 100, 220
"""The period of the small cases, on the trace's clock."""

OFFSETS_S = st.integers(-(10**9), 10**9)
VALUES = st.one_of(st.floats(-500, 4000), st.just(NAN))


@st.composite
def series_over_the_period(draw: st.DrawFn, values: st.SearchStrategy[float] = VALUES) -> tuple[Series, int]:
    """A series that holds all of the period, and the trace's offset to it."""
    offset_s = draw(OFFSETS_S)
    edges = sorted(draw(st.sets(st.integers(BEGIN_S - 30, UNTIL_S + 30), max_size=12)) | {BEGIN_S, UNTIL_S})
    value = draw(st.lists(values, min_size=len(edges) - 1, max_size=len(edges) - 1))
    start_s = np.array(edges[:-1], np.int64) + offset_s
    return Series(start_s, edges[-1] + offset_s, np.array(value), "EUR/MWh", "test"), offset_s


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    """Jobs within the period on a machine that holds them all at once; some take no time."""
    runs = draw(st.lists(st.tuples(*[st.integers(BEGIN_S, UNTIL_S)] * 2), min_size=1, max_size=8))
    start_s, end_s = np.sort(np.array(runs, np.int64), axis=1).T
    size = np.array(draw(st.lists(st.integers(1, 9), min_size=len(runs), max_size=len(runs))), np.int64)
    power_w = np.array(draw(st.lists(st.floats(1, 900), min_size=len(runs), max_size=len(runs))))
    machine_size = int(size.sum()) + draw(st.integers(0, 5))
    return Usage(size, power_w, start_s, end_s, machine_size, draw(st.floats(0, 200)), BEGIN_S, UNTIL_S)


def seconds(from_s: int, until_s: int) -> np.ndarray:
    return np.arange(from_s, until_s, dtype=np.int64)


def value_of_seconds(series: Series, offset_s: int) -> np.ndarray:
    """The value in each second of the period, 0 in gaps."""
    return np.nan_to_num(value_at(series, seconds(BEGIN_S, UNTIL_S) + offset_s))


def cluster_w(usage: Usage) -> np.ndarray:
    """The cluster's draw in each second of the period, from what begins and ends there."""
    step_w = np.zeros(UNTIL_S - BEGIN_S + 1)
    step_w[0] = usage.machine_size * usage.idle_w
    over_idle_w = usage.size * (usage.node_power_w - usage.idle_w)
    np.add.at(step_w, usage.start_s - BEGIN_S, over_idle_w)
    np.add.at(step_w, usage.end_s - BEGIN_S, -over_idle_w)
    return np.cumsum(step_w)[:-1]


@given(usages(), series_over_the_period())
def test_jobs_and_idle_units_are_the_cluster_second_by_second(usage: Usage, aligned: tuple[Series, int]) -> None:
    used, by_job = charge(integrate_series(*aligned), usage), charge_by_job(integrate_series(*aligned), usage)
    value = value_of_seconds(*aligned)
    for job in range(len(usage.size)):
        run = value[usage.start_s[job] - BEGIN_S : usage.end_s[job] - BEGIN_S]
        assert by_job[job] == pytest.approx(usage.size[job] * usage.node_power_w[job] * run.sum(), abs=1e-3)
    assert used.jobs == pytest.approx(float(by_job.sum()), abs=1e-3)
    assert used.total == pytest.approx(float((cluster_w(usage) * value).sum()), abs=1e-2)


@given(usages())
def test_energy_is_power_times_time(usage: Usage) -> None:
    used = charge(integrate_constant(1.0), usage)
    assert used.total == pytest.approx(float(cluster_w(usage).sum()), abs=1e-6)
    by_hand_j = usage.size * usage.node_power_w * (usage.end_s - usage.start_s)
    assert charge_by_job(integrate_constant(1.0), usage) == pytest.approx(by_hand_j)


@given(usages(), series_over_the_period(), st.data())
def test_a_run_cut_in_two_costs_the_same(usage: Usage, aligned: tuple[Series, int], data: st.DataObject) -> None:
    cut_s = np.array([data.draw(st.integers(a, b)) for a, b in zip(usage.start_s, usage.end_s, strict=True)], np.int64)
    whole, head, tail = (
        integrals(integrate_series(*aligned), *bounds)
        for bounds in ((usage.start_s, usage.end_s), (usage.start_s, cut_s), (cut_s, usage.end_s))
    )
    assert head + tail == pytest.approx(whole, abs=1e-6)


@given(usages(), series_over_the_period(), st.lists(st.integers(BEGIN_S, UNTIL_S)))
def test_a_series_cut_finer_charges_the_same(usage: Usage, aligned: tuple[Series, int], at_s: list[int]) -> None:
    series, offset_s = aligned
    finer = split(series, np.array(at_s, np.int64) + offset_s)
    assert charge(integrate_series(finer, offset_s), usage).total == pytest.approx(
        charge(integrate_series(*aligned), usage).total, abs=1e-3
    )


@given(usages(), series_over_the_period())
def test_a_gap_costs_nothing_and_is_reported_as_unknown_time(usage: Usage, aligned: tuple[Series, int]) -> None:
    series, offset_s = aligned
    known_j = charge(integrate_known_time(*aligned), usage).total
    known = ~np.isnan(value_at(series, seconds(BEGIN_S, UNTIL_S) + offset_s))
    assert known_j == pytest.approx(float(cluster_w(usage)[known].sum()), abs=1e-3)
    free = replace(series, value=np.nan_to_num(series.value))
    assert charge(integrate_series(free, offset_s), usage).total == charge(integrate_series(*aligned), usage).total


@given(usages(), series_over_the_period(st.floats(-500, 4000)))
def test_without_gaps_no_energy_is_unpriced(usage: Usage, aligned: tuple[Series, int]) -> None:
    assert charge(integrate_known_time(*aligned), usage).total == charge(integrate_constant(1.0), usage).total


@given(usages(), series_over_the_period(), st.integers(-8, 8))
def test_twice_the_price_or_the_power_is_twice_the_cost(
    usage: Usage, aligned: tuple[Series, int], power_of_2: int
) -> None:
    factor = 2.0**power_of_2
    series, offset_s = aligned
    once = charge(integrate_series(*aligned), usage)
    dearer = charge(integrate_series(replace(series, value=series.value * factor), offset_s), usage)
    hungrier = replace(usage, node_power_w=usage.node_power_w * factor, idle_w=usage.idle_w * factor)
    assert dearer.total == pytest.approx(once.total * factor)
    assert charge(integrate_series(*aligned), hungrier).total == pytest.approx(once.total * factor)


@given(usages(), series_over_the_period(st.floats(-500, -0.01)))
def test_negative_prices_pay_for_use(usage: Usage, aligned: tuple[Series, int]) -> None:
    used = charge(integrate_series(*aligned), usage)
    assert used.jobs <= 0
    assert used.idle <= 1e-6


@given(series_over_the_period(), st.integers(BEGIN_S, UNTIL_S))
def test_no_time_costs_nothing(aligned: tuple[Series, int], at_s: int) -> None:
    assert integral(integrate_series(*aligned), at_s, at_s) == 0.0


@given(series_over_the_period(st.floats(-500, 4000)), st.lists(st.tuples(*[st.integers(0, 400)] * 2), max_size=20))
def test_the_order_of_the_intervals_does_not_matter(aligned: tuple[Series, int], runs: list[tuple[int, int]]) -> None:
    pairs = np.sort(np.array(runs, np.int64).reshape(-1, 2), axis=1)
    together = integrals(integrate_series(*aligned), pairs[:, 0], pairs[:, 1])
    alone = [integral(integrate_series(*aligned), int(start_s), int(end_s)) for start_s, end_s in pairs]
    assert together.tolist() == alone


def test_outside_the_series_its_first_and_last_values_hold() -> None:
    series = Series(np.array([0, 10], np.int64), 20, np.array([3.0, 5.0]), "EUR/MWh", "test")
    assert integral(integrate_series(series, 0), -4, 0) == 12.0
    assert integral(integrate_series(series, 0), 20, 24) == 20.0
    assert integral(integrate_series(series, 0), -1, 21) == 3 + 30 + 50 + 5


def test_a_known_bill() -> None:
    """2 units of 300 W for an hour at 100 and one at -50 EUR/MWh; a third unit idles at 60 W all the time."""
    series = Series(np.array([0, 3600], np.int64), 7200, np.array([100.0, -50.0]), "EUR/MWh", "test")
    usage = Usage(np.array([2]), np.array([300.0]), np.array([0]), np.array([7200]), 3, 60.0, begin_s=0, until_s=7200)
    used = charge(integrate_series(series, 0), usage)
    assert used.jobs / 3.6e9 == pytest.approx(600e-6 * 100 - 600e-6 * 50)
    assert used.idle / 3.6e9 == pytest.approx(60e-6 * 100 - 60e-6 * 50)
