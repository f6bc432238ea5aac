"""Jobs on pools whose nodes may sleep: they get nodes, which are woken for them, and give them back.

The nodes of a counted pool are chosen as `node_units` says: idle, then rising, then sleeping ones. A shared node is the
cell that was picked; of nodes without a job an awake one is preferred.
"""

import numpy as np

from offpeak.compiled import apart, index, part
from offpeak.model.arrays import Int64
from offpeak.model.node_states import ACTIVE, FAILED
from offpeak.sim_backend.engine.allocation import NO_PIECE, PoolMachine
from offpeak.sim_backend.engine.cells import change_cell, copy_cell
from offpeak.sim_backend.engine.node_units import add_unit, hold_active, hold_units, return_units, take_spare
from offpeak.sim_backend.engine.pools import (
    SleepingPools,
    depths_of_pool,
    pool_machine,
    pool_power,
    rules_of_pool,
    schedule_of_pool,
)
from offpeak.sim_backend.engine.power import STAYS, Power, free_units
from offpeak.sim_backend.engine.power_transitions import wake
from offpeak.sim_backend.engine.rules import NEVER, NOT_YET
from offpeak.sim_backend.engine.state import SLOTS, Picks, State, Tables


@part
def count_free(state: State, pools: SleepingPools, power: Power) -> None:
    """Count the units again that are available to jobs, where only the units of one pool are counted."""
    state.free[SLOTS, 0] = free_units(power, rules_of_pool(pools, 0))


@apart
def hold_counted(state: State, pools: SleepingPools, slot: int) -> tuple[int, int]:
    """Give the job of `slot` its units of the only pool.

    Returns when the last of their nodes is up, and when one of these will fail to come up, NEVER if none will.
    """
    held = index(slot)
    job = index(state.slots.job[held])
    if pools.power.wanted_s[job] == NOT_YET:
        pools.power.wanted_s[job] = state.scalars[0].now_s
    machine = pool_machine(pools, 0)
    power = pool_power(pools, 0)
    units = int(state.slots.pieces[held])
    head, begin_s, failure_s = hold_units(machine, power, depths_of_pool(pools, 0), rules_of_pool(pools, 0), units)
    pools.units[held] = head
    pools.power.failure_s[held] = failure_s
    count_free(state, pools, power)
    machine.scalars[0].free = state.free[SLOTS, 0]
    return begin_s, failure_s


@apart
def release_counted(state: State, pools: SleepingPools, slot: int) -> None:
    """Take its units from the job of `slot`."""
    machine = pool_machine(pools, 0)
    power = pool_power(pools, 0)
    return_units(machine, power, schedule_of_pool(pools, 0), pools.units[index(slot)])
    count_free(state, pools, power)


@part
def hold_shared_node(pools: SleepingPools, machine: PoolMachine, power: Power, pool: int, cell: int, node: int) -> int:
    """Note another job on a shared node, wake it for its first one, and return when it is up."""
    at = index(cell)
    if pools.jobs[at] == 0:
        if power.table.state[index(node)] == ACTIVE:
            head = add_unit(machine.nodes, NO_PIECE, node)
            machine.nodes.free[index(node >> 6)] ^= np.uint64(1) << np.uint64(node & 63)
            hold_active(machine, power, head)
        else:
            head = take_spare(machine, power, node, 1, NO_PIECE)
            if power.table.state[index(node)] % 3 == 0:
                rules = rules_of_pool(pools, pool)
                wake(machine, power, depths_of_pool(pools, pool), rules.wakes_per_min, node)
        pools.units_of_node[at] = head
    pools.jobs[at] += 1
    up_s = power.ready_s[index(node)]
    return int(machine.scalars[0].now_s if up_s == NEVER else up_s)


@apart
def hold_nodes(tables: Tables, state: State, pools: SleepingPools, slot: int) -> int:
    """Give the job of `slot` the nodes of its pieces, and return when the last of them is up."""
    now_s = int(state.scalars[0].now_s)
    job = index(state.slots.job[index(slot)])
    if pools.power.wanted_s[job] == NOT_YET:
        pools.power.wanted_s[job] = now_s
    begin_s = now_s
    piece = state.slots.pieces[index(slot)]
    while piece != NO_PIECE:
        at = index(piece)
        cell = state.pieces.cell[at]
        pool = int(tables.cell_pool[index(cell)])
        machine = pool_machine(pools, pool)
        power = pool_power(pools, pool)
        rules = rules_of_pool(pools, pool)
        if pools.is_counted[pool]:
            units = int(state.pieces.units[at])
            head, up_s, _ = hold_units(machine, power, depths_of_pool(pools, pool), rules, units)
            pools.units[at] = head
        else:
            up_s = hold_shared_node(pools, machine, power, pool, cell, cell - tables.cell_first[pool])
        machine.scalars[0].free = free_units(power, rules)
        begin_s = max(begin_s, up_s)
        piece = state.pieces.following[at]
    return begin_s


@apart
def release_nodes(tables: Tables, state: State, pools: SleepingPools, slot: int) -> None:
    """Take the nodes of its pieces from the job of `slot`."""
    piece = state.slots.pieces[index(slot)]
    while piece != NO_PIECE:
        at = index(piece)
        cell = index(state.pieces.cell[at])
        pool = int(tables.cell_pool[cell])
        head = int(pools.units[at])
        if not pools.is_counted[pool]:
            pools.jobs[cell] -= 1
            head = int(pools.units_of_node[cell]) if pools.jobs[cell] == 0 else NO_PIECE
        machine = pool_machine(pools, pool)
        power = pool_power(pools, pool)
        return_units(machine, power, schedule_of_pool(pools, pool), head)
        machine.scalars[0].free = free_units(power, rules_of_pool(pools, pool))
        piece = state.pieces.following[at]


@part
def turn_of(tables: Tables, pools: SleepingPools, cell: int) -> int:
    """Return the rank of a shared node among those without jobs: 0 if awake, 1 if rising, more if asleep."""
    pool = int(tables.cell_pool[index(cell)])
    held = pools.power.table.state[index(pools.node_first[pool] + cell - tables.cell_first[pool])]
    if held == ACTIVE or held % 3 == 1:
        return 0 if held == ACTIVE else 1
    return int(held // 3) + 1


@part
def is_whole(matrix: Int64, tables: Tables, cell: int) -> bool:
    """Tell whether all resources of the cell are free."""
    for column in range(len(matrix)):
        if matrix[index(column), index(cell)] != tables.capacity[index(column), index(cell)]:
            return False
    return True


@apart
def prefer_awake(matrix: Int64, tables: Tables, picks: Picks, pools: SleepingPools, found: int) -> None:
    """Replace the picks of shared nodes that are not awake by free nodes of their pool that are, or will be sooner."""
    for pick in range(found):
        cell = int(picks.cell[index(pick)])
        pool = int(tables.cell_pool[index(cell)])
        if pools.is_counted[pool] or pools.jobs[index(cell)] > 0:
            continue
        best = cell
        turn = turn_of(tables, pools, cell)
        for other in range(tables.cell_first[pool], tables.cell_first[pool + 1]):
            if turn == 0:
                break
            if turn_of(tables, pools, other) < turn and is_whole(matrix, tables, other):
                best = other
                turn = turn_of(tables, pools, other)
        if best != cell:
            option = int(picks.option[index(pick)])
            units = int(picks.units[index(pick)])
            change_cell(matrix, tables, option, cell, units)
            change_cell(matrix, tables, option, best, -units)
            picks.cell[index(pick)] = best


@part
def is_returning(pools: SleepingPools, pool: int, node: int) -> bool:
    """Tell whether a node becomes available to jobs soon: on its way down where jobs wake nodes, else on its way up."""
    at = index(pools.node_first[pool] + node)
    held = pools.power.table.state[at]
    if pools.policies.rules[pool, 0]:
        return bool(held > FAILED and held % 3 == 2)
    return bool(held > FAILED and held % 3 == 1 and pools.power.deeper[at] == STAYS)


@apart
def lend_returning(tables: Tables, state: State, pools: SleepingPools, group: int) -> None:
    """Add to `ahead` the nodes of the group that become available to jobs soon: reservations count on them."""
    for at in range(tables.group_cell_first[index(group)], tables.group_cell_first[index(group + 1)]):
        cell = tables.group_cell[index(at)]
        pool = int(tables.cell_pool[index(cell)])
        if pools.is_counted[pool]:
            state.ahead[SLOTS, index(cell)] += pools.machine[pool].returning
        elif pools.offered[index(cell)] == 0 and is_returning(pools, pool, cell - tables.cell_first[pool]):
            for column in range(len(state.ahead)):
                state.ahead[index(column), index(cell)] += tables.capacity[index(column), index(cell)]


@apart
def take_back_returning(tables: Tables, state: State, group: int) -> None:
    """Set `ahead` to what is free now."""
    for at in range(tables.group_cell_first[index(group)], tables.group_cell_first[index(group + 1)]):
        copy_cell(state.ahead, state.free, tables.group_cell[index(at)])
