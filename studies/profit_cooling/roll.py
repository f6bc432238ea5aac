"""Day after day: plan, check the plan, and hand on to tomorrow what runs on and what has not started."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from offpeak.model.local_time import DAY_S
from plugin.planner.bound import compute_gap, upper_bound
from plugin.planner.problem import NOTHING_RUNS, NodeCapacities, Problem, Work, carry_over_running, carry_over_waiting
from plugin.planner.profit import compute_profit
from plugin.planner.solvers import RULE_BASED
from plugin.planner.verify import verify_plan
from studies.profit_cooling.planned import Planned, planned
from studies.profit_cooling.scenario import Scenario, facility_of, rates_of

SAME = 1e-6
"""Two sums of a plan's profit agree if they differ by less, relatively."""


@dataclass(frozen=True)
class Place:
    """Where it runs."""

    machine: NodeCapacities
    scenario: Scenario


@dataclass(frozen=True)
class Day:
    """What a plan came to; `gap` is the share of the upper bound that it may have missed, None where none was asked."""

    from_s: int
    until_s: int
    profit: float
    it_j: float
    cooling_j: float
    last_end_s: int
    planned: Planned
    gap: float | None
    violations: tuple[str, ...]


def rolled(work: Work, place: Place, solver: str, search_s: float, days: int) -> Iterator[Day]:
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
        answer = planned(problem, solver, search_s)
        yield _day(problem, answer, now_s, bounded=whole and solver not in RULE_BASED)
        running, behind = carry_over_running(problem, answer.plan), carry_over_waiting(problem, answer.plan)
        now_s += horizon_s


def _time_for(behind: Work, machine: NodeCapacities) -> int:
    """Return whole days in which the machine could do all that waits, had it no gaps."""
    core_s = float((behind.units * behind.cores * behind.duration_s).sum())
    return DAY_S * max(1, int(core_s / float(machine.cores.sum()) / DAY_S))


def _joined(behind: Work, new: Work) -> Work:
    return Work(**{name: np.concatenate([getattr(behind, name), getattr(new, name)]) for name in vars(new)})


def _day(problem: Problem, answer: Planned, now_s: int, *, bounded: bool) -> Day:
    plan = answer.plan
    profit, verdict = compute_profit(problem, plan), verify_plan(problem, plan)
    wrong = verdict.violations
    if abs(verdict.profit - profit.total) > SAME * max(abs(profit.total), 1):
        wrong += (f"the plan says {profit.total:.2f}, the verifier {verdict.profit:.2f}",)
    ends_s = (plan.start_s + problem.work.duration_s)[plan.placed]
    last_s = max(int(ends_s.max(initial=0)), int(problem.running.until_s.max(initial=0)))
    gap = compute_gap(problem, profit.total, upper_bound(problem)) if bounded else None
    until_s = now_s + problem.rates.horizon_s
    return Day(now_s, until_s, profit.total, profit.it_j, profit.cooling_j, now_s + last_s, answer, gap, wrong)
