"""The job-based heuristic: each job at its earliest feasible start, in the order that is given."""

from dataclasses import replace

import numpy as np
import pytest

from offpeak.plugin.planner.placement import place_one_by_one
from offpeak.plugin.planner.problem import TOMORROW, Plan, compute_profit, first_unit
from offpeak.plugin.planner.verify import verify_plan


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("cap_w", "running"), [(2**60, 0), (2**60, 3), (700, 0), (700, 4)])
def test_plans_break_no_rule_and_earn_what_they_say(drawn, seed: int, cap_w: int, running: int) -> None:
    problem = drawn(40, seed=seed, cap_w=cap_w, running=running)
    plan = place_one_by_one(problem, np.random.default_rng(seed).permutation(40), "test")
    verdict = verify_plan(problem, plan)
    assert verdict.violations == ()
    assert verdict.profit == pytest.approx(compute_profit(problem, plan).total, rel=1e-9)
    assert plan.placed.any()


@pytest.mark.parametrize("seed", range(4))
def test_each_job_starts_as_early_as_those_before_it_allow(drawn, seed: int) -> None:
    problem = drawn(12, seed=seed, running=2)
    order = np.random.default_rng(seed).permutation(12)
    plan = place_one_by_one(problem, order, "test")
    for place, job in enumerate(order):
        before = np.isin(np.arange(12), order[:place]) & plan.placed
        expected = _earliest_by_trying(problem, plan, before, job)
        assert plan.start_s[job] == expected, job


def _earliest_by_trying(problem, plan: Plan, before, job: int) -> int:
    work, first = problem.work, first_unit(problem.work)
    units = int(work.units[job])
    # Nothing becomes free but where something ends.
    ends = set((plan.start_s + work.duration_s)[before].tolist()) | set(problem.running.until_s.tolist())
    release_s = int(work.release_s[job])
    for start_s in sorted({release_s, *(end_s for end_s in ends if end_s > release_s)}):
        end_s = start_s + int(work.duration_s[job])
        if start_s >= problem.rates.horizon_s or end_s > work.latest_end_s[job]:
            return TOMORROW
        fitting = []
        for node in range(len(problem.machine)):
            start = np.where(before, plan.start_s, TOMORROW)
            start[job] = start_s
            nodes = np.where(np.repeat(before, work.units), plan.node, TOMORROW)
            nodes[first[job]] = node
            nodes[first[job] + 1 : first[job + 1]] = TOMORROW
            message = verify_plan(problem, Plan(start, nodes, "")).violations
            if not any("overfull" in violation for violation in message):
                fitting.append(node)
        if len(fitting) >= units:
            return start_s
    return TOMORROW


def test_a_job_that_does_not_fit_today_waits_for_tomorrow(drawn) -> None:
    problem = drawn(3, seed=1)
    work = replace(problem.work, release_s=np.full(3, problem.rates.horizon_s))
    plan = place_one_by_one(replace(problem, work=work), np.arange(3), "test")
    assert plan.start_s.tolist() == [TOMORROW] * 3
    assert set(plan.node.tolist()) == {TOMORROW}


def test_starts_may_be_held_back(drawn) -> None:
    problem = drawn(5, seed=3)
    plan = place_one_by_one(problem, np.arange(5), "test", not_before_s=np.full(5, 700))
    assert plan.placed.any()
    assert plan.start_s[plan.placed].min() >= 700


def test_many_jobs_on_a_node_need_no_limit(drawn) -> None:
    problem = drawn(400, seed=2, nodes=3)
    work = replace(problem.work, duration_s=np.full(400, 2), units=np.ones(400, np.int64))
    problem = replace(problem, work=work)
    plan = place_one_by_one(problem, np.arange(400), "test")
    assert verify_plan(problem, plan).violations == ()
    assert plan.placed.sum() > 350
