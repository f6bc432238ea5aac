"""Replays a log on a machine whose nodes sleep: the starts of the jobs and the states of the nodes."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from offpeak.errors import OffpeakError
from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import DEPTHS, FAILED
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot
from offpeak.plugin.capacity.peak_shaving import NO_SHAVING, PeakRules
from offpeak.plugin.capacity.port import CapacityPolicy
from offpeak.plugin.capacity.rules import DepthTable
from offpeak.plugin.window_policy import ARRIVAL
from offpeak.sim_backend.engine.advance import CAPACITY, DECIDE, LOG_FULL, advance
from offpeak.sim_backend.engine.power import Power, PoweredNodes, all_active
from offpeak.sim_backend.engine.state import NEVER, NOT_YET, PeakTimes, State, Workload, new_state
from offpeak.sim_backend.nodes.node_log import NodeLog
from offpeak.sim_backend.replay.policy import Policy
from offpeak.sim_backend.replay.run_times import ReplayedRunTimes, RunningSince, SubmittedJobs, predicts_run_times
from offpeak.sim_backend.replay.schedule import NO_PEAKS, Schedule, decide_window, steps, workload_of


@dataclass(frozen=True)
class PoweredMachine:
    """Nodes of one class: allocation units, units a node, the seed of their failures, and `enclosures` as of NodeLog.

    Raises OffpeakError unless the units are those of whole nodes.
    """

    size: int
    units_per_node: int
    node_class: NodeClass
    seed: int = 1
    enclosures: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        surplus = self.size % self.units_per_node
        if surplus:
            raise OffpeakError(
                f"{self.size:,} units are no whole nodes of {self.units_per_node:,}",
                hint=f"leave out the last {surplus:,} units",
            )

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.size // self.units_per_node

    @property
    def classes(self) -> tuple[NodeClass]:
        """The class of the only pool of nodes."""
        return (self.node_class,)


def depth_table(node_class: NodeClass, seed: int) -> DepthTable:
    """Return the transitions of the class as the kernels take them."""
    enter_s, leave_s = np.zeros((2, len(DEPTHS)), dtype=np.int64)
    enter_failure, leave_failure = np.zeros((2, len(DEPTHS)))
    for depth in node_class.depths:
        enter_s[depth.depth], leave_s[depth.depth] = depth.enter.duration_s, depth.leave.duration_s
        enter_failure[depth.depth] = depth.enter.failure_probability
        leave_failure[depth.depth] = depth.leave.failure_probability
    repair_s = NEVER if node_class.repair_s is None else node_class.repair_s
    return DepthTable(enter_s, leave_s, enter_failure, leave_failure, repair_s, seed)


class LogBook:
    """Gathers the pieces of a node log that the engine gives out when its own is full."""

    def __init__(self) -> None:
        self.pieces: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def empty(self, power: Power) -> None:
        """Take the entries of the engine's log, and reset it."""
        length = int(power.scalars["log_length"][0])
        self.pieces.append(tuple(column[:length].copy() for column in power.log))  # type: ignore[arg-type]
        power.scalars["log_length"] = 0

    def node_log(self, machine: PoweredMachine) -> NodeLog:
        """Return all that was taken."""
        at_s, node, state = (np.concatenate(columns) for columns in zip(*self.pieces, strict=True))
        return NodeLog(machine.nodes, machine.units_per_node, at_s, node, state, enclosures=machine.enclosures)


NO_JOBS = np.empty(0, dtype=np.int64)


class PoweredReplay:
    """A replay on a machine under two policies: of the jobs, none wider than it, then of the nodes.

    `without_limit` are the ids of jobs without a time limit, whose estimates say how long they ran.
    """

    def __init__(
        self,
        jobs: Jobs,
        node_power_w: Float64,
        machine: PoweredMachine,
        policy: Policy,
        capacity: CapacityPolicy,
        *,
        peaks: PeakTimes = NO_PEAKS,
        without_limit: Int64 = NO_JOBS,
        shaving: PeakRules = NO_SHAVING,
    ) -> None:
        self._shaving = shaving
        self._jobs, self._machine, self._policy, self._capacity = jobs, machine, policy, capacity
        self._peaks = NO_PEAKS if policy.rules.policy == ARRIVAL else peaks
        self._workload = workload_of(jobs, node_power_w, policy)
        self._state = new_state(self._workload, policy.rules, machine_size=machine.size)
        begin_s = int(self._state.scalars["now_s"][0])
        self._power = all_active(
            capacity.rules,
            machine_size=machine.size,
            units_per_node=machine.units_per_node,
            slots=len(self._state.slots.job),
            jobs=len(jobs),
            begin_s=begin_s,
            rest_until_s=begin_s - 1,
            charges=len(shaving.target_mw),
        )
        self._depths = depth_table(machine.node_class, machine.seed)
        self._run_times = None
        if predicts_run_times(policy, [capacity]):
            submitted = SubmittedJobs.of(jobs, units_per_node=machine.units_per_node)
            submitted = submitted.without_limit(np.isin(jobs.job_id, without_limit))
            self._run_times = ReplayedRunTimes(submitted, jobs.submit_s)
        self._book, self._simulate_s = LogBook(), 0.0

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Go on until no job can change any more; `progress` gets the number of jobs submitted so far."""
        for until_s, submitted in steps(self._jobs, self._workload, self._policy, self._state):
            self._go_on(until_s)
            if progress:
                progress(submitted)

    def rest(self, until_s: int) -> None:
        """Go on behind the last job, nodes asleep or awake as the policy wants."""
        self._power.scalars["rest_until_s"] = until_s
        self._go_on(NEVER - 1)

    def schedule(self) -> Schedule:
        """Return the schedule. A job that needs more nodes than have not failed never starts: NOT_YET."""
        start_s = self._state.start_s
        delay_s = np.where(start_s != NOT_YET, start_s - self._power.wanted_s, 0)
        self._book.empty(self._power)
        logs = (self._book.node_log(self._machine),)
        return Schedule(start_s, self.end_s, self._simulate_s, node_logs=logs, delay_s=delay_s)

    @property
    def failed_nodes(self) -> int:
        """How many nodes have failed by now."""
        return int(np.count_nonzero(self._power.table.state == FAILED))

    @property
    def start_s(self) -> Int64:
        """When each job has started, NOT_YET if it has not."""
        return self._state.start_s

    @property
    def end_s(self) -> Int64:
        """When each job has ended, NOT_YET if it has not started."""
        start_s = self._state.start_s
        return np.where(start_s != NOT_YET, start_s + self._workload.runtime_s, NOT_YET)

    def _go_on(self, until_s: int) -> None:
        begin = time.perf_counter()
        capacity = self._capacity
        nodes = PoweredNodes(self._power, capacity.rules, capacity.schedule, self._depths, self._shaving)
        while True:
            stop = advance(self._workload, self._peaks, self._policy.rules, self._state, nodes, until_s)
            if stop == LOG_FULL:
                self._book.empty(self._power)
            elif stop == DECIDE:
                decide_window(self._workload, self._peaks, self._policy, self._state, self._jobs.job_id)
            elif stop == CAPACITY:
                self._decide_capacity()
            else:
                break
        self._simulate_s += time.perf_counter() - begin

    def _decide_capacity(self) -> None:
        assert self._capacity.decide is not None
        targets = self._capacity.decide(
            snapshot_of(self._workload, self._state, self._power, self._depths, run_times=self._run_times)
        )
        self._power.scalars["target"] = targets.awake
        self._power.scalars["reserve"] = targets.reserve


def replay_powered(
    jobs: Jobs,
    node_power_w: Float64,
    machine: PoweredMachine,
    policy: Policy,
    capacity: CapacityPolicy,
    *,
    peaks: PeakTimes = NO_PEAKS,
    shaving: PeakRules = NO_SHAVING,
) -> Schedule:
    """Return the schedule of the jobs under a scheduling and a capacity policy, up to the last job's end."""
    replay = PoweredReplay(jobs, node_power_w, machine, policy, capacity, peaks=peaks, shaving=shaving)
    replay.run()
    return replay.schedule()


def snapshot_of(
    workload: Workload, state: State, power: Power, depths: DepthTable, *, run_times: ReplayedRunTimes | None = None
) -> Snapshot:
    """Return what a capacity policy may know now: nothing of later submissions, and of run times the predictions.

    Without `run_times` it knows what the scheduler expects.
    """
    now = state.scalars[0]
    now_s = int(now["now_s"])
    slot = state.expected[: now["listed"]]
    slot = slot[np.argsort(state.slots.started[slot], kind="stable")]
    running = state.slots.job[slot]
    waiting = np.arange(now["head"], now["tail"])
    waiting = waiting[state.queue.size[waiting] != NEVER]
    queued, start_s = state.queue.job[waiting], state.start_s[running]
    if run_times is None:
        expected_end_s, estimate_s = state.slots.expected_end_s[slot], state.queue.estimate_s[waiting]
    else:
        run_times.catch_up(state.start_s, workload.runtime_s, int(now["next_job"]), now_s)
        expected_end_s, estimate_s = run_times.expected(RunningSince(running, start_s, now_s), queued)
    return Snapshot(
        now_s=now_s,
        units_per_node=int(power.scalars["units_per_node"][0]),
        node_state=power.table.state,
        ready_s=np.where(power.ready_s == NEVER, now_s, power.ready_s),
        wake_s=tuple(depths.leave_s.tolist()),
        running=RunningJobs(state.slots.size[slot], workload.submit_s[running], start_s, expected_end_s),
        queued=QueuedJobs(state.queue.size[waiting], workload.submit_s[queued], estimate_s),
    )
