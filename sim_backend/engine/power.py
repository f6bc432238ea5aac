"""The power of a pool's nodes: arrays beside the engine's state, for replays in which nodes sleep.

`scalars.free` of the pool counts the units that are available to jobs: those on active nodes, and where jobs wake nodes
also those on sleeping and rising nodes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.bits import bitmap
from offpeak.compiled import index, part
from offpeak.model.arrays import Int64
from offpeak.model.node_states import ACTIVE, STATES
from offpeak.plugin.capacity.rules import CapacityRules, NodeTable
from offpeak.plugin.capacity.sleepers import NeedRecord, new_record
from offpeak.sim_backend.engine.allocation import PoolMachine
from offpeak.sim_backend.engine.rules import NEVER, NOT_YET

MOST_ENTRIES_PER_NODE = 8
"""The most states that a node can enter within a second, with transitions that take no time."""

STAYS = -1
NO_JOB = 0


class TransitionLog(NamedTuple):
    """The state changes of nodes: the first `length` entries, in time order."""

    at_s: Int64
    node: NDArray[np.int32]
    state: NDArray[np.int8]


class Power(NamedTuple):
    """The state of the nodes besides their table, and what jobs lost by sleeping nodes.

    By node: `called_s`, when a node that counts as rising starts to rise, by the limit on wakes, NEVER once it does;
    `ready_s`, when its transition ends; `fails`, 1 if the transition then fails; `deeper`, the depth to which a rising
    node goes on, or STAYS; `draws`, the number of its random draws. Bitmaps: `away`, nodes that are not active;
    `moving`, nodes with a time in `ready_s` or `called_s`; `spare`, free units on nodes that are away. `nodes_in`
    counts nodes by state. `failure_s`, by slot, is when a node of the job will fail to come up, NEVER if none will.
    `wanted_s`, by job, is the
    first second at which it would have started without sleeping nodes, NOT_YET before that. `needs` is what a forecast
    has learned, empty without a forecast. `peaks_mw` is the highest quarter-hour of the period of each demand charge.
    """

    scalars: NDArray[np.void]
    rates: NDArray[np.void]
    table: NodeTable
    called_s: Int64
    ready_s: Int64
    fails: NDArray[np.int8]
    deeper: NDArray[np.int8]
    draws: Int64
    spare: NDArray[np.uint64]
    away: NDArray[np.uint64]
    moving: NDArray[np.uint64]
    nodes_in: Int64
    failure_s: Int64
    wanted_s: Int64
    needs: NeedRecord
    peaks_mw: Int64
    log: TransitionLog


SCALARS = np.dtype(
    [
        (name, np.int64)
        for name in (
            "units_per_node",
            "idle_nodes",  # active nodes without a job
            "rising_idle",  # nodes without a job that come up to stay
            "passing",  # nodes that come up only to go deeper
            "idle_units",  # units without a job on active nodes
            "spare_units",  # units without a job on nodes that sleep or come up
            "target",  # nodes that must be awake
            "reserve",  # idle nodes that must be awake
            "keep",  # idle nodes that stay awake if they are awake
            "planned",  # idle nodes that stay awake for planned jobs
            "planned_wakes",  # sleeping nodes that the plan of the queue wakes now
            "plan_due_s",  # when that plan may wake nodes that it does not wake now, or NEVER
            "row",  # the row of the schedule that holds
            "next_ready_s",  # when the next transition ends or starts, NEVER without one
            "due_s",  # no node is due for a depth before this second
            "limited",  # 1 while nodes are due that a bound keeps awake
            "wake_due_s",  # when nodes must be woken that must not be woken earlier, or NEVER
            "rest_until_s",  # nodes go on until then when no job is left
            "next_decision_s",  # when a decision from outside is due, or NEVER
            "log_length",
            "jobs_mw",  # what jobs draw on the nodes that they hold
            "metered_s",  # up to when the draw is metered
            "quarter_mj",  # the energy of the present quarter-hour
            "peak_row",  # the row of the peak rules that holds, -1 before the first
            "held_until_s",  # when the first job has waited long enough for a lower peak, NEVER if none waits for it
        )
    ]
)


RATES = np.dtype(
    [
        ("slept_minute", np.int64),  # the minute in which nodes were put to sleep last
        ("slept_share", np.float64),  # the share of the bound on sleeps that they used up
        ("next_wake_ms", np.int64),  # when the next node may be woken, by the bound on wakes
    ]
)
"""What the bounds on sleeps and wakes count in all pools together, whose bounds may differ with the watts of nodes."""


def all_active(
    rules: CapacityRules,
    *,
    machine_size: int,
    units_per_node: int,
    slots: int,
    jobs: int,
    begin_s: int,
    rest_until_s: int = 0,
    charges: int = 1,
) -> Power:
    """Return the power of a machine whose nodes are all active and idle, the highest-numbered first to sleep."""
    nodes = machine_size // units_per_node
    entries = max(1 << 16, 4 * MOST_ENTRIES_PER_NODE * nodes)
    scalars = np.zeros(1, dtype=SCALARS)
    scalars["units_per_node"] = units_per_node
    scalars["idle_nodes"] = nodes
    scalars["idle_units"] = machine_size
    scalars["target"] = nodes
    scalars["row"] = -1
    rates = np.zeros(1, dtype=RATES)
    rates["slept_minute"] = -1
    rates["next_wake_ms"] = np.iinfo(np.int64).min
    scalars["due_s"] = begin_s
    scalars["rest_until_s"] = rest_until_s
    scalars["metered_s"] = begin_s
    scalars["peak_row"] = -1
    for name in ("next_ready_s", "wake_due_s", "plan_due_s", "held_until_s"):
        scalars[name] = NEVER
    scalars["next_decision_s"] = begin_s if rules.period_s else NEVER
    nodes_in = np.zeros(STATES, dtype=np.int64)
    nodes_in[ACTIVE] = nodes

    def column(value: int) -> Int64:
        return np.full(nodes, value, dtype=np.int64)

    return Power(
        scalars=scalars,
        rates=rates,
        table=NodeTable(
            state=np.zeros(nodes, dtype=np.int8),
            busy=column(NO_JOB),
            idle=bitmap(np.ones(nodes, dtype=np.bool_)),
            idle_since_s=column(begin_s),
            woken_s=column(begin_s - (1 << 40)),
            slept_s=column(begin_s - (1 << 40)),
            sleeps=column(0),
            day=column(np.iinfo(np.int64).min),
        ),
        called_s=column(NEVER),
        ready_s=column(NEVER),
        fails=np.zeros(nodes, dtype=np.int8),
        deeper=np.full(nodes, STAYS, dtype=np.int8),
        draws=column(0),
        spare=np.zeros(-(-machine_size // 64), dtype=np.uint64),
        away=bitmap(np.zeros(nodes, dtype=np.bool_)),
        moving=bitmap(np.zeros(nodes, dtype=np.bool_)),
        nodes_in=nodes_in,
        failure_s=np.full(slots, NEVER),
        wanted_s=np.full(jobs, NOT_YET, dtype=np.int64),
        needs=new_record(nodes if rules.worth_s else 0),
        peaks_mw=np.zeros(charges, dtype=np.int64),
        log=TransitionLog(np.empty(entries, np.int64), np.empty(entries, np.int32), np.empty(entries, np.int8)),
    )


@part
def log_is_full(power: Power) -> bool:
    """Tell whether the entries of a second may no longer fit into the log."""
    room = len(power.log.at_s) - power.scalars[0].log_length
    return bool(room < MOST_ENTRIES_PER_NODE * len(power.ready_s))


@part
def enter_state(power: Power, node: int, state: int, now_s: int) -> None:
    """Move the node to `state` and log it."""
    set_state(power, node, state)
    write_entry(power, node, now_s)


@part
def set_state(power: Power, node: int, state: int) -> None:
    """Move the node to `state` without a log entry."""
    at = index(node)
    power.nodes_in[index(power.table.state[at])] -= 1
    power.nodes_in[index(state)] += 1
    power.table.state[at] = state


@part
def write_entry(power: Power, node: int, now_s: int) -> None:
    """Log the current state of the node."""
    nodes = power.scalars[0]
    entry = index(nodes.log_length)
    power.log.at_s[entry] = now_s
    power.log.node[entry] = node
    power.log.state[entry] = power.table.state[index(node)]
    nodes.log_length += 1


@part
def rising_nodes(power: Power) -> int:
    """Return the number of nodes that come up to stay."""
    in_state = power.nodes_in
    return int(in_state[4] + in_state[7] + in_state[10] - power.scalars[0].passing)


@part
def falling_nodes(power: Power) -> int:
    """Return the number of nodes that go down."""
    return int(power.nodes_in[2] + power.nodes_in[5] + power.nodes_in[8])


@part
def jobs_wake(rules: CapacityRules) -> bool:
    """Tell whether a job may get nodes that sleep, which it wakes."""
    return bool(rules.on_demand and rules.plan_s == 0)


@part
def free_units(power: Power, rules: CapacityRules) -> int:
    """Return the units that are available to jobs."""
    nodes = power.scalars[0]
    return int(nodes.idle_units + (nodes.spare_units if jobs_wake(rules) else 0))


@part
def returning_units(power: Power, rules: CapacityRules) -> int:
    """Return the units that become available to jobs soon, for use in reservations.

    Without them the reservation of the first waiting job would wait for running jobs to end, and other jobs would be
    put before it for hours because some nodes need a minute to fall asleep.
    """
    nodes = falling_nodes(power) if jobs_wake(rules) else rising_nodes(power)
    return int(nodes * power.scalars[0].units_per_node)


@part
def refresh_free(machine: PoolMachine, power: Power, rules: CapacityRules) -> bool:
    """Count the units that are available to jobs again, and return whether the count changed."""
    now = machine.scalars[0]
    free = free_units(power, rules)
    returning = returning_units(power, rules)
    changed = free != now.free
    if changed or returning != now.returning:
        now.free = free
        now.returning = returning
        now.ended = 1
    return bool(changed)
