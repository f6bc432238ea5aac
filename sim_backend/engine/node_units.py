"""The units that jobs hold on nodes that may sleep: which ones a job gets, and what becomes of them when it ends.

A job gets idle nodes, then rising ones, then sleeping ones, which are woken for it.
"""

import numpy as np

from offpeak.bits import NO_BIT, lowest_bit, next_bit, set_bit
from offpeak.compiled import index, part
from offpeak.model.node_states import ACTIVE, FAILED
from offpeak.plugin.capacity.rules import CapacityRules, CapacitySchedule, DepthTable
from offpeak.plugin.capacity.sleepers import SHALLOW_TO_DEEP
from offpeak.sim_backend.engine.allocation import CHUNK_NODES, NO_PIECE, Nodes, PoolMachine, take_nodes
from offpeak.sim_backend.engine.power import STAYS, Power, rising_nodes
from offpeak.sim_backend.engine.power_capacity import first_due_s
from offpeak.sim_backend.engine.power_transitions import wake
from offpeak.sim_backend.engine.rules import NEVER

RISING = 0
"""The turn of rising nodes, the first inactive nodes that jobs get; the turns of sleeping nodes by depth follow."""


@part
def hold_active(machine: PoolMachine, power: Power, head: int) -> None:
    """Record that a job holds the units of the pieces from `head`, all on active nodes."""
    nodes = power.scalars[0]
    piece = head
    while piece != NO_PIECE:
        at = index(piece)
        mask = machine.nodes.piece_mask[at]
        while mask != np.uint64(0):
            unit = machine.nodes.piece_chunk[at] * CHUNK_NODES + lowest_bit(mask)
            mask &= mask - np.uint64(1)
            node = index(unit // nodes.units_per_node)
            if power.table.busy[node] == 0:
                nodes.idle_nodes -= 1
                set_bit(power.table.idle, unit // nodes.units_per_node, False)
            power.table.busy[node] += 1
            nodes.idle_units -= 1
        piece = machine.nodes.piece_next[at]


@part
def add_unit(nodes: Nodes, head: int, unit: int) -> int:
    """Add a unit to a job's pieces, and return their new head."""
    bit = np.uint64(1) << np.uint64(unit & 63)
    if head != NO_PIECE and nodes.piece_chunk[index(head)] == unit >> 6:
        nodes.piece_mask[index(head)] |= bit
        return head
    piece = int(nodes.cursor[1])
    at = index(piece)
    nodes.cursor[1] = nodes.piece_next[at]
    nodes.piece_chunk[at] = unit >> 6
    nodes.piece_mask[at] = bit
    nodes.piece_next[at] = head
    return piece


@part
def take_spare(machine: PoolMachine, power: Power, node: int, most: int, head: int) -> int:
    """Give up to `most` spare units of a node to a job, and return the head of its pieces."""
    nodes = power.scalars[0]
    at = index(node)
    left = most
    for unit in range(node * nodes.units_per_node, (node + 1) * nodes.units_per_node):
        chunk = index(unit >> 6)
        bit = np.uint64(1) << np.uint64(unit & 63)
        if left > 0 and power.spare[chunk] & bit != np.uint64(0):
            power.spare[chunk] ^= bit
            head = add_unit(machine.nodes, head, unit)
            left -= 1
    if power.deeper[at] != STAYS:
        power.deeper[at] = STAYS
        nodes.passing -= 1
    elif power.table.busy[at] == 0 and power.table.state[at] % 3 == 1:
        nodes.rising_idle -= 1
    power.table.busy[at] += most - left
    nodes.spare_units -= most - left
    return head


@part
def nodes_in_turn(power: Power, turn: int) -> int:
    """Return how many nodes come up, at turn RISING, or sleep in the depth whose turn it is."""
    if turn == RISING:
        return rising_nodes(power) + int(power.scalars[0].passing)
    return int(power.nodes_in[index(3 * turn)])


@part
def is_in_turn(power: Power, node: int, turn: int) -> bool:
    """Tell whether it is the node's turn and it has free units."""
    held = power.table.state[index(node)]
    if power.table.busy[index(node)] >= power.scalars[0].units_per_node:
        return False
    return bool(held > FAILED and held % 3 == 1) if turn == RISING else bool(held == 3 * turn)


@part
def hold_units(
    machine: PoolMachine, power: Power, depths: DepthTable, rules: CapacityRules, size: int
) -> tuple[int, int, int]:
    """Take `size` available units, of idle, then rising, then sleeping nodes, the lightest first; wake these.

    Returns the head of their pieces, when the last of the nodes is up, and when one of them fails, NEVER if none does.
    """
    now = machine.scalars[0]
    head = NO_PIECE
    awake = min(size, power.scalars[0].idle_units)
    if awake > 0:
        head = take_nodes(machine.nodes, awake)
        hold_active(machine, power, head)
    left = size - awake
    begin_s = now.now_s
    fails_s = NEVER
    for turn in range(1 + SHALLOW_TO_DEEP):
        after = next_bit(power.away, 0) if nodes_in_turn(power, turn) > 0 else NO_BIT
        while left > 0 and after != NO_BIT:
            node = after
            after = next_bit(power.away, node + 1)
            if not is_in_turn(power, node, turn):
                continue
            before = power.table.busy[index(node)]
            head = take_spare(machine, power, node, left, head)
            left -= power.table.busy[index(node)] - before
            if turn != RISING:
                wake(machine, power, depths, rules.wakes_per_min, node)
            if power.table.state[index(node)] == FAILED:
                fails_s = now.now_s
            elif power.ready_s[index(node)] != NEVER:
                begin_s = max(begin_s, power.ready_s[index(node)])
                if power.fails[index(node)]:
                    fails_s = min(fails_s, power.ready_s[index(node)])
    return int(head), int(begin_s), int(fails_s)


@part
def return_units(machine: PoolMachine, power: Power, schedule: CapacitySchedule, head: int) -> None:
    """Release the units of the pieces from `head`."""
    piece = head
    while piece != NO_PIECE:
        at = index(piece)
        mask = machine.nodes.piece_mask[at]
        while mask != np.uint64(0):
            unit = machine.nodes.piece_chunk[at] * CHUNK_NODES + lowest_bit(mask)
            mask &= mask - np.uint64(1)
            return_unit(machine, power, schedule, unit)
        following = machine.nodes.piece_next[at]
        machine.nodes.piece_next[at] = machine.nodes.cursor[1]
        machine.nodes.cursor[1] = piece
        piece = following


@part
def return_unit(machine: PoolMachine, power: Power, schedule: CapacitySchedule, unit: int) -> None:
    """Release a unit of a job."""
    now = machine.scalars[0]
    nodes = power.scalars[0]
    node = unit // nodes.units_per_node
    at = index(node)
    chunk = index(unit >> 6)
    bit = np.uint64(1) << np.uint64(unit & 63)
    held = power.table.state[at]
    power.table.busy[at] -= 1
    is_idle = power.table.busy[at] == 0
    if is_idle:
        power.table.idle_since_s[at] = now.now_s
    if held == ACTIVE:
        machine.nodes.free[chunk] |= bit
        machine.nodes.cursor[0] = min(machine.nodes.cursor[0], unit >> 6)
        nodes.idle_units += 1
        if is_idle:
            nodes.idle_nodes += 1
            set_bit(power.table.idle, node, True)
            nodes.due_s = min(nodes.due_s, first_due_s(schedule, nodes.row, now.now_s))
        return
    power.spare[chunk] |= bit
    if held == FAILED:
        return
    nodes.spare_units += 1
    if is_idle:
        nodes.rising_idle += 1
