"""The question that a planner answers, as frozen columns.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", sections 3 and 5. Time is integer seconds from
the beginning of the plan. What the paper leaves out is here: jobs that run already, and jobs that run on tomorrow.
"""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.facility import Facility

NO_LIMIT = np.iinfo(np.int64).max // 4
"""A latest end that never comes, a power cap that never binds."""


@dataclass(frozen=True, eq=False)
class Work:
    """The jobs that wait, as columns of one length.

    A job has `units` that start and end together, each on a node of its own (as Slurm's nodes of a job) and each
    asking for that many `cores`, `memory_mb` and `gpus`. It may start at `release_s` and must end by `latest_end_s`.
    `power_w` and `revenue_per_s` are those of the whole job, the latter in the currency of the rates.
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

    def __len__(self) -> int:
        return len(self.job_id)

    def take(self, which: NDArray[np.bool_] | NDArray[np.intp] | Int64) -> "Work":
        """Return the jobs that the mask or the indices select."""
        return Work(**{column.name: getattr(self, column.name)[which] for column in fields(self)})


@dataclass(frozen=True, eq=False)
class Machine:
    """What each node has, as columns of one length."""

    cores: Int64
    memory_mb: Int64
    gpus: Int64

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


_NONE = np.zeros(0, np.int64)
NOTHING_RUNS = Running(_NONE, _NONE, _NONE, _NONE, _NONE, np.zeros(0), np.zeros(0))


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
        """The end of the plan: no job starts then or later, and what is earned afterwards is another day's."""
        return int(self.edge_s[-1])


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that a plan depends on."""

    work: Work
    machine: Machine
    running: Running
    rates: Rates
    facility: Facility
