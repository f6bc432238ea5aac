"""The replay of a log under one policy on any cluster: the engine goes on, and policies decide where it stops.

The nodes of each pool are always on, or sleep by a capacity policy of their own. Boosted trees may predict run times
meanwhile: they know only the jobs that have ended by then.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.cluster import NO_TIMING, SchedulerTiming
from offpeak.model.constants import HOUR_S
from offpeak.model.jobs import Jobs
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import FAILED
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot
from offpeak.plugin.capacity.peak_shaving import NO_SHAVING, PeakRules
from offpeak.plugin.capacity.port import CapacityPolicy
from offpeak.plugin.window_policy import ARRIVAL
from offpeak.predictors.job_history import jobs_at_submission
from offpeak.predictors.run_times import boosted_run_time
from offpeak.sim_backend.engine.advance import advance
from offpeak.sim_backend.engine.allocation import NO_PIECE
from offpeak.sim_backend.engine.case import EngineCase
from offpeak.sim_backend.engine.cells import new_picks
from offpeak.sim_backend.engine.pools import PoolNodes, SleepingPools, sleeping_pools
from offpeak.sim_backend.engine.preemption import with_room
from offpeak.sim_backend.engine.priorities import Priorities, advance_ranked
from offpeak.sim_backend.engine.rules import (
    BEST_FIT,
    CAPACITY,
    CONSERVATIVE,
    DECIDE,
    EASY,
    EXACT_RUNTIME,
    FCFS,
    FINISHED,
    FIRST_FIT,
    FORESEEN_RUNTIME,
    LOG_FULL,
    NEVER,
    NO_PEAKS,
    NOT_YET,
    PAUSED,
    PREDICTED_RUNTIME,
    EngineRules,
    PeakTimes,
)
from offpeak.sim_backend.engine.state import (
    CANCELLED,
    CORES,
    REQUEUED,
    SLOTS,
    State,
    Workload,
    counted,
    new_state,
)
from offpeak.sim_backend.engine.window import WindowJobs, decide_order
from offpeak.sim_backend.nodes.node_log import NodeLog
from offpeak.sim_backend.replay.policy import Policy
from offpeak.sim_backend.replay.run_times import ReplayedRunTimes, RunningSince, predicts_run_times
from offpeak.sim_backend.replay.schedule import JOBS_PER_STEP, JobPlaces, JobRuns, Schedule

RESERVATIONS = {FCFS: 0, EASY: 1, FIRST_FIT: 1, BEST_FIT: 1, CONSERVATIVE: 100}
"""By discipline: of how many blocked jobs of each competition group the start is reserved by default."""
NOTHING = np.empty(0, dtype=np.int64)


def rules_of(policy: Policy, timing: SchedulerTiming = NO_TIMING) -> EngineRules:
    """Return the rules of a policy on a cluster whose scheduler has that timing."""
    rules = policy.rules
    plans_all = rules.discipline == CONSERVATIVE
    return EngineRules(
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


def unit_rules_of(policy: Policy) -> EngineRules:
    """Return the rules of a policy on a machine of equal units: conservative backfilling promises every start there."""
    rules = rules_of(policy)
    if policy.rules.discipline == CONSERVATIVE:
        return rules._replace(reservations=RESERVATIONS[EASY], promises=True)
    return rules


@dataclass(frozen=True)
class SleepingNodes:
    """The nodes of the pools that can sleep: the class of each pool, and the seed of transitions that fail.

    Where only the units of one pool are counted, a node has `units_per_node`, and `shaving` keeps jobs back.
    `enclosures` are those of its NodeLog.
    """

    classes: tuple[NodeClass, ...]
    units_per_node: int = 1
    seed: int = 0
    shaving: PeakRules = NO_SHAVING
    enclosures: tuple[tuple[int, int], ...] = ()


class Replay:
    """A replay of the case's jobs under a policy and the engine's rules for it: of the jobs, then of the nodes.

    Nodes sleep where `nodes` are given. With `priorities` the ranks of the jobs follow from them instead of from the
    case. Boosted trees learn `jobs`. To be read only are `tables`, `workload` and `state`, those of the engine, and
    `start_s`: when each job has started, NOT_YET if it has not. Raises BadInput for what `check_pool_policy` refuses.
    """

    def __init__(
        self,
        case: EngineCase,
        policy: Policy,
        rules: EngineRules,
        nodes: SleepingNodes | None = None,
        *,
        peaks: PeakTimes = NO_PEAKS,
        priorities: Priorities | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        case = as_estimated(case, policy, is_ranked=priorities is not None)
        case = replace(case, tables=counted(case.tables, case.workload, rules))
        self._case, self._policy, self._rules, self._nodes, self._jobs = case, policy, rules, nodes, jobs
        self.tables, self.workload = case.tables, case.workload
        self._peaks = NO_PEAKS if rules.policy == ARRIVAL else peaks
        self._priorities = None if priorities is None else priorities.initial_state(case)
        self._run_times: ReplayedRunTimes | None = None
        if nodes is None:
            self.state = new_state(self.tables, case.workload, rules, new_picks(self.tables))
        else:
            self._log_pieces: list[list[tuple[np.ndarray, ...]]] = [[] for _ in nodes.classes]
            self.state = powered_state(case, rules, policy.capacity, nodes)
            if predicts_run_times(policy, policy.capacity):
                self._run_times = ReplayedRunTimes(case.submitted, case.workload.submit_s)
        self.start_s, self._power = self.state.start_s, self.state.sleeping and self.state.sleeping.power
        self._simulate_s = 0.0

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Go on until no job can change any more; `progress` gets the number of jobs submitted so far.

        Ctrl-C takes effect between steps.
        """
        for until_s, submitted in self._steps():
            self.go_on(until_s)
            if progress:
                progress(submitted)

    def rest(self, until_s: int) -> None:
        """Go on behind the last job, nodes asleep or awake as the capacity policies want."""
        if self._power is not None:
            self.rest_until(until_s)
            self.go_on(NEVER - 1)

    def rest_until(self, until_s: int) -> None:
        """Let the nodes go on until that second when no job is left."""
        if self._power is not None:
            self._power.scalars["rest_until_s"] = until_s

    def go_on(self, until_s: int) -> None:
        """Handle all events up to and including that second, and ask the policies where the engine stops for them."""
        begin = time.perf_counter()
        while (stop := self._advance(until_s)) not in (PAUSED, FINISHED):
            if stop == DECIDE:
                self._decide_window()
            elif stop == CAPACITY:
                self._decide_capacity()
            elif stop == LOG_FULL:
                self._empty_log()
            else:
                self.state = with_room(self.state, self.tables)
        self._simulate_s += time.perf_counter() - begin

    @property
    def failed_nodes(self) -> int:
        """How many nodes have failed by now."""
        return 0 if self._power is None else int(np.count_nonzero(self._power.table.state == FAILED))

    @property
    def end_s(self) -> Int64:
        """When each job has ended, NOT_YET if it has not started."""
        return np.where(self.start_s != NOT_YET, self.start_s + self.workload.runtime_s, NOT_YET)

    def schedule(self) -> Schedule:
        """Return the schedule. A job that needs more nodes than have not failed never starts: NOT_YET."""
        schedule = schedule_of(self._case, self.state, self._simulate_s)
        if self._nodes is None or self._power is None:
            return schedule
        self._empty_log()
        columns = ((np.concatenate(column) for column in zip(*pieces, strict=True)) for pieces in self._log_pieces)
        logs = tuple(
            NodeLog(pool.nodes, self._nodes.units_per_node, *log, enclosures=self._nodes.enclosures)
            for pool, log in zip(self._case.cluster.pools, columns, strict=True)
        )
        delay_s = np.where(self.start_s != NOT_YET, self.start_s - self._power.wanted_s, 0)
        return replace(schedule, node_logs=logs, delay_s=delay_s)

    def _advance(self, until_s: int) -> int:
        terms = (self.tables, self.workload, self._peaks, self._rules, self.state)
        if self._priorities is None:
            return advance(*terms, until_s)
        return advance_ranked(*terms, self._priorities, until_s=until_s)

    def _steps(self) -> Iterator[tuple[int, int]]:
        """Yield up to which second the engine is to go on, and how many jobs have been submitted by then."""
        if self._policy.rules.estimates == FORESEEN_RUNTIME:
            assert self._jobs is not None
            yield from foreseeing_steps(self._jobs, self.workload, self.start_s)
            return
        submit_s = self.workload.submit_s
        for last in range(JOBS_PER_STEP, len(submit_s), JOBS_PER_STEP):
            yield int(submit_s[last]), last
        yield NEVER - 1, len(submit_s)

    def _empty_log(self) -> None:
        """Take the entries of the engine's node logs, and reset these."""
        pools = self.state.sleeping
        assert pools is not None
        lengths = pools.power.scalars["log_length"].tolist()
        for pieces, first, length in zip(self._log_pieces, pools.entry_first[:-1].tolist(), lengths, strict=True):
            pieces.append(tuple(column[first : first + length].copy() for column in pools.power.log))
        pools.power.scalars["log_length"] = 0
        pools.seen[:] = 0

    def snapshot(self, pool: int = 0) -> Snapshot:
        """Return what a capacity policy may know of the pool now."""
        return pool_snapshot(self._case, self._rules, self.state, pool, run_times=self._run_times)

    def _decide_window(self) -> None:
        """Let a policy from outside order a group's window. Sizes are in window units (see `Tables`)."""
        now, waiting = self.state.scalars[0], self.state.waiting
        position = self.state.window.position[: now["window"]]
        job = waiting.job[position]
        hold_s = waiting.hold_s[position] - self._rules.completing_s
        decide_order(
            self._policy.window_policy,
            now,
            self.state.window,
            WindowJobs(self._case.job_id[job], self.workload.submit_s[job], hold_s),
            passed_over_s=waiting.passed_over_s,
            peaks=self._peaks,
            rules=self._rules,
            free=int(now["free"]),
        )

    def _decide_capacity(self) -> None:
        assert self._power is not None
        now_s, scalars = int(self.state.scalars["now_s"][0]), self._power.scalars
        for pool, capacity in enumerate(self._policy.capacity):
            if capacity.decide is not None and scalars["next_decision_s"][pool] == now_s + capacity.rules.period_s:
                targets = capacity.decide(self.snapshot(pool))
                scalars["target"][pool], scalars["reserve"][pool] = targets.awake, targets.reserve


def check_pool_policy(capacity: CapacityPolicy, node_class: NodeClass) -> None:
    """Raise BadInput for what is not replayed on several pools of nodes."""
    if capacity.rules.plan_s:
        raise BadInput(
            f"{capacity.name}: on several pools of nodes a job keeps the nodes that are woken for it",
            hint="choose forecast in place of forecast-late, timeout in place of planned",
        )
    transitions = [each for depth in node_class.depths for each in (depth.enter, depth.leave)]
    if any(each.failure_probability > 0 for each in transitions):
        raise BadInput(
            f"node class {node_class.name}: transitions that fail are not replayed on several pools of nodes",
            hint="set failure_probability = 0 in its file",
        )


def powered_state(
    case: EngineCase, rules: EngineRules, capacity: Sequence[CapacityPolicy], nodes: SleepingNodes
) -> State:
    """Return the state before the first event, all nodes awake and idle. Raises BadInput, see `check_pool_policy`."""
    tables, are_units = case.tables, case.tables.need is None
    for each, node_class in zip(capacity, nodes.classes, strict=True):
        if not are_units:
            check_pool_policy(each, node_class)
    group = np.full(len(case.cluster.pools), NOT_YET)
    group[tables.option_pool] = tables.class_group[tables.option_class]
    is_counted = tables.window_column[tables.cell_first[:-1]] == SLOTS
    pools = [
        PoolNodes(pool.nodes, bool(counted), int(own), nodes.units_per_node)
        for pool, counted, own in zip(case.cluster.pools, is_counted, group, strict=True)
    ]
    begin_s = int(case.workload.submit_s[0]) if len(case.workload.submit_s) else 0
    sleeping = sleeping_pools(
        pools,
        capacity,
        nodes.classes,
        jobs=len(case.kept),
        cells=len(tables.cell_pool),
        begin_s=begin_s,
        seed=nodes.seed,
        peak=nodes.shaving if are_units and nodes.shaving.longest_s > 0 else None,
    )
    sleeping.power.scalars["rest_until_s"] = begin_s - 1
    state = new_state(tables, case.workload, rules, new_picks(tables), sleeping=sleeping)
    for pool, each in enumerate(capacity):
        if group[pool] != NOT_YET and each.rules.on_demand and each.rules.ahead_s > 0:
            state.groups["reserves_always"][group[pool]] = 1
    return state


def replay_case(
    case: EngineCase,
    policy: Policy,
    rules: EngineRules,
    *,
    peaks: PeakTimes = NO_PEAKS,
    priorities: Priorities | None = None,
    progress: Callable[[int], None] | None = None,
) -> Schedule:
    """Return the schedule of the case's jobs on nodes that are always on."""
    made = Replay(case, policy, rules, peaks=peaks, priorities=priorities)
    made.run(progress)
    return made.schedule()


def schedule_of(case: EngineCase, state: State, simulate_s: float) -> Schedule:
    """Return the schedule that the state of an ended replay holds."""
    workload = case.workload
    rows, stops = int(state.scalars["placements"][0]), int(state.scalars["stops"][0])
    job, start_s, stopped_s, mode = state.stops.rows[:stops].T
    lost, cancelled = (
        JobRuns(job[some], start_s[some], stopped_s[some]) for some in (mode == REQUEUED, mode != REQUEUED)
    )
    end_s = np.where(state.start_s != NOT_YET, state.start_s + workload.runtime_s, NOT_YET)
    end_s[cancelled.job] = cancelled.end_s
    if not len(state.placements.job):
        # Only the nodes of one pool are counted.
        tables, job = case.tables, np.flatnonzero(state.start_s != NOT_YET)
        nodes = -(-tables.copies // tables.room) * tables.unit_nodes
        places = JobPlaces(job, np.zeros(len(job), dtype=np.int64), nodes[workload.request_class[job]], job)
        return Schedule(state.start_s, end_s, simulate_s, places=places)
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


def as_estimated(case: EngineCase, policy: Policy, *, is_ranked: bool = False) -> EngineCase:
    """Return the case with the run times and estimates that the policy sees, and ranks of its own where they change."""
    workload = case.workload
    if policy.kill_at_estimate:
        workload = workload._replace(runtime_s=np.minimum(workload.runtime_s, workload.estimate_s))
    if policy.rules.estimates == EXACT_RUNTIME:
        workload = workload._replace(estimate_s=workload.runtime_s)
    if policy.rules.estimates == FORESEEN_RUNTIME:
        workload = workload._replace(foreseen_s=workload.estimate_s.copy())
    if policy.rules.estimates == PREDICTED_RUNTIME:
        workload = workload._replace(user=np.unique(workload.user, return_inverse=True)[1].astype(np.int64))
    if is_ranked:
        rank, priority, fair_share = workload.rank.copy(), workload.priority.copy(), workload.fair_share.copy()
        workload = workload._replace(rank=rank, priority=priority, fair_share=fair_share)
    return replace(case, workload=workload)


def foreseeing_steps(jobs: Jobs, workload: Workload, start_s: Int64) -> Iterator[tuple[int, int]]:
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
        runtime_s = workload.runtime_s
        end_s = np.where(start_s[awaited] == NOT_YET, NEVER, start_s[awaited] + runtime_s[awaited])
        is_over = end_s < now_s
        over, awaited = awaited[is_over][np.argsort(end_s[is_over], kind="stable")], awaited[~is_over]
        predictor.learn(ended.take(over), now_s)
        block = np.arange(begin, end)
        median_s = predictor.predict(submitted_jobs.take(block), now_s).point
        workload.foreseen_s[block] = np.rint(median_s).astype(np.int64)
        awaited = np.append(awaited, block)
    yield NEVER - 1, len(jobs)


def pool_snapshot(
    case: EngineCase, rules: EngineRules, state: State, pool: int, *, run_times: ReplayedRunTimes | None = None
) -> Snapshot:
    """Return what a capacity policy may know now of a pool, its running jobs and the jobs that could use it.

    Where nodes are shared, a unit is a core: what jobs need of other resources is not seen. A job that could use other
    pools as well counts in each of them. Without `run_times` the policy knows what the scheduler expects.
    """
    pools, now_s = state.sleeping, int(state.scalars["now_s"][0])
    assert pools is not None
    units_per_node = int(pools.power.scalars["units_per_node"][pool])
    if not pools.is_counted[pool]:
        units_per_node = max(1, case.cluster.pools[pool].node_type.cores)
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


def _run_s(case: EngineCase, state: State) -> Int64:
    """Return the run times of the jobs; those that others have ended ran until then."""
    job, start_s, end_s, mode = state.stops.rows[: int(state.scalars["stops"][0])].T
    is_over = mode == CANCELLED
    if not is_over.any():
        return case.workload.runtime_s
    run_s = case.workload.runtime_s.copy()
    run_s[job[is_over]] = (end_s - start_s)[is_over]
    return run_s


def _running(case: EngineCase, state: State, pools: SleepingPools, pool: int, most_units: int) -> tuple[Int64, Int64]:
    """Return the slots of the jobs on the pool in the order of their starts, and their sizes."""
    group = int(pools.group[pool])
    if group == NOT_YET:
        return NOTHING, NOTHING
    here, slots, left, rows = state.groups[group], state.slots, most_units, []
    listed = state.expected[here["first"] : here["first"] + here["listed"]]
    listed = listed[np.argsort(slots.started[listed], kind="stable")]
    if case.tables.need is None:
        return listed.astype(np.int64), slots.pieces[listed]
    for slot in listed.tolist():
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


def _unit(case: EngineCase, pools: SleepingPools, pool: int, option: int) -> int:
    """Return how many units of the pool one unit of the option takes: nodes, or cores of shared nodes."""
    return 1 if pools.is_counted[pool] else max(1, int(case.tables.need[option, CORES]))


def _queued(
    case: EngineCase, state: State, pools: SleepingPools, pool: int, units_per_node: int
) -> tuple[Int64, Int64]:
    """Return the positions of the waiting jobs that could use the pool, in order, and their sizes."""
    group = int(pools.group[pool])
    if group == NOT_YET:
        return NOTHING, NOTHING
    tables, waiting, here = case.tables, state.waiting, state.groups[group]
    if tables.need is None:
        position = np.arange(here["head"], here["tail"])
        position = position[waiting.size[position] != NEVER]
        return position, waiting.size[position]
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
