"""Replays jobs on a cluster of several pools under one policy: when each job starts, where, and what it costs.

The nodes of each pool are always on, or sleep by a capacity policy of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.cluster import NO_TIMING, SchedulerTiming
from offpeak.model.jobs import Jobs
from offpeak.model.node_class import NodeClass
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot
from offpeak.plugin.capacity.port import CapacityPolicy
from offpeak.plugin.window_policy import ARRIVAL
from offpeak.sim_backend.engine.state import (
    BEST_FIT,
    CONSERVATIVE,
    EASY,
    EXACT_RUNTIME,
    FCFS,
    FIRST_FIT,
    FORESEEN_RUNTIME,
    NEVER,
    NO_PIECE,
    NOT_YET,
    PeakTimes,
)
from offpeak.sim_backend.engine.window import WindowJobs, decide_order
from offpeak.sim_backend.mixed.advance import advance
from offpeak.sim_backend.mixed.case import MixedCase
from offpeak.sim_backend.mixed.cells import new_picks
from offpeak.sim_backend.mixed.power import PoolNodes, SleepingPools, sleeping_pools
from offpeak.sim_backend.mixed.preemption import with_room
from offpeak.sim_backend.mixed.priorities import Priorities, advance_ranked
from offpeak.sim_backend.mixed.state import (
    CANCELLED,
    CORES,
    REQUEUED,
    SLOTS,
    MixedRules,
    MixedState,
    counted,
    new_state,
)
from offpeak.sim_backend.replay.policy import Policy
from offpeak.sim_backend.replay.replay import LogBook, Replay
from offpeak.sim_backend.replay.run_times import ReplayedRunTimes, RunningSince, predicts_run_times
from offpeak.sim_backend.replay.schedule import NO_PEAKS, JobPlaces, JobRuns, Schedule

RESERVATIONS = {FCFS: 0, EASY: 1, FIRST_FIT: 1, BEST_FIT: 1, CONSERVATIVE: 100}
"""By discipline: of how many blocked jobs of each competition group the start is reserved by default."""


def rules_of(policy: Policy, timing: SchedulerTiming = NO_TIMING) -> MixedRules:
    """Return the rules of a policy for clusters of several pools."""
    rules = policy.rules
    plans_all = rules.discipline == CONSERVATIVE
    return MixedRules(
        reservations=timing.bf_most_jobs if plans_all and timing.bf_most_jobs else RESERVATIONS[rules.discipline],
        policy=rules.policy,
        window=rules.window,
        max_postponement_s=rules.max_postponement_s,
        sched_interval_s=timing.sched_interval_s or rules.period_s,
        bf_interval_s=timing.bf_interval_s,
        bf_resolution_s=timing.bf_resolution_s,
        completing_s=timing.completing_s,
        order_interval_s=timing.order_interval_s,
        end_window_s=timing.end_window_s,
        end_window_step_s=timing.end_window_step_s,
        boot_check_s=timing.boot_check_s,
        requeue_s=timing.requeue_s,
        ends_before=rules.discipline in (FIRST_FIT, BEST_FIT),
        widest_first=rules.discipline == BEST_FIT,
        estimates=rules.estimates,
        pass_per_event=rules.pass_per_event,
    )


NOTHING = np.empty(0, dtype=np.int64)


def check_pool_policy(capacity: CapacityPolicy, node_class: NodeClass) -> None:
    """Raise BadInput for what is not replayed on several pools of nodes."""
    if capacity.rules.late:
        raise BadInput(
            f"{capacity.name}: on several pools of nodes a job keeps the nodes that are woken for it",
            hint="choose forecast in place of forecast-late",
        )
    transitions = [each for depth in node_class.depths for each in (depth.enter, depth.leave)]
    if any(each.failure_probability > 0 for each in transitions):
        raise BadInput(
            f"node class {node_class.name}: transitions that fail are not replayed on several pools of nodes",
            hint="set failure_probability = 0 in its file",
        )


class MixedReplay(Replay):
    """A replay of the case's jobs under a policy, by its `rules_of`; nodes sleep where `classes` are given by pool.

    With `priorities` the ranks of the jobs follow from them instead of from the case. Boosted trees learn `jobs`.
    Raises BadInput for what `check_pool_policy` refuses.
    """

    def __init__(
        self,
        case: MixedCase,
        policy: Policy,
        rules: MixedRules,
        classes: Sequence[NodeClass] = (),
        *,
        peaks: PeakTimes = NO_PEAKS,
        priorities: Priorities | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        self._case = case = as_estimated(case, policy)
        self._workload, self._rules = case.workload, rules
        self._peaks = NO_PEAKS if rules.policy == ARRIVAL else peaks
        self._priorities = None if priorities is None else priorities.initial_state(case)
        self._run_times, self._book, tables = None, LogBook(len(classes)), case.tables
        if classes:
            for capacity, node_class in zip(policy.capacity, classes, strict=True):
                check_pool_policy(capacity, node_class)
            state = _powered_state(case, rules, policy.capacity, classes)
            if predicts_run_times(policy, policy.capacity):
                self._run_times = ReplayedRunTimes(case.submitted, case.workload.submit_s)
        else:
            tables = counted(case.tables, case.workload, rules)
            state = new_state(tables, case.workload, rules, new_picks(tables))
        self._state, self._tables = state, tables
        power = state.sleeping and state.sleeping.power
        super().__init__(policy, case.workload, state.start_s, power=power, jobs=jobs)

    def schedule(self) -> Schedule:
        """Return the schedule."""
        schedule = schedule_of(self._case, self._state, self._simulate_s)
        if self._power is None:
            return schedule
        self._empty_log()
        logs = self._book.node_logs([pool.nodes for pool in self._case.cluster.pools])
        return replace(schedule, node_logs=logs, delay_s=self._delay_s)

    def _advance(self, until_s: int) -> int:
        terms = (self._tables, self._workload, self._peaks, self._rules, self._state)
        if self._priorities is None:
            return advance(*terms, until_s)
        return advance_ranked(*terms, self._priorities, until_s=until_s)

    def _make_room(self) -> None:
        self._state = with_room(self._state, self._case.tables)

    def _decide_order(self) -> None:
        decide_window(self._case, self._policy, self._rules, self._state, self._peaks)

    def _empty_log(self) -> None:
        pools = self._state.sleeping
        assert pools is not None
        self._book.empty(pools.power, pools.entry_first)
        pools.seen[:] = 0

    def _decide_capacity(self) -> None:
        assert self._power is not None
        now_s, scalars = int(self._state.scalars["now_s"][0]), self._power.scalars
        for pool, capacity in enumerate(self._policy.capacity):
            if capacity.decide is not None and scalars["next_decision_s"][pool] == now_s + capacity.rules.period_s:
                seen = pool_snapshot(self._case, self._rules, self._state, pool, run_times=self._run_times)
                targets = capacity.decide(seen)
                scalars["target"][pool], scalars["reserve"][pool] = targets.awake, targets.reserve


def replay_mixed(
    case: MixedCase,
    policy: Policy,
    rules: MixedRules,
    *,
    peaks: PeakTimes = NO_PEAKS,
    priorities: Priorities | None = None,
    progress: Callable[[int], None] | None = None,
) -> Schedule:
    """Return the schedule of the case's jobs on nodes that are always on."""
    made = MixedReplay(case, policy, rules, peaks=peaks, priorities=priorities)
    made.run(progress)
    return made.schedule()


def schedule_of(case: MixedCase, state: MixedState, simulate_s: float) -> Schedule:
    """Return the schedule that the state of an ended replay holds."""
    workload = case.workload
    rows, stops = int(state.scalars["placements"][0]), int(state.scalars["stops"][0])
    job, start_s, stopped_s, mode = state.stops.rows[:stops].T
    lost, cancelled = (
        JobRuns(job[some], start_s[some], stopped_s[some]) for some in (mode == REQUEUED, mode != REQUEUED)
    )
    end_s = state.start_s + workload.runtime_s
    end_s[cancelled.job] = cancelled.end_s
    if not len(state.placements.job):
        return Schedule(state.start_s, end_s, simulate_s, places=_counted_places(case, state.start_s))
    job = state.placements.job[:rows]
    run = job
    if len(lost.job):
        # Rows of a run are adjacent, and the runs of a job are in the order of their starts: the lost ones come first.
        is_first = np.diff(job, prepend=NOT_YET) != 0
        begun = np.flatnonzero(state.start_s != NOT_YET)
        numbers = np.append(len(state.start_s) + np.arange(len(lost.job)), begun)
        of_block = np.empty(len(numbers), dtype=np.int64)
        by_job = np.argsort(np.append(lost.job, begun), kind="stable")
        of_block[np.argsort(job[is_first], kind="stable")] = numbers[by_job]
        run = of_block[np.cumsum(is_first) - 1]
    places = JobPlaces(job, state.placements.pool[:rows], state.placements.nodes[:rows], run)
    return Schedule(state.start_s, end_s, simulate_s, lost=lost, cancelled=cancelled.job, places=places)


def _counted_places(case: MixedCase, start_s: Int64) -> JobPlaces:
    """Return where the jobs ran, where only the nodes of one pool are counted."""
    tables, job = case.tables, np.flatnonzero(start_s != NOT_YET)
    nodes = -(-tables.copies // tables.room) * tables.unit_nodes
    return JobPlaces(job, np.zeros(len(job), dtype=np.int64), nodes[case.workload.request_class[job]], job)


def as_estimated(case: MixedCase, policy: Policy) -> MixedCase:
    """Return the case with the run times and estimates that the policy sees, and ranks of its own."""
    workload = case.workload
    if policy.kill_at_estimate:
        workload = workload._replace(runtime_s=np.minimum(workload.runtime_s, workload.estimate_s))
    if policy.rules.estimates == EXACT_RUNTIME:
        workload = workload._replace(estimate_s=workload.runtime_s)
    if policy.rules.estimates == FORESEEN_RUNTIME:
        workload = workload._replace(foreseen_s=workload.estimate_s.copy())
    rank, priority, fair_share = workload.rank.copy(), workload.priority.copy(), workload.fair_share.copy()
    return replace(case, workload=workload._replace(rank=rank, priority=priority, fair_share=fair_share))


def decide_window(case: MixedCase, policy: Policy, rules: MixedRules, state: MixedState, peaks: PeakTimes) -> None:
    """Let a policy from outside order a group's window. Sizes are in window units (see `Tables`)."""
    now, waiting = state.scalars[0], state.waiting
    position = state.window.position[: now["window"]]
    job = waiting.job[position]
    decide_order(
        policy.window_policy,
        now,
        state.window,
        WindowJobs(case.job_id[job], case.workload.submit_s[job], waiting.hold_s[position] - rules.completing_s),
        passed_over_s=waiting.passed_over_s,
        peaks=peaks,
        rules=rules,
        free=int(now["free"]),
    )


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
    case: MixedCase, rules: MixedRules, state: MixedState, pool: int, *, run_times: ReplayedRunTimes | None = None
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
    position, queued_size = _queued(case, state, pools, pool, units_per_node)
    running, queued, submit_s = state.slots.job[slot], state.waiting.job[position], case.workload.submit_s
    start_s = state.start_s[running]
    if run_times is None:
        expected_end_s = state.slots.expected_end_s[slot]
        estimate_s = state.waiting.hold_s[position] - rules.completing_s
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
    """Return the positions of the waiting jobs that could use the pool, in order, and their sizes."""
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
    return position, np.minimum(size[waiting.request_class[position]], most)
