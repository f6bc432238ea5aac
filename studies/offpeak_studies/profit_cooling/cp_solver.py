"""Solves by CP-SAT which of some jobs start when, while all other jobs of a plan stay.

The model has intervals on cumulative resources, earnings linear in each start, and the PUE of its own load.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", section 5. The nodes are one resource here,
because equal nodes multiply equal solutions; only a small question has separate nodes.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_KWH
from offpeak.model.facility import STEP_W
from offpeak.plugin.planner.capacity import watts
from offpeak.plugin.planner.problem import (
    NO_LIMIT,
    Plan,
    Problem,
    may_use,
    overlap_s,
    resource_columns,
)

EXACT_PAIRS = 400
"""The most pairs of a job and a node for which a question has single nodes; larger ones are rarely answered in time."""
SAME_COST = 1e-12
"""Costs of energy that differ by less than this share are equal."""
MOST_MONEY = 1e15
"""No sum of money may become a larger integer."""
MJ_PER_J = 1000


@dataclass(frozen=True)
class EnergyBand:
    """A range of a step's energy [mJ], both ends included, and the cost of all its energy and cooling [currency/J].

    PUE is that of a step's mean power, rounded to 500 W, so the cost is linear within a band.
    """

    from_mj: int
    until_mj: int
    cost_per_j: float


@dataclass(frozen=True, eq=False)
class CpQuestion:
    """Which of the jobs `which` starts when, while all others stay as the incumbent has them?

    `hinted`: the solver begins with the incumbent. With `single_nodes` the answer is exact; without it all nodes
    together are one resource, on which jobs of several units may `keep_nodes`. `bands` are the energy bands of each
    step: by them the PUE is that of the load of the answer.
    """

    problem: Problem
    incumbent: Plan
    which: Int64
    hinted: bool
    keep_nodes: bool
    single_nodes: bool
    bands: tuple[tuple[EnergyBand, ...], ...] = ()

    @property
    def fixed(self) -> NDArray[np.bool_]:
        """Which jobs stay as the incumbent has them."""
        fixed = self.incumbent.placed.copy()
        fixed[self.which] = False
        return fixed


@dataclass(frozen=True, eq=False)
class CpAnswer:
    """Each job's start, the horizon for none, its nodes if single, bool[jobs, nodes]; `is_best` if none is better."""

    start_s: Int64
    nodes: NDArray[np.bool_] | None
    is_best: bool


def build_cp_question(
    problem: Problem, incumbent: Plan, which: Int64, *, hinted: bool, keep_nodes: bool = False
) -> CpQuestion:
    """Return the question, exact if it is small."""
    is_small = len(which) * len(problem.machine) <= EXACT_PAIRS
    question = CpQuestion(problem, incumbent, which, hinted, keep_nodes and not is_small, is_small)
    return replace(question, bands=_bands_of_steps(question))


@dataclass(frozen=True, eq=False)
class _Model:
    """The model and variables of each job: its start, the horizon for none, whether it starts, and its interval."""

    cp: Any
    model: Any
    start: list[Any]
    present: list[Any]
    interval: list[Any]

    def ran_s(self, job: int, duration_s: int, edge_s: int) -> Any:
        """Return for how long the job has run at that edge: min(max(edge - start, 0), duration)."""
        late = self.model.new_int_var(0, edge_s, "")
        self.model.add_max_equality(late, [edge_s - self.start[job], 0])
        ran = self.model.new_int_var(0, min(duration_s, edge_s), "")
        self.model.add_min_equality(ran, [late, duration_s])
        return ran


def solve(question: CpQuestion, seconds: float, seed: int) -> CpAnswer | None:
    """Return the best answer that was found in time; None if there was none."""
    # Imported here: it takes a third of a second, and only searches by constraints need it.
    from ortools.sat.python import cp_model

    built = _build_model(question, cp_model)
    _keep_machine(built, question)
    on_node = _single_nodes(built, question) if question.single_nodes else None
    built.model.maximize(_profit(built, question))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    # Ctrl-C ends the program, and not just this search.
    solver.parameters.catch_sigint_signal = False
    status = solver.solve(built.model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    start_s = np.array([solver.value(start) for start in built.start], np.int64)
    nodes = None if on_node is None else np.array([[solver.value(has) for has in row] for row in on_node], np.bool_)
    return CpAnswer(start_s, nodes, is_best=status == cp_model.OPTIMAL)


def _build_model(question: CpQuestion, cp_model: Any) -> _Model:
    """Return the model with all jobs, without any resource and without an aim."""
    work, incumbent, horizon_s = question.problem.work, question.incumbent, question.problem.rates.horizon_s
    built = _Model(cp_model, cp_model.CpModel(), [], [], [])
    model, hint_s = built.model, np.where(incumbent.placed, incumbent.start_s, horizon_s)
    latest_s = np.minimum(work.latest_end_s - work.duration_s, horizon_s - 1)
    for number, job in enumerate(question.which.tolist()):
        never, release_s = [horizon_s, horizon_s], int(work.release_s[job])
        spans = [[release_s, int(latest_s[job])], never] if release_s <= latest_s[job] else [never]
        start = model.new_int_var_from_domain(cp_model.Domain.from_intervals(spans), f"s{number}")
        present = model.new_bool_var("")
        model.add(start < horizon_s).only_enforce_if(present)
        model.add(start == horizon_s).only_enforce_if(~present)
        built.start.append(start)
        built.present.append(present)
        duration_s = int(work.duration_s[job])
        built.interval.append(model.new_optional_fixed_size_interval_var(start, duration_s, present, ""))
        if question.hinted:
            model.add_hint(start, int(hint_s[job]))
    return built


def _profit(built: _Model, question: CpQuestion) -> Any:
    """Return revenue less energy and cooling of all jobs, with the PUE of the energy that all use together.

    This is the paper's table of PUE by load and temperature: each step has its temperature, and a Boolean for each band
    of the load. The cost of a band is linear in the energy, which is one variable: a band has no term for each job.
    """
    work, model = question.problem.work.take(question.which), built.model
    power_w, revenue, duration_s = work.power_w, work.revenue_per_s, work.duration_s
    highest_cost = max((abs(band.cost_per_j) for bands in question.bands for band in bands), default=0.0)
    most = max(float(revenue.max(initial=0)), highest_cost * float(power_w.max(initial=0)), 1e-12)
    scale = MOST_MONEY / max(float(duration_s.sum()), 1.0) / most
    ran_s = [
        [built.ran_s(job, each_s, edge_s) for edge_s in question.problem.rates.edge_s[1:].tolist()]
        for job, each_s in enumerate(duration_s.tolist())
    ]
    profit = _weighted(scale * revenue, [ran[-1] for ran in ran_s])
    for step, (bands, other_j) in enumerate(zip(question.bands, _fixed_energy_j(question).tolist(), strict=True)):
        inside_s = [ran[step] - (ran[step - 1] if step else 0) for ran in ran_s]
        if len(bands) == 1:
            profit -= _weighted(power_w * (bands[0].cost_per_j * scale), inside_s)
            continue
        # One band is chosen, and has all the energy; so large a unit of it that neither it nor its cost loses much.
        unit_mj = max(1, round(math.sqrt(bands[-1].until_mj * MJ_PER_J / (scale * highest_cost))))
        used, chosen = [], [model.new_bool_var("") for _ in bands]
        for band, is_chosen in zip(bands, chosen, strict=True):
            low, high = max(0, -(-band.from_mj // unit_mj)), band.until_mj // unit_mj
            used.append(model.new_int_var(0, high, ""))
            model.add(used[-1] <= high * is_chosen)
            model.add(used[-1] >= low * is_chosen)
            profit -= round(unit_mj * band.cost_per_j * scale / MJ_PER_J) * used[-1]
        model.add_exactly_one(chosen)
        energy_mj = _weighted(MJ_PER_J * power_w, inside_s) + round(other_j * MJ_PER_J)
        model.add_linear_constraint(energy_mj - unit_mj * sum(used), -(unit_mj // 2), (unit_mj - 1) // 2)
    return profit


def _weighted(weights: Float64, terms: list[Any]) -> Any:
    """Return the sum of the terms, each times its weight rounded to an integer."""
    return sum(weight * term for weight, term in zip(np.rint(weights).astype(np.int64).tolist(), terms, strict=True))


def _fixed_energy_j(question: CpQuestion) -> Float64:
    """Return the energy that running jobs and the incumbent's other jobs use in each step."""
    problem, fixed = question.problem, question.fixed
    work, running, rates = problem.work, problem.running, problem.rates
    start_s = question.incumbent.start_s[fixed]
    other_j = work.power_w[fixed] @ overlap_s(rates, start_s, start_s + work.duration_s[fixed])
    return np.asarray(other_j + running.power_w @ overlap_s(rates, np.zeros_like(running.until_s), running.until_s))


def _bands_of_steps(question: CpQuestion) -> tuple[tuple[EnergyBand, ...], ...]:
    """Return the bands of each step, up to the load of all jobs together; beyond the table of PUE is one band."""
    least_w = _fixed_energy_j(question) / np.diff(question.problem.rates.edge_s)
    most_w = least_w + question.problem.work.power_w[question.which].sum()
    return tuple(
        _bands(question.problem, step, low_w, high_w)
        for step, (low_w, high_w) in enumerate(zip(least_w.tolist(), most_w.tolist(), strict=True))
    )


def _bands(problem: Problem, step: int, least_w: float, most_w: float) -> tuple[EnergyBand, ...]:
    """Return the bands of equal PUE of the step between these loads; half a band is rounded to the even one."""
    rates = problem.rates
    half_mj = round(1000 * STEP_W / 2) * int(rates.edge_s[step + 1] - rates.edge_s[step])
    numbers = np.arange(max(round(least_w / STEP_W) - 1, 0), round(most_w / STEP_W) + 2)
    temperature_c = np.full(len(numbers), rates.temperature_c[step])
    pue = problem.facility.pue_at(np.asarray(numbers * STEP_W, np.float64), temperature_c)
    bands: list[EnergyBand] = []
    for number, each in zip(numbers.tolist(), (pue * rates.price_per_kwh[step] / J_PER_KWH).tolist(), strict=True):
        is_odd = number % 2
        from_mj, until_mj = (2 * number - 1) * half_mj + is_odd, (2 * number + 1) * half_mj - is_odd
        if bands and abs(bands[-1].cost_per_j - each) <= SAME_COST * abs(each):
            bands[-1] = EnergyBand(bands[-1].from_mj, until_mj, each)
        else:
            bands.append(EnergyBand(from_mj, until_mj, each))
    return tuple(bands)


POWER = 4
"""The column of watts; limits follow."""


def _keep_machine(built: _Model, question: CpQuestion) -> None:
    """Keep the machine as a whole from being overfull, below its cap on power, and within the limits."""
    problem, which = question.problem, question.which
    work, machine = problem.work, problem.machine
    cap_w = int(min(problem.rates.cap_w.max(), NO_LIMIT // 4))
    limits = np.unique(problem.limits.rows_of(work.demand[which])[1])
    whole = np.array([machine.cores.sum(), machine.memory_mb.sum(), machine.gpus.sum(), len(machine), cap_w], np.int64)
    has = np.concatenate([whole, problem.limits.most[limits]])
    asks = _requested_resources(problem, limits)[which]
    _keep_within(built.model, built.interval, asks, _used_resources(question, limits, cap_w), has)
    if not question.keep_nodes:
        return
    # Jobs of several units keep the nodes that the incumbent has for them.
    job = np.repeat(np.arange(len(work)), work.units)
    wide = (work.units[job] > 1) & question.incumbent.placed[job]
    for node, capacity in enumerate(machine.cores.tolist()):
        there = job[wide & (question.incumbent.node == node)]
        if len(there) > 1 and int(work.cores[there].sum()) > capacity:
            built.model.add_cumulative([built.interval[at] for at in there], work.cores[there].tolist(), capacity)


def _keep_within(model: Any, intervals: list[Any], asks: Int64, taken: tuple[Int64, Int64], has: Int64) -> None:
    """Keep jobs with these requests, and what others take from each instant on, within what there is."""
    at_s, used = taken
    others = [
        model.new_fixed_size_interval_var(from_s, until_s - from_s, "")
        for from_s, until_s in zip(at_s.tolist(), [*at_s[1:].tolist(), int(at_s[-1]) + 1], strict=True)
    ]
    for resource, most in enumerate(has.tolist()):
        demands = asks[:, resource].tolist() + used[:, resource].tolist()
        if sum(demands) > most:
            model.add_cumulative([*intervals, *others], demands, most)


def _requested_resources(problem: Problem, limits: Int64) -> Int64:
    """Return the whole jobs' cores, MB, GPUs, units that share no node, watts, and amounts of the limits."""
    work = problem.work
    each = (work.cores, work.memory_mb, work.gpus, _alone(problem, work.cores))
    columns = [*(work.units * requested for requested in each), watts(work.power_w)]
    return np.concatenate([np.stack(columns, axis=1), problem.limits.amounts_of(work.demand)[:, limits]], axis=1)


def _alone(problem: Problem, cores: Int64) -> Int64:
    """Return 1 for units that request more than half of a node's cores, so that no node holds two, 0 for others."""
    return np.asarray(2 * cores > problem.machine.cores.max(), np.int64)


def _used_resources(question: CpQuestion, limits: Int64, cap_w: int) -> tuple[Int64, Int64]:
    """Return the resources that running jobs and the incumbent's other jobs use; a lower cap counts as used power.

    Running jobs may exceed a limit: then all of it counts as used.
    """
    problem, fixed = question.problem, question.fixed
    running, rates, others = problem.running, problem.rates, problem.limits.taken
    start_s = question.incumbent.start_s[fixed]
    alone = _alone(problem, running.cores)
    ran = np.column_stack([resource_columns(running), alone, watts(running.power_w)])
    limited = others.amount[:, None] * (others.limit[:, None] == limits)
    asks = np.concatenate(
        [
            np.pad(ran, ((0, 0), (0, len(limits)))),
            np.pad(limited, ((0, 0), (POWER + 1, 0))),
            _requested_resources(problem, limits)[fixed],
        ]
    )
    from_s = np.concatenate([np.zeros(len(running), np.int64), others.from_s, start_s])
    until_s = np.concatenate([running.until_s, others.until_s, start_s + problem.work.duration_s[fixed]])
    at_s, used = _over_time(from_s, until_s, asks, np.append(rates.edge_s, 0))
    step = np.clip(np.searchsorted(rates.edge_s, at_s, side="right") - 1, 0, len(rates.cap_w) - 1)
    missing_w = np.where(at_s < rates.horizon_s, cap_w - np.minimum(rates.cap_w[step], cap_w), 0)
    used[:, POWER] = np.minimum(used[:, POWER] + missing_w, cap_w)
    used[:, POWER + 1 :] = np.minimum(used[:, POWER + 1 :], problem.limits.most[limits])
    return at_s, used


def _over_time(from_s: Int64, until_s: Int64, asks: Int64, at_s: Int64) -> tuple[Int64, Int64]:
    """Return instants, `at_s` among them, and the sum of the requests from each on; int64[instants, resources]."""
    at_s = np.unique(np.concatenate([from_s, until_s, at_s]))
    change = np.zeros((len(at_s), asks.shape[1]), np.int64)
    np.add.at(change, np.searchsorted(at_s, from_s), asks)
    np.subtract.at(change, np.searchsorted(at_s, until_s), asks)
    return at_s, np.cumsum(change, axis=0)


def _single_nodes(built: _Model, question: CpQuestion) -> list[list[Any]]:
    """Give each unit of a job a node of its own that has what it asks for; return whether job i has node n."""
    problem, which, incumbent, model = question.problem, question.which, question.incumbent, built.model
    work, running = problem.work, problem.running
    asks, ran, has = resource_columns(work), resource_columns(running), resource_columns(problem.machine)
    may = may_use(problem, which[:, None], np.arange(len(has))) & (asks[which][:, None] <= has).all(axis=2)
    unit_of = np.repeat(np.arange(len(work)), work.units)
    on_node = [[model.new_bool_var("") for _ in has] for _ in built.start]
    intervals = []
    for job, at, start, present, on in zip(which.tolist(), may, built.start, built.present, on_node, strict=True):
        model.add(sum(on) == int(work.units[job]) * present)
        for node, is_there in enumerate(on):
            if not at[node]:
                model.add(is_there == 0)
            if question.hinted:
                model.add_hint(is_there, bool((incumbent.node[unit_of == job] == node).any()))
        duration_s = int(work.duration_s[job])
        intervals.append([model.new_optional_fixed_size_interval_var(start, duration_s, each, "") for each in on])
    fixed = question.fixed[unit_of]
    for node, capacity in enumerate(has):
        here, there = unit_of[fixed & (incumbent.node == node)], running.node == node
        from_s = np.concatenate([np.zeros(int(there.sum()), np.int64), incumbent.start_s[here]])
        until_s = np.concatenate([running.until_s[there], incumbent.start_s[here] + work.duration_s[here]])
        taken = _over_time(from_s, until_s, np.concatenate([ran[there], asks[here]]), np.zeros(1, np.int64))
        _keep_within(model, [row[node] for row in intervals], asks[which], taken, capacity)
    return on_node
