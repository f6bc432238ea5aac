"""The what-if of a profile: runs the engine with sleeping nodes on from a snapshot and charges energy by prices.

Jobs run as in offpeak.power.whatif. While fewer units are on offer than are usable, jobs with a green SLA are queued
behind all others, except those that would then end too late.

Nodes are equal, so it is unknown and irrelevant which job holds which node. Here they are numbered: nodes that are up
first, then nodes that come up, the soonest first; jobs hold units of the first ones. Failed nodes are left out.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.bits import bitmap
from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_MWH
from offpeak.model.node_states import ACTIVE, DEPTHS, FAILED, STATES, asleep, coming_up, going_down
from offpeak.model.schedule_metrics import bounded_slowdown_by_delay
from offpeak.model.snapshot import Snapshot
from offpeak.model.step_integrals import integrals
from offpeak.plugin.capacity.rules import CapacitySchedule
from offpeak.power.capacity.price_profile import OfferProfile, PowerTerms, PricesAhead
from offpeak.power.whatif import WhatIfPlan, check_units, make_whatif_plan
from offpeak.sim_backend.engine.advance import advance
from offpeak.sim_backend.engine.power import MOST_ENTRIES_PER_NODE, Power, PoweredNodes, TransitionLog, all_active
from offpeak.sim_backend.engine.running_jobs import resumed_state
from offpeak.sim_backend.engine.state import LOG_FULL, NEVER, State, Workload
from offpeak.sim_backend.nodes.node_log import Int8, Int32, NodeLog, state_times
from offpeak.sim_backend.replay.schedule import NO_PEAKS

UNCHANGED = ("profile", "window", "recent_s", "log")
"""The parts of the engine's state that a run without window policy, promises and predictions leaves, and the log."""

RISING, SLEEPING, FALLING = (
    [state(depth) for depth in range(len(DEPTHS))] for state in (coming_up, asleep, going_down)
)
STATE_NUMBERS = np.arange(STATES)
IS_RISING = np.isin(STATE_NUMBERS, RISING)
IS_MOVING = np.isin(STATE_NUMBERS, RISING + FALLING)
IS_SPARE = np.isin(STATE_NUMBERS, RISING + SLEEPING)
"""By state: whether a node comes up; is in transition; sleeps or comes up, so that its units are spare."""

LAST_S = 1 << 60
"""The submission time of a job that is never reached: without it nodes would not change after the last end."""


class EngineMachine(NamedTuple):
    """The state of the engine. A run changes its arrays: run a copy."""

    workload: Workload
    state: State
    power: Power


def resume_machine(snapshot: Snapshot, order: Int64, terms: PowerTerms) -> EngineMachine:
    """Return the machine of a snapshot, whose queued jobs are submitted now, in the order of the indices `order`.

    The workload has the running jobs first, then the queued ones, then one that is never submitted. Raises BadInput if
    running jobs hold more units than nodes that are up or coming up have, or a job is wider than the usable units.
    """
    check_units(snapshot, snapshot.usable_units)
    workload = _make_workload(snapshot, order)
    holders, size = len(snapshot.running.size), snapshot.usable_units
    state = resumed_state(workload, terms.rules, machine_size=size, holders=holders, now_s=snapshot.now_s)
    power = all_active(
        terms.capacity,
        machine_size=size,
        units_per_node=snapshot.units_per_node,
        slots=len(state.slots.job),
        jobs=len(workload.submit_s),
        begin_s=snapshot.now_s,
    )
    _put_nodes(snapshot, power)
    _put_units(state, power)
    # Copying a log with room for years would take longer than all other work.
    entries = 4 * MOST_ENTRIES_PER_NODE * len(power.ready_s)
    log = TransitionLog(np.empty(entries, np.int64), np.empty(entries, np.int32), np.empty(entries, np.int8))
    return EngineMachine(workload, state, power._replace(log=log))


def _copy_columns(value: State | Power) -> list[Any]:
    return [column if name in UNCHANGED else _copy_value(column) for name, column in value._asdict().items()]


def _copy_value(value: Any) -> Any:
    """Return a copy of an array or of a tuple of arrays; faster than deepcopy."""
    return value.copy() if isinstance(value, np.ndarray) else type(value)(*map(_copy_value, value))


def _make_workload(snapshot: Snapshot, order: Int64) -> Workload:
    queued = snapshot.queued
    left_s = np.maximum(snapshot.running.expected_end_s - snapshot.now_s, 1)
    runtime_s = np.concatenate([left_s, np.maximum(queued.estimate_s[order], 1), [1]])
    size = np.concatenate([snapshot.running.size, queued.size[order], [1]])
    submit_s = np.full(len(size), snapshot.now_s)
    submit_s[-1] = LAST_S
    nothing = np.zeros(len(size), dtype=np.int64)
    return Workload(
        submit_s=submit_s,
        runtime_s=runtime_s,
        estimate_s=runtime_s,
        foreseen_s=runtime_s,
        size=size,
        node_power_w=nothing.astype(np.float64),
        user=nothing,
    )


def _put_nodes(snapshot: Snapshot, power: Power) -> None:
    """Write into the table the state of each node, and how many of its units jobs hold."""
    table, per_node = power.table, snapshot.units_per_node
    usable = snapshot.node_state != FAILED
    state, ready_s = snapshot.node_state[usable], snapshot.ready_s[usable]
    place = np.where(state == ACTIVE, 0, np.where(IS_RISING[state], 1, 2))
    order = np.lexsort((state, ready_s, place))
    table.state[:] = state[order]
    moving = IS_MOVING[table.state]
    power.ready_s[moving] = np.maximum(ready_s[order][moving], snapshot.now_s + 1)
    table.busy[:] = np.clip(snapshot.units_in_use - per_node * np.arange(len(order)), 0, per_node)
    table.idle[:] = bitmap((table.state == ACTIVE) & (table.busy == 0))
    power.away[:] = bitmap(table.state != ACTIVE)
    power.moving[:] = bitmap(moving)
    power.nodes_in[:] = np.bincount(table.state, minlength=STATES)
    up = per_node * int((place < 2).sum())
    if snapshot.units_in_use > up:
        hint = "correct the sizes of the running jobs, or the states of the nodes"
        raise BadInput(f"jobs hold {snapshot.units_in_use:,} units, nodes that are up have {up:,}", hint=hint)


def _put_units(state: State, power: Power) -> None:
    """Count the free units; only units of active nodes are available to jobs."""
    nodes, table = power.scalars[0], power.table
    free = nodes["units_per_node"] - table.busy
    active, rising = table.state == ACTIVE, IS_RISING[table.state]
    nodes["idle_nodes"] = int((active & (table.busy == 0)).sum())
    nodes["rising_idle"] = int((rising & (table.busy == 0)).sum())
    nodes["idle_units"] = int(free[active].sum())
    nodes["spare_units"] = int(free[IS_SPARE[table.state]].sum())
    nodes["next_ready_s"] = int(power.ready_s.min(initial=NEVER))
    power.spare[:] = state.nodes.free & ~bitmap(np.repeat(active, nodes["units_per_node"]))
    state.nodes.free[:] &= ~power.spare
    state.scalars["free"] = nodes["idle_units"]


LogEntries = tuple[Int64, Int32, Int8]
"""Times, nodes and states of a node log."""


def run_profile(
    snapshot: Snapshot, profile: OfferProfile, machine: EngineMachine, terms: PowerTerms
) -> tuple[Int64, NodeLog]:
    """Return when the queued jobs start, in the machine's order, and the log of its nodes. No transition fails."""
    # The log is not copied: the run restarts it.
    state, power = State(*_copy_columns(machine.state)), Power(*_copy_columns(machine.power))
    size, schedule = snapshot.usable_units, _make_schedule(snapshot, profile, terms)
    nodes = PoweredNodes(power, terms.capacity, schedule, terms.depths)
    pieces = [_read_first_entries(snapshot, power)]
    stop = LOG_FULL
    while stop == LOG_FULL:
        stop = advance(machine.workload, NO_PEAKS, terms.rules, state, nodes, LAST_S - 1)
        pieces.append(_empty_log(power))
    at_s, node, entered = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
    log = NodeLog(size // snapshot.units_per_node, snapshot.units_per_node, at_s, node, entered)
    return state.start_s[len(snapshot.running.size) : -1], log


def _make_schedule(snapshot: Snapshot, profile: OfferProfile, terms: PowerTerms) -> CapacitySchedule:
    """Return the profile as a schedule of nodes that must be awake."""
    at_s = np.append(profile.at_s, profile.until_s)
    units = np.append(profile.units, snapshot.usable_units)
    after_s = np.tile(terms.after_s, (len(at_s), 1))
    return CapacitySchedule(at_s, units // snapshot.units_per_node, np.zeros(len(at_s), dtype=np.int64), after_s)


def _read_first_entries(snapshot: Snapshot, power: Power) -> LogEntries:
    """Return the entries with the current states of the nodes."""
    node = np.flatnonzero(power.table.state != ACTIVE)
    return np.full(len(node), snapshot.now_s), node.astype(np.int32), power.table.state[node]


def _empty_log(power: Power) -> LogEntries:
    """Remove the entries from the engine's log and return them."""
    length = int(power.scalars["log_length"][0])
    power.scalars["log_length"] = 0
    return power.log.at_s[:length].copy(), power.log.node[:length].copy(), power.log.state[:length].copy()


def charge_plan(
    snapshot: Snapshot, plan: WhatIfPlan, log: NodeLog, prices: PricesAhead, terms: PowerTerms
) -> tuple[float, float]:
    """Return the energy [J] and the cost in the prices' currency.

    All nodes except failed ones are charged as if they ran nothing, until they are up again after the profile. Jobs are
    charged for their power above idle nodes until they end, however late, so that work behind the profile is not free.
    """
    start_s = np.maximum(plan.start_s, snapshot.now_s)
    times = state_times(prices.meter, log, snapshot.now_s, prices.until_s + terms.longest_wake_s)
    runs = integrals(prices.meter, start_s, plan.end_s)
    size = np.concatenate([snapshot.running.size, snapshot.queued.size])
    above_w = (terms.job_w - terms.node_class.idle_w) / snapshot.units_per_node

    def total(nodes: Int64 | Float64, jobs: Int64 | Float64) -> float:
        return float(np.dot(terms.state_w, nodes) + above_w * np.dot(size, jobs))

    return total(times.seconds, plan.end_s - start_s), total(times.integral, runs) / J_PER_MWH


@dataclass(frozen=True, eq=False)
class ProfilePlan:
    """The result of the engine for a snapshot under a profile; start and end as in offpeak.power.whatif.WhatIfPlan.

    `slowdown` is the mean over the jobs without a green SLA, 1 without such jobs, `mean_wait_s` the mean over all jobs.
    `late_s` is by how much each queued job ends after its latest end. `cost` is in the prices' currency.
    """

    profile: OfferProfile
    start_s: Int64
    end_s: Int64
    slowdown: float
    mean_wait_s: float
    late_s: Int64
    energy_j: float
    cost: float


@dataclass(frozen=True, eq=False)
class ProfileSimulation:
    """Simulates the jobs of a snapshot and the cost of the machine under profiles; common work is done once."""

    snapshot: Snapshot
    prices: PricesAhead
    terms: PowerTerms

    def plan(self, profile: OfferProfile) -> ProfilePlan:
        """Return the plan of a profile. Raises BadInput if a job is wider than the usable units."""
        green = self.snapshot.queued.is_green
        if not green.any() or (profile.units >= self.snapshot.usable_units).all():
            return self._plan(profile, self._in_order)
        plan = self._plan(profile, self._green_behind)
        if plan.late_s.any():
            plan = self._plan(profile, self._queue(green & (plan.late_s == 0)))
        return self._plan(profile, self._in_order) if plan.late_s.any() else plan

    @cached_property
    def _in_order(self) -> "_Queue":
        return self._queue(np.zeros(len(self.snapshot.queued.size), dtype=np.bool_))

    @cached_property
    def _green_behind(self) -> "_Queue":
        return self._queue(self.snapshot.queued.is_green)

    def _queue(self, behind: NDArray[np.bool_]) -> "_Queue":
        """Return the queue in which these jobs are behind the others, those that must start first in front."""
        queued = self.snapshot.queued
        latest_start_s = np.where(behind, queued.latest_end_s - queued.estimate_s, 0)
        order: Int64 = np.lexsort((latest_start_s, behind))
        return _Queue(order, resume_machine(self.snapshot, order, self.terms))

    def _plan(self, profile: OfferProfile, queue: "_Queue") -> ProfilePlan:
        snapshot = self.snapshot
        start_s, log = run_profile(snapshot, profile, queue.machine, self.terms)
        queued_start_s = np.empty(len(queue.order), dtype=np.int64)
        queued_start_s[queue.order] = start_s
        plan = make_whatif_plan(snapshot, snapshot.usable_units, queued_start_s)
        energy_j, cost = charge_plan(snapshot, plan, log, self.prices, self.terms)
        return ProfilePlan(
            profile=profile,
            start_s=plan.start_s,
            end_s=plan.end_s,
            slowdown=_mean_slowdown(snapshot, plan),
            mean_wait_s=plan.mean_wait_s,
            late_s=np.maximum(plan.end_s[len(snapshot.running.size) :] - snapshot.queued.latest_end_s, 0),
            energy_j=energy_j,
            cost=cost,
        )


@dataclass(frozen=True, eq=False)
class _Queue:
    """An order of the queued jobs, and the machine in which they wait in that order."""

    order: Int64
    machine: EngineMachine


def _mean_slowdown(snapshot: Snapshot, plan: WhatIfPlan) -> float:
    green = snapshot.queued.is_green
    if not green.any():
        return plan.slowdown
    bound = np.append(np.ones(len(snapshot.running.size), dtype=np.bool_), ~green)
    if not bound.any():
        return 1.0
    wait_s = plan.start_s - np.concatenate([snapshot.running.submit_s, snapshot.queued.submit_s])
    return float(bounded_slowdown_by_delay(wait_s, plan.end_s - plan.start_s)[bound].mean())
