"""Tiny problems, all plans of which are tried: what the solvers find of the best one, and what they leave out."""

from dataclasses import replace

import numpy as np
import pytest
from planner_brute_force import HORIZON_S, Best, best_by_trying, profit_by_second, steep_facility, tiny_problem

from offpeak.plugin.planner.orders import budget_of
from offpeak.plugin.planner.problem import (
    NO_LIMIT,
    NOTHING_RUNS,
    TOMORROW,
    NodeCapacities,
    Plan,
    Problem,
    Rates,
    Work,
    compute_profit,
    empty_plan,
)
from offpeak.plugin.planner.verify import verify_plan
from offpeak_studies.profit_cooling.cp_solver import build_cp_question, solve
from offpeak_studies.profit_cooling.heuristics import multi_search
from offpeak_studies.profit_cooling.solvers import SOLVERS, plan_from_answer
from offpeak_studies.profit_cooling.upper_bound import upper_bound

SAME = 1e-6
"""The money that rounding to integers may cost; the profits of these problems are around 1."""
SEEDS = range(10)
KINDS = [("equal nodes", False, False, False), ("equal nodes, cap", False, True, False),
         ("mixed nodes", True, False, False), ("mixed nodes, cap", True, True, False),
         ("equal nodes, limits", False, False, True), ("mixed nodes, cap, limits", True, True, True)]  # fmt: skip


def starts_of(plan: Plan) -> tuple[int | None, ...]:
    return tuple(None if start_s == TOMORROW else start_s for start_s in plan.start_s.tolist())


def check(problem: Problem, plan: Plan, best: Best) -> float:
    """Check that the plan keeps all rules, earns what it says, and earns no more without any one of its jobs."""
    assert verify_plan(problem, plan).violations == ()
    starts = starts_of(plan)
    profit = profit_by_second(problem, starts)
    assert profit == pytest.approx(compute_profit(problem, plan).total, abs=1e-9)
    assert profit <= best.profit + 1e-9
    for job in range(len(starts)):
        assert profit_by_second(problem, (*starts[:job], None, *starts[job + 1 :])) <= profit + 1e-9
    return profit


def can_start(problem: Problem, job: int) -> bool:
    work = problem.work
    last_s = min(work.latest_end_s[job] - work.duration_s[job], problem.rates.horizon_s - 1)
    return bool(work.release_s[job] <= last_s)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("mixed", "cap", "limited"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS])
def test_the_best_of_all_plans_is_found(seed: int, mixed: bool, cap: bool, limited: bool) -> None:
    problem = tiny_problem(seed, mixed=mixed, cap=cap, limited=limited)
    best, which = best_by_trying(problem), np.arange(len(problem.work))
    assert upper_bound(problem) >= best.profit - 1e-9
    heuristic = multi_search(problem, budget_of(60.0))
    check(problem, heuristic, best)
    question = build_cp_question(problem, heuristic, which, hinted=True)
    answer = solve(question, 60.0, 1)
    assert answer is not None
    assert answer.is_best
    found = plan_from_answer(problem, empty_plan(problem.work, "nothing"), which, answer, "exact")
    assert check(problem, found, best) == pytest.approx(best.profit, abs=SAME)
    # A large question has all nodes as one: no rule is broken, and nothing is promised.
    whole = solve(replace(question, single_nodes=False), 60.0, 1)
    assert whole is not None
    assert all(can_start(problem, job) for job in np.flatnonzero(whole.start_s < HORIZON_S))
    check(problem, plan_from_answer(problem, heuristic, which, whole, "whole"), best)


def test_the_tiny_problems_have_jobs_that_are_better_left_out() -> None:
    left, impossible = 0, 0
    for seed in SEEDS:
        problem = tiny_problem(seed, mixed=True)
        may = [can_start(problem, job) for job in range(len(problem.work))]
        left += sum(start_s is None and can for start_s, can in zip(best_by_trying(problem).start_s, may, strict=True))
        impossible += may.count(False)
    assert left >= 8
    assert impossible >= 4


@pytest.mark.parametrize("name", ["default", "relaxation", "neighbourhood"])
def test_each_search_finds_the_best_plan(name: str) -> None:
    problem = tiny_problem(5, mixed=True)
    best = best_by_trying(problem)
    assert compute_profit(problem, multi_search(problem, budget_of(60.0))).total < best.profit - SAME
    plan = SOLVERS[name](problem, budget_of(60.0))
    assert check(problem, plan, best) == pytest.approx(best.profit, abs=SAME)
    assert plan.note == ""


def one_node_problem(latest_end_s: list[int], revenue_per_s: list[float]) -> Problem:
    """Return jobs of four seconds and 500 W that each need the only node; energy costs 0.05 a second."""
    one = np.ones(len(latest_end_s), np.int64)
    work = Work(
        one.cumsum(), one, 8 * one, 0 * one, 0 * one, 4 * one, 0 * one, np.array(latest_end_s), 500.0 * one,
        np.array(revenue_per_s),
    )  # fmt: skip
    rates = Rates(np.array([0, HORIZON_S]), np.array([300.0]), np.array([10.0]), np.array([NO_LIMIT]))
    machine = NodeCapacities(np.array([8]), np.array([0]), np.array([0]))
    return Problem(work, machine, NOTHING_RUNS, rates, steep_facility())


@pytest.mark.parametrize("exact", [True, False])
def test_a_job_that_cannot_meet_its_latest_end_displaces_no_other(exact: bool) -> None:
    problem = one_node_problem([3, NO_LIMIT, NO_LIMIT], [100.0, 1.0, 1.0])
    which = np.arange(3)
    question = build_cp_question(problem, empty_plan(problem.work, ""), which, hinted=False)
    answer = solve(question if exact else replace(question, single_nodes=False), 60.0, 1)
    assert answer is not None
    assert answer.start_s[0] == HORIZON_S
    assert sorted(answer.start_s[1:].tolist()) == [0, 4] or sorted(answer.start_s[1:].tolist()) == [0, 5]
    plan = plan_from_answer(problem, empty_plan(problem.work, ""), which, answer, "test")
    assert starts_of(plan)[0] is None
    assert None not in starts_of(plan)[1:]


@pytest.mark.parametrize("name", ["multi", "delay"])
def test_heuristics_leave_out_what_loses_money_and_move_the_others_up(name: str) -> None:
    problem = one_node_problem([NO_LIMIT, NO_LIMIT, 8], [0.01, 1.0, 1.0])
    assert None in starts_of(SOLVERS["strict EST"](problem, budget_of(60.0)))
    plan = SOLVERS[name](problem, budget_of(60.0))
    assert starts_of(plan)[0] is None
    assert sorted(starts_of(plan)[1:]) == [0, 4]


@pytest.mark.parametrize("revenue_per_s", [0.05, 1.0])
def test_a_job_starts_when_energy_is_cheap_whether_it_loses_money_before_or_not(revenue_per_s: float) -> None:
    problem = one_node_problem([NO_LIMIT], [revenue_per_s])
    rates = Rates(np.array([0, 4, HORIZON_S]), np.array([400.0, 50.0]), np.full(2, 10.0), np.full(2, NO_LIMIT))
    problem = replace(problem, rates=rates)
    assert starts_of(SOLVERS["multi"](problem, budget_of(60.0))) == (4,)
