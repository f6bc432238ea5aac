"""The verifier finds what is broken."""

from dataclasses import replace

import numpy as np
import pytest

from offpeak.plugin.planner.placement import place_one_by_one
from offpeak.plugin.planner.problem import TOMORROW
from offpeak.plugin.planner.verify import verify_plan


@pytest.fixture
def case(drawn):
    problem = drawn(6, seed=4)
    problem = replace(problem, work=replace(problem.work, release_s=np.full(6, 10), units=np.full(6, 2)))
    return problem, place_one_by_one(problem, np.arange(6), "test")


def message(problem, plan) -> str:
    return " | ".join(verify_plan(problem, plan).violations)


def test_a_good_plan_has_no_violation(case) -> None:
    assert message(*case) == ""


def test_a_start_before_the_release_is_found(case) -> None:
    problem, plan = case
    assert "before it is there in second 10" in message(problem, replace(plan, start_s=np.full(6, 5)))


def test_a_start_behind_the_horizon_is_found(case) -> None:
    problem, plan = case
    assert "outside the plan" in message(problem, replace(plan, start_s=plan.start_s + 2000))


def test_a_late_end_is_found(case) -> None:
    problem, plan = case
    work = replace(problem.work, latest_end_s=np.full(6, 11))
    assert "after its latest end in second 11" in message(replace(problem, work=work), plan)


def test_a_node_too_often_or_unknown_is_found(case) -> None:
    problem, plan = case
    assert "each once" in message(problem, replace(plan, node=np.zeros_like(plan.node)))
    assert "each once" in message(problem, replace(plan, node=plan.node + 99))


def test_an_overfull_node_is_found(case) -> None:
    problem, plan = case
    at_once = replace(plan, start_s=np.full(6, 10), node=np.tile(np.array([0, 1]), 6))
    assert "node 0 is overfull in second 10" in message(problem, at_once)


def test_a_broken_cap_is_found(case) -> None:
    problem, plan = case
    rates = replace(problem.rates, cap_w=np.array([2**60, 1]))
    late = replace(plan, start_s=plan.start_s + 400)
    assert "above the cap of 1 W" in message(replace(problem, rates=rates), late)


def test_nodes_without_a_start_are_found(case) -> None:
    problem, plan = case
    assert "has nodes but no start" in message(problem, replace(plan, start_s=np.full(6, TOMORROW)))
