"""Solves a question by CP-SAT in a process of its own.

The process may be killed or take too long; the present plan then remains. Question and answer are columns that can be
sent to another process. The model has intervals on cumulative resources, and earnings linear in each start.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", section 5. The nodes are one resource here,
because equal nodes multiply equal solutions; only a small question has separate nodes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import OffpeakError
from offpeak.installation import missing_extra
from offpeak.model.arrays import Float64, Int64


@dataclass(frozen=True, eq=False)
class ResourceUse:
    """The use of each resource by jobs outside the question from `at_s[i]` on; int64[steps, resources]."""

    at_s: Int64
    used: Int64


@dataclass(frozen=True, eq=False)
class NodeAssignment:
    """Jobs, by their place in the question, that keep a node, and the cores that each has there of its `capacity`."""

    job: Int64
    cores: Int64
    capacity: int


@dataclass(frozen=True, eq=False)
class SingleNodes:
    """The nodes one by one, for a small question: its answer has the nodes of each job.

    Each of a job's `units` needs its own node of those that the job `may_use`, bool[jobs, nodes], with `asks`,
    int64[jobs, 3], of the resources that each node `has`, int64[nodes, 3]. `taken` is the use of each node by others;
    `hint` are the nodes of a job in the incumbent, bool[jobs, nodes].
    """

    units: Int64
    asks: Int64
    has: Int64
    may_use: NDArray[np.bool_]
    taken: tuple[ResourceUse, ...]
    hint: NDArray[np.bool_] | None


@dataclass(frozen=True)
class EnergyBand:
    """A range of a step's energy [mJ], both ends included, and the cost of all its energy and cooling [currency/J]."""

    from_mj: int
    until_mj: int
    cost_per_j: float


@dataclass(frozen=True, eq=False)
class EnergyCost:
    """What energy and cooling cost in each step, by the energy that all jobs use in it.

    PUE is that of a step's mean power, rounded to 500 W, so the cost is linear within a band. `other_j` is what jobs
    outside the question use.
    """

    power_w: Float64
    revenue_per_s: Float64
    other_j: Float64
    bands: tuple[tuple[EnergyBand, ...], ...]


@dataclass(frozen=True, eq=False)
class CpQuestion:
    """Which of these jobs starts when?

    `asks` are the whole jobs' cores, MB, GPUs, units that exclude a second one of their kind on a node, watts, and what
    they take of limits, against what the machine `has`; int64[jobs, 5 + limits]. `per_s` is the earning of a job per
    second in each step between `edge_s`; the last edge is the horizon, and a job that starts there does not start in
    this plan. So does a job that cannot start between `earliest_s` and `latest_s`. `hint_s` is the incumbent's start,
    the horizon for none.

    With `nodes` and `energy` the answer is exact. Without `nodes` all nodes together are one resource, and without
    `energy` a second earns `per_s` whatever the load is.
    """

    asks: Int64
    has: Int64
    duration_s: Int64
    earliest_s: Int64
    latest_s: Int64
    hint_s: Int64 | None
    edge_s: Int64
    per_s: Float64
    taken: ResourceUse
    on_nodes: tuple[NodeAssignment, ...] = ()
    nodes: SingleNodes | None = None
    energy: EnergyCost | None = None


@dataclass(frozen=True, eq=False)
class CpAnswer:
    """Each job's start, the horizon for none, its nodes if asked, bool[jobs, nodes]; `is_best` if none is better."""

    start_s: Int64
    nodes: NDArray[np.bool_] | None
    is_best: bool


FINENESS = 1e6
"""The largest earning per second becomes this integer."""
MJ_PER_J = 1000


@dataclass(frozen=True, eq=False)
class _Model:
    """The model and a variable of each job: its start, whether it starts, and its interval."""

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


def warm_up() -> None:
    """Load the solver."""
    import ortools.sat.python.cp_model  # noqa: F401


def solve(question: CpQuestion, seconds: float, seed: int) -> CpAnswer | None:
    """Return the best answer that was found in time; None if there was none."""
    # Imported here: it takes a third of a second, and only searches by constraints need it.
    from ortools.sat.python import cp_model

    built = _build_model(question, cp_model)
    _resources(built, question)
    on_node = _single_nodes(built, question, question.nodes) if question.nodes else None
    if question.energy is None:
        built.model.maximize(_earned(built, question))
    else:
        built.model.maximize(_profit(built, question, question.energy))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    status = solver.solve(built.model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    start_s = np.array([solver.value(start) for start in built.start], np.int64)
    nodes = None if on_node is None else np.array([[solver.value(has) for has in row] for row in on_node], np.bool_)
    return CpAnswer(start_s, nodes, is_best=status == cp_model.OPTIMAL)


def _build_model(question: CpQuestion, cp_model: Any) -> _Model:
    """Return the model with all jobs, without any resource and without an aim."""
    model, horizon_s = cp_model.CpModel(), int(question.edge_s[-1])
    built = _Model(cp_model, model, [], [], [])
    for job in range(len(question.duration_s)):
        duration_s, earliest_s = int(question.duration_s[job]), int(question.earliest_s[job])
        latest_s = min(int(question.latest_s[job]), horizon_s - 1)
        spans = [[earliest_s, latest_s], [horizon_s, horizon_s]] if earliest_s <= latest_s else [[horizon_s, horizon_s]]
        start = model.new_int_var_from_domain(cp_model.Domain.from_intervals(spans), f"s{job}")
        present = model.new_bool_var("")
        model.add(start < horizon_s).only_enforce_if(present)
        model.add(start == horizon_s).only_enforce_if(~present)
        built.start.append(start)
        built.present.append(present)
        built.interval.append(model.new_optional_fixed_size_interval_var(start, duration_s, present, ""))
        if question.hint_s is not None:
            model.add_hint(start, int(question.hint_s[job]))
    return built


def _earned(built: _Model, question: CpQuestion) -> Any:
    """Return what all jobs earn at the rates of the question."""
    scale = FINENESS / max(float(np.abs(question.per_s).max(initial=0)), 1e-12)
    rates = np.rint(question.per_s * scale).astype(np.int64)
    after = np.concatenate([rates[:, 1:], np.zeros((len(rates), 1), np.int64)], axis=1)
    terms = [
        change * built.ran_s(job, int(question.duration_s[job]), edge_s)
        for job, changes in enumerate((rates - after).tolist())
        for change, edge_s in zip(changes, question.edge_s[1:].tolist(), strict=True)
        if change
    ]
    return sum(terms)


def _profit(built: _Model, question: CpQuestion, energy: EnergyCost) -> Any:
    """Return revenue less energy and cooling of all jobs, with the PUE of the energy that all use together."""
    highest_cost = max((abs(band.cost_per_j) for bands in energy.bands for band in bands), default=0.0)
    most = max(float(energy.revenue_per_s.max(initial=0)), highest_cost * float(energy.power_w.max(initial=0)), 1e-12)
    scale = min(1e9, 1e15 / max(float(question.duration_s.sum()), 1.0)) / most
    power_mw = np.rint(energy.power_w * MJ_PER_J).astype(np.int64).tolist()
    revenue_per_s = np.rint(energy.revenue_per_s * scale).astype(np.int64).tolist()
    ran_s = [
        [built.ran_s(job, duration_s, edge_s) for edge_s in question.edge_s[1:].tolist()]
        for job, duration_s in enumerate(question.duration_s.tolist())
    ]
    profit = sum(each * ran[-1] for each, ran in zip(revenue_per_s, ran_s, strict=True))
    for step, bands in enumerate(energy.bands):
        inside_s = [ran[step] - (ran[step - 1] if step else 0) for ran in ran_s]
        used_mj = sum(power * each for power, each in zip(power_mw, inside_s, strict=True))
        used_mj += round(float(energy.other_j[step]) * MJ_PER_J)
        costs = [_cost_in(band.cost_per_j * scale, energy, step, inside_s) for band in bands]
        if len(bands) == 1:
            profit -= costs[0]
            continue
        at_most = int(scale * highest_cost * max(abs(bands[-1].until_mj), 1) / MJ_PER_J) + 1
        cost = built.model.new_int_var(-at_most, at_most, "")
        chosen = [built.model.new_bool_var("") for _ in bands]
        built.model.add_exactly_one(chosen)
        for band, band_cost, is_chosen in zip(bands, costs, chosen, strict=True):
            domain = built.cp.Domain(band.from_mj, band.until_mj)
            built.model.add_linear_expression_in_domain(used_mj, domain).only_enforce_if(is_chosen)
            built.model.add(cost == band_cost).only_enforce_if(is_chosen)
        profit -= cost
    return profit


def _cost_in(cost_per_j: float, energy: EnergyCost, step: int, inside_s: list[Any]) -> Any:
    """Return the cost of all energy of a step at that cost per joule."""
    each = np.rint(cost_per_j * energy.power_w).astype(np.int64).tolist()
    other = round(cost_per_j * float(energy.other_j[step]))
    return other + sum(cost * inside for cost, inside in zip(each, inside_s, strict=True))


def _resources(built: _Model, question: CpQuestion) -> None:
    """Keep the machine as a whole from being overfull, below its cap on power, and within the limits."""
    others = _others(built.model, question.taken)
    for resource, has in enumerate(question.has.tolist()):
        demands = question.asks[:, resource].tolist() + question.taken.used[:, resource].tolist()
        if sum(demands) > has:
            built.model.add_cumulative([*built.interval, *others], demands, has)
    for node in question.on_nodes:
        if int(node.cores.sum()) > node.capacity:
            intervals = [built.interval[job] for job in node.job]
            built.model.add_cumulative(intervals, node.cores.tolist(), node.capacity)


def _others(model: Any, taken: ResourceUse) -> list[Any]:
    """Return the intervals of what jobs outside the question use."""
    ends_s = np.append(taken.at_s[1:], taken.at_s[-1:] + 1)
    return [
        model.new_fixed_size_interval_var(int(at_s), int(end_s - at_s), "")
        for at_s, end_s in zip(taken.at_s, ends_s, strict=True)
    ]


def _single_nodes(built: _Model, question: CpQuestion, nodes: SingleNodes) -> list[list[Any]]:
    """Give each unit of a job a node of its own that has what it asks for; return whether job i has node n."""
    model = built.model
    on_node = [[model.new_bool_var("") for _ in nodes.has] for _ in built.start]
    for job, (start, present, has) in enumerate(zip(built.start, built.present, on_node, strict=True)):
        model.add(sum(has) == int(nodes.units[job]) * present)
        for node, is_there in enumerate(has):
            if (nodes.asks[job] > nodes.has[node]).any() or not nodes.may_use[job, node]:
                model.add(is_there == 0)
            if nodes.hint is not None:
                model.add_hint(is_there, bool(nodes.hint[job, node]))
        duration_s = int(question.duration_s[job])
        has_interval = [model.new_optional_fixed_size_interval_var(start, duration_s, each, "") for each in has]
        on_node[job] = list(zip(has, has_interval, strict=True))
    for node, capacity in enumerate(nodes.has.tolist()):
        others = _others(model, nodes.taken[node])
        intervals = [row[node][1] for row in on_node]
        for resource, most in enumerate(capacity):
            demands = nodes.asks[:, resource].tolist() + nodes.taken[node].used[:, resource].tolist()
            if sum(demands) > most:
                model.add_cumulative([*intervals, *others], demands, most)
    return [[is_there for is_there, _ in row] for row in on_node]


GRACE_S = 1.0
"""The time by which the solver may exceed its limit before its process is killed."""


class SolverGone(OffpeakError):
    """The solver's process was killed or ended; earlier results hold."""


@dataclass(frozen=True)
class CpProcess:
    """A solver process, which answers through a pipe."""

    process: BaseProcess
    pipe: Connection

    def answer(self, question: CpQuestion, seconds: float, seed: int) -> CpAnswer | None:
        """Return the best answer that was found in time, None if there was none. Raises SolverGone."""
        try:
            self.pipe.send((question, seconds, seed))
            if not self.pipe.poll(seconds + GRACE_S):
                raise SolverGone(f"the solver did not answer within {seconds:.1f} s", hint="give it more time")
            answer: CpAnswer | None = self.pipe.recv()
        except (EOFError, OSError):
            hint = "look for the out-of-memory killer in the kernel's log"
            raise SolverGone("the solver's process has ended", hint=hint) from None
        return answer


def require_or_tools() -> None:
    """Raise BadInput without OR-tools: a search must not return its start as its answer."""
    if find_spec("ortools") is None:
        raise missing_extra("a search by constraint programming", "planner", "OR-tools")


@contextmanager
def cp_process(start_s: float) -> Iterator[CpProcess]:
    """Run the solver's process. Raises SolverGone if it is not ready in so many seconds, BadInput without OR-tools."""
    require_or_tools()
    # A fresh process: one that is forked may inherit a lock of numba's threads.
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(start_s):
            raise SolverGone(f"the solver was not ready within {start_s:.1f} s", hint="give it more time")
        _read_ready(ours)
        yield CpProcess(process, ours)
    finally:
        ours.close()
        process.kill()
        process.join()


def _read_ready(pipe: Connection) -> None:
    try:
        pipe.recv()
    except (EOFError, OSError):
        raise SolverGone("the solver's process did not start", hint="try `python -c 'import ortools'`") from None


def _serve(pipe: Connection) -> None:
    warm_up()
    pipe.send(None)
    while True:
        try:
            request = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(solve(*request))
