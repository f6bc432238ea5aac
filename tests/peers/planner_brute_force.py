"""The best plan of a tiny problem by trying everything: independent of the planner's code but for its data types.

Every subset of the jobs, every start second and every choice of nodes are tried. Profit is that of
docs/science/planner.md: within the horizon, revenue less energy less cooling, with the PUE of each step's mean
power, rounded to 500 W.
"""

from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from offpeak.model.facility import Facility
from offpeak.plugin.planner.problem import (
    NO_LIMIT,
    NOTHING_RUNS,
    Demands,
    LimitUse,
    NodeCapacities,
    PlanLimits,
    Problem,
    Rates,
    Running,
    Work,
)

HORIZON_S = 9
FULL_W = 4000.0


@dataclass(frozen=True)
class Best:
    """The largest profit of all plans, and the starts of one plan that has it; None for a job that does not start."""

    profit: float
    start_s: tuple[int | None, ...]


def best_by_trying(problem: Problem) -> Best:
    """Return the best plan of all that keep every rule."""
    choices = [_starts_of(problem, job) for job in range(len(problem.work))]
    found = sorted(((profit_by_second(problem, starts), starts) for starts in product(*choices)), key=_by_profit)
    for profit, starts in found:
        kept = _keeps_the_cap(problem, starts) and not exceeded_limits(problem, starts)
        if kept and _finds_nodes(problem, starts):
            return Best(profit, starts)
    raise AssertionError("the plan that starts nothing breaks a rule")


def profit_by_second(problem: Problem, starts: tuple[int | None, ...]) -> float:
    """Return revenue less energy less cooling, second by second."""
    work, running, rates = problem.work, problem.running, problem.rates
    earned_per_s, drawn_w = np.zeros(rates.horizon_s), np.zeros(rates.horizon_s)
    for job, start_s in enumerate(starts):
        if start_s is not None:
            earned_per_s[start_s : start_s + work.duration_s[job]] += work.revenue_per_s[job]
            drawn_w[start_s : start_s + work.duration_s[job]] += work.power_w[job]
    for row in range(len(running)):
        earned_per_s[: running.until_s[row]] += running.revenue_per_s[row]
        drawn_w[: running.until_s[row]] += running.power_w[row]
    profit = float(earned_per_s.sum())
    for step in range(len(rates.cap_w)):
        joules = float(drawn_w[rates.edge_s[step] : rates.edge_s[step + 1]].sum())
        mean_w = joules / float(rates.edge_s[step + 1] - rates.edge_s[step])
        pue = _pue(problem.facility, mean_w, float(rates.temperature_c[step]))
        profit -= joules * pue * float(rates.price_per_kwh[step]) / 3.6e6
    return profit


def tiny_problem(seed: int, *, mixed: bool = False, cap: bool = False, limited: bool = False) -> Problem:
    """Draw two to four jobs for two or three nodes and nine seconds.

    About a third of the jobs cost more than they earn, and about a third have a latest end that they may not meet.
    """
    rng = np.random.default_rng(seed)
    jobs, nodes = int(rng.integers(2, 5)), int(rng.integers(2, 4))
    duration_s, release_s = rng.integers(1, 7, jobs), rng.integers(0, 6, jobs)
    latest_end_s = np.where(rng.random(jobs) < 0.35, release_s + rng.integers(0, 9, jobs), NO_LIMIT)
    power_w = rng.integers(1, 12, jobs) * 100.0
    edge_s = np.array([0, *sorted(rng.choice(np.arange(2, HORIZON_S - 1), 2, replace=False)), HORIZON_S])
    price = np.where(rng.random(3) < 0.15, -100.0, rng.uniform(50.0, 400.0, 3))
    break_even = power_w * 225.0 * 1.3 / 3.6e6
    whole = rng.random() < 0.3
    work = Work(
        np.arange(1, jobs + 1), rng.integers(1, 3, jobs), np.full(jobs, 8) if whole else rng.integers(1, 7, jobs),
        rng.integers(0, 9, jobs), (rng.random(jobs) < 0.2).astype(np.int64), duration_s, release_s, latest_end_s,
        power_w, break_even * rng.uniform(0.5, 2.0, jobs),
    )  # fmt: skip
    sizes = rng.integers(3, 9, nodes) if mixed else np.full(nodes, 8)
    if whole:
        work = Work(**{**vars(work), "cores": np.full(jobs, int(sizes.min()))})
    gpus = (rng.random(nodes) < 0.5).astype(np.int64) if mixed else np.ones(nodes, np.int64)
    machine = NodeCapacities(sizes, sizes + 4 if mixed else np.full(nodes, 12), gpus)
    running = _running(rng) if rng.random() < 0.4 else NOTHING_RUNS
    least_w = int(running.power_w.sum())
    cap_w = np.maximum(rng.integers(4, 14, 3) * 100, least_w) if cap else np.full(3, NO_LIMIT)
    rates = Rates(edge_s, price, rng.uniform(-5.0, 40.0, 3), cap_w)
    problem = Problem(work, machine, running, rates, steep_facility())
    return with_random_limits(problem, rng) if limited else problem


def with_random_limits(problem: Problem, rng: np.random.Generator) -> Problem:
    """Return the problem with three limits: most of the jobs take one or two of them, and others take some too.

    Others may take more than a limit, and some jobs may request more.
    """
    most = rng.integers(1, 6, 3)
    rows: list[list[tuple[int, int]]] = [[], [(0, 1)], [(1, 2)], [(0, 2), (2, 1)], [(2, 5)]]
    demands = Demands(
        np.cumsum([0, *map(len, rows)]),
        np.array([limit for row in rows for limit, _ in row]),
        np.array([amount for row in rows for _, amount in row]),
    )
    from_s = rng.integers(0, problem.rates.horizon_s, 3) * rng.integers(0, 2, 3)
    run_s = rng.integers(1, problem.rates.horizon_s, 3)
    taken = LimitUse(rng.integers(0, 3, 3), from_s, from_s + run_s, rng.integers(1, 3, 3))
    jobs = len(problem.work)
    demand = np.where(rng.random(jobs) < 0.6, rng.integers(1, len(rows), jobs), 0)
    limits = PlanLimits(("licence a", "licence b", "jobs of QOS c"), most, demands, taken)
    return replace(problem, work=replace(problem.work, demand=demand), limits=limits)


def exceeded_limits(problem: Problem, starts: tuple[int | None, ...]) -> list[tuple[int, int]]:
    """Return each limit and second in which jobs of the plan take something although too much is taken."""
    work, limits = problem.work, problem.limits
    if not len(limits):
        return []
    first, limit, amount = limits.demands
    last_s = max(
        (start_s + int(work.duration_s[job]) for job, start_s in enumerate(starts) if start_s is not None), default=0
    )
    planned, others = np.zeros((2, len(limits), last_s), np.int64)
    for job, start_s in enumerate(starts):
        for row in range(first[work.demand[job]], first[work.demand[job] + 1]) if start_s is not None else ():
            planned[limit[row], start_s : start_s + work.duration_s[job]] += amount[row]
    for number, from_s, until_s, many in zip(*limits.taken, strict=True):
        others[number, from_s:until_s] += many
    exceeded = np.argwhere((planned > 0) & (planned + others > limits.most[:, None]))
    return [(int(number), int(second)) for number, second in exceeded]


def steep_facility() -> Facility:
    """Return cooling whose PUE falls steeply with load and rises with the temperature."""
    pue = np.array([[1.6, 1.9], [1.3, 1.6], [1.1, 1.4]])
    return Facility("steep", np.array([0.1, 0.4, 1.0]) * FULL_W, np.array([0.0, 30.0]), pue)


def _running(rng: np.random.Generator) -> Running:
    until_s = rng.integers(1, HORIZON_S + 4, 1)
    one = np.ones(1, np.int64)
    return Running(0 * one, until_s, 2 * one, 3 * one, 0 * one, np.array([200.0]), np.array([0.02]))


def _by_profit(found: tuple[float, tuple[int | None, ...]]) -> float:
    return -found[0]


def _starts_of(problem: Problem, job: int) -> list[int | None]:
    work = problem.work
    last_s = min(problem.rates.horizon_s - 1, int(work.latest_end_s[job] - work.duration_s[job]))
    return [None, *range(int(work.release_s[job]), last_s + 1)]


def _pue(facility: Facility, power_w: float, temperature_c: float) -> float:
    rounded_w = 500.0 * round(power_w / 500.0)
    column = [float(np.interp(temperature_c, facility.temperature_c, row)) for row in facility.pue]
    return float(np.interp(rounded_w, facility.power_w, column))


def _keeps_the_cap(problem: Problem, starts: tuple[int | None, ...]) -> bool:
    work, running, rates = problem.work, problem.running, problem.rates
    for second in range(rates.horizon_s):
        step = int(np.searchsorted(rates.edge_s, second, side="right")) - 1
        drawn_w = float(running.power_w[running.until_s > second].sum())
        for job, start_s in enumerate(starts):
            if start_s is not None and start_s <= second < start_s + work.duration_s[job]:
                drawn_w += float(work.power_w[job])
        if drawn_w > rates.cap_w[step] + 1e-6:
            return False
    return True


def _finds_nodes(problem: Problem, starts: tuple[int | None, ...]) -> bool:
    """Try all choices of nodes for all jobs that start, one job after the other."""
    work, machine, running = problem.work, problem.machine, problem.running
    has = np.stack([machine.cores, machine.memory_mb, machine.gpus], axis=1)
    last_s = problem.rates.horizon_s + int(max(work.duration_s.max(initial=0), running.until_s.max(initial=0)))
    free = np.repeat(has[:, None, :], last_s, axis=1)
    for row in range(len(running)):
        taken = [running.cores[row], running.memory_mb[row], running.gpus[row]]
        free[running.node[row], : running.until_s[row]] -= np.array(taken)
    return _place(problem, [job for job, start_s in enumerate(starts) if start_s is not None], starts, free)


def _place(problem: Problem, jobs: list[int], starts: tuple[int | None, ...], free: np.ndarray) -> bool:
    if not jobs:
        return True
    work, job, start_s = problem.work, jobs[0], starts[jobs[0]]
    assert start_s is not None
    requested = np.array([work.cores[job], work.memory_mb[job], work.gpus[job]])
    span = slice(start_s, start_s + int(work.duration_s[job]))
    fitting = [node for node in range(len(free)) if (free[node, span] >= requested).all()]
    for nodes in combinations(fitting, int(work.units[job])):
        left = free.copy()
        for node in nodes:
            left[node, span] -= requested
        if _place(problem, jobs[1:], starts, left):
            return True
    return False
