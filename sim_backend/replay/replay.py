"""The replay of a log under one policy on any cluster: the engine goes on, and policies decide where it stops.

Boosted trees may predict run times meanwhile: they know only the jobs that have ended by then.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.constants import HOUR_S
from offpeak.model.jobs import Jobs
from offpeak.model.node_states import FAILED
from offpeak.predictors.job_history import jobs_at_submission
from offpeak.predictors.run_times import boosted_run_time
from offpeak.sim_backend.engine.power import Power
from offpeak.sim_backend.engine.state import (
    CAPACITY,
    DECIDE,
    FINISHED,
    FORESEEN_RUNTIME,
    LOG_FULL,
    NEVER,
    NOT_YET,
    PAUSED,
)
from offpeak.sim_backend.nodes.node_log import NodeLog
from offpeak.sim_backend.replay.policy import Policy
from offpeak.sim_backend.replay.schedule import JOBS_PER_STEP, Schedule

ONE_LOG = np.zeros(1, dtype=np.int64)
"""Where the entries of each pool begin in the engine's log, for equal nodes."""


class LogBook:
    """Gathers the pieces of the node logs of pools that the engine gives out when its own is full."""

    def __init__(self, pools: int = 1) -> None:
        self._pieces: list[list[tuple[np.ndarray, ...]]] = [[] for _ in range(pools)]

    def empty(self, power: Power, entry_first: Int64 = ONE_LOG) -> None:
        """Take the entries of the engine's log, and reset it."""
        lengths = power.scalars["log_length"].tolist()
        for pieces, first, length in zip(self._pieces, entry_first.tolist(), lengths, strict=False):
            pieces.append(tuple(column[first : first + length].copy() for column in power.log))
        power.scalars["log_length"] = 0

    def node_logs(
        self, nodes: Sequence[int], *, units_per_node: int = 1, enclosures: tuple[tuple[int, int], ...] = ()
    ) -> tuple[NodeLog, ...]:
        """Return all that was taken, for pools of so many nodes."""
        columns = ((np.concatenate(column) for column in zip(*pieces, strict=True)) for pieces in self._pieces)
        return tuple(
            NodeLog(count, units_per_node, *log, enclosures=enclosures)
            for count, log in zip(nodes, columns, strict=True)
        )


class ForeseenWorkload(Protocol):
    """What the workloads of both engines have."""

    @property
    def submit_s(self) -> Int64:
        """When each job is submitted."""

    @property
    def runtime_s(self) -> Int64:
        """How long it will run."""

    @property
    def foreseen_s(self) -> Int64:
        """How long it is expected to run, known when it is submitted."""


class Replay(ABC):
    """A replay under a policy: of the jobs, then of the nodes, where these can sleep.

    A kind of cluster says how its engine goes on and what policies see of it. `start_s` is the column that the engine
    writes: when each job has started, NOT_YET if it has not. `power` is None where no node sleeps. Boosted
    trees learn `jobs`.
    """

    def __init__(
        self,
        policy: Policy,
        workload: ForeseenWorkload,
        start_s: Int64,
        *,
        power: Power | None,
        jobs: Jobs | None,
    ) -> None:
        self.start_s, self._policy, self._runs, self._power, self._jobs = start_s, policy, workload, power, jobs
        self._simulate_s = 0.0

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Go on until no job can change any more; `progress` gets the number of jobs submitted so far.

        Ctrl-C takes effect between steps.
        """
        for until_s, submitted in self._steps():
            self._go_on(until_s)
            if progress:
                progress(submitted)

    def rest(self, until_s: int) -> None:
        """Go on behind the last job, nodes asleep or awake as the capacity policies want."""
        if self._power is not None:
            self._power.scalars["rest_until_s"] = until_s
            self._go_on(NEVER - 1)

    @property
    def failed_nodes(self) -> int:
        """How many nodes have failed by now."""
        return 0 if self._power is None else int(np.count_nonzero(self._power.table.state == FAILED))

    @property
    def end_s(self) -> Int64:
        """When each job has ended, NOT_YET if it has not started."""
        return np.where(self.start_s != NOT_YET, self.start_s + self._runs.runtime_s, NOT_YET)

    @abstractmethod
    def schedule(self) -> Schedule:
        """Return the schedule. A job that needs more nodes than have not failed never starts: NOT_YET."""

    @property
    def _delay_s(self) -> Int64 | None:
        """How long sleeping nodes kept each job from starting, None where none can sleep."""
        if self._power is None:
            return None
        return np.where(self.start_s != NOT_YET, self.start_s - self._power.wanted_s, 0)

    def _go_on(self, until_s: int) -> None:
        begin = time.perf_counter()
        while (stop := self._advance(until_s)) not in (PAUSED, FINISHED):
            if stop == DECIDE:
                self._decide_order()
            elif stop == CAPACITY:
                self._decide_capacity()
            elif stop == LOG_FULL:
                self._empty_log()
            else:
                self._make_room()
        self._simulate_s += time.perf_counter() - begin

    def _steps(self) -> Iterator[tuple[int, int]]:
        """Yield up to which second the engine is to go on, and how many jobs have been submitted by then."""
        if self._policy.rules.estimates == FORESEEN_RUNTIME:
            assert self._jobs is not None
            yield from foreseeing_steps(self._jobs, self._runs, self.start_s)
            return
        submit_s = self._runs.submit_s
        for last in range(JOBS_PER_STEP, len(submit_s), JOBS_PER_STEP):
            yield int(submit_s[last]), last
        yield NEVER - 1, len(submit_s)

    @abstractmethod
    def _advance(self, until_s: int) -> int:
        """Let the engine go on and return why it stopped."""

    @abstractmethod
    def _decide_order(self) -> None:
        """Let a policy from outside order the window."""

    @abstractmethod
    def _decide_capacity(self) -> None:
        """Let the capacity policies that are due set their targets."""

    @abstractmethod
    def _empty_log(self) -> None:
        """Take the entries of the node logs out of the engine."""

    def _make_room(self) -> None:
        """Give the state room for the runs that other jobs stop."""
        raise NotImplementedError


def foreseeing_steps(jobs: Jobs, workload: ForeseenWorkload, start_s: Int64) -> Iterator[tuple[int, int]]:
    """Yield up to which second the engine is to go on, and how many jobs have been submitted by then.

    Before each step `workload.foreseen_s` is written of the jobs that are submitted in it: those of an hour, foreseen
    from the jobs that had ended before the first of them.
    """
    ended, predictor = replace(jobs, runtime_s=workload.runtime_s), boosted_run_time()
    submitted_jobs, awaited = jobs_at_submission(jobs), np.empty(0, dtype=np.int64)
    first = np.append(np.flatnonzero(np.diff(jobs.submit_s // HOUR_S, prepend=-HOUR_S)), len(jobs))
    for begin, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        now_s = int(jobs.submit_s[begin])
        yield now_s - 1, begin
        over, awaited = _over(awaited, start_s, workload.runtime_s, now_s)
        predictor.learn(ended.take(over), now_s)
        block = np.arange(begin, end)
        median_s = predictor.predict(submitted_jobs.take(block), now_s).point
        workload.foreseen_s[block] = np.rint(median_s).astype(np.int64)
        awaited = np.append(awaited, block)
    yield NEVER - 1, len(jobs)


def _over(awaited: Int64, start_s: Int64, runtime_s: Int64, now_s: int) -> tuple[Int64, Int64]:
    """Return which of the jobs have ended before now, in the order of their ends, and the others."""
    end_s = np.where(start_s[awaited] == NOT_YET, NEVER, start_s[awaited] + runtime_s[awaited])
    is_over = end_s < now_s
    return awaited[is_over][np.argsort(end_s[is_over], kind="stable")], awaited[~is_over]
