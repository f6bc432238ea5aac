"""What a plan leaves to the next."""

from dataclasses import replace

import numpy as np
import pytest

from offpeak.plugin.planner.placement import place_one_by_one
from offpeak.plugin.planner.problem import compute_profit
from offpeak_studies.profit_cooling.run import carry_over_running, carry_over_waiting


def test_running_jobs_go_on_with_the_rest_of_their_time(drawn) -> None:
    problem = drawn(40, seed=6, running=4)
    plan = place_one_by_one(problem, np.arange(40), "test")
    on = carry_over_running(problem, plan)
    end_s = (plan.start_s + problem.work.duration_s)[plan.placed]
    left_s = problem.work.units[plan.placed] * np.maximum(end_s - problem.rates.horizon_s, 0)
    ran_s = np.maximum(problem.running.until_s - problem.rates.horizon_s, 0)
    assert on.until_s.sum() == left_s.sum() + ran_s.sum()
    assert (on.until_s > 0).all()


def test_nothing_is_earned_twice_or_lost(drawn) -> None:
    problem = drawn(20, seed=6)
    plan = place_one_by_one(problem, np.arange(20), "test")
    tomorrow = replace(
        problem,
        running=carry_over_running(problem, plan),
        work=carry_over_waiting(problem, plan).take(np.zeros(0, int)),
    )
    nothing = place_one_by_one(tomorrow, np.arange(0), "test")
    earned = compute_profit(problem, plan).revenue + compute_profit(tomorrow, nothing).revenue
    work = problem.work
    assert earned == pytest.approx(float((work.revenue_per_s * work.duration_s)[plan.placed].sum()))


def test_waiting_jobs_keep_their_latest_end(drawn) -> None:
    problem = drawn(60, seed=6, nodes=3)
    plan = place_one_by_one(problem, np.arange(60), "test")
    behind = carry_over_waiting(problem, plan)
    assert len(behind) == 60 - plan.placed.sum() > 0
    assert set(behind.release_s.tolist()) == {0}
    there = problem.work.latest_end_s[~plan.placed] - problem.rates.horizon_s
    assert behind.latest_end_s.tolist() == there.tolist()
