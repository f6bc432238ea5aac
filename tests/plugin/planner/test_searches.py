"""Every solver: plans without violations, in time, and never worse than what they improve on."""

from dataclasses import replace

import numpy as np
import pytest

from offpeak.errors import BadInput
from offpeak.plugin.planner.orders import Budget, all_orders, budget_of
from offpeak.plugin.planner.problem import compute_profit
from offpeak.plugin.planner.verify import verify_plan
from offpeak_studies.profit_cooling.cp_solver import CpAnswer
from offpeak_studies.profit_cooling.heuristics import multi_search
from offpeak_studies.profit_cooling.solvers import (
    SOLVERS,
    TOO_LITTLE_TIME,
    find_solver,
    neighbourhood_search,
    plan_from_answer,
)
from offpeak_studies.profit_cooling.upper_bound import compute_gap, upper_bound


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(("cap_w", "running"), [(2**60, 2), (900, 2)])
def test_every_solver_keeps_every_rule(drawn, name: str, cap_w: int, running: int) -> None:
    problem = drawn(30, seed=7, cap_w=cap_w, running=running)
    plan = SOLVERS[name](problem, budget_of(4.0))
    verdict = verify_plan(problem, plan)
    assert verdict.violations == ()
    assert verdict.profit == pytest.approx(compute_profit(problem, plan).total, rel=1e-9)
    assert verdict.profit <= upper_bound(problem) + 1e-9
    if name in ("relaxation", "delay", "neighbourhood"):
        assert verdict.profit >= compute_profit(problem, multi_search(problem, budget_of(60))).total


def test_there_are_22_orders_of_all_jobs(drawn) -> None:
    problem = drawn(30, seed=7)
    orders = all_orders(problem.work, problem.machine)
    assert len(orders) == 22
    assert all(sorted(order.tolist()) == list(range(30)) for order in orders.values())


def test_without_time_the_first_order_is_the_answer(drawn) -> None:
    problem = drawn(30, seed=7)
    plan = multi_search(problem, Budget(0.0, clock=lambda: 1.0))
    assert plan.solver == "multi-search, earliest start up"
    assert plan.note.startswith("multi-search: time was up when 1 of ")
    assert plan.placed.any()


def test_neighbourhoods_find_what_the_orders_do_not(drawn) -> None:
    problem = drawn(60, seed=11, nodes=4)
    first = multi_search(problem, budget_of(60))
    better = neighbourhood_search(problem, first, budget_of(8.0))
    assert compute_profit(problem, better).total > compute_profit(problem, first).total
    assert compute_gap(problem, compute_profit(problem, better).total, upper_bound(problem)) >= 0


@pytest.mark.parametrize("name", ["default", "relaxation", "non-strict WT", "strict EST"])
def test_solvers_give_jobs_nodes_of_their_pools_only(drawn, name: str) -> None:
    problem = drawn(12, seed=5, nodes=6)
    pools = np.where(np.arange(12) % 3 == 0, 0b01, np.where(np.arange(12) % 3 == 1, 0b10, 0b11))
    machine = replace(problem.machine, pool=np.array([0b01, 0b01, 0b01, 0b10, 0b10, 0b10]))
    problem = replace(problem, work=replace(problem.work, pools=pools), machine=machine)
    plan = SOLVERS[name](problem, budget_of(4.0))
    assert verify_plan(problem, plan).violations == ()
    assert plan.placed.sum() > 6


def test_an_unchanged_answer_packs_to_no_less(drawn) -> None:
    problem = drawn(40, seed=3)
    plan = multi_search(problem, budget_of(60))
    which = np.arange(10)
    start_s = np.where(plan.placed, plan.start_s, problem.rates.horizon_s)[which]
    again = plan_from_answer(problem, plan, which, CpAnswer(start_s, None, is_best=False), "again")
    assert compute_profit(problem, again).total >= compute_profit(problem, plan).total - 1e-9


def test_5000_jobs_in_a_second_get_the_heuristics_answer(drawn) -> None:
    problem = drawn(5000, seed=1, nodes=20)
    multi_search(problem, budget_of(0))
    for name in ("relaxation", "neighbourhood", "delay"):
        plan = SOLVERS[name](problem, budget_of(1.0))
        assert plan.placed.any()
        assert plan.note.endswith(f"{name} search: {TOO_LITTLE_TIME}") or name == "delay"
    assert plan.solver.startswith(("multi-search", "delay"))


def test_searches_accept_no_work(drawn) -> None:
    problem = drawn(5, seed=1, running=2)
    problem = replace(problem, work=problem.work.take(np.zeros(5, np.bool_)))
    for name in ("multi", "delay", "neighbourhood", "strict EST"):
        assert len(SOLVERS[name](problem, budget_of(2.0)).start_s) == 0
    assert upper_bound(problem) >= compute_profit(problem, SOLVERS["multi"](problem, budget_of(1.0))).total - 1e-12


def test_an_unknown_solver_is_refused() -> None:
    with pytest.raises(BadInput, match="unknown solver 'mutli'"):
        find_solver("mutli")
