"""The figures of a policy beside the baseline's, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from offpeak.model.step_integrals import Charge, Usage
from offpeak.sim_backend.case.replay_case import ReplayMachine
from offpeak.sim_backend.comparison.outcome import Charges, PolicyRun, outcome_of, saving_pct
from offpeak.sim_backend.replay.schedule import Schedule
from offpeak_studies.workloads.generate import lublin_jobs

pytestmark = pytest.mark.quick

JOBS = replace(
    lublin_jobs(2, machine_size=4, seed=1),
    job_id=np.array([11, 12]),
    submit_s=np.array([100, 110]),
    size=np.array([4, 2]),
)


def run_of(name: str, start_s: list[int], end_s: list[int], cost: float) -> PolicyRun:
    energy = Charge(3.6e6, 3.6e6)
    money = Charge(cost * 3.6e9, 0.0)
    schedule = Schedule(np.array(start_s), np.array(end_s), 0.5)
    usage = Usage(JOBS.size, np.full(2, 100.0), schedule.start_s, schedule.end_s, 4, 60.0, 100, max(end_s))
    return PolicyRun(name, schedule, usage, Charges(energy, money, 7.2e6, None))


@pytest.mark.parametrize(
    ("cost", "baseline", "pct"), [(75, 100, 25), (125, 100, -25), (-75, -100, -25), (-125, -100, 25), (5, 0, 0)]
)
def test_a_saving_is_positive_where_less_is_paid(cost: float, baseline: float, pct: float) -> None:
    assert saving_pct(cost, baseline) == pct


def test_the_figures_by_hand() -> None:
    baseline = run_of("easy", [100, 120], [120, 140], cost=8)
    other = run_of("greedy", [130, 110], [150, 130], cost=6)
    figures = outcome_of(other, baseline, JOBS, ReplayMachine(4, 60.0), "EUR")
    assert figures.policy == "greedy"
    assert (figures.jobs, figures.mean_wait_s, figures.mean_response_s) == (2, 15, 35)
    assert figures.mean_bounded_slowdown == figures.mean_bounded_slowdown_by_delay == (50 / 20 + 1) / 2
    assert (figures.makespan_s, figures.utilization) == (50, (4 * 20 + 2 * 20) / (4 * 50))
    assert (figures.energy_kwh, figures.idle_energy_kwh, figures.unpriced_kwh) == (2, 1, 2)
    assert (figures.cost, figures.currency, figures.saving_pct, figures.co2_kg) == (6, "EUR", 25, None)
    assert (figures.worst_postponement_s, figures.worst_postponement_job_id) == (30, 11)
    assert figures.response_ratio == pytest.approx((20 / 50 * 30 / 20) ** 0.5)
    assert figures.simulate_s == 0.5


def test_the_baseline_beside_itself() -> None:
    run = run_of("easy", [100, 120], [120, 140], cost=8)
    figures = outcome_of(run, run, JOBS, ReplayMachine(4, 60.0), "EUR")
    assert (figures.saving_pct, figures.worst_postponement_s, figures.response_ratio) == (0, 0, 1)
