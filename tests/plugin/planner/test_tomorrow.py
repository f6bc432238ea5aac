"""What a plan leaves to the next."""

from dataclasses import replace

import numpy as np
import pytest

from plugin.planner.one_by_one import one_by_one
from plugin.planner.profit import profit_of
from plugin.planner.tomorrow import running_on, waiting_on


def test_running_jobs_go_on_with_the_rest_of_their_time(drawn) -> None:
    problem = drawn(40, seed=6, running=4)
    plan = one_by_one(problem, np.arange(40), "test")
    on = running_on(problem, plan)
    end_s = (plan.start_s + problem.work.duration_s)[plan.placed]
    left_s = problem.work.units[plan.placed] * np.maximum(end_s - problem.rates.horizon_s, 0)
    ran_s = np.maximum(problem.running.until_s - problem.rates.horizon_s, 0)
    assert on.until_s.sum() == left_s.sum() + ran_s.sum()
    assert (on.until_s > 0).all()


def test_nothing_is_earned_twice_or_lost(drawn) -> None:
    problem = drawn(20, seed=6)
    plan = one_by_one(problem, np.arange(20), "test")
    tomorrow = replace(
        problem, running=running_on(problem, plan), work=waiting_on(problem, plan).take(np.zeros(0, int))
    )
    nothing = one_by_one(tomorrow, np.arange(0), "test")
    earned = profit_of(problem, plan).revenue + profit_of(tomorrow, nothing).revenue
    work = problem.work
    assert earned == pytest.approx(float((work.revenue_per_s * work.duration_s)[plan.placed].sum()))


def test_waiting_jobs_keep_their_latest_end(drawn) -> None:
    problem = drawn(60, seed=6, nodes=3)
    plan = one_by_one(problem, np.arange(60), "test")
    behind = waiting_on(problem, plan)
    assert len(behind) == 60 - plan.placed.sum() > 0
    assert set(behind.release_s.tolist()) == {0}
    there = problem.work.latest_end_s[~plan.placed] - problem.rates.horizon_s
    assert behind.latest_end_s.tolist() == there.tolist()
