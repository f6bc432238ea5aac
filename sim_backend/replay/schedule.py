"""The result of a replay: when each job started and ended, where it ran, and what the nodes did meanwhile."""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.sim_backend.nodes.node_log import NodeLog, join_node_logs

JOBS_PER_STEP = 50_000

Number = TypeVar("Number", bound=np.generic)


class JobRuns(NamedTuple):
    """Runs of jobs, by the number of the job and time [trace seconds]."""

    job: Int64
    start_s: Int64
    end_s: Int64


NO_RUNS = JobRuns(*(np.empty(0, dtype=np.int64) for _ in JobRuns._fields))


class JobPlaces(NamedTuple):
    """Where jobs ran: row i says that job `job[i]` had `nodes[i]` node equivalents of pool `pool[i]`.

    It had them during `run[i]`, a number in the `runs` of the schedule.
    """

    job: Int64
    pool: Int64
    nodes: Float64
    run: Int64


NO_PLACES = JobPlaces(NO_RUNS.job, NO_RUNS.job, np.empty(0), NO_RUNS.job)


@dataclass(frozen=True)
class Schedule:
    """When each job started and ended [trace seconds], in the order of the jobs; `simulate_s` the time it took.

    `lost` are the runs of jobs that were stopped for others and started anew, before their run from `start_s`;
    `cancelled` are the jobs that others ended. `places` are known where nodes differ or are shared. `node_logs` say
    what the nodes of each pool did, and `delay_s` how long sleeping nodes kept each job from starting, where they can
    sleep.
    """

    start_s: Int64
    end_s: Int64
    simulate_s: float
    lost: JobRuns = field(default=NO_RUNS, kw_only=True)
    cancelled: Int64 = field(default_factory=lambda: NO_RUNS.job, kw_only=True)
    places: JobPlaces = field(default=NO_PLACES, kw_only=True)
    node_logs: tuple[NodeLog, ...] = field(default=(), kw_only=True)
    delay_s: Int64 | None = field(default=None, kw_only=True)

    @property
    def node_log(self) -> NodeLog:
        """The log of all nodes; only where they can sleep."""
        return join_node_logs(self.node_logs)

    @property
    def sleep_delay_s(self) -> Int64:
        """How long sleeping nodes kept each job from starting [s]: 0 where none can sleep."""
        return np.zeros_like(self.start_s) if self.delay_s is None else self.delay_s

    @property
    def runs(self) -> JobRuns:
        """The last run of each job, in the order of the jobs, and behind them the lost ones."""
        last = JobRuns(np.arange(len(self.start_s)), self.start_s, self.end_s)
        if not len(self.lost.job):
            return last
        return JobRuns(*(np.append(own, lost) for own, lost in zip(last, self.lost, strict=True)))

    def by_run(self, of_jobs: NDArray[Number]) -> NDArray[Number]:
        """Return the values of jobs for each of the `runs`."""
        return of_jobs[self.runs.job] if len(self.lost.job) else of_jobs
