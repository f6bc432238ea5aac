"""Cost by day, week or month: the shortest of them that are few enough, and always the whole bill."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sleeping_comparisons import sleeping_comparisons

from offpeak.model.constants import DAY_S
from offpeak.model.jobs import Jobs
from offpeak.model.zones import date_text
from offpeak.prices.alignment import LogSpan
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from offpeak.sim_backend.case.electricity import prices_of
from offpeak.sim_backend.case.replay_case import ReplayCase, ReplayMachine
from offpeak.sim_backend.comparison.breakdown import MOST_PERIODS, cost_by_period, cost_periods
from offpeak.sim_backend.comparison.compare import Comparison, compare
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak_studies.workloads.generate import lublin_jobs

BERLIN = ZoneInfo("Europe/Berlin")
TARIFF = PriceSettings(tariff="on=90EUR/MWh,off=30EUR/MWh,zone=Europe/Berlin")


def over(days: int) -> Comparison:
    """Some jobs that are submitted over so many days from Wednesday 2023-02-01 on, at noon."""
    some = lublin_jobs(30, machine_size=16, seed=2)
    jobs: Jobs = replace(some, submit_s=np.linspace(0, days * DAY_S - 100_000, 30).astype(np.int64) // 60 * 60)
    span = LogSpan(0, days * DAY_S, 1_675_249_200, BERLIN)
    case = ReplayCase(jobs, jobs.node_power_w, ReplayMachine(16, 75.0), prices_of(span, TARIFF, None), None)
    return compare(case, (parse_policy("easy", SchedulingSettings()),))


@pytest.mark.parametrize(("days", "unit"), [(3, "day"), (118, "day"), (130, "week"), (800, "week"), (900, "month")])
def test_the_shortest_that_are_few_enough_sum_to_the_whole(days: int, unit: str) -> None:
    comparison = over(days)
    periods = cost_periods(comparison)
    assert periods.unit == unit
    assert len(periods.edges_s) <= MOST_PERIODS + 2
    assert (periods.edges_s[0], periods.edges_s[-1]) == (comparison.begin_s, comparison.until_s)
    cost = cost_by_period(comparison.case, comparison.runs[0], periods)
    assert cost.sum() == pytest.approx(comparison.outcomes[0].cost)


@pytest.mark.parametrize(("days", "begins"), [(130, lambda day: day.weekday() == 0), (900, lambda day: day.day == 1)])
def test_weeks_begin_on_mondays_and_months_on_their_first(days: int, begins: Callable[[date], bool]) -> None:
    comparison = over(days)
    offset_s = comparison.case.prices.aligned.offset_s
    inner = cost_periods(comparison).edges_s[1:-1].tolist()
    assert len(inner) > 5
    assert all(begins(date.fromisoformat(date_text(second + offset_s, BERLIN))) for second in inner)


@given(sleeping_comparisons(st.just(BERLIN)))
def test_with_nodes_that_sleep_it_is_still_the_whole_bill(comparison: Comparison) -> None:
    periods = cost_periods(comparison)
    for run, outcome in zip(comparison.runs, comparison.outcomes, strict=True):
        cost = cost_by_period(comparison.case, run, periods.until(run.usage.until_s))
        assert cost.sum() == pytest.approx(outcome.cost, abs=1e-6)
