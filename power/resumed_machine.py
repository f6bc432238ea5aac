"""A snapshot as a state of the engine whose nodes sleep: the jobs that hold nodes, those that wait, and each node.

Which job holds which node is not known and makes no difference: nodes are alike. So they are numbered here: those
that are up first, then those that come up, the soonest first; jobs hold units of the first. Failed nodes are left out.
"""

from typing import Any, NamedTuple

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.node_states import ACTIVE, DEPTHS, FAILED, STATES, asleep, coming_up, going_down
from offpeak.model.snapshot import Snapshot
from power.power_terms import PowerTerms
from power.what_if import check_units
from sim_backend.engine.power import MOST_ENTRIES_PER_NODE, Power, TransitionLog, all_active, bitmap
from sim_backend.engine.running_jobs import resumed_state
from sim_backend.engine.state import NEVER, State, Workload

KEPT = ("profile", "window", "fillings", "recent_s", "log")
"""What of the engine's state a run without window policy, promises and predictions does not change, and the log."""

RISING, SLEEPING, FALLING = (
    [state(depth) for depth in range(len(DEPTHS))] for state in (coming_up, asleep, going_down)
)
STATE_NUMBERS = np.arange(STATES)
IS_RISING = np.isin(STATE_NUMBERS, RISING)
IS_MOVING = np.isin(STATE_NUMBERS, RISING + FALLING)
IS_SPARE = np.isin(STATE_NUMBERS, RISING + SLEEPING)
"""By state: whether a node comes up, is on its way, and sleeps or comes up: its units count as spare."""

LAST_S = 1 << 60
"""A job that is never reached is submitted here: without it the nodes would stand still after the last job's end."""


class Machine(NamedTuple):
    """What the engine moves. Its arrays are changed by a run: run a copy."""

    workload: Workload
    state: State
    power: Power


def resumed_machine(snapshot: Snapshot, order: Int64, terms: PowerTerms) -> Machine:
    """Return the machine of a snapshot, whose queued jobs are submitted now in the `order` of these indices.

    The running jobs come first in the workload, then the queued ones, and last one that is never submitted. BadInput
    if running jobs hold more than the nodes have that are up or coming up, or a job is wider than what is usable.
    """
    check_units(snapshot, snapshot.usable_units)
    workload = _workload(snapshot, order)
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
    # A log for years of entries would take longer to copy than all else.
    entries = 4 * MOST_ENTRIES_PER_NODE * len(power.ready_s)
    log = TransitionLog(np.empty(entries, np.int64), np.empty(entries, np.int32), np.empty(entries, np.int8))
    return Machine(workload, state, power._replace(log=log))


def copied(machine: Machine) -> Machine:
    """Return an independent copy of all that a run changes, but for the log: a run begins it anew."""
    return Machine(machine.workload, State(*_columns(machine.state)), Power(*_columns(machine.power)))


def _columns(value: State | Power) -> list[Any]:
    return [column if name in KEPT else _copied(column) for name, column in value._asdict().items()]


def _copied(value: Any) -> Any:
    """Return a copy of an array, or of a tuple of such: sooner than deepcopy, which asks each for what it is."""
    return value.copy() if isinstance(value, np.ndarray) else type(value)(*map(_copied, value))


def _workload(snapshot: Snapshot, order: Int64) -> Workload:
    queued = snapshot.queued
    left_s = np.maximum(snapshot.running.expected_end_s - snapshot.now_s, 1)
    runtime_s = np.concatenate([left_s, np.maximum(queued.estimate_s[order], 1), [1]])
    size = np.concatenate([snapshot.running.size, queued.size[order], [1]])
    submit_s = np.full(len(size), snapshot.now_s)
    submit_s[-1] = LAST_S
    nothing = np.zeros(len(size), dtype=np.int64)
    return Workload(submit_s, runtime_s, runtime_s, runtime_s, size, nothing.astype(np.float64), nothing)


def _put_nodes(snapshot: Snapshot, power: Power) -> None:
    """Write into the table how each node is, and how many of its units jobs hold."""
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
    """Count the units without a job, and leave to the jobs those of active nodes alone."""
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
