"""Replays a log on a machine whose nodes sleep: when would each job have run, and what was each node doing?"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from offpeak.errors import OffpeakError
from offpeak.jobs import Float64, Int64, Jobs
from offpeak.node_class import NodeClass
from offpeak.node_states import DEPTHS
from offpeak.snapshot import QueuedJobs, RunningJobs, Snapshot
from plugin.capacity.capacity import Capacity
from plugin.capacity.rules import DepthTable
from plugin.window_policy import ARRIVAL
from sim_backend.engine.advance import DECIDE
from sim_backend.engine.advance_powered import CAPACITY, LOG_FULL, advance_powered
from sim_backend.engine.power import Power, all_active
from sim_backend.engine.state import NEVER, NOT_YET, PeakTimes, State, Workload, new_state
from sim_backend.nodes.node_log import NodeLog
from sim_backend.policy import Policy
from sim_backend.replay import NO_PEAKS, Schedule, decide_order, steps, workload_of


@dataclass(frozen=True)
class PoweredMachine:
    """Nodes of one class: allocation units, units a node, and the seed of their failures.

    OffpeakError unless the units are those of whole nodes.
    """

    size: int
    units_per_node: int
    node_class: NodeClass
    seed: int = 1

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


@dataclass(frozen=True)
class PoweredSchedule(Schedule):
    """A schedule, what the nodes did meanwhile, and how long sleeping nodes kept each job from starting [s]."""

    node_log: NodeLog
    sleep_delay_s: Int64


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


class _LogBook:
    """Gathers the pieces of a node log that the engine gives out when its own is full."""

    def __init__(self) -> None:
        self.pieces: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def empty(self, power: Power) -> None:
        length = int(power.scalars["log_length"][0])
        self.pieces.append(tuple(column[:length].copy() for column in power.log))  # type: ignore[arg-type]
        power.scalars["log_length"] = 0

    def node_log(self, machine: PoweredMachine) -> NodeLog:
        at_s, node, state = (np.concatenate(columns) for columns in zip(*self.pieces, strict=True))
        return NodeLog(machine.nodes, machine.units_per_node, at_s, node, state)


def replay_powered(
    jobs: Jobs,
    node_power_w: Float64,
    machine: PoweredMachine,
    policy: Policy,
    capacity: Capacity,
    *,
    peaks: PeakTimes = NO_PEAKS,
    rest_until_s: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> PoweredSchedule:
    """Return the schedule of `jobs`, none wider than the machine, under a scheduling and a capacity policy.

    After the last job the nodes go on, asleep or awake as the policy wants, until `rest_until_s` if that is given. A
    job that waits for more nodes than have not failed never starts: `start_s` is NOT_YET.
    """
    begin = time.perf_counter()
    workload = workload_of(jobs, node_power_w, policy)
    state = new_state(workload, policy.rules, machine_size=machine.size)
    power = all_active(
        capacity.rules,
        machine_size=machine.size,
        units_per_node=machine.units_per_node,
        slots=len(state.slots.job),
        jobs=len(jobs),
        begin_s=int(state.scalars["now_s"][0]),
        rest_until_s=int(state.scalars["now_s"][0]) - 1 if rest_until_s is None else rest_until_s,
    )
    if policy.rules.policy == ARRIVAL:
        peaks = NO_PEAKS
    depths = depth_table(machine.node_class, machine.seed)
    book = _LogBook()
    for until_s, submitted in steps(jobs, workload, policy, state):
        while True:
            asked = advance_powered(
                workload,
                peaks,
                policy.rules,
                capacity.rules,
                capacity.course,
                depths,
                machine.size,
                state,
                power,
                until_s,
            )
            if asked == LOG_FULL:
                book.empty(power)
            elif asked == DECIDE:
                decide_order(workload, peaks, policy, state, jobs.job_id)
            elif asked == CAPACITY:
                _decide_capacity(workload, state, power, depths, capacity)
            else:
                break
        if progress:
            progress(submitted)
    book.empty(power)
    started = state.start_s != NOT_YET
    delay_s = np.where(started, state.start_s - power.wanted_s, 0)
    end_s = np.where(started, state.start_s + workload.runtime_s, NOT_YET)
    simulate_s = time.perf_counter() - begin
    return PoweredSchedule(state.start_s, end_s, simulate_s, book.node_log(machine), delay_s)


def _decide_capacity(workload: Workload, state: State, power: Power, depths: DepthTable, capacity: Capacity) -> None:
    assert capacity.decide is not None
    targets = capacity.decide(snapshot_of(workload, state, power, depths))
    power.scalars["target"] = targets.awake
    power.scalars["reserve"] = targets.reserve


def snapshot_of(workload: Workload, state: State, power: Power, depths: DepthTable) -> Snapshot:
    """Return what a capacity policy may know now: nothing of run times but estimates, nothing of later submissions."""
    now = state.scalars[0]
    slot = state.expected[: now["listed"]]
    slot = slot[np.argsort(state.slots.started[slot], kind="stable")]
    running = state.slots.job[slot]
    waiting = np.arange(now["head"], now["tail"])
    waiting = waiting[state.queue.size[waiting] != NEVER]
    queued = state.queue.job[waiting]
    now_s = int(now["now_s"])
    return Snapshot(
        now_s=now_s,
        units_per_node=int(power.scalars["units_per_node"][0]),
        node_state=power.table.state,
        ready_s=np.where(power.ready_s == NEVER, now_s, power.ready_s),
        wake_s=tuple(depths.leave_s.tolist()),
        running=RunningJobs(
            state.slots.size[slot], workload.submit_s[running], state.start_s[running], state.slots.expected_end_s[slot]
        ),
        queued=QueuedJobs(state.queue.size[waiting], workload.submit_s[queued], state.queue.estimate_s[waiting]),
    )
