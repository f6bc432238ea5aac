"""The planning problem and its plan as frozen columns, and the profit of a plan.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", sections 3 and 5. Time is integer seconds from
the beginning of the plan. The problem also has what the paper leaves out: jobs that run already, and jobs that run
beyond the horizon. A plan gives each job its start and nodes, or leaves it for tomorrow.
"""

from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_KWH
from offpeak.model.facility import Facility

NO_DEMAND = 0
"""The demand of jobs that take nothing of any limit."""

_NONE = np.zeros(0, np.int64)

NO_LIMIT = np.iinfo(np.int64).max // 4
"""A latest end that never comes, a power cap that never binds."""
ALL_POOLS = -1
MOST_POOLS = 62
"""A set of pools is a set of bits."""

TOMORROW = -1


class Demands(NamedTuple):
    """What jobs take: demand d takes `amount[r]` of `limit[r]` in the rows from `first[d]` to `first[d + 1]`."""

    first: Int64
    limit: Int64
    amount: Int64


class LimitUse(NamedTuple):
    """Columns of one length: `amount` of `limit` is taken from `from_s` to `until_s`."""

    limit: Int64
    from_s: Int64
    until_s: Int64
    amount: Int64


@dataclass(frozen=True, eq=False)
class PlanLimits:
    """At most `most[l]` of limit l may be taken at a time; `names` are for messages.

    `taken` is what jobs outside the plan take: jobs that run already, and jobs of other plans. It may exceed a limit,
    which then lets no job start.
    """

    names: tuple[str, ...]
    most: Int64
    demands: Demands
    taken: LimitUse

    def __len__(self) -> int:
        return len(self.most)

    def rows_of(self, demand: Int64) -> tuple[Int64, Int64, Int64]:
        """Return a row for each limit that jobs of these demands take: the job's place, the limit, the amount."""
        first, limit, amount = self.demands
        count = np.diff(first)[demand]
        begin = np.cumsum(count) - count
        row = np.repeat(first[demand] - begin, count) + np.arange(count.sum())
        return np.repeat(np.arange(len(demand)), count), limit[row], amount[row]

    def amounts_of(self, demand: Int64) -> Int64:
        """Return what jobs of these demands take of each limit; int64[jobs, limits]."""
        job, limit, amount = self.rows_of(demand)
        found = np.zeros((len(demand), len(self)), np.int64)
        found[job, limit] = amount
        return found


UNLIMITED = PlanLimits((), _NONE, Demands(np.zeros(2, np.int64), _NONE, _NONE), LimitUse(_NONE, _NONE, _NONE, _NONE))


@dataclass(frozen=True, eq=False)
class Work:
    """The jobs that wait, as columns of one length.

    A job has `units` that start and end together, each on a node of its own (as Slurm's nodes of a job) and each
    asking for that many `cores`, `memory_mb` and `gpus`. It may start at `release_s` and must end by `latest_end_s`.
    `power_w` and `revenue_per_s` are those of the whole job, the latter in the currency of the rates. The units may be
    on nodes of the `pools` only, a set of bits; without it on all nodes. `demand` is what the job takes of the
    problem's limits, without it nothing.
    """

    job_id: Int64
    units: Int64
    cores: Int64
    memory_mb: Int64
    gpus: Int64
    duration_s: Int64
    release_s: Int64
    latest_end_s: Int64
    power_w: Float64
    revenue_per_s: Float64
    pools: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    demand: Int64 = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        if len(self.pools) != len(self.job_id):
            object.__setattr__(self, "pools", np.full(len(self.job_id), ALL_POOLS))
        if len(self.demand) != len(self.job_id):
            object.__setattr__(self, "demand", np.full(len(self.job_id), NO_DEMAND))

    def __len__(self) -> int:
        return len(self.job_id)

    def take(self, which: NDArray[np.bool_] | NDArray[np.intp] | Int64) -> "Work":
        """Return the jobs that the mask or the indices select."""
        return Work(**{column.name: getattr(self, column.name)[which] for column in fields(self)})


@dataclass(frozen=True, eq=False)
class NodeCapacities:
    """What each node has, as columns of one length; `pool` is the bit of its pool, the first one without it."""

    cores: Int64
    memory_mb: Int64
    gpus: Int64
    pool: Int64 = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        if len(self.pool) != len(self.cores):
            object.__setattr__(self, "pool", np.ones(len(self.cores), np.int64))

    def __len__(self) -> int:
        return len(self.cores)


@dataclass(frozen=True, eq=False)
class Running:
    """What runs when the plan begins, a row a unit on its node; `power_w` and `revenue_per_s` are those of the row."""

    node: Int64
    until_s: Int64
    cores: Int64
    memory_mb: Int64
    gpus: Int64
    power_w: Float64
    revenue_per_s: Float64

    def __len__(self) -> int:
        return len(self.node)


NOTHING_RUNS = Running(
    node=_NONE, until_s=_NONE, cores=_NONE, memory_mb=_NONE, gpus=_NONE, power_w=np.zeros(0), revenue_per_s=np.zeros(0)
)


@dataclass(frozen=True, eq=False)
class Rates:
    """What holds from `edge_s[i]` to `edge_s[i + 1]`: energy's price, outside temperature, and the cap on IT power.

    The first edge is 0 and the last the horizon. `cap_w` is NO_LIMIT where there is none.
    """

    edge_s: Int64
    price_per_kwh: Float64
    temperature_c: Float64
    cap_w: Int64

    @property
    def horizon_s(self) -> int:
        """The end of the plan: no job starts then or later, and later earnings belong to another day."""
        return int(self.edge_s[-1])


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that a plan depends on."""

    work: Work
    machine: NodeCapacities
    running: Running
    rates: Rates
    facility: Facility
    limits: PlanLimits = UNLIMITED


def resource_columns(rows: Work | NodeCapacities | Running) -> Int64:
    """Return cores, MB and GPUs of each row; int64[rows, 3]."""
    return np.stack([rows.cores, rows.memory_mb, rows.gpus], axis=1)


def may_use(problem: Problem, job: Int64, node: Int64) -> NDArray[np.bool_]:
    """Return whether the pools of each job have the node beside it; the arrays may broadcast."""
    return np.asarray((problem.work.pools[job] & problem.machine.pool[node]) != 0)


@dataclass(frozen=True, eq=False)
class Plan:
    """`start_s[i]` is the start of job i, TOMORROW if it gets none in this plan.

    `node` holds the nodes of all jobs one after the other, as many for each as it has units, TOMORROW where it has no
    start: those of job i begin at `first_unit(work)[i]`. `solver` made the plan, `note` is the reason if another
    solver was requested.
    """

    start_s: Int64
    node: Int64
    solver: str
    note: str = ""

    @property
    def placed(self) -> NDArray[np.bool_]:
        """Which jobs have a start."""
        return np.asarray(self.start_s != TOMORROW)


def first_unit(work: Work) -> Int64:
    """Return where the units of each job begin among those of all jobs, and where the last ends; int64[n + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(work.units)])


def empty_plan(work: Work, solver: str) -> Plan:
    """Return the plan that starts nothing."""
    return Plan(np.full(len(work), TOMORROW), np.full(int(work.units.sum()), TOMORROW), solver)


@dataclass(frozen=True)
class Profit:
    """Money and energy of a plan within its horizon, what ran before included."""

    revenue: float
    energy_cost: float
    cooling_cost: float
    it_j: float
    cooling_j: float

    @property
    def total(self) -> float:
        """Revenue less both costs."""
        return self.revenue - self.energy_cost - self.cooling_cost

    @property
    def pue(self) -> float:
        """Facility energy over IT energy, 1 where nothing ran."""
        return 1 + self.cooling_j / self.it_j if self.it_j else 1.0


def compute_profit(problem: Problem, plan: Plan) -> Profit:
    """Return the profit of the plan: eq. (3) of the paper, with cooling as W x (PUE - 1)."""
    work, running, rates = problem.work, problem.running, problem.rates
    placed = plan.placed
    start_s, duration_s = plan.start_s[placed], work.duration_s[placed]
    inside_s = overlap_s(rates, start_s, start_s + duration_s)
    before_s = overlap_s(rates, np.zeros_like(running.until_s), running.until_s)
    it_j = work.power_w[placed] @ inside_s + running.power_w @ before_s
    revenue = float(work.revenue_per_s[placed] @ inside_s.sum(axis=1) + running.revenue_per_s @ before_s.sum(axis=1))
    power_w = it_j / np.diff(rates.edge_s)
    cooling_j = it_j * (problem.facility.pue_at(power_w, rates.temperature_c) - 1)
    price_per_j = rates.price_per_kwh / J_PER_KWH
    cost, cooling_cost = float(it_j @ price_per_j), float(cooling_j @ price_per_j)
    return Profit(revenue, cost, cooling_cost, float(it_j.sum()), float(cooling_j.sum()))


def overlap_s(rates: Rates, start_s: Int64, end_s: Int64) -> Float64:
    """Return the overlap of each time interval with each step of the rates; float64[n, steps]."""
    low, high = rates.edge_s[:-1], rates.edge_s[1:]
    inside = np.minimum(end_s[:, None], high) - np.maximum(start_s[:, None], low)
    return np.asarray(np.maximum(inside, 0), np.float64)
