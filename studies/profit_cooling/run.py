"""Runs one experiment day after day: plans, checks the plan, and carries running and waiting jobs over to the next
day.

What does not depend on the scenario is found once for all of them: rule-based schedulers and the orders of
MultiSearch use no price and no temperature, so in another scenario the same jobs on the same machine have the
same plans, of which another may be the best.
"""

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.jobs import Jobs
from plugin.planner.bound import compute_gap, upper_bound
from plugin.planner.problem import (
    NOTHING_RUNS,
    NodeCapacities,
    Plan,
    Problem,
    Work,
    carry_over_running,
    carry_over_waiting,
)
from plugin.planner.profit import compute_profit
from plugin.planner.searches import best_plan, budget_of, multi_search, plan_in_all_orders
from plugin.planner.solvers import RULE_BASED, SEARCHES, Solver, find_solver
from plugin.planner.verify import verify_plan
from studies.profit_cooling.experiment import (
    DAYS,
    NODES,
    SCENARIOS,
    CoolingExperiment,
    CoolingResult,
    Scenario,
    curie_jobs,
    facility_of,
    machine,
    rates_of,
    work_of,
)

NO_LIMIT_S = HOUR_S
REMEMBERED = 64
"""Days whose plans are kept for the other scenarios."""


@dataclass(frozen=True)
class SolvedDay:
    """A plan, what it took [s], of which so much for a search, and whether that has found another than it began with.

    What was found for another scenario before counts with what it took then.
    """

    plan: Plan
    seconds: float
    search_s: float
    is_own: bool


def solve_day(problem: Problem, solver: str, search_s: float) -> SolvedDay:
    """Return the solver's plan; a search may take so many seconds after the plan that it begins with."""
    search = SEARCHES.get(solver)
    begin = _start_plans(_DayProblem(_digest(problem), problem), search.begin if search else find_solver(solver))
    # What a rule starts it starts at any price.
    first = begin.plans[0] if solver in RULE_BASED else best_plan(problem, list(begin.plans))
    if search is None:
        return SolvedDay(first, begin.seconds, 0.0, is_own=True)
    before_s = time.monotonic()
    plan = search.improver(problem, first, budget_of(search_s))
    took_s = time.monotonic() - before_s
    is_own = compute_profit(problem, plan).total != compute_profit(problem, first).total
    return SolvedDay(plan, begin.seconds + took_s, took_s, is_own)


@dataclass(frozen=True)
class _DayProblem:
    """Jobs and machine of a problem, by what they are."""

    digest: str
    problem: Problem = field(compare=False)


@dataclass(frozen=True, eq=False)
class _StartPlans:
    """The plans of which one is best in each scenario, and what they took."""

    plans: tuple[Plan, ...]
    seconds: float


@lru_cache(maxsize=REMEMBERED)
def _start_plans(day: _DayProblem, solver: Solver) -> _StartPlans:
    before_s = time.monotonic()
    if solver is not multi_search:
        plan = solver(day.problem, budget_of(NO_LIMIT_S))
        return _StartPlans((plan,), time.monotonic() - before_s)
    plans = plan_in_all_orders(day.problem, budget_of(NO_LIMIT_S))
    seconds, machine, horizon_s = time.monotonic() - before_s, day.problem.machine, day.problem.rates.horizon_s
    places = [
        replace(day.problem, rates=rates_of(each, horizon_s), facility=facility_of(each, machine))
        for each in SCENARIOS.values()
    ]
    best = {best_plan(place, plans).solver for place in places}
    return _StartPlans(tuple(plan for plan in plans if plan.solver in best), seconds)


def _digest(problem: Problem) -> str:
    digest = hashlib.sha256(str(problem.rates.horizon_s).encode())
    for part in (problem.work, problem.machine, problem.running):
        for column in vars(part).values():
            digest.update(column.tobytes())
    return digest.hexdigest()


SAME = 1e-6
"""Two sums of a plan's profit agree if they differ by less, relatively."""


@dataclass(frozen=True)
class PlannerSite:
    """Where it runs."""

    machine: NodeCapacities
    scenario: Scenario


@dataclass(frozen=True)
class DayResult:
    """What a plan came to; `gap` is the share of the upper bound that it may have missed, None where none was asked."""

    from_s: int
    until_s: int
    profit: float
    it_j: float
    cooling_j: float
    last_end_s: int
    planned: SolvedDay
    gap: float | None
    violations: tuple[str, ...]


def rolled(work: Work, place: PlannerSite, solver: str, search_s: float, days: int) -> Iterator[DayResult]:
    """Yield each day's plan, and behind the last submission plans of many days until nothing is left to run.

    A search may take `search_s` a plan beyond the one that it begins with.
    """
    facility = facility_of(place.scenario, place.machine)
    now_s, running, behind = 0, NOTHING_RUNS, work.take(np.zeros(len(work), np.bool_))
    while now_s < days * DAY_S or len(behind):
        whole = now_s < days * DAY_S
        horizon_s = DAY_S if whole else _time_for(behind, place.machine)
        new = work.take((work.release_s >= now_s) & (work.release_s < now_s + horizon_s))
        today = _joined(behind, replace(new, release_s=new.release_s - now_s))
        problem = Problem(today, place.machine, running, rates_of(place.scenario, horizon_s), facility)
        answer = solve_day(problem, solver, search_s)
        yield _day_result(problem, answer, now_s, bounded=whole and solver not in RULE_BASED)
        running, behind = carry_over_running(problem, answer.plan), carry_over_waiting(problem, answer.plan)
        now_s += horizon_s


def _time_for(behind: Work, machine: NodeCapacities) -> int:
    """Return whole days in which the machine could do all that waits, had it no gaps."""
    core_s = float((behind.units * behind.cores * behind.duration_s).sum())
    return DAY_S * max(1, int(core_s / float(machine.cores.sum()) / DAY_S))


def _joined(behind: Work, new: Work) -> Work:
    return Work(**{name: np.concatenate([getattr(behind, name), getattr(new, name)]) for name in vars(new)})


def _day_result(problem: Problem, answer: SolvedDay, now_s: int, *, bounded: bool) -> DayResult:
    plan = answer.plan
    profit, verdict = compute_profit(problem, plan), verify_plan(problem, plan)
    wrong = verdict.violations
    if abs(verdict.profit - profit.total) > SAME * max(abs(profit.total), 1):
        wrong += (f"the plan says {profit.total:.2f}, the verifier {verdict.profit:.2f}",)
    ends_s = (plan.start_s + problem.work.duration_s)[plan.placed]
    last_s = max(int(ends_s.max(initial=0)), int(problem.running.until_s.max(initial=0)))
    gap = compute_gap(problem, profit.total, upper_bound(problem)) if bounded else None
    until_s = now_s + problem.rates.horizon_s
    return DayResult(
        from_s=now_s,
        until_s=until_s,
        profit=profit.total,
        it_j=profit.it_j,
        cooling_j=profit.cooling_j,
        last_end_s=now_s + last_s,
        planned=answer,
        gap=gap,
        violations=wrong,
    )


def run_on_log(experiment: CoolingExperiment, log: Path) -> CoolingResult:
    """Return what the experiment comes to on the paper's days and machine."""
    return run(experiment, curie_jobs(log), nodes=NODES, days=DAYS)


def run(experiment: CoolingExperiment, jobs: Jobs, *, nodes: int, days: int) -> CoolingResult:
    """Return what the experiment comes to with jobs that are submitted on so many days."""
    place = PlannerSite(machine(nodes), SCENARIOS[experiment.scenario])
    plans = list(rolled(work_of(jobs, experiment.seed), place, experiment.solver, experiment.search_s, days))
    it_j = sum(plan.it_j for plan in plans)
    return CoolingResult(
        profit=tuple(plan.profit for plan in plans[:days]),
        gap=tuple(plan.gap for plan in plans[:days] if plan.gap is not None),
        makespan_s=max(plan.last_end_s for plan in plans),
        pue=1 + sum(plan.cooling_j for plan in plans) / it_j if it_j else 1.0,
        seconds=sum(plan.planned.seconds for plan in plans),
        search_s=sum(plan.planned.search_s for plan in plans),
        own=sum(plan.planned.is_own for plan in plans),
        plans=len(plans),
        violations=sum(len(plan.violations) for plan in plans),
        notes=tuple(plan.planned.plan.note for plan in plans if plan.planned.plan.note),
    )
