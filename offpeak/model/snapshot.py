"""The input of a capacity decision: the jobs, and the nodes that are up, in transition or asleep, at one instant."""

from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import FrozenColumns, Int64
from offpeak.model.constants import DAY_S
from offpeak.model.node_states import DEPTHS, FAILED, asleep, coming_up, going_down

NEVER = np.iinfo(np.int64).max
TRANSITIONS = tuple((going_down(depth), asleep(depth), coming_up(depth)) for depth in range(len(DEPTHS)))
"""The states around each sleep depth: on the way down, asleep, on the way up."""


ASSUMED_RUN_S = DAY_S
"""The limit that is assumed for a job without one."""


def no_rows() -> Int64:
    """Return a column without rows."""
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class RunningJobs(FrozenColumns):
    """Jobs that hold units, as columns in the order of their starts.

    `start_s` is in the future if the nodes of a job are still coming up. `expected_end_s` is estimated or predicted.
    """

    size: Int64
    submit_s: Int64
    start_s: Int64
    expected_end_s: Int64

    @staticmethod
    def expected_end(start_s: int, run_s: int, limit_s: int, now_s: int) -> int:
        """Return when a job is expected to end: after its expected run time, or past that, at its limit."""
        return start_s + (run_s if start_s + run_s > now_s else limit_s)


@dataclass(frozen=True, eq=False)
class QueuedJobs(FrozenColumns):
    """Jobs that wait, as columns in the order of the queue. `estimate_s` is the user's or a prediction.

    `latest_end_s` is when a job with a green SLA, whose owner allows a delay, must have ended; NEVER for all others,
    and for all jobs if it is not given.
    """

    size: Int64
    submit_s: Int64
    estimate_s: Int64
    latest_end_s: Int64 = field(default_factory=no_rows)

    @staticmethod
    def expected_run(predicted_s: int, limit_s: int) -> int:
        """Return how long a job is expected to run: as long as predicted, at most its limit."""
        return max(min(predicted_s, limit_s), 1)

    def __post_init__(self) -> None:
        if not len(self.latest_end_s):
            object.__setattr__(self, "latest_end_s", np.full(len(self.size), NEVER))
        super().__post_init__()

    @property
    def is_green(self) -> NDArray[np.bool_]:
        """Which jobs have a green SLA."""
        return np.not_equal(self.latest_end_s, NEVER)


@dataclass(frozen=True, eq=False)
class Snapshot(FrozenColumns):
    """A cluster at second `now_s`, its jobs in allocation units, `units_per_node` of which share a node.

    Per node: `node_state` (int8, as in offpeak.model.node_states), and `ready_s`, when the transition that is under way
    is expected to end (`now_s` where none is). `wake_s` is how long a node takes to leave each depth, by depth number.
    """

    now_s: int
    units_per_node: int
    node_state: NDArray[np.int8]
    ready_s: Int64
    wake_s: tuple[int, ...]
    running: RunningJobs
    queued: QueuedJobs

    @cached_property
    def usable_units(self) -> int:
        """Units of all nodes that have not failed: the paper's U."""
        return int((self.node_state != FAILED).sum()) * self.units_per_node

    @cached_property
    def units_in_use(self) -> int:
        """Units that running jobs hold."""
        return int(self.running.size.sum())

    @property
    def least_units(self) -> int:
        """Units without which a job would have to stop or could never start, in whole nodes: the paper's L."""
        least = max(int(self.queued.size.max(initial=0)), self.units_in_use)
        return -(-least // self.units_per_node) * self.units_per_node

    def without_too_wide(self) -> "Snapshot":
        """Return the snapshot without the queued jobs that need more units than are usable: they wait for a repair."""
        fits = self.queued.size <= self.usable_units
        if fits.all():
            return self
        queued = QueuedJobs(*(getattr(self.queued, column.name)[fits] for column in fields(self.queued)))
        return replace(self, queued=queued)

    @cached_property
    def usable_from_s(self) -> Int64:
        """Return when the nodes that have not failed could run jobs, were all woken now: the soonest first.

        Of a node that is up that is `now_s`; a transition that should be over takes another second.
        """
        ready_s = np.maximum(self.ready_s, self.now_s + 1)
        from_s = np.full(len(self.node_state), self.now_s)
        for wake_s, (down, sleeping, up) in zip(self.wake_s, TRANSITIONS, strict=True):
            for state, up_s in ((down, ready_s + wake_s), (sleeping, self.now_s + wake_s), (up, ready_s)):
                from_s = np.where(self.node_state == state, up_s, from_s)
        return np.sort(from_s[self.node_state != FAILED])


def all_active(nodes: int, *, now_s: int) -> tuple[NDArray[np.int8], Int64]:
    """Return `node_state` and `ready_s` of a machine whose nodes are all up."""
    return np.zeros(nodes, dtype=np.int8), np.full(nodes, now_s)
