"""The study's tables: the paper's beside ours."""

from collections.abc import Mapping

from offpeak.model.local_time import DAY_S
from plugin.planner.solvers import RULE_BASED
from studies.profit_cooling.experiment import Experiment, Result
from studies.profit_cooling.jobs import DAYS
from studies.profit_cooling.paper import PAPER
from studies.profit_cooling.scenario import (
    LEAST_W,
    NODE_CORES,
    NODES,
    PRICE_PER_KWH,
    REVENUE_PER_CORE_H,
    SCENARIOS,
    least_pue,
)
from studies.report import Cell, Table

Results = Mapping[tuple[str, str], Result]
"""By scenario and solver."""

SEARCHES = ("multi", "relaxation", "delay", "neighbourhood")


def by_case(results: Mapping[Experiment, Result]) -> Results:
    """Return the results by scenario and solver."""
    return {(each.scenario, each.solver): result for each, result in results.items()}


def gain_pct(value: float, base: float) -> float:
    """Return by how many per cent it is above the base."""
    return 100 * (value / base - 1)


def best(results: Results, scenario: str, solvers: tuple[str, ...]) -> str:
    """Return the solver of the largest profit at the last submission."""
    return max(solvers, key=lambda solver: results[scenario, solver].profit_then)


def always_full(scenario: str) -> float:
    """Return the profit of a machine that is full at all times of all days with the most frugal jobs."""
    per_core_h = REVENUE_PER_CORE_H - LEAST_W / 1000 * least_pue(SCENARIOS[scenario]) * PRICE_PER_KWH
    return NODES * NODE_CORES * 24 * DAYS * per_core_h


RULES = tuple(RULE_BASED)
STRICT = tuple(solver for solver in RULE_BASED if solver.startswith("strict"))


def gains_table(results: Results) -> Table:
    """Return tables 1 and 2: gains over the best rule-based scheduler."""
    return Table(
        "gains",
        "Tables 1 and 2: our best search against rule-based schedulers",
        "Profit at the last submission and makespan, in per cent better than the best rule-based scheduler, strict or "
        "not, and than the best strict one. No plan: what a machine that is always full of the most frugal jobs would "
        "gain, more than which is impossible. Daily: gain over the best in EUR a day. The cooling tables were made to "
        "give the paper's PUE, so that both are equal confirms nothing.",
        (
            "scenario", "best search", "best rule", "profit", "no plan", "best strict", "profit", "no plan", "paper",
            "makespan", "over strict", "paper", "daily", "paper", "PUE", "paper",
        ),
        tuple(_gains_row(results, scenario) for scenario in SCENARIOS),
    )  # fmt: skip


def _gains_row(results: Results, scenario: str) -> tuple[Cell, ...]:
    paper, search = PAPER[scenario], best(results, scenario, SEARCHES)
    rule, strict = best(results, scenario, RULES), best(results, scenario, STRICT)
    ours, theirs, strictly = (results[scenario, each] for each in (search, rule, strict))
    full = always_full(scenario)
    shortest = min(results[scenario, each].makespan_s for each in RULE_BASED)
    return (
        scenario,
        search,
        rule,
        gain_pct(ours.profit_then, theirs.profit_then),
        gain_pct(full, theirs.profit_then),
        strict,
        gain_pct(ours.profit_then, strictly.profit_then),
        gain_pct(full, strictly.profit_then),
        paper.profit_pct,
        -gain_pct(ours.makespan_s, shortest),
        -gain_pct(ours.makespan_s, strictly.makespan_s),
        paper.makespan_pct,
        (ours.profit_then - theirs.profit_then) / DAYS,
        paper.daily,
        ours.pue,
        paper.pue,
    )


def solvers_table(results: Results) -> Table:
    """Return a row a solver and scenario."""
    return Table(
        "solvers",
        "All solvers",
        "Profit until the last submission in thousand EUR and in per cent of a machine that is always full of the most "
        "frugal jobs, makespan in days, median of the days' gaps to their upper bounds in per cent, PUE, seconds that "
        "all plans took, plans, and what the verifier found wrong with them.",
        ("scenario", "solver", "profit", "of full", "makespan", "median gap", "PUE", "seconds", "plans", "violations"),
        tuple(_solver_row(results, *case) for case in results),
    )


def _solver_row(results: Results, scenario: str, solver: str) -> tuple[Cell, ...]:
    result = results[scenario, solver]
    return (
        scenario,
        solver,
        result.profit_then / 1000,
        100 * result.profit_then / always_full(scenario),
        result.makespan_s / DAY_S,
        result.median_gap_pct,
        result.pue,
        result.seconds,
        str(result.plans),
        str(result.violations),
    )
