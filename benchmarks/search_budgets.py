"""The planner's searches with more time: `python -m benchmarks.search_budgets [SECONDS ...]`, 5 and 60 s by default.

The paper gives each search 4,000 s, the study 5. This script rolls MultiSearch through the paper's days in the scenario
"air summer", stops at some of them, and lets each search plan that day with each budget. On a busy machine a search has
less processor time than its budget, so that is a column. "Frozen" is the neighbourhood search whose model has the PUE
of the plan so far instead of the table. A row is written as soon as its search ends, and a second run computes only the
rows that are missing.

Before that it compares the models on small problems, in which cooling decides: all nodes as one with the table of PUE,
and with the frozen PUE, each beside the exact model.
"""

import csv
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.logs import trace_file
from offpeak.model.constants import DAY_S, HOUR_S, J_PER_KWH
from offpeak.model.facility import facility_named
from offpeak.plugin.planner.orders import Budget, budget_of
from offpeak.plugin.planner.problem import (
    NO_LIMIT,
    NOTHING_RUNS,
    NodeCapacities,
    Plan,
    Problem,
    Work,
    compute_profit,
)
from offpeak.plugin.planner.verify import verify_plan
from offpeak_studies.profit_cooling import cp_solver, solvers
from offpeak_studies.profit_cooling.cp_solver import CpQuestion, EnergyBand
from offpeak_studies.profit_cooling.heuristics import best_plan, leave_out_losses, multi_search, pue_under
from offpeak_studies.profit_cooling.run import (
    DAYS,
    NODES,
    SCENARIOS,
    PlannerSite,
    curie_jobs,
    machine,
    rates_of,
    rolled,
    work_of,
)
from offpeak_studies.profit_cooling.study import gain_pct
from offpeak_studies.profit_cooling.upper_bound import compute_gap, upper_bound

SCENARIO, SEED = "air summer", 1
PLAN_DAYS = (1, 4)
"""Days of the paper's 23, counted from 0: the first has few jobs, and MultiSearch must plan all days before."""
BUDGETS_S = (5.0, 60.0)
TABLES = Path(__file__).parent.parent / "docs" / "figures" / "profit-cooling"
RECORD = TABLES / "budgets.csv"
HEAD = (
    "day", "jobs", "search", "budget, s", "processor, s", "profit over MultiSearch, %", "gap, %", "own plan", "note",
)  # fmt: skip
FROZEN = "neighbourhood, PUE frozen"


def frozen(question: CpQuestion) -> CpQuestion:
    """Return the question with the PUE of the incumbent, whatever the load is."""
    rates = question.problem.rates
    costs = pue_under(question.problem, question.incumbent) * rates.price_per_kwh / J_PER_KWH
    return replace(question, bands=tuple((EnergyBand(0, 1, cost),) for cost in costs.tolist()))


def improve(problem: Problem, name: str, first: Plan, budget: Budget) -> Plan:
    """Return the plan of the search, which may begin with the first plan."""
    if name != FROZEN:
        return solvers.SEARCHES[name].improver(problem, first, budget)
    build = cp_solver.build_cp_question
    with patch.object(solvers, "build_cp_question", lambda *args, **kwargs: frozen(build(*args, **kwargs))):
        return solvers.neighbourhood_search(problem, first, budget)


def measure_search(problem: Problem, multi: Plan, name: str, seconds: float) -> tuple[str, ...]:
    """Return the last cells of the row of a search."""
    first = multi
    if name == "default":
        first = leave_out_losses(problem, solvers.earliest_start(problem, budget_of(seconds)))
    began_s = time.process_time()
    plan = improve(problem, name, first, budget_of(seconds, seed=SEED))
    used_s = time.process_time() - began_s
    if wrong := verify_plan(problem, plan).violations:
        raise SystemExit(f"the plan is wrong: {wrong[0]}")
    profit, began, least = (compute_profit(problem, each).total for each in (plan, first, multi))
    own = "yes" if profit != began else "no"
    gap = 100 * compute_gap(problem, profit, upper_bound(problem))
    return f"{used_s:.0f}", f"{gain_pct(profit, least):.3f}", f"{gap:.2f}", own, plan.note.rpartition(": ")[2]


def problems(log: Path, days: Sequence[int]) -> Iterator[tuple[int, Problem]]:
    """Yield the days' problems after MultiSearch has planned the days before."""
    work = work_of(curie_jobs(log), SEED)
    plans = rolled(work, PlannerSite(machine(NODES), SCENARIOS[SCENARIO]), "multi", 0.0, DAYS)
    yield from ((day, plan.problem) for day, plan in enumerate(islice(plans, max(days) + 1)) if day in days)


MODELS = TABLES / "models.csv"
MODELS_HEAD = ("nodes", "problems", "table finds the best", "worst, %", "frozen finds the best", "worst so, %")
PROBLEMS, JOBS, SMALL_NODES, SOLVE_S = 6, 8, 4, 5.0


def small_problem(seed: int, *, mixed: bool) -> Problem:
    """Return jobs of one to three units on a summer's day; a core draws 100 W, and many jobs earn little more."""
    rng = np.random.default_rng((seed, mixed))
    units, cores = rng.integers(1, 4, JOBS), rng.integers(4, 33, JOBS)
    sizes = np.array([16, 24, 32, 32]) if mixed else np.full(SMALL_NODES, 32)
    cores = np.minimum(cores, 16) if mixed else cores
    size, none = units * cores, np.zeros(JOBS, np.int64)
    duration_s, release_s = rng.integers(1, 9, JOBS) * HOUR_S, rng.integers(0, 12, JOBS) * HOUR_S
    power_w, earned = size * rng.uniform(80.0, 120.0, JOBS), size * rng.uniform(0.015, 0.03, JOBS) / HOUR_S
    work = Work(
        np.arange(1, JOBS + 1), units, cores, none, none, duration_s, release_s, none + NO_LIMIT, power_w, earned
    )
    nodes = NodeCapacities(sizes, none[:SMALL_NODES], none[:SMALL_NODES])
    room = facility_named("air", full_power_w=float(sizes.sum()) * 120.0)
    return Problem(work, nodes, NOTHING_RUNS, rates_of(SCENARIOS[SCENARIO], DAY_S), room)


def compare_models(seed: int, *, mixed: bool) -> tuple[float, float]:
    """Return by how much the plans of the table and of the frozen PUE earn less than the exact model's [%]."""
    problem, which = small_problem(seed, mixed=mixed), np.arange(JOBS)
    multi = best_plan(problem, [multi_search(problem, budget_of(60.0))])
    exact = cp_solver.build_cp_question(problem, multi, which, hinted=True)
    table = replace(exact, single_nodes=False)
    profits = []
    for question in (exact, table, frozen(table)):
        answer = cp_solver.solve(question, SOLVE_S, SEED)
        found = multi if answer is None else solvers.plan_from_answer(problem, multi, which, answer, "model")
        profits.append(max(compute_profit(problem, plan).total for plan in (found, multi)))
    best = max(profits)
    return tuple(100 * (1 - profit / best) for profit in profits[1:])  # type: ignore[return-value]


def models_row(losses: Sequence[tuple[float, float]], *, mixed: bool) -> tuple[str, ...]:
    """Return the row of these problems."""
    cells = []
    for column in zip(*losses, strict=True):
        cells += [str(sum(loss < 1e-4 for loss in column)), f"{max(column):.2f}"]
    return ("mixed" if mixed else "equal", str(len(losses)), *cells)


def measure_models() -> None:
    """Write the comparison of the models."""
    rows = [
        models_row([compare_models(seed, mixed=mixed) for seed in range(PROBLEMS)], mixed=mixed)
        for mixed in (False, True)
    ]
    with MODELS.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([MODELS_HEAD, *rows])


def measure(budgets_s: Sequence[float], path: Path = RECORD) -> None:
    """Append the rows that the file does not have."""
    rows: dict[tuple[str, ...], list[str]] = {}
    if path.exists():
        with path.open(newline="") as file:
            rows = {(row[0], row[2], row[3]): row for row in csv.reader(file) if row[0] != HEAD[0]}
    for day, problem in problems(trace_file("CEA-curie"), PLAN_DAYS):
        multi = best_plan(problem, [multi_search(problem, budget_of(3600.0))])
        for seconds in budgets_s:
            for name in (*solvers.SEARCHES, FROZEN):
                case = str(day + 1), name, f"{seconds:g}"
                if case in rows:
                    continue
                cells = measure_search(problem, multi, name, seconds)
                rows[case] = [case[0], f"{len(problem.work):,}", *case[1:], *cells]
                with path.open("w", newline="") as file:
                    writer = csv.writer(file, lineterminator="\n")
                    writer.writerow(HEAD)
                    ordered: list[list[str]] = sorted(rows.values(), key=lambda row: (int(row[0]), float(row[3])))
                    writer.writerows(ordered)
                print(*rows[case], file=sys.stderr, flush=True)


if __name__ == "__main__":
    if not MODELS.exists():
        measure_models()
    measure([float(text) for text in sys.argv[1:]] or BUDGETS_S)
