"""One log under several policies: one period for all, every job started, and sums that agree."""

from dataclasses import replace
from datetime import UTC

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.constants import DAY_S
from offpeak.model.jobs import Jobs
from offpeak.model.step_series import Series
from offpeak.prices.alignment import LogSpan, extend
from offpeak.prices.peak import AboveDayMean
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from offpeak.sim_backend.case.electricity import AlignedSeries, ReplayPrices, prices_of
from offpeak.sim_backend.case.replay_case import ReplayCase, ReplayMachine, guessed_end_s
from offpeak.sim_backend.comparison.compare import Comparison, compare
from offpeak.sim_backend.engine.rules import NOT_YET
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak.sim_backend.replay.schedule import JOBS_PER_STEP
from offpeak_studies.workloads.generate import lublin_jobs

pytestmark = pytest.mark.quick

NODES = 16
ALL_DAY_BUT_ONE_HOUR = "on=90EUR/MWh,off=30EUR/MWh,hours=00:00-23:00"


def policies(*names: str) -> tuple[Policy, ...]:
    return tuple(parse_policy(name, SchedulingSettings()) for name in names)


def jobs_of(count: int, seed: int) -> Jobs:
    return lublin_jobs(count, machine_size=NODES, seed=seed, load=0.8)


def case_of(jobs: Jobs, prices: ReplayPrices, carbon: AlignedSeries | float | None = None) -> ReplayCase:
    return ReplayCase(jobs, jobs.node_power_w, ReplayMachine(NODES, 75.0), prices, carbon)


def by_tariff(jobs: Jobs, tariff: str = PriceSettings().tariff) -> ReplayCase:
    span = LogSpan(int(jobs.submit_s[0]), int((jobs.submit_s + jobs.runtime_s).max()))
    return case_of(jobs, prices_of(span, PriceSettings(tariff=tariff), None))


def hourly(value: list[float], days: int) -> ReplayPrices:
    """Prices of the hours of a day, from the trace's second 0 on; NaN is a gap."""
    series = Series(np.arange(24 * days) * 3600, days * DAY_S, np.tile(value, days), "EUR/MWh", "test")
    return ReplayPrices(AlignedSeries(series, 0, UTC, ()), AboveDayMean(UTC))


def assert_lawful(comparison: Comparison) -> None:
    jobs, last_s = comparison.case.jobs, []
    for run, outcome in zip(comparison.runs, comparison.outcomes, strict=True):
        assert (run.schedule.start_s >= jobs.submit_s).all()
        assert (run.schedule.end_s == run.schedule.start_s + jobs.runtime_s).all()
        last_s.append(int(run.schedule.end_s.max()))
        assert outcome.until_s == run.usage.until_s == max(last_s[0], last_s[-1])
        period_s = outcome.until_s - comparison.begin_s
        busy_s = int((jobs.size * jobs.runtime_s).sum())
        used_j = float((jobs.size * comparison.case.node_power_w * jobs.runtime_s).sum())
        idle_j = 75.0 * (NODES * period_s - busy_s)
        assert outcome.energy_kwh * 3.6e6 == pytest.approx(used_j + idle_j)
        assert outcome.idle_energy_kwh * 3.6e6 == pytest.approx(idle_j)
        assert 0 < outcome.utilization <= 1
        assert outcome.jobs == len(jobs)
    assert comparison.until_s == max(last_s)
    assert comparison.begin_s == jobs.submit_s[0]
    assert comparison.case.prices.aligned.series.end_s - comparison.case.prices.aligned.offset_s >= comparison.until_s


@given(st.integers(1, 60), st.integers(0, 10**6))
def test_a_policy_and_the_first_are_charged_until_the_later_end_of_the_two(count: int, seed: int) -> None:
    jobs = jobs_of(count, seed) if count > 1 else jobs_of(2, seed).take(np.array([0]))
    comparison = compare(by_tariff(jobs), policies("easy", "greedy", "knapsack", "fcfs", "conservative"))
    assert_lawful(comparison)
    first = comparison.outcomes[0]
    assert (first.saving_pct, first.worst_postponement_s, first.response_ratio) == (0, 0, 1)


def test_prices_are_continued_for_a_policy_that_ends_later_than_guessed() -> None:
    """Sixty hours of work for the whole machine, but only one hour a day is cheap."""
    hour = np.full(60, 3600)
    jobs = replace(jobs_of(60, 1), submit_s=np.arange(60), runtime_s=hour, estimate_s=hour, size=np.full(60, NODES))
    case = by_tariff(jobs, ALL_DAY_BUT_ONE_HOUR)
    patient = SchedulingSettings(max_postponement_s=1000 * DAY_S)
    comparison = compare(case, tuple(parse_policy(name, patient) for name in ("easy", "knapsack-slide")))
    assert_lawful(comparison)
    assert comparison.outcomes[0].makespan_s == 60 * 3600
    assert comparison.until_s > guessed_end_s(case)


def test_a_policy_under_which_jobs_never_start_is_refused() -> None:
    case = by_tariff(jobs_of(40, 1), "on=90EUR/MWh,off=30EUR/MWh,hours=00:00-24:00")
    with pytest.raises(BadInput, match=r"policy 'knapsack-slide' never starts \d+ jobs?, the first is job \d+"):
        compare(case, policies("easy", "knapsack-slide"))


def test_prices_that_end_early_are_as_good_as_the_same_prices_written_out() -> None:
    jobs = jobs_of(60, 3)
    short = hourly([10.0] * 12 + [90.0] * 12, days=14)
    long_enough = replace(short, aligned=replace(short.aligned, series=extend(short.aligned.series, 400 * DAY_S)))
    names = policies("easy", "greedy", "knapsack")
    one, other = (compare(case_of(jobs, prices), names) for prices in (short, long_enough))
    assert one.outcomes == other.outcomes


def test_notes_tell_of_a_continuation_only_if_a_schedule_needs_it() -> None:
    jobs = jobs_of(60, 3)
    case = case_of(jobs, hourly([10.0] * 12 + [90.0] * 12, days=14))
    comparison = compare(case, policies("easy"))
    assert len(case.notes_until(comparison.until_s)) == (comparison.until_s > 14 * DAY_S)
    assert case.notes_until(14 * DAY_S) == ()
    assert case.notes_until(14 * DAY_S + 1) == ("prices end 1970-01-15, from there the last 2 weeks are repeated",)


def test_notes_of_the_carbon_intensity_follow_those_of_the_prices() -> None:
    series = Series(np.arange(24) * 3600, DAY_S, np.full(24, 400.0), "g/kWh", "test")
    case = case_of(jobs_of(3, 1), hourly([10.0] * 24, days=3), AlignedSeries(series, 0, UTC, ("how it lies",)))
    note = "the carbon intensity ends 1970-01-02, from there the last day is repeated"
    assert case.notes_until(3 * DAY_S) == ("how it lies", note)


@given(st.floats(0, 1500))
def test_a_constant_carbon_intensity_is_that_times_the_energy(carbon: float) -> None:
    case = by_tariff(jobs_of(20, 5))
    (outcome,) = compare(replace(case, carbon=carbon), policies("easy")).outcomes
    assert outcome.co2_kg == pytest.approx(outcome.energy_kwh * carbon / 1000)
    (without,) = compare(case, policies("easy")).outcomes
    assert without.co2_kg is None


def test_a_carbon_series_counts_by_the_hour_and_is_continued() -> None:
    jobs = jobs_of(20, 5)
    green = Series(np.arange(24) * 3600, DAY_S, np.array([0.0] * 12 + [800.0] * 12), "g/kWh", "test")
    prices = hourly([0.0] * 12 + [800.0] * 12, days=400)
    comparison = compare(case_of(jobs, prices, AlignedSeries(green, 0, UTC, ())), policies("easy"))
    (outcome,) = comparison.outcomes
    # Same figures per MWh as per kWh: money and grams differ by the factor between the two.
    assert outcome.co2_kg == pytest.approx(outcome.cost)


def test_energy_in_gaps_is_left_out_of_the_cost_and_reported() -> None:
    jobs = jobs_of(20, 5)
    gap = float("nan")
    case, with_gaps = (case_of(jobs, hourly([value] * 6 + [50.0] * 18, days=400)) for value in (0.0, gap))
    (free,), (gappy,) = (compare(replay_case, policies("easy")).outcomes for replay_case in (case, with_gaps))
    assert free.unpriced_kwh == 0
    assert gappy.unpriced_kwh > 0
    assert gappy.cost == pytest.approx(free.cost)
    assert gappy.cost == pytest.approx(50 * (gappy.energy_kwh - gappy.unpriced_kwh) / 1000)


def test_gaps_elsewhere_leave_no_energy_unpriced() -> None:
    jobs = jobs_of(20, 5)
    prices = hourly([10.0, 20.0] * 12, days=400)
    value = prices.aligned.series.value.copy()
    value[-5:] = np.nan
    prices = replace(prices, aligned=replace(prices.aligned, series=replace(prices.aligned.series, value=value)))
    assert compare(case_of(jobs, prices), policies("easy")).outcomes[0].unpriced_kwh == 0


def test_progress_is_reported_for_each_policy() -> None:
    progress: list[tuple[str, int]] = []
    count = JOBS_PER_STEP + 1000
    jobs = lublin_jobs(count, machine_size=NODES, seed=1, load=0.7)
    compare(by_tariff(jobs), policies("fcfs", "greedy"), lambda policy, submitted: progress.append((policy, submitted)))
    steps = (JOBS_PER_STEP, count)
    assert progress == [(name, submitted) for name in ("fcfs", "greedy") for submitted in steps]


@pytest.mark.parametrize("count", [1, 2000])
def test_jobs_of_no_time_and_of_one_second_of_submission(count: int) -> None:
    jobs = jobs_of(2000, 7).take(np.arange(count))
    zero = np.zeros(count, np.int64)
    comparison = compare(by_tariff(replace(jobs, submit_s=zero, runtime_s=zero)), policies("easy", "greedy"))
    assert comparison.until_s == 0
    for run, outcome in zip(comparison.runs, comparison.outcomes, strict=True):
        assert (run.schedule.start_s == 0).all()
        assert NOT_YET not in run.schedule.start_s
        assert (outcome.energy_kwh, outcome.cost, outcome.utilization, outcome.saving_pct) == (0, 0, 0, 0)
