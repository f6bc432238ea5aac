"""Rows by class, user and day: each job is in one of them, and they sum to the totals."""

from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sleeping_comparisons import sleeping_comparison, sleeping_comparisons

from offpeak.model.constants import DAY_S, J_PER_KWH, J_PER_MWH
from offpeak.model.jobs import Jobs
from offpeak.model.step_series import Series
from offpeak.prices.peak import AboveDayMean
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.case.electricity import AlignedSeries, ReplayPrices
from offpeak.sim_backend.case.replay_case import ReplayCase, ReplayMachine
from offpeak.sim_backend.comparison.breakdown import BreakdownRow, breakdown, day_edges_s
from offpeak.sim_backend.comparison.compare import Comparison, compare
from offpeak.sim_backend.engine.rules import NOT_YET
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak_studies.workloads.generate import lublin_jobs

BERLIN = ZoneInfo("Europe/Berlin")
NODES, IDLE_W = 16, 75.0


def unix(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def compared(jobs: Jobs, begin: str, zone: tzinfo, *, price: float | None = None) -> Comparison:
    """The jobs under EASY, second 0 at `begin`; prices differ by the hour unless one is given."""
    offset_s = unix(begin)
    start_s = offset_s - 2 * DAY_S + np.arange(24 * 60) * 3600
    value = np.random.default_rng(1).normal(50, 60, len(start_s)) if price is None else np.full(len(start_s), price)
    series = Series(start_s, int(start_s[-1]) + 3600, value, "EUR/MWh", "test")
    prices = ReplayPrices(AlignedSeries(series, offset_s, zone, ()), AboveDayMean(zone))
    case = ReplayCase(jobs, jobs.node_power_w, ReplayMachine(NODES, IDLE_W), prices, None)
    return compare(case, (parse_policy("easy", SchedulingSettings()),))


def jobs_of(*runs: tuple[int, int, int]) -> Jobs:
    """Jobs of (submission, run time, size), each of 200 W per node."""
    submit_s, runtime_s, size = np.array(runs, np.int64).T.copy()
    some = lublin_jobs(len(runs), machine_size=NODES, seed=1)
    power_w = np.full(len(runs), 200.0)
    return replace(
        some, submit_s=submit_s, runtime_s=runtime_s, estimate_s=runtime_s + 1, size=size, node_power_w=power_w
    )


def rows_of(comparison: Comparison, kind: str) -> tuple[BreakdownRow, ...]:
    return breakdown(comparison, comparison.runs[0], kind)


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    jobs = lublin_jobs(draw(st.integers(2, 80)), machine_size=NODES, seed=draw(st.integers(0, 10**6)), load=0.7)
    begin = draw(st.datetimes(datetime(2023, 1, 1), datetime(2024, 1, 1)))
    zone = draw(
        st.sampled_from(
            [UTC, BERLIN, ZoneInfo("America/St_Johns"), ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Africa/Cairo")]
        )
    )
    return compared(jobs, begin.replace(microsecond=0, tzinfo=UTC).isoformat(), zone)


@given(comparisons())
def test_rows_sum_to_the_totals(comparison: Comparison) -> None:
    run, outcome, jobs = comparison.runs[0], comparison.outcomes[0], comparison.case.jobs
    of_jobs = run.charges.energy.jobs / J_PER_KWH, run.charges.cost.jobs / J_PER_MWH
    of_cluster = outcome.energy_kwh, outcome.cost
    for kind, (energy_kwh, cost) in {"class": of_jobs, "user": of_jobs, "day": of_cluster}.items():
        rows = rows_of(comparison, kind)
        assert sum(row.jobs for row in rows) == len(jobs)
        assert sum(row.energy_kwh for row in rows) == pytest.approx(energy_kwh)
        assert sum(row.cost for row in rows) == pytest.approx(cost, abs=1e-6)
        wait_s = sum(row.jobs * row.mean_wait_s for row in rows)
        assert wait_s == pytest.approx(outcome.mean_wait_s * len(jobs), abs=1e-3)


@given(comparisons())
def test_a_day_is_what_the_cluster_used_on_it(comparison: Comparison) -> None:
    """Against a sum over the pieces between all starts, ends, midnights and price changes."""
    case, schedule, aligned = comparison.case, comparison.runs[0].schedule, comparison.case.prices.aligned
    days_s = day_edges_s(aligned, comparison.begin_s, comparison.until_s)
    edges = np.unique(
        np.concatenate([schedule.start_s, schedule.end_s, days_s, aligned.series.start_s - aligned.offset_s])
    )
    edges = edges[(edges >= comparison.begin_s) & (edges <= comparison.until_s)]
    energy_kwh, cost = np.zeros(len(days_s) - 1), np.zeros(len(days_s) - 1)
    for from_s, until_s in pairwise(edges.tolist()):
        running = (schedule.start_s <= from_s) & (schedule.end_s >= until_s)
        busy = case.jobs.size[running]
        power_w = float((busy * case.node_power_w[running]).sum()) + IDLE_W * (NODES - int(busy.sum()))
        at = np.searchsorted(aligned.series.start_s, from_s + aligned.offset_s, side="right") - 1
        day = np.searchsorted(days_s, from_s, side="right") - 1
        energy_kwh[day] += power_w * (until_s - from_s) / J_PER_KWH
        cost[day] += power_w * (until_s - from_s) * float(aligned.series.value[at]) / J_PER_MWH
    rows = rows_of(comparison, "day")
    assert len({row.group for row in rows}) == len(rows)
    assert [row.energy_kwh for row in rows] == pytest.approx(energy_kwh.tolist())
    assert [row.cost for row in rows] == pytest.approx(cost.tolist(), abs=1e-6)


@given(sleeping_comparisons(st.sampled_from([UTC, BERLIN])))
def test_days_of_nodes_that_sleep_sum_to_the_totals(comparison: Comparison) -> None:
    for run, outcome in zip(comparison.runs, comparison.outcomes, strict=True):
        rows = breakdown(comparison, run, "day")
        assert sum(row.energy_kwh for row in rows) == pytest.approx(outcome.energy_kwh)
        assert sum(row.cost for row in rows) == pytest.approx(outcome.cost, abs=1e-6)


def test_a_job_that_never_started_is_in_no_row() -> None:
    comparison = sleeping_comparison(40, seed=1, units_per_node=1, zone=UTC)
    run = comparison.runs[1]
    schedule = run.schedule
    start_s, end_s = schedule.start_s.copy(), schedule.end_s.copy()
    start_s[7], end_s[7] = NOT_YET, NOT_YET
    without = replace(run, schedule=replace(schedule, start_s=start_s, end_s=end_s))
    job_j = float((comparison.case.jobs.size * comparison.case.node_power_w * (schedule.end_s - schedule.start_s))[7])
    for kind in ("class", "user"):
        whole, rows = (breakdown(comparison, each, kind) for each in (run, without))
        assert sum(row.jobs for row in rows) == 39
        energy_kwh = sum(row.energy_kwh for row in whole) - job_j / J_PER_KWH
        assert sum(row.energy_kwh for row in rows) == pytest.approx(energy_kwh)
        assert all(row.mean_wait_s >= 0 for row in rows)
    assert sum(row.jobs for row in breakdown(comparison, without, "day")) == 39


def test_a_job_over_midnight_belongs_to_the_day_of_its_end_and_pays_on_both() -> None:
    comparison = compared(jobs_of((0, 2 * 3600, NODES)), "2023-01-02T23:00+01:00", BERLIN, price=100.0)
    one, two = rows_of(comparison, "day")
    assert (one.group, one.jobs, one.energy_kwh) == ("2023-01-02", 0, pytest.approx(NODES * 0.2))
    assert (two.group, two.jobs, two.energy_kwh) == ("2023-01-03", 1, pytest.approx(NODES * 0.2))
    assert two.cost == pytest.approx(NODES * 0.02)


def test_a_job_that_ends_at_midnight_belongs_to_the_day_before() -> None:
    jobs = jobs_of((0, 3600, 1), (3600, 0, 1), (3601, 10, 1))
    rows = rows_of(compared(jobs, "2023-01-02T23:00Z", UTC), "day")
    assert [(row.group, row.jobs) for row in rows] == [("2023-01-02", 2), ("2023-01-03", 1)]


@pytest.mark.parametrize(("begin", "hours"), [("2023-03-25T00:00+01:00", 23), ("2023-10-28T00:00+02:00", 25)])
def test_the_day_on_which_the_clocks_change_is_shorter_or_longer(begin: str, hours: int) -> None:
    """An idle machine, kept awake by jobs of no time at both ends."""
    rows = rows_of(compared(jobs_of((0, 0, 1), (3 * DAY_S, 0, 1)), begin, BERLIN), "day")
    lengths_h = [row.energy_kwh / (NODES * IDLE_W / 1000) for row in rows]
    assert lengths_h == pytest.approx([24, hours, 24, 1] if hours < 24 else [24, hours, 23])


def test_a_log_of_one_day_is_one_row() -> None:
    (row,) = rows_of(compared(jobs_of((0, 600, 2), (5, 60, 1)), "2023-01-02T10:00Z", UTC), "day")
    assert (row.group, row.jobs) == ("2023-01-02", 2)


def test_a_log_of_no_time_is_one_row_of_nothing() -> None:
    (row,) = rows_of(compared(jobs_of((0, 0, 2)), "2023-01-02T10:00Z", UTC), "day")
    assert (row.group, row.jobs, row.energy_kwh, row.cost) == ("2023-01-02", 1, 0, 0)


def test_classes_and_users_by_hand() -> None:
    jobs = jobs_of((0, 3600, 1), (0, 3600, 2), (0, 3600, 1))
    jobs = replace(jobs, node_power_w=np.array([100.0, 300.0, 100.0]), user=np.array([7, -1, -1]))
    comparison = compared(jobs, "2023-01-02T10:00Z", UTC, price=50.0)
    classes = {row.group: (row.jobs, row.energy_kwh) for row in rows_of(comparison, "class")}
    assert classes == {"low": (2, pytest.approx(0.2)), "middle": (0, 0), "high": (1, pytest.approx(0.6))}
    users = {row.group: (row.jobs, row.cost) for row in rows_of(comparison, "user")}
    assert users == {"7": (1, pytest.approx(0.005)), "-1": (2, pytest.approx(0.035))}
