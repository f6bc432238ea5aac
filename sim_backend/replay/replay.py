"""The replay of a log under one policy on any cluster: the engine goes on, and policies decide where it stops."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.node_states import FAILED
from offpeak.sim_backend.engine.power import Power
from offpeak.sim_backend.engine.state import (
    CAPACITY,
    DECIDE,
    FINISHED,
    LOG_FULL,
    NEVER,
    NOT_YET,
    PAUSED,
)
from offpeak.sim_backend.nodes.node_log import NodeLog
from offpeak.sim_backend.replay.schedule import Schedule

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


class Replay(ABC):
    """A replay under a policy: of the jobs, then of the nodes, where these can sleep.

    A kind of cluster says how its engine goes on and what policies see of it. `start_s` is the column that the engine
    writes: when each job has started, NOT_YET if it has not. `power` is None where no node sleeps.
    """

    def __init__(self, start_s: Int64, runtime_s: Int64, power: Power | None) -> None:
        self.start_s, self._runtime_s, self._power = start_s, runtime_s, power
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
        return np.where(self.start_s != NOT_YET, self.start_s + self._runtime_s, NOT_YET)

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

    @abstractmethod
    def _steps(self) -> Iterator[tuple[int, int]]:
        """Yield up to which second the engine is to go on, and how many jobs have been submitted by then."""

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
