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
from offpeak.plugin.capacity.port import CapacityPolicy
from offpeak.plugin.capacity.rules import CapacitySchedule
from offpeak.power.capacity.price_profile import OfferProfile, PowerTerms, PricesAhead
from offpeak.power.whatif import WhatIfPlan, check_units, make_whatif_plan
from offpeak.sim_backend.engine.advance import advance
from offpeak.sim_backend.engine.case import unit_workload
from offpeak.sim_backend.engine.pools import PoolNodes, SleepingPools, policies_of, sleeping_pools
from offpeak.sim_backend.engine.power import MOST_ENTRIES_PER_NODE, Power, TransitionLog
from offpeak.sim_backend.engine.resume import resumed_state
from offpeak.sim_backend.engine.rules import LOG_FULL, NEVER, NO_PEAKS
from offpeak.sim_backend.engine.state import SLOTS, State, Tables, Workload
from offpeak.sim_backend.nodes.node_log import Int8, Int32, NodeLog, state_times

UNCHANGED = ("window", "recent_s", "log", "policies")
"""The parts of the engine's state that a run without window policy and predictions leaves or starts anew."""

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

LogEntries = tuple[Int64, Int32, Int8]
"""Times, nodes and states of a node log."""


class EngineMachine(NamedTuple):
    """The state of the engine. A run changes its arrays: run a copy."""

    tables: Tables
    workload: Workload
    state: State


def resume_machine(snapshot: Snapshot, order: Int64, terms: PowerTerms) -> EngineMachine:
    """Return the machine of a snapshot, whose queued jobs are submitted now, in the order of the indices `order`.

    The workload has the running jobs first, then the queued ones, then one that is never submitted. Raises BadInput if
    running jobs hold more units than nodes that are up or coming up have, or a job is wider than the usable units.
    """
    check_units(snapshot, snapshot.usable_units)
    running, queued, size = snapshot.running, snapshot.queued, snapshot.usable_units
    left_s = np.maximum(running.expected_end_s - snapshot.now_s, 1)
    runtime_s = np.concatenate([left_s, np.maximum(queued.estimate_s[order], 1), [1]])
    submit_s = np.full(len(runtime_s), snapshot.now_s)
    submit_s[-1] = LAST_S
    width = np.concatenate([running.size, queued.size[order], [1]])
    tables, workload = unit_workload((submit_s, runtime_s, runtime_s), width, size)
    pool = PoolNodes(size // snapshot.units_per_node, is_counted=True, group=0, units_per_node=snapshot.units_per_node)
    everything = OfferProfile(submit_s[:1], np.array([size]), snapshot.now_s + 1)
    capacity = [_make_policy(snapshot, everything, terms)]
    sleeping = sleeping_pools([pool], capacity, [terms.node_class], jobs=len(width), cells=1, begin_s=snapshot.now_s)
    # Copying a log with room for years would take longer than all other work.
    entries = 4 * MOST_ENTRIES_PER_NODE * pool.nodes
    log = TransitionLog(np.empty(entries, np.int64), np.empty(entries, np.int32), np.empty(entries, np.int8))
    first = np.array([0, entries])
    sleeping = sleeping._replace(power=sleeping.power._replace(log=log), entry_first=first)
    state = resumed_state(
        tables, workload, terms.rules, holders=len(running.size), now_s=snapshot.now_s, sleeping=sleeping
    )
    assert state.sleeping is not None
    _put_nodes(snapshot, state.sleeping)
    # Count the free units; only units of active nodes are available to jobs.
    pools = state.sleeping
    power, free_bits = pools.power, pools.nodes.free
    nodes, table = power.scalars[0], power.table
    free = nodes["units_per_node"] - table.busy
    active, rising = table.state == ACTIVE, IS_RISING[table.state]
    nodes["idle_nodes"] = int((active & (table.busy == 0)).sum())
    nodes["rising_idle"] = int((rising & (table.busy == 0)).sum())
    nodes["idle_units"] = int(free[active].sum())
    nodes["spare_units"] = int(free[IS_SPARE[table.state]].sum())
    nodes["next_ready_s"] = int(power.ready_s.min(initial=NEVER))
    power.spare[:] = free_bits & ~bitmap(np.repeat(active, nodes["units_per_node"]))
    free_bits[:] &= ~power.spare
    state.free[SLOTS, 0] = pools.machine["free"][0] = nodes["idle_units"]
    return EngineMachine(tables, workload, state)


def _copy_columns(value: Any) -> Any:
    """Return a copy of a tuple of arrays and of such tuples, which shares what a run leaves; faster than deepcopy."""
    return type(value)(*(column if name in UNCHANGED else _copy(column) for name, column in value._asdict().items()))


def _copy(column: Any) -> Any:
    if isinstance(column, np.ndarray):
        return column.copy()
    return _copy_columns(column) if isinstance(column, tuple) else column


def _put_nodes(snapshot: Snapshot, pools: SleepingPools) -> None:
    """Write into the table the state of each node, and how many of its units jobs hold."""
    power, per_node = pools.power, snapshot.units_per_node
    table = power.table
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
    power.nodes_in[0] = np.bincount(table.state, minlength=STATES)
    up = per_node * int((place < 2).sum())
    if snapshot.units_in_use > up:
        hint = "correct the sizes of the running jobs, or the states of the nodes"
        raise BadInput(f"jobs hold {snapshot.units_in_use:,} units, nodes that are up have {up:,}", hint=hint)


def run_profile(
    snapshot: Snapshot, profile: OfferProfile, machine: EngineMachine, terms: PowerTerms
) -> tuple[Int64, NodeLog]:
    """Return when the queued jobs start, in the machine's order, and the log of its nodes. No transition fails."""
    # The log is not copied: the run restarts it.
    state = _copy_columns(machine.state)
    policies = policies_of([_make_policy(snapshot, profile, terms)], [terms.node_class], 0)
    never = np.zeros_like(policies.enter_failure)
    policies = policies._replace(enter_failure=never, leave_failure=never)
    state = state._replace(sleeping=state.sleeping._replace(policies=policies))
    pieces = [_read_first_entries(snapshot, state.sleeping.power)]
    stop = LOG_FULL
    while stop == LOG_FULL:
        stop = advance(machine.tables, machine.workload, NO_PEAKS, terms.rules, state, LAST_S - 1)
        pieces.append(_empty_log(state.sleeping.power))
    at_s, node, entered = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
    nodes = snapshot.usable_units // snapshot.units_per_node
    log = NodeLog(nodes, snapshot.units_per_node, at_s, node, entered)
    return state.start_s[len(snapshot.running.size) : -1], log


def _make_policy(snapshot: Snapshot, profile: OfferProfile, terms: PowerTerms) -> CapacityPolicy:
    """Return the profile as a schedule of nodes that must be awake."""
    at_s = np.append(profile.at_s, profile.until_s)
    units = np.append(profile.units, snapshot.usable_units)
    after_s = np.tile(terms.after_s, (len(at_s), 1))
    schedule = CapacitySchedule(at_s, units // snapshot.units_per_node, np.zeros(len(at_s), dtype=np.int64), after_s)
    return CapacityPolicy("profile", terms.capacity, schedule)


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
