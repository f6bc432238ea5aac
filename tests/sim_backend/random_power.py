"""Random capacity rules, schedules and node classes for small random logs, and the replays of both kinds."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st
from plain_power import PlainPower
from plain_scheduler import PlainJob
from random_logs import POLICIES, Log, log_of, policy_of, rules

from offpeak.model.node_class import DepthPower, NodeClass, Transition
from offpeak.model.node_states import DEPTHS
from offpeak.model.snapshot import Snapshot
from offpeak.plugin.capacity.peak_shaving import NO_SHAVING, PeakRules
from offpeak.plugin.capacity.port import CapacityPolicy, CapacityTargets
from offpeak.plugin.capacity.rules import (
    BY_IDLE_AGE,
    BY_NUMBER,
    BY_WEAR,
    NEVER,
    CapacityRules,
    CapacitySchedule,
    DepthTable,
)
from offpeak.plugin.window_policy import ARRIVAL, KNAPSACK_SLIDE
from offpeak.prices.peak import Peak
from offpeak.sim_backend.engine.allocation import CHUNK_NODES, NO_PIECE, Nodes
from offpeak.sim_backend.engine.rules import SchedulingRules
from offpeak.sim_backend.engine.state import State
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine, replay_powered, unit_replay
from offpeak.sim_backend.replay.replay import Replay
from offpeak.sim_backend.replay.schedule import Schedule

DAY_S = 86_400
IDLE_NEVER = tuple(policy for policy in POLICIES if policy != KNAPSACK_SLIDE)
ON_DEMAND = CapacityRules(True, 0, False, 0, 0, 0, 0, 0, 0, 0, 0, BY_NUMBER, 0, 0)
BEFORE_ALL_S = -(10**9)


@dataclass(frozen=True)
class PoweredLog:
    """A log, how it is scheduled, the machine and what its capacity policy asks for."""

    log: Log
    rules: SchedulingRules
    machine: PoweredMachine
    capacity: CapacityRules
    schedule: CapacitySchedule

    def policy(self) -> CapacityPolicy:
        """Return the capacity policy as a value."""
        return CapacityPolicy(
            "under test", self.capacity, self.schedule, lambda seen: targets(seen, self.machine.nodes)
        )


def targets(snapshot: Snapshot, nodes: int) -> CapacityTargets:
    """Return what is decided from outside: anything that follows from what is seen."""
    return arbitrary(snapshot.now_s, len(snapshot.queued.size), nodes)


def arbitrary(now_s: int, waiting: int, nodes: int) -> CapacityTargets:
    """Return targets that differ from time to time."""
    return CapacityTargets((now_s // 5 + waiting) % (nodes + 1), reserve=now_s % 3)


def powered(case: PoweredLog, shaving: PeakRules = NO_SHAVING) -> Schedule:
    """Return what the engine makes of it."""
    log = case.log
    policy = policy_of(case.rules)
    capacity, peaks = case.policy(), log.peaks
    return replay_powered(log.jobs, log.node_power_w, case.machine, policy, capacity, peaks=peaks, shaving=shaving)


def plain_power(case: PoweredLog) -> PlainPower:
    """Return the plain machine, before the first event."""
    jobs = case.log.jobs
    columns = (jobs.submit_s, jobs.runtime_s, jobs.estimate_s, jobs.size, case.log.node_power_w, jobs.user)
    rows = [PlainJob(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    times = zip(case.log.peaks.at_s.tolist(), case.log.peaks.peak.tolist(), strict=True)
    peaks = [] if case.rules.policy == ARRIVAL else [(at_s, Peak(peak)) for at_s, peak in times]
    depths = depth_table(case.machine.node_class, case.machine.seed)
    return PlainPower(
        rows,
        (case.machine.nodes, case.machine.units_per_node),
        case.rules,
        peaks,
        (case.capacity, case.schedule, depths),
        lambda now_s, waiting: arbitrary(now_s, waiting, case.machine.nodes),
    )


def depth_table(node_class: NodeClass, seed: int) -> DepthTable:
    """Return the transitions of the class."""
    enter_s, leave_s = np.zeros((2, len(DEPTHS)), dtype=np.int64)
    enter_failure, leave_failure = np.zeros((2, len(DEPTHS)))
    for depth in node_class.depths:
        enter_s[depth.depth], leave_s[depth.depth] = depth.enter.duration_s, depth.leave.duration_s
        enter_failure[depth.depth] = depth.enter.failure_probability
        leave_failure[depth.depth] = depth.leave.failure_probability
    repair_s = NEVER if node_class.repair_s is None else node_class.repair_s
    return DepthTable(enter_s, leave_s, enter_failure, leave_failure, repair_s, seed)


def schedule_of(*rows) -> CapacitySchedule:
    """Return the schedule of rows (second, target, reserve, (after s by depth))."""
    at_s, target, reserve, after_s = zip(*rows, strict=True)
    return CapacitySchedule(np.array(at_s), np.array(target), np.array(reserve), np.array(after_s, dtype=np.int64))


def class_of(*depths, repair_s=None) -> NodeClass:
    """Return the class of depths (number, enter s, leave s[, enter fails, leave fails])."""
    made = []
    for number, enter_s, leave_s, *failures in depths:
        enter_fails, leave_fails = failures or (0.0, 0.0)
        enter, leave = Transition(enter_s, 100, enter_fails), Transition(leave_s, 120, leave_fails)
        made.append(DepthPower(number, 30 - 10 * number, enter, leave))
    return NodeClass("under test", 100, ((0, 100), (1, 200)), tuple(made), repair_s)


FEW_NODES = 5
"""The most nodes of which all come up together some time, although each fails now and then."""

durations_s = st.sampled_from([0, 1, 3, 10, 25])
failures = st.sampled_from([0.0, 0.0, 0.0, 0.2, 1.0])
repairs_s = st.sampled_from([None, None, 6, 40])
after_times_s = st.sampled_from([0, 0, 1, 7, 30, 80])


@st.composite
def node_classes(draw, *, failures=failures, repairs_s=repairs_s) -> NodeClass:
    """A class of one to three depths. Nodes that always fail are not repaired: jobs might wait for them without end."""
    numbers = sorted(draw(st.sets(st.integers(0, 2), min_size=1)))
    repair_s = draw(repairs_s)
    if repair_s is not None:
        failures = st.sampled_from([0.0, 0.3])
    rows = [(number, draw(durations_s), draw(durations_s), draw(failures), draw(failures)) for number in numbers]
    return class_of(*rows, repair_s=repair_s)


@st.composite
def capacity_schedules(draw, node_class: NodeClass, nodes: int, begin_s: int) -> CapacitySchedule:
    """A schedule of up to three rows that uses some of the class's depths."""
    has = [depth.depth for depth in node_class.depths]
    count = st.integers(0, nodes + 1)

    def row(at_s):
        after_s = [draw(st.one_of(after_times_s, st.just(NEVER))) if depth in has else NEVER for depth in range(3)]
        return at_s, draw(count), draw(st.sampled_from([0, 0, 0, 1, 2, 99])), after_s

    later_s = sorted(draw(st.sets(st.integers(1, 90), max_size=2)))
    return schedule_of(row(BEFORE_ALL_S), *(row(begin_s + at_s) for at_s in later_s))


@st.composite
def capacity_rules(draw, nodes: int, cycle_s: int) -> CapacityRules:
    """Rules under which every job can start: where jobs wake no nodes, the target follows the queue."""
    on_demand = draw(st.booleans())
    low = 0 if on_demand else draw(st.sampled_from([0, 0, 1, 2, nodes]))
    none_or = st.sampled_from([0, 0, 0, 1, 2, 7])
    return CapacityRules(
        on_demand=on_demand,
        low=low,
        raise_for_wide=not on_demand and low == 0,
        period_s=draw(st.sampled_from([0, 0, 0, 13])),
        ahead_s=draw(st.sampled_from([0, 0, 5, 40])),
        keep_hot=draw(st.sampled_from([0, 0, 0, 1, 2, 99])),
        sleeps_per_min=draw(none_or),
        wakes_per_min=draw(none_or),
        min_awake_s=draw(st.sampled_from([0, 0, 1, 20, 70])),
        min_asleep_s=draw(st.sampled_from([0, 0, 1, 20, 70])),
        most_sleeps_per_day=draw(st.sampled_from([0, 0, 0, 1, 2])),
        order=draw(st.sampled_from([BY_NUMBER, BY_IDLE_AGE, BY_WEAR])),
        plan_s=draw(st.sampled_from([0, max(1, cycle_s), cycle_s + 200])) if on_demand else 0,
        worth_s=draw(st.sampled_from([0, 0, 600, 3600, 20_000])),
    )


@st.composite
def small_logs(draw, machine_size: int) -> Log:
    """Up to a dozen jobs with pauses between them, some across the end of a day."""
    size = st.one_of(st.integers(1, machine_size), st.just(1), st.just(machine_size))
    job = st.tuples(
        st.sampled_from([0, 0, 1, 3, 20, 60]), st.integers(0, 40), st.integers(0, 50), size,
        st.integers(1, 4), st.integers(0, 2),
    )  # fmt: skip
    rows = draw(st.lists(job, min_size=draw(st.sampled_from([1, 4])), max_size=12))
    begin_s = draw(st.sampled_from([0, 37, DAY_S - 60]))
    submit_s = begin_s + np.cumsum([row[0] for row in rows])
    changes = draw(st.lists(st.tuples(st.integers(1, 60), st.sampled_from(list(Peak))), max_size=4))
    at_s = begin_s - 5 + np.cumsum([change[0] for change in changes])
    peaks = [(at, change[1]) for at, change in zip(at_s, changes, strict=True)]
    jobs = [(submit, *row[1:]) for submit, row in zip(submit_s, rows, strict=True)]
    return log_of(jobs, machine_size=machine_size, peaks=peaks)


@st.composite
def powered_logs(draw, *, scheduling, classes=None) -> PoweredLog:
    """A few jobs on a few nodes of one unit or several, now and then more nodes than a chunk of the bitmap has bits."""
    units = draw(st.sampled_from([1, 1, 2, 3]))
    nodes = draw(st.sampled_from([1, 2, 3, 4, 5, 5, 5, 70]))
    log = draw(small_logs(nodes * units))
    node_class = draw(node_classes() if classes is None else classes)
    if nodes > FEW_NODES:
        # With repairs a job of all nodes would wait almost without end: some node always fails or is being repaired.
        node_class = replace(node_class, repair_s=None)
    machine = PoweredMachine(nodes * units, units, node_class, seed=draw(st.integers(0, 5)))
    cycle_s = max(depth.enter.duration_s + depth.leave.duration_s for depth in node_class.depths)
    capacity = draw(capacity_rules(nodes, cycle_s))
    schedule = draw(capacity_schedules(node_class, nodes, int(log.jobs.submit_s[0])))
    return PoweredLog(log, draw(scheduling), machine, capacity, schedule)


def per_second_rules(*, policies=IDLE_NEVER, **kinds):
    """Return rules of any kind under which every job starts some day, all with one pass a second."""
    return rules(policies=policies, **kinds).map(lambda some: some._replace(pass_per_event=False))


def powered_replay(case: PoweredLog) -> Replay:
    """Return the replay before the first event. The capacity policy has no decision from outside."""
    log, capacity = case.log, CapacityPolicy("under test", case.capacity, case.schedule, None)
    policy = replace(policy_of(case.rules), capacity=(capacity,))
    return unit_replay(log.jobs, log.node_power_w, case.machine, policy, peaks=log.peaks)


def stepped(case: PoweredLog, seconds) -> Iterator[State]:
    """Yield the engine's state at the end of each second."""
    running = powered_replay(case)
    for second in seconds:
        running.go_on(second)
        yield running.state


def held_units(state: State) -> dict[int, list[int]]:
    """Return the units of each job that holds some."""
    slots, sleeping = state.slots, state.sleeping
    holding = state.expected[: state.groups["listed"][0]].tolist()
    return {int(slots.job[slot]): node_numbers(sleeping.nodes, sleeping.units[slot]) for slot in holding}


def node_numbers(nodes: Nodes, head: int) -> list[int]:
    """Return the numbers of the nodes that the pieces from `head` hold."""
    numbers, piece = list[int](), head
    while piece != NO_PIECE:
        mask, first = int(nodes.piece_mask[piece]), int(nodes.piece_chunk[piece]) * CHUNK_NODES
        numbers += [first + bit for bit in range(CHUNK_NODES) if mask >> bit & 1]
        piece = nodes.piece_next[piece]
    return numbers


def bits(chunks) -> set[int]:
    """Return the numbers of the bits that are set in a bitmap."""
    return {64 * chunk + bit for chunk, mask in enumerate(chunks.tolist()) for bit in range(64) if mask >> bit & 1}
