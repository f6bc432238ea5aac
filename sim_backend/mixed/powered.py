"""Replays jobs on several pools whose nodes sleep: the starts of the jobs, and the states of the nodes of each pool."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.node_class import NodeClass
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot
from offpeak.plugin.capacity.port import CapacityPolicy
from offpeak.plugin.window_policy import ARRIVAL
from offpeak.sim_backend.engine.state import NEVER, NO_PIECE, NOT_YET, PeakTimes
from offpeak.sim_backend.mixed.advance import CAPACITY, DECIDE, FULL, LOG_FULL, advance
from offpeak.sim_backend.mixed.case import MixedCase
from offpeak.sim_backend.mixed.cells import new_picks
from offpeak.sim_backend.mixed.power import PoolNodes, SleepingPools, sleeping_pools
from offpeak.sim_backend.mixed.preemption import with_room
from offpeak.sim_backend.mixed.replay import as_estimated, decide_window, schedule_of
from offpeak.sim_backend.mixed.state import CANCELLED, CORES, SLOTS, MixedRules, MixedState, new_state
from offpeak.sim_backend.nodes.node_log import NodeLog
from offpeak.sim_backend.replay.policy import Policy
from offpeak.sim_backend.replay.run_times import ReplayedRunTimes, RunningSince, predicts_run_times
from offpeak.sim_backend.replay.schedule import JOBS_PER_STEP, NO_PEAKS, Schedule

NOTHING = np.empty(0, dtype=np.int64)


def check_pool_policy(capacity: CapacityPolicy, node_class: NodeClass) -> None:
    """Raise BadInput for what is not replayed on several pools of nodes."""
    if capacity.rules.late:
        raise BadInput(
            f"{capacity.name}: on several pools of nodes a job keeps the nodes that are woken for it",
            hint="choose forecast in place of forecast-late",
        )
    if capacity.rules.sleeps_per_min or capacity.rules.wakes_per_min:
        raise BadInput(
            f"{capacity.name}: limits of sleeps and wakes per minute hold for a cluster, not for each pool of nodes",
            hint="leave out --sleeps-per-min, --wakes-per-min, --sleep-ramp and --wake-ramp",
        )
    transitions = [each for depth in node_class.depths for each in (depth.enter, depth.leave)]
    if any(each.failure_probability > 0 for each in transitions):
        raise BadInput(
            f"node class {node_class.name}: transitions that fail are not replayed on several pools of nodes",
            hint="set failure_probability = 0 in its file",
        )


class PoweredMixedReplay:
    """A replay under two policies, of which the capacity policy is made for each pool: of the jobs, then of the nodes.

    Raises BadInput for what `check_pool_policy` refuses.
    """

    def __init__(
        self,
        case: MixedCase,
        policy: Policy,
        rules: MixedRules,
        capacity: Sequence[CapacityPolicy],
        classes: Sequence[NodeClass],
        *,
        peaks: PeakTimes = NO_PEAKS,
    ) -> None:
        for each, node_class in zip(capacity, classes, strict=True):
            check_pool_policy(each, node_class)
        self._case, self._policy, self._rules, self._capacity = as_estimated(case, policy), policy, rules, capacity
        self._peaks = NO_PEAKS if rules.policy == ARRIVAL else peaks
        self._state = _powered_state(self._case, rules, capacity, classes)
        assert self._state.sleeping is not None
        self._pools = self._state.sleeping
        self._run_times = None
        if predicts_run_times(policy, capacity):
            self._run_times = ReplayedRunTimes(self._case.submitted, self._case.workload.submit_s)
        self._book: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = [[] for _ in capacity]
        self._simulate_s = 0.0

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Go on until no job can change any more; `progress` gets the number of jobs submitted so far."""
        submit_s = self._case.workload.submit_s
        for until_s in (*submit_s[JOBS_PER_STEP::JOBS_PER_STEP].tolist(), NEVER - 1):
            self._go_on(until_s)
            if progress:
                progress(int(self._state.scalars["next_job"][0]))

    def rest(self, until_s: int) -> None:
        """Go on behind the last job, nodes asleep or awake as the policies want."""
        self._pools.power.scalars["rest_until_s"] = until_s
        self._go_on(NEVER - 1)

    @property
    def start_s(self) -> Int64:
        """When each job has started, NOT_YET if it has not."""
        return self._state.start_s

    @property
    def end_s(self) -> Int64:
        """When each job has ended, NOT_YET if it has not started."""
        start_s = self._state.start_s
        return np.where(start_s != NOT_YET, start_s + self._case.workload.runtime_s, NOT_YET)

    def schedule(self) -> Schedule:
        """Return the schedule."""
        self._empty_logs()
        start_s = self._state.start_s
        logs = (
            NodeLog(pool.nodes, 1, *(np.concatenate(columns) for columns in zip(*pieces, strict=True)))
            for pool, pieces in zip(self._case.cluster.pools, self._book, strict=True)
        )
        delay_s = np.where(start_s != NOT_YET, start_s - self._pools.power.wanted_s, 0)
        schedule = schedule_of(self._case.workload, self._state, self._simulate_s)
        return replace(schedule, node_logs=tuple(logs), delay_s=delay_s)

    def _go_on(self, until_s: int) -> None:
        begin = time.perf_counter()
        case, state = self._case, self._state
        while True:
            stop = advance(case.tables, case.workload, self._peaks, self._rules, state, until_s)
            if stop == LOG_FULL:
                self._empty_logs()
            elif stop == DECIDE:
                decide_window(case, self._policy, self._rules, state, self._peaks)
            elif stop == CAPACITY:
                self._decide_capacity()
            elif stop == FULL:
                self._state = state = with_room(state, case.tables)
            else:
                break
        self._simulate_s += time.perf_counter() - begin

    def _empty_logs(self) -> None:
        pools = self._pools
        lengths = pools.power.scalars["log_length"]
        for book, first, length in zip(self._book, pools.entry_first.tolist(), lengths.tolist(), strict=False):
            rows = slice(first, first + length)
            log = pools.power.log
            book.append((log.at_s[rows].copy(), log.node[rows].copy(), log.state[rows].copy()))
        pools.power.scalars["log_length"] = 0
        pools.seen[:] = 0

    def _decide_capacity(self) -> None:
        now_s, scalars = int(self._state.scalars["now_s"][0]), self._pools.power.scalars
        for pool, capacity in enumerate(self._capacity):
            if capacity.decide is not None and scalars["next_decision_s"][pool] == now_s + capacity.rules.period_s:
                targets = capacity.decide(pool_snapshot(self._case, self._state, pool, run_times=self._run_times))
                scalars["target"][pool], scalars["reserve"][pool] = targets.awake, targets.reserve


def _powered_state(
    case: MixedCase, rules: MixedRules, capacity: Sequence[CapacityPolicy], classes: Sequence[NodeClass]
) -> MixedState:
    tables = case.tables
    group = np.full(len(case.cluster.pools), NOT_YET)
    group[tables.option_pool] = tables.class_group[tables.option_class]
    is_counted = tables.window_column[tables.cell_first[:-1]] == SLOTS
    pools = [
        PoolNodes(pool.nodes, bool(counted), int(own))
        for pool, counted, own in zip(case.cluster.pools, is_counted, group, strict=True)
    ]
    begin_s = int(case.workload.submit_s[0]) if len(case.workload.submit_s) else 0
    sleeping = sleeping_pools(
        pools, capacity, classes, jobs=len(case.kept), cells=len(tables.cell_pool), begin_s=begin_s
    )
    sleeping.power.scalars["rest_until_s"] = begin_s - 1
    state = new_state(tables, case.workload, rules, new_picks(tables), sleeping=sleeping)
    for pool, each in enumerate(capacity):
        if group[pool] != NOT_YET and each.rules.on_demand and each.rules.ahead_s > 0:
            state.groups["reserves_always"][group[pool]] = 1
    return state


def pool_snapshot(
    case: MixedCase, state: MixedState, pool: int, *, run_times: ReplayedRunTimes | None = None
) -> Snapshot:
    """Return what a capacity policy may know now of a pool, its running jobs and the jobs that could use it.

    Where nodes are shared, a unit is a core: what jobs need of other resources is not seen. A job that could use other
    pools as well counts in each of them. Without `run_times` the policy knows what the scheduler expects.
    """
    pools, now_s = state.sleeping, int(state.scalars["now_s"][0])
    assert pools is not None
    units_per_node = 1 if pools.is_counted[pool] else max(1, case.cluster.pools[pool].node_type.cores)
    nodes = slice(int(pools.node_first[pool]), int(pools.node_first[pool + 1]))
    node_state, ready_s = pools.power.table.state[nodes], pools.power.ready_s[nodes]
    up_units = units_per_node * int((node_state == 0).sum() + (node_state % 3 == 1).sum() - (node_state == 1).sum())
    slot, running_size = _running(case, state, pools, pool, up_units)
    queued, queued_size = _queued(case, state, pools, pool, units_per_node)
    running, submit_s = state.slots.job[slot], case.workload.submit_s
    start_s = state.start_s[running]
    if run_times is None:
        expected_end_s, estimate_s = state.slots.expected_end_s[slot], case.workload.estimate_s[queued]
    else:
        run_times.catch_up(state.start_s, _run_s(case, state), int(state.scalars["next_job"][0]), now_s)
        expected_end_s, estimate_s = run_times.expected(RunningSince(running, start_s, now_s), queued)
    return Snapshot(
        now_s=now_s,
        units_per_node=units_per_node,
        node_state=node_state.copy(),
        ready_s=np.where(ready_s == NEVER, now_s, ready_s),
        wake_s=tuple(pools.policies.leave_s[pool].tolist()),
        running=RunningJobs(running_size, submit_s[running], start_s, expected_end_s),
        queued=QueuedJobs(queued_size, submit_s[queued], estimate_s),
    )


def _run_s(case: MixedCase, state: MixedState) -> Int64:
    """Return the run times of the jobs; those that others have ended ran until then."""
    job, start_s, end_s, mode = state.stops.rows[: int(state.scalars["stops"][0])].T
    is_over = mode == CANCELLED
    if not is_over.any():
        return case.workload.runtime_s
    run_s = case.workload.runtime_s.copy()
    run_s[job[is_over]] = (end_s - start_s)[is_over]
    return run_s


def _running(
    case: MixedCase, state: MixedState, pools: SleepingPools, pool: int, most_units: int
) -> tuple[Int64, Int64]:
    """Return the slots of the jobs on the pool in the order of their starts, and their sizes."""
    group = int(pools.group[pool])
    if group == NOT_YET:
        return NOTHING, NOTHING
    here, slots, left, rows = state.groups[group], state.slots, most_units, []
    listed = state.expected[here["first"] : here["first"] + here["listed"]]
    for slot in listed[np.argsort(slots.started[listed], kind="stable")].tolist():
        units, piece = 0, int(slots.pieces[slot])
        while piece != NO_PIECE:
            if case.tables.cell_pool[state.pieces.cell[piece]] == pool:
                units += int(state.pieces.units[piece]) * _unit(case, pools, pool, int(state.pieces.option[piece]))
            piece = int(state.pieces.following[piece])
        size = min(units, left)
        left -= size
        if size > 0:
            rows.append((slot, size))
    found, sizes = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    return found, sizes


def _unit(case: MixedCase, pools: SleepingPools, pool: int, option: int) -> int:
    """Return how many units of the pool one unit of the option takes: nodes, or cores of shared nodes."""
    return 1 if pools.is_counted[pool] else max(1, int(case.tables.need[option, CORES]))


def _queued(
    case: MixedCase, state: MixedState, pools: SleepingPools, pool: int, units_per_node: int
) -> tuple[Int64, Int64]:
    """Return the waiting jobs that could use the pool, in the order of the queue, and their sizes."""
    group = int(pools.group[pool])
    if group == NOT_YET:
        return NOTHING, NOTHING
    tables, waiting, here = case.tables, state.waiting, state.groups[group]
    most = case.cluster.pools[pool].nodes * units_per_node
    size = np.zeros(len(tables.class_group) + 1, dtype=np.int64)
    for chunk, (first, behind) in enumerate(zip(tables.option_first[:-1], tables.option_first[1:], strict=True)):
        for option in range(first, behind):
            if tables.option_pool[option] == pool:
                units = -(-int(tables.copies[chunk]) // int(tables.room[option]))
                size[tables.option_class[option]] += units * _unit(case, pools, pool, option)
    position = np.arange(here["head"], here["tail"])
    position = position[size[waiting.request_class[position]] > 0]
    return waiting.job[position], np.minimum(size[waiting.request_class[position]], most)
