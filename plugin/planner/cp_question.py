"""What the constraint solver is asked and what it answers, as columns that another process can be sent."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64


@dataclass(frozen=True, eq=False)
class Taken:
    """What jobs outside the question use of each resource from `at_s[i]` on; int64[steps, resources]."""

    at_s: Int64
    used: Int64


@dataclass(frozen=True, eq=False)
class OnNode:
    """Jobs, by their place in the question, that keep a node, and the cores that each has there of its `capacity`."""

    job: Int64
    cores: Int64
    capacity: int


@dataclass(frozen=True, eq=False)
class SingleNodes:
    """The nodes one by one, for a question that is small enough: the answer then says which nodes a job has.

    Each of a job's `units` asks a node of its own for `asks`, int64[jobs, 3], of what each node `has`, int64[nodes, 3].
    `taken` is what others use of each node; `hint` says which nodes the incumbent gives to a job, bool[jobs, nodes].
    """

    units: Int64
    asks: Int64
    has: Int64
    taken: tuple[Taken, ...]
    hint: NDArray[np.bool_] | None


@dataclass(frozen=True)
class Band:
    """Between these energies of a step [mJ], both included, all energy costs so much [currency/J], cooling included."""

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
    bands: tuple[tuple[Band, ...], ...]


@dataclass(frozen=True, eq=False)
class Question:
    """Which of these jobs starts when?

    `asks` are whole jobs' cores, MB, GPUs, units that bear no second of their kind on a node, and watts, against what
    the machine `has`; int64[jobs, 5]. `per_s` is what a job earns a second in each step between `edge_s`; the last edge
    is the horizon, and a job that starts there does not start in this plan. So does a job that cannot start between
    `earliest_s` and `latest_s`. `hint_s` is the incumbent's start, the horizon for none.

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
    taken: Taken
    on_nodes: tuple[OnNode, ...] = ()
    nodes: SingleNodes | None = None
    energy: EnergyCost | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """The start of each job, the horizon for none, and which nodes it has if the question asks; bool[jobs, nodes].

    `is_best` if no other answer to the question is better.
    """

    start_s: Int64
    nodes: NDArray[np.bool_] | None
    is_best: bool
