"""The power transitions of nodes: sleep, wake, arrival and failure. Only these functions change a node's power
state.
"""

import numpy as np

from offpeak.bits import NO_BIT, next_bit, set_bit
from offpeak.compiled import index, part
from offpeak.model.constants import DAY_S
from offpeak.model.node_states import ACTIVE, FAILED, POWERSAVE
from offpeak.plugin.capacity.rules import DepthTable, NodeTable
from offpeak.sim_backend.engine.allocation import Nodes, PoolMachine
from offpeak.sim_backend.engine.power import STAYS, Power, enter_state, set_state, write_entry
from offpeak.sim_backend.engine.rules import NEVER

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST_MIX = np.uint64(0xBF58476D1CE4E5B9)
SECOND_MIX = np.uint64(0x94D049BB133111EB)
TO_UNIT = 2.0**-53
A_MINUTE_MS = 60_000


@part
def chance(seed: int, node: int, draw: int) -> float:
    """Return a pseudo-random number in [0, 1) of the arguments (splitmix64: Steele, Lea and Flood, OOPSLA 2014)."""
    mixed = np.uint64(seed) * FIRST_MIX + np.uint64(node) * SECOND_MIX + np.uint64(draw + 1) * GOLDEN
    for _ in range(2):
        mixed = (mixed ^ (mixed >> np.uint64(30))) * FIRST_MIX
        mixed = (mixed ^ (mixed >> np.uint64(27))) * SECOND_MIX
        mixed = (mixed ^ (mixed >> np.uint64(31))) + GOLDEN
    return float(np.float64(mixed >> np.uint64(11)) * TO_UNIT)


@part
def will_fail(power: Power, depths: DepthTable, node: int, probability: float) -> bool:
    """Draw whether the transition that the node starts will fail."""
    if probability <= 0.0:
        return False
    draw = power.draws[index(node)]
    power.draws[index(node)] = draw + 1
    return chance(depths.seed, node, draw) < probability


@part
def make_free(nodes: Nodes, power: Power, node: int) -> None:
    """Add the units without a job of an active node to the free ones."""
    units = power.scalars[0].units_per_node
    for unit in range(node * units, (node + 1) * units):
        chunk = index(unit >> 6)
        bit = np.uint64(1) << np.uint64(unit & 63)
        if power.spare[chunk] & bit != np.uint64(0):
            power.spare[chunk] ^= bit
            nodes.free[chunk] |= bit
    nodes.cursor[0] = min(nodes.cursor[0], (node * units) >> 6)


@part
def make_spare(nodes: Nodes, power: Power, node: int) -> None:
    """Remove the units of an idle node from the free ones."""
    units = power.scalars[0].units_per_node
    for unit in range(node * units, (node + 1) * units):
        chunk = index(unit >> 6)
        bit = np.uint64(1) << np.uint64(unit & 63)
        nodes.free[chunk] ^= bit
        power.spare[chunk] |= bit


@part
def begin_transition(power: Power, node: int, ready_s: int, fails: bool) -> None:
    """Record when the node's transition ends, and whether it fails."""
    power.ready_s[index(node)] = ready_s
    power.fails[index(node)] = 1 if fails else 0
    set_bit(power.moving, node, True)
    nodes = power.scalars[0]
    nodes.next_ready_s = min(nodes.next_ready_s, ready_s)


@part
def put_to_sleep(machine: PoolMachine, power: Power, depths: DepthTable, node: int, depth: int) -> None:
    """Send an active node without a job into `depth`."""
    now_s = machine.scalars[0].now_s
    nodes = power.scalars[0]
    nodes.idle_nodes -= 1
    set_bit(power.table.idle, node, False)
    set_bit(power.away, node, True)
    nodes.idle_units -= nodes.units_per_node
    make_spare(machine.nodes, power, node)
    power.table.slept_s[index(node)] = now_s
    go_down(power, depths, node, depth, now_s)


@part
def count_cycle(table: NodeTable, node: int, now_s: int) -> None:
    """Count a power cycle of the node on the current day."""
    at = index(node)
    if table.day[at] != now_s // DAY_S:
        table.day[at] = now_s // DAY_S
        table.sleeps[at] = 0
    table.sleeps[at] += 1


@part
def go_down(power: Power, depths: DepthTable, node: int, depth: int, now_s: int) -> None:
    """Start the transition into `depth`."""
    if depth != POWERSAVE:
        count_cycle(power.table, node, now_s)
    enter_state(power, node, 2 + 3 * depth, now_s)
    fails = will_fail(power, depths, node, depths.enter_failure[depth])
    begin_transition(power, node, now_s + depths.enter_s[depth], fails)
    if depths.enter_s[depth] == 0:
        arrive_down(power, depths, node, now_s)


@part
def arrive_down(power: Power, depths: DepthTable, node: int, now_s: int) -> None:
    """End the transition into sleep: the node sleeps, or has failed."""
    at = index(node)
    power.ready_s[at] = NEVER
    if power.fails[at]:
        fail(power, depths, node, now_s)
        return
    enter_state(power, node, power.table.state[at] + 1, now_s)
    power.scalars[0].spare_units += power.scalars[0].units_per_node
    power.scalars[0].due_s = now_s


@part
def fail(power: Power, depths: DepthTable, node: int, now_s: int) -> None:
    """Mark the node as failed until its repair, if there is one."""
    enter_state(power, node, FAILED, now_s)
    if depths.repair_s != NEVER:
        begin_transition(power, node, now_s + depths.repair_s, False)


@part
def wake(machine: PoolMachine, power: Power, depths: DepthTable, wakes_per_min: int, node: int) -> None:
    """Wake a sleeping node, within the limit on wakes."""
    now_s = machine.scalars[0].now_s
    nodes = power.scalars[0]
    at = index(node)
    depth = power.table.state[at] // 3 - 1
    if power.deeper[at] != STAYS:
        nodes.passing += 1
    elif power.table.busy[at] == 0:
        nodes.rising_idle += 1
    set_state(power, node, 4 + 3 * depth)
    begin_s = next_wake_s(power, wakes_per_min, now_s)
    fails = will_fail(power, depths, node, depths.leave_failure[depth])
    begin_transition(power, node, begin_s + depths.leave_s[depth], fails)
    if begin_s > now_s:
        power.called_s[at] = begin_s
        nodes.next_ready_s = min(nodes.next_ready_s, begin_s)
        return
    write_entry(power, node, now_s)
    if depths.leave_s[depth] == 0:
        arrive_up(machine, power, depths, node)


@part
def next_wake_s(power: Power, wakes_per_min: int, now_s: int) -> int:
    """Return when the next node may start to come up, and count it."""
    if wakes_per_min == 0:
        return now_s
    rates = power.rates[0]
    begin_ms = max(now_s * 1000, rates.next_wake_ms)
    rates.next_wake_ms = begin_ms + (A_MINUTE_MS + wakes_per_min - 1) // wakes_per_min
    return int((begin_ms + 999) // 1000)


@part
def arrive_up(machine: PoolMachine, power: Power, depths: DepthTable, node: int) -> None:
    """End the wake-up: the node is active, goes on to a deeper sleep, or has failed."""
    now_s = machine.scalars[0].now_s
    nodes = power.scalars[0]
    at = index(node)
    without_job = nodes.units_per_node - power.table.busy[at]
    power.ready_s[at] = NEVER
    nodes.spare_units -= without_job
    depth = power.deeper[at]
    power.deeper[at] = STAYS
    if depth != STAYS:
        nodes.passing -= 1
    elif power.table.busy[at] == 0:
        nodes.rising_idle -= 1
    if power.fails[at]:
        fail(power, depths, node, now_s)
    elif depth != STAYS:
        go_down(power, depths, node, depth, now_s)
    else:
        become_active(machine, power, node, without_job)


@part
def become_active(machine: PoolMachine, power: Power, node: int, without_job: int) -> None:
    """Make the node active, with so many units for other jobs."""
    now_s = machine.scalars[0].now_s
    nodes = power.scalars[0]
    at = index(node)
    enter_state(power, node, ACTIVE, now_s)
    set_bit(power.away, node, False)
    power.table.woken_s[at] = now_s
    make_free(machine.nodes, power, node)
    nodes.idle_units += without_job
    if power.table.busy[at] == 0:
        nodes.idle_nodes += 1
        set_bit(power.table.idle, node, True)
        nodes.due_s = now_s


@part
def go_deeper(
    machine: PoolMachine, power: Power, depths: DepthTable, wakes_per_min: int, node: int, depth: int
) -> None:
    """Send a node in light sleep into a deeper depth. The node wakes first, unless it is only in powersave."""
    nodes = power.scalars[0]
    if power.table.state[index(node)] == 3 + 3 * POWERSAVE:
        nodes.spare_units -= nodes.units_per_node
        go_down(power, depths, node, depth, machine.scalars[0].now_s)
        return
    power.deeper[index(node)] = depth
    wake(machine, power, depths, wakes_per_min, node)


@part
def arrive(machine: PoolMachine, power: Power, depths: DepthTable) -> None:
    """Start and end all due transitions, and end due repairs."""
    now_s = machine.scalars[0].now_s
    nodes = power.scalars[0]
    if nodes.next_ready_s > now_s:
        return
    node = next_bit(power.moving, 0)
    while node != NO_BIT:
        if power.called_s[index(node)] <= now_s:
            power.called_s[index(node)] = NEVER
            write_entry(power, node, now_s)
        if power.ready_s[index(node)] <= now_s:
            arrive_one(machine, power, depths, node)
        node = next_bit(power.moving, node + 1)
    nodes.next_ready_s = next_arrival_s(power)


@part
def arrive_one(machine: PoolMachine, power: Power, depths: DepthTable, node: int) -> None:
    """End the transition or the repair of a node."""
    now_s = machine.scalars[0].now_s
    at = index(node)
    held = power.table.state[at]
    power.ready_s[at] = NEVER
    set_bit(power.moving, node, False)
    if held == FAILED:
        power.table.idle_since_s[at] = now_s
        become_active(machine, power, node, power.scalars[0].units_per_node - power.table.busy[at])
    elif held % 3 == 1:
        arrive_up(machine, power, depths, node)
    else:
        arrive_down(power, depths, node, now_s)


@part
def next_arrival_s(power: Power) -> int:
    """Return when the next transition ends or starts, or NEVER."""
    earliest = NEVER
    node = next_bit(power.moving, 0)
    while node != NO_BIT:
        earliest = min(earliest, min(power.ready_s[index(node)], power.called_s[index(node)]))
        node = next_bit(power.moving, node + 1)
    return int(earliest)
