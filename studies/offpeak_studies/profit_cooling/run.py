"""One experiment: a solver in one of four scenarios, day after day, on the paper's machine and days.

The run plans each day, checks the plan, and carries running and waiting jobs over to the next day. The jobs are some
days of a log, as units for nodes of 32 cores, with drawn power and modelled memory. What does not depend on the
scenario is computed once for all scenarios: rule-based schedulers and the orders of MultiSearch use no price and no
temperature, so the same jobs on the same machine have the same plans, of which another may be the best.
"""

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from statistics import median

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.facility import (
    Facility,
    TemperatureSegments,
    daily_temperature,
    facility_named,
    temperature_segments,
)
from offpeak.model.jobs import Jobs
from offpeak.plugin.planner.orders import budget_of
from offpeak.plugin.planner.problem import (
    NO_LIMIT,
    NOTHING_RUNS,
    NodeCapacities,
    Plan,
    Problem,
    Rates,
    Running,
    Work,
    compute_profit,
)
from offpeak.plugin.planner.verify import verify_plan
from offpeak.sim_backend.traces.swf.read import read_swf
from offpeak_studies.profit_cooling.heuristics import best_plan, multi_search, plan_in_all_orders
from offpeak_studies.profit_cooling.solvers import RULE_BASED, SEARCHES, Solver, find_solver
from offpeak_studies.profit_cooling.upper_bound import compute_gap, upper_bound

NODES, NODE_CORES, NODE_MEMORY_MB = 300, 32, 128 * 1024
LEAST_W, MOST_W = 7.8, 11.11
REVENUE_PER_CORE_H = 1.2
"""EUR. Table 2 of the paper over its table 1 is a daily profit of about 262,000 EUR for 9,600 busy cores."""
PRICE_PER_KWH = 0.15
"""EUR; the paper uses a constant and does not print it."""


@dataclass(frozen=True)
class Scenario:
    """A cooling system and a season: the outside temperature is a sine over the day around its mean."""

    facility: str
    mean_c: float
    swing_c: float

    @property
    def segments(self) -> TemperatureSegments:
        """The day's stretches of nearly one temperature."""
        return temperature_segments(*daily_temperature(self.mean_c, self.swing_c))


SCENARIOS: Mapping[str, Scenario] = {
    "air winter": Scenario("air", 2.0, 3.0),
    "air summer": Scenario("air", 26.0, 6.0),
    "hybrid winter": Scenario("hybrid", 2.0, 3.0),
    "hybrid summer": Scenario("hybrid", 26.0, 6.0),
}


def machine(nodes: int) -> NodeCapacities:
    """Return that many of the paper's nodes."""
    return NodeCapacities(np.full(nodes, NODE_CORES), np.full(nodes, NODE_MEMORY_MB), np.zeros(nodes, np.int64))


def facility_of(scenario: Scenario, machine: NodeCapacities) -> Facility:
    """Return the scenario's cooling system for such a machine."""
    return facility_named(scenario.facility, full_power_w=float(machine.cores.sum()) * MOST_W)


def rates_of(scenario: Scenario, horizon_s: int) -> Rates:
    """Return the segments of the scenario's day, one day after the other."""
    segments, days = scenario.segments, horizon_s // DAY_S
    edges = (segments.edge_s[:-1] + DAY_S * np.arange(days)[:, None]).reshape(-1)
    count = len(edges)
    temperature_c = np.tile(segments.temperature_c, days)
    return Rates(np.append(edges, horizon_s), np.full(count, PRICE_PER_KWH), temperature_c, np.full(count, NO_LIMIT))


def least_pue(scenario: Scenario) -> float:
    """Return the best PUE of any hour on the paper's machine: no plan cools for less."""
    return float(facility_of(scenario, machine(NODES)).pue_range(scenario.segments.temperature_c)[0].min())


LOG = "CEA-curie.swf.gz"
FIRST_DAY, DAYS = 131, 23
WIDEST = 2048
"""Cores; with wider jobs the work would last far longer than the paper's 54 days."""
CORE_MEMORY_MB, MEMORY_SPREAD = 1024, 1.0
"""Memory per core: lognormal around a gigabyte, as the log has none; a unit never has more than its node."""


def find_log(folder: Path | None) -> Path:
    """Return the log's file in that folder. Raises BadInput if there is none."""
    where = folder / LOG if folder else None
    if where is None or not where.is_file():
        problem = f"{folder}: has no {LOG}" if folder else f"the study needs the log {LOG}"
        raise BadInput(
            problem, hint="name its folder by --logs; it is the CEA Curie log of the Parallel Workloads Archive"
        )
    return where


def curie_jobs(log: Path, *, first_day: int = FIRST_DAY, days: int = DAYS) -> Jobs:
    """Return the jobs of those days that are no wider than `WIDEST`, submitted from second 0 on."""
    jobs = read_swf(log).jobs
    day = (jobs.submit_s - jobs.submit_s[0]) // DAY_S - first_day
    first_s = int(jobs.submit_s[0]) + first_day * DAY_S
    kept = jobs.take((day >= 0) & (day < days) & (jobs.size <= WIDEST) & (jobs.runtime_s > 0))
    return Jobs(**{**vars(kept), "submit_s": kept.submit_s - first_s})


def work_of(jobs: Jobs, seed: int) -> Work:
    """Return the jobs as work: a unit for each 32 cores or part of them, all units equal."""
    rng = np.random.default_rng(seed)
    units = -(-jobs.size // NODE_CORES)
    cores = -(-jobs.size // units)
    per_core_mb = CORE_MEMORY_MB * np.exp(MEMORY_SPREAD * rng.standard_normal(len(jobs)))
    memory_mb = np.minimum(cores * per_core_mb, NODE_MEMORY_MB).astype(np.int64)
    power_w = jobs.size * rng.uniform(LEAST_W, MOST_W, len(jobs))
    revenue_per_s = jobs.size * REVENUE_PER_CORE_H / HOUR_S
    none = np.zeros(len(jobs), np.int64)
    latest_end_s = np.full(len(jobs), NO_LIMIT)
    return Work(
        job_id=jobs.job_id,
        units=units,
        cores=cores,
        memory_mb=memory_mb,
        gpus=none,
        duration_s=jobs.runtime_s,
        release_s=jobs.submit_s,
        latest_end_s=latest_end_s,
        power_w=power_w,
        revenue_per_s=revenue_per_s,
    )


@dataclass(frozen=True)
class CoolingExperiment:
    """A solver, by name, in a scenario, and the seconds that a search has for a plan."""

    scenario: str
    solver: str
    search_s: float
    seed: int


@dataclass(frozen=True)
class CoolingResult:
    """Profits of the days up to the last submission, and the totals of all plans.

    `gap` has a share for each of these days, and is empty for rule-based schedulers. `seconds` is the time of all
    plans, `search_s` the part after the plans that a search began with; `own` counts the plans that differ from those.
    `notes` have the reason for each plan that a search has not made itself.
    """

    profit: tuple[float, ...]
    gap: tuple[float, ...]
    makespan_s: int
    pue: float
    seconds: float
    search_s: float
    own: int
    plans: int
    violations: int
    notes: tuple[str, ...]

    @property
    def profit_then(self) -> float:
        """The profit until the last submission."""
        return sum(self.profit)

    @property
    def median_gap_pct(self) -> float | None:
        """The median of the days' gaps to the upper bound."""
        return 100 * median(self.gap) if self.gap else None


NO_LIMIT_S = HOUR_S
REMEMBERED = 64
"""Days whose plans are kept for the other scenarios."""


@dataclass(frozen=True)
class SolvedDay:
    """A plan, its computing time, the part of a search in it, and whether the search found another plan than its first.

    A plan that was computed before, for another scenario, counts with its computing time then.
    """

    plan: Plan
    seconds: float
    search_s: float
    is_own: bool


def solve_day(problem: Problem, solver: str, search_s: float) -> SolvedDay:
    """Return the solver's plan; a search may take `search_s` seconds after the plan that it begins with."""
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
    """Jobs and machine of a problem, compared by their digest."""

    digest: str
    problem: Problem = field(compare=False)


@dataclass(frozen=True, eq=False)
class _StartPlans:
    """The plans of which one is best in each scenario, and their computing time."""

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
        replace(day.problem, rates=rates_of(scenario, horizon_s), facility=facility_of(scenario, machine))
        for scenario in SCENARIOS.values()
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
"""Two sums of a plan's profit agree if their relative difference is smaller."""


@dataclass(frozen=True)
class PlannerSite:
    """A machine in a scenario."""

    machine: NodeCapacities
    scenario: Scenario


@dataclass(frozen=True)
class DayResult:
    """The result of a plan; `gap` is its gap to the upper bound as a share of it, None for rules."""

    problem: Problem
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
    """Yield the plan of each day, and after the last submission plans of many days until no job is left.

    A search may take `search_s` per plan beyond the one that it begins with.
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


def carry_over_running(problem: Problem, plan: Plan) -> Running:
    """Return the jobs that run beyond the horizon, with times relative to it."""
    work, ran, horizon_s = problem.work, problem.running, problem.rates.horizon_s
    end_s = plan.start_s + work.duration_s
    job = np.repeat(np.arange(len(work)), work.units)
    unit = np.flatnonzero((plan.placed & (end_s > horizon_s))[job])
    job, old = job[unit], ran.until_s > horizon_s
    return Running(
        node=np.concatenate([ran.node[old], plan.node[unit]]),
        until_s=np.concatenate([ran.until_s[old], end_s[job]]) - horizon_s,
        cores=np.concatenate([ran.cores[old], work.cores[job]]),
        memory_mb=np.concatenate([ran.memory_mb[old], work.memory_mb[job]]),
        gpus=np.concatenate([ran.gpus[old], work.gpus[job]]),
        power_w=np.concatenate([ran.power_w[old], work.power_w[job] / work.units[job]]),
        revenue_per_s=np.concatenate([ran.revenue_per_s[old], work.revenue_per_s[job] / work.units[job]]),
    )


def carry_over_waiting(problem: Problem, plan: Plan) -> Work:
    """Return the jobs that have not started, their times counted from the horizon."""
    work = problem.work.take(~plan.placed)
    horizon_s = problem.rates.horizon_s
    return replace(
        work, release_s=np.maximum(work.release_s - horizon_s, 0), latest_end_s=work.latest_end_s - horizon_s
    )


def _time_for(behind: Work, machine: NodeCapacities) -> int:
    """Return the whole days in which the machine could run all waiting jobs without gaps."""
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
        problem=problem,
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


def run(experiment: CoolingExperiment, jobs: Jobs, *, nodes: int, days: int) -> CoolingResult:
    """Return the result of the experiment with jobs that are submitted on that many days."""
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
