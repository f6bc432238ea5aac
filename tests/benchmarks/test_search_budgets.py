"""The table of searches with more time: its problems, and the frozen PUE that it compares with."""

from itertools import islice

import numpy as np
import pytest
from study_tables import stored

from benchmarks.logs import trace_file
from benchmarks.search_budgets import (
    HEAD,
    JOBS,
    MODELS_HEAD,
    SCENARIO,
    SEED,
    compare_models,
    frozen,
    small_problem,
)
from plugin.planner.cp_solver import build_cp_question
from plugin.planner.problem import compute_profit, empty_plan, pue_under
from plugin.planner.searches import budget_of, multi_search
from studies.profit_cooling.run import DAYS, NODES, SCENARIOS, PlannerSite, curie_jobs, machine, rolled, work_of
from studies.profit_cooling.study import GAPS_SCENARIO


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
    header, _, mixed = stored("profit-cooling/models")
    assert tuple(header) == MODELS_HEAD
    losses = compare_models(0, mixed=True)
    assert all(0.0 <= loss <= float(worst) + 0.005 for loss, worst in zip(losses, mixed[3::2], strict=True))


@pytest.mark.thorough
def test_multi_search_leaves_as_much_on_the_first_days_as_recorded() -> None:
    if not trace_file("CEA-curie").exists():
        pytest.skip("no logs")
    place = PlannerSite(machine(NODES), SCENARIOS[SCENARIO])
    days = islice(rolled(work_of(curie_jobs(trace_file("CEA-curie")), SEED), place, "multi", 0.0, DAYS), 2)
    found = [(f"{len(day.problem.work):,}", f"{100 * day.gap:.2f}") for day in days if day.gap is not None]
    header, *rows = stored("profit-cooling/budgets")
    assert tuple(header) == HEAD
    # A search that finds nothing better keeps MultiSearch's plan.
    assert {(row[1], row[6]) for row in rows if row[0] == "2" and row[5] == "0.000"} == {found[1]}
    assert [row[1] for row in stored("profit-cooling/gaps")[1:3]] == [gap for _, gap in found]


def test_the_medians_are_those_of_the_gaps() -> None:
    header, *rows = stored("profit-cooling/gaps")
    columns = zip(*(row[1:] for row in rows), strict=True)
    medians = {
        name: np.median([float(gap) for gap in column]) for name, column in zip(header[1:], columns, strict=True)
    }
    solvers, *rows = stored("profit-cooling/solvers")
    at = solvers.index("median gap")
    found = {row[1]: float(row[at]) for row in rows if row[0] == GAPS_SCENARIO and row[at]}
    assert found == pytest.approx(medians)
