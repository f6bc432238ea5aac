"""The rules of a capacity policy, as the numbers that the kernels use."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.bits import bitmap

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

NEVER = np.iinfo(np.int64).max
BY_NUMBER, BY_IDLE_AGE, BY_WEAR = range(3)


class CapacityRules(NamedTuple):
    """One capacity policy's rules; counts are nodes, times seconds.

    `on_demand`: jobs may get sleeping nodes, which are woken for them; otherwise jobs see active nodes only, at most
    `CapacitySchedule.target`. `low`: the lower level of a two-level policy, 0 for none. `raise_for_wide`: a queued job
    wider than the target raises it. `period_s`: the period of external decisions or of a forecast, 0 for none.
    `ahead_s`: nodes for the reservation of the first waiting job come up, or stay awake, this long before it.
    `keep_hot`: the number of nodes that stay awake with or without a job. `sleeps_per_min`, `wakes_per_min`: the most
    active nodes put to sleep and nodes woken, 0 for no limit. `min_awake_s` holds for all nodes, `min_asleep_s` for
    nodes that are woken without a job. `most_sleeps_per_day` is per node, 0 for no limit. `order`: which idle nodes
    sleep first. `plan_s`: jobs start on awake nodes only, which a plan of the queue wakes for them, and an idle node
    stays awake for a job that is planned to start on it within so long; 0 for no plan, else at least as long as a node
    takes to go down and come up again. `worth_s`: an idle node stays awake if it is expected to be needed within that
    idle time, each `period_s`; 0 for no forecast.
    """

    on_demand: bool
    low: int
    raise_for_wide: bool
    period_s: int
    ahead_s: int
    keep_hot: int
    sleeps_per_min: int
    wakes_per_min: int
    min_awake_s: int
    min_asleep_s: int
    most_sleeps_per_day: int
    order: int
    plan_s: int
    worth_s: int


class CapacitySchedule(NamedTuple):
    """From `at_s[i]` on: nodes to be awake, idle nodes in reserve, and the idle time before each depth.

    `after_s[i, depth]` is NEVER if that depth is not used; `at_s[0]` lies before every job.
    """

    at_s: Int64
    target: Int64
    reserve: Int64
    after_s: Int64


class DepthTable(NamedTuple):
    """Seconds and failure probabilities of the transitions of each depth, by depth number."""

    enter_s: Int64
    leave_s: Int64
    enter_failure: Float64
    leave_failure: Float64
    repair_s: int
    seed: int


class NodeTable(NamedTuple):
    """The machine's nodes as a capacity policy sees them.

    `state` as in offpeak.model.node_states; `busy`: allocation units held by jobs; `idle`: bitmap of the active nodes
    without any, `idle_since_s` since when; `woken_s`, `slept_s`: when the node last became active, and was last put to
    sleep; `sleeps`: how often it went down on `day` (of 24 h, from 0), powersave not counted. Nodes are numbered in the
    order in which they are used: where nothing else decides, the last one sleeps first and wakes last. So a site that
    wants whole PDUs dark, or its least efficient nodes, numbers these last.
    """

    state: NDArray[np.int8]
    busy: Int64
    idle: NDArray[np.uint64]
    idle_since_s: Int64
    woken_s: Int64
    slept_s: Int64
    sleeps: Int64
    day: Int64

    @classmethod
    def at_instant(
        cls,
        *,
        state: NDArray[np.int8],
        busy: Int64,
        idle: NDArray[np.bool_],
        idle_since_s: Iterable[int],
        woken_s: Iterable[int],
        slept_s: Iterable[int],
        sleeps: Iterable[int],
        day: int,
    ) -> "NodeTable":
        """Return a copy for one decision; of the `idle` nodes any may sleep."""
        idle_since, woken, slept, times = (
            np.array(list(column), dtype=np.int64) for column in (idle_since_s, woken_s, slept_s, sleeps)
        )
        return cls(
            state=state.copy(),
            busy=busy.copy(),
            idle=bitmap(idle),
            idle_since_s=idle_since,
            woken_s=woken,
            slept_s=slept,
            sleeps=times,
            day=np.full(len(state), day),
        )
