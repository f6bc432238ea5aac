"""Replays a log on a machine of equal nodes, which are always on or sleep: when would each job have started?"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from offpeak.errors import OffpeakError
from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import DEPTHS
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot
from offpeak.plugin.capacity.peak_shaving import NO_SHAVING, PeakRules
from offpeak.plugin.capacity.port import CapacityPolicy
from offpeak.plugin.capacity.rules import DepthTable
from offpeak.plugin.window_policy import ARRIVAL
from offpeak.sim_backend.engine.advance import advance
from offpeak.sim_backend.engine.power import Power, PoweredNodes, all_active
from offpeak.sim_backend.engine.state import (
    FORESEEN_RUNTIME,
    NEVER,
    PREDICTED_RUNTIME,
    PeakTimes,
    State,
    Workload,
    new_state,
)
from offpeak.sim_backend.engine.window import WindowJobs, decide_order
from offpeak.sim_backend.replay.policy import Policy
from offpeak.sim_backend.replay.replay import LogBook, Replay
from offpeak.sim_backend.replay.run_times import ReplayedRunTimes, RunningSince, SubmittedJobs, predicts_run_times
from offpeak.sim_backend.replay.schedule import NO_PEAKS, Schedule


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


NO_JOBS = np.empty(0, dtype=np.int64)


class EqualNodesReplay(Replay):
    """A replay of jobs, none wider than the machine; `node_power_w` is their draw per unit [W].

    The nodes of `machine` sleep as the policy says; units of which only the number is given are always on.
    `without_limit` are the ids of jobs without a time limit, whose estimates say how long they ran.
    """

    def __init__(
        self,
        jobs: Jobs,
        node_power_w: Float64,
        machine: PoweredMachine | int,
        policy: Policy,
        *,
        peaks: PeakTimes = NO_PEAKS,
        without_limit: Int64 = NO_JOBS,
        shaving: PeakRules = NO_SHAVING,
    ) -> None:
        self._job_id = jobs.job_id
        self._peaks = NO_PEAKS if policy.rules.policy == ARRIVAL else peaks
        self._workload = workload = workload_of(jobs, node_power_w, policy)
        size = machine.size if isinstance(machine, PoweredMachine) else machine
        self._state = state = new_state(workload, policy.rules, machine_size=size)
        self._nodes: PoweredNodes | None = None
        self._run_times, self._book = None, LogBook()
        if isinstance(machine, PoweredMachine):
            self._machine, (self._capacity,) = machine, policy.capacity
            self._nodes = nodes_of(machine, self._capacity, state, shaving)
            if predicts_run_times(policy, policy.capacity):
                submitted = SubmittedJobs.of(jobs, units_per_node=machine.units_per_node)
                submitted = submitted.without_limit(np.isin(jobs.job_id, without_limit))
                self._run_times = ReplayedRunTimes(submitted, jobs.submit_s)
        super().__init__(policy, workload, state.start_s, power=self._nodes and self._nodes.power, jobs=jobs)

    def schedule(self) -> Schedule:
        """Return the schedule. A job that needs more nodes than have not failed never starts: NOT_YET."""
        if self._nodes is None:
            return Schedule(self.start_s, self.end_s, self._simulate_s)
        self._empty_log()
        logs = self._book.node_logs(
            [self._machine.nodes], units_per_node=self._machine.units_per_node, enclosures=self._machine.enclosures
        )
        return Schedule(self.start_s, self.end_s, self._simulate_s, node_logs=logs, delay_s=self._delay_s)

    def _advance(self, until_s: int) -> int:
        return advance(self._workload, self._peaks, self._policy.rules, self._state, self._nodes, until_s)

    def _decide_order(self) -> None:
        decide_window(self._workload, self._peaks, self._policy, self._state, self._job_id)

    def _decide_capacity(self) -> None:
        assert self._nodes is not None
        assert self._capacity.decide is not None
        power, depths = self._nodes.power, self._nodes.depths
        targets = self._capacity.decide(
            snapshot_of(self._workload, self._state, power, depths, run_times=self._run_times)
        )
        power.scalars["target"] = targets.awake
        power.scalars["reserve"] = targets.reserve

    def _empty_log(self) -> None:
        assert self._nodes is not None
        self._book.empty(self._nodes.power)


def nodes_of(
    machine: PoweredMachine,
    capacity: CapacityPolicy,
    state: State,
    shaving: PeakRules = NO_SHAVING,
    *,
    rest_until_s: int | None = None,
) -> PoweredNodes:
    """Return the nodes of the machine, all awake and idle; without a job they go on until `rest_until_s`, if given."""
    begin_s = int(state.scalars["now_s"][0])
    power = all_active(
        capacity.rules,
        machine_size=machine.size,
        units_per_node=machine.units_per_node,
        slots=len(state.slots.job),
        jobs=len(state.start_s),
        begin_s=begin_s,
        rest_until_s=begin_s - 1 if rest_until_s is None else rest_until_s,
        charges=len(shaving.target_mw),
    )
    depths = depth_table(machine.node_class, machine.seed)
    return PoweredNodes(power, capacity.rules, capacity.schedule, depths, shaving)


def replay(
    jobs: Jobs,
    node_power_w: Float64,
    *,
    machine_size: int,
    policy: Policy,
    peaks: PeakTimes = NO_PEAKS,
    progress: Callable[[int], None] | None = None,
) -> Schedule:
    """Return the schedule of `jobs` on units that are always on, up to the last job's end."""
    made = EqualNodesReplay(jobs, node_power_w, machine_size, policy, peaks=peaks)
    made.run(progress)
    return made.schedule()


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
    policy = replace(policy, capacity=(capacity,))
    made = EqualNodesReplay(jobs, node_power_w, machine, policy, peaks=peaks, shaving=shaving)
    made.run()
    return made.schedule()


def workload_of(jobs: Jobs, node_power_w: Float64, policy: Policy) -> Workload:
    """Return the jobs as the engine takes them: run times as they will be, users numbered from 0 if they matter."""
    runtime_s = np.minimum(jobs.runtime_s, jobs.estimate_s) if policy.kill_at_estimate else jobs.runtime_s
    user = jobs.user
    if policy.rules.estimates == PREDICTED_RUNTIME:
        user = np.unique(jobs.user, return_inverse=True)[1].astype(np.int64)
    foreseen_s = jobs.estimate_s.copy() if policy.rules.estimates == FORESEEN_RUNTIME else jobs.estimate_s
    return Workload(
        submit_s=jobs.submit_s,
        runtime_s=runtime_s,
        estimate_s=jobs.estimate_s,
        foreseen_s=foreseen_s,
        size=jobs.size,
        node_power_w=node_power_w,
        user=user,
    )


def decide_window(workload: Workload, peaks: PeakTimes, policy: Policy, state: State, job_id: Int64) -> None:
    """Let a policy from outside order the window."""
    now, queue = state.scalars[0], state.queue
    position = state.window.position[: now["window"]]
    job = queue.job[position]
    decide_order(
        policy.window_policy,
        now,
        state.window,
        WindowJobs(job_id[job], workload.submit_s[job], queue.estimate_s[position]),
        passed_over_s=queue.passed_over_s,
        peaks=peaks,
        rules=policy.rules,
        free=int(now["free"]),
    )


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
