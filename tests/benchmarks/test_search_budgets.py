"""The table of searches with more time: its problems, and the frozen PUE that it compares with."""

import csv

import numpy as np
import pytest

from benchmarks.logs import trace_file
from benchmarks.search_budgets import (
    HEAD,
    JOBS,
    MODELS,
    MODELS_HEAD,
    RECORD,
    compare_models,
    frozen,
    problems,
    small_problem,
)
from plugin.planner.cp_solver import build_cp_question
from plugin.planner.problem import compute_profit, empty_plan, pue_under
from plugin.planner.searches import budget_of, multi_search


def test_the_frozen_question_has_one_cost_for_each_step() -> None:
    problem = small_problem(0, mixed=False)
    question = build_cp_question(problem, empty_plan(problem.work, ""), np.arange(JOBS), hinted=False)
    assert max(map(len, question.bands)) > 5
    costs = [[band.cost_per_j for band in bands] for bands in frozen(question).bands]
    expected = pue_under(problem, question.incumbent) * problem.rates.price_per_kwh / 3.6e6
    assert costs == [[pytest.approx(cost)] for cost in expected.tolist()]


def test_cooling_decides_about_small_problems() -> None:
    problem = small_problem(1, mixed=True)
    profit = compute_profit(problem, multi_search(problem, budget_of(60.0)))
    assert profit.cooling_cost > 0
    assert profit.cooling_cost > 0.1 * profit.total


@pytest.mark.thorough
def test_a_small_problem_is_solved_as_well_as_recorded() -> None:
    with MODELS.open(newline="") as file:
        header, _, mixed = csv.reader(file)
    assert tuple(header) == MODELS_HEAD
    losses = compare_models(0, mixed=True)
    assert all(0.0 <= loss <= float(worst) + 0.005 for loss, worst in zip(losses, mixed[3::2], strict=True))


@pytest.mark.thorough
def test_the_recorded_days_have_the_jobs_that_multi_search_leaves() -> None:
    if not trace_file("CEA-curie").exists():
        pytest.skip("no logs")
    with RECORD.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == HEAD
    ((day, problem),) = problems(trace_file("CEA-curie"), (1,))
    assert {row[1] for row in rows if row[0] == str(day + 1)} == {f"{len(problem.work):,}"}
