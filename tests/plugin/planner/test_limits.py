"""Limits beside the nodes, such as licences: no plan takes more of them, and no job waits for them in vain."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planner_brute_force import exceeded_limits, with_random_limits

from offpeak.plugin.planner.orders import budget_of
from offpeak.plugin.planner.placement import keep_what_fits, place_one_by_one
from offpeak.plugin.planner.problem import TOMORROW, Demands, LimitUse, Plan, PlanLimits, Problem, compute_profit
from offpeak.plugin.planner.verify import verify_plan
from offpeak_studies.profit_cooling.rule_based import rule_based
from offpeak_studies.profit_cooling.solvers import SOLVERS
from offpeak_studies.profit_cooling.upper_bound import upper_bound


def limited(problem: Problem, seed: int) -> Problem:
    return with_random_limits(problem, np.random.default_rng(seed))


def check(problem: Problem, plan: Plan) -> None:
    verdict = verify_plan(problem, plan)
    assert verdict.violations == ()
    assert exceeded_limits(problem, starts_of(plan)) == []
    assert verdict.profit <= upper_bound(problem) + 1e-9


def starts_of(plan: Plan) -> tuple[int | None, ...]:
    return tuple(None if start_s == TOMORROW else start_s for start_s in plan.start_s.tolist())


@given(st.integers(0, 2**32), st.sampled_from([(2**60, 0), (2**60, 3), (700, 0), (700, 4)]))
def test_no_plan_exceeds_random_limits(drawn, seed: int, terms: tuple[int, int]) -> None:
    cap_w, running = terms
    problem = limited(drawn(15, seed=seed, cap_w=cap_w, running=running), seed)
    order = np.random.default_rng(seed).permutation(15)
    check(problem, plan := place_one_by_one(problem, order, "test"))
    fewer = limited(problem, seed + 1)
    check(fewer, keep_what_fits(fewer, plan))
    check(fewer, place_one_by_one(fewer, order[~keep_what_fits(fewer, plan).placed[order]], "test",
                                  kept=keep_what_fits(fewer, plan)))  # fmt: skip
    for strict in (True, False):
        check(problem, rule_based(problem, order, "test", strict=strict))


@pytest.mark.parametrize("seed", range(6))
def test_each_job_starts_as_early_as_limits_and_those_before_it_allow(drawn, seed: int) -> None:
    problem = limited(drawn(12, seed=seed, nodes=40), seed)
    work, order = problem.work, np.random.default_rng(seed).permutation(12)
    plan = place_one_by_one(problem, order, "test")
    starts: list[int | None] = [None] * 12
    for job in order.tolist():
        # There are nodes for all jobs at once: only limits hold a job back, up to an end of what takes them.
        ends = {start_s + int(work.duration_s[at]) for at, start_s in enumerate(starts) if start_s is not None}
        ends |= set(problem.limits.taken.until_s.tolist())
        tried = sorted({int(work.release_s[job]), *(end_s for end_s in ends if end_s > work.release_s[job])})
        last_s = min(int(work.latest_end_s[job] - work.duration_s[job]), problem.rates.horizon_s - 1)
        for start_s in (each for each in tried if each <= last_s):
            starts[job] = start_s
            if not exceeded_limits(problem, tuple(starts)):
                break
            starts[job] = None
        assert starts_of(plan)[job] == starts[job], job


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_keeps_the_limits(drawn, name: str) -> None:
    problem = limited(drawn(30, seed=7, running=2), 7)
    plan = SOLVERS[name](problem, budget_of(4.0))
    check(problem, plan)
    assert plan.placed.any()


def one_limit(problem: Problem, most: int, taken: LimitUse | None = None) -> Problem:
    """Return the problem with one limit, of which each job takes one."""
    none = np.zeros(0, np.int64)
    demands = Demands(np.array([0, 0, 1]), np.array([0]), np.array([1]))
    limits = PlanLimits(("licence a",), np.array([most]), demands, taken or LimitUse(none, none, none, none))
    return replace(problem, work=replace(problem.work, demand=np.ones(len(problem.work), np.int64)), limits=limits)


def test_a_plan_that_exceeds_a_limit_is_rejected(drawn) -> None:
    problem = drawn(6, seed=4, nodes=20)
    problem = replace(problem, work=replace(problem.work, release_s=np.full(6, 10)))
    plan = place_one_by_one(problem, np.arange(6), "test")
    (first, *_) = verify_plan(one_limit(problem, 5), plan).violations
    assert first == "licence a: 6 are taken in second 10, of 5"
    assert verify_plan(one_limit(problem, 6), plan).violations == ()


def test_running_jobs_beyond_a_limit_are_no_violation_and_let_none_start(drawn) -> None:
    one = np.ones(1, np.int64)
    running = LimitUse(0 * one, 0 * one, 800 * one, 9 * one)
    problem = one_limit(drawn(6, seed=4), 5, running)
    for plan in (place_one_by_one(problem, np.arange(6), ""), rule_based(problem, np.arange(6), "", strict=False)):
        check(problem, plan)
        assert plan.start_s[plan.placed].min() == 800


def test_many_starts_under_one_limit_need_no_limit_of_steps(drawn) -> None:
    problem = drawn(400, seed=2, nodes=3)
    problem = one_limit(replace(problem, work=replace(problem.work, duration_s=np.full(400, 2))), 2)
    plan = place_one_by_one(problem, np.arange(400), "test")
    check(problem, plan)
    assert plan.placed.sum() > 300


def test_limits_that_never_bind_change_nothing(drawn) -> None:
    problem = drawn(40, seed=6, running=3)
    plan = place_one_by_one(problem, np.arange(40), "test")
    wide = one_limit(problem, 1000)
    assert place_one_by_one(wide, np.arange(40), "test").start_s.tolist() == plan.start_s.tolist()
    assert rule_based(wide, np.arange(40), "", strict=False).start_s.tolist() == (
        rule_based(problem, np.arange(40), "", strict=False).start_s.tolist()
    )
    assert compute_profit(wide, plan).total == compute_profit(problem, plan).total
