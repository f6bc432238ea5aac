"""Jobs on nodes that may sleep: they get nodes, start when these are up, or return to the queue.

Late binding: a job whose nodes still come up starts on other nodes that have become free, if these suffice.
"""

import numpy as np

from offpeak.bits import NO_BIT, lowest_bit, next_bit, set_bit
from offpeak.compiled import index, part
from offpeak.model.node_states import ACTIVE, FAILED
from offpeak.plugin.capacity.rules import CapacityRules, CapacitySchedule, DepthTable
from offpeak.plugin.capacity.sleepers import SHALLOW_TO_DEEP
from offpeak.sim_backend.engine import running_jobs
from offpeak.sim_backend.engine.backfill import duration_of
from offpeak.sim_backend.engine.power import STAYS, Power, free_units, rising_nodes
from offpeak.sim_backend.engine.power_capacity import first_due_s
from offpeak.sim_backend.engine.power_transitions import wake
from offpeak.sim_backend.engine.queue import compact, copy_position, fill_position, note_estimate
from offpeak.sim_backend.engine.state import (
    CHUNK_NODES,
    NEVER,
    NO_PIECE,
    NOT_YET,
    Nodes,
    SchedulingRules,
    State,
    Workload,
    take_nodes,
)

RISING = 0
"""The turn of rising nodes, the first inactive nodes that jobs get; the turns of sleeping nodes by depth follow."""


@part
def hold_active(state: State, power: Power, head: int) -> None:
    """Record that a job holds the units of the pieces from `head`, all on active nodes."""
    nodes = power.scalars[0]
    piece = head
    while piece != NO_PIECE:
        at = index(piece)
        mask = state.nodes.piece_mask[at]
        while mask != np.uint64(0):
            unit = state.nodes.piece_chunk[at] * CHUNK_NODES + lowest_bit(mask)
            mask &= mask - np.uint64(1)
            node = index(unit // nodes.units_per_node)
            if power.table.busy[node] == 0:
                nodes.idle_nodes -= 1
                set_bit(power.table.idle, unit // nodes.units_per_node, False)
            power.table.busy[node] += 1
            nodes.idle_units -= 1
        piece = state.nodes.piece_next[at]


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
def take_spare(state: State, power: Power, node: int, most: int, head: int) -> int:
    """Give up to `most` spare units of a node to a job, and return the head of its pieces."""
    nodes = power.scalars[0]
    at = index(node)
    left = most
    for unit in range(node * nodes.units_per_node, (node + 1) * nodes.units_per_node):
        chunk = index(unit >> 6)
        bit = np.uint64(1) << np.uint64(unit & 63)
        if left > 0 and power.spare[chunk] & bit != np.uint64(0):
            power.spare[chunk] ^= bit
            head = add_unit(state.nodes, head, unit)
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
def hold_units(state: State, power: Power, depths: DepthTable, rules: CapacityRules, size: int) -> tuple[int, int, int]:
    """Take `size` available units, of idle, then rising, then sleeping nodes, the lightest first; wake these.

    Returns the head of their pieces, when the last of the nodes is up, and when one of them fails, NEVER if none does.
    """
    now = state.scalars[0]
    head = NO_PIECE
    awake = min(size, power.scalars[0].idle_units)
    if awake > 0:
        head = take_nodes(state.nodes, awake)
        hold_active(state, power, head)
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
            head = take_spare(state, power, node, left, head)
            left -= power.table.busy[index(node)] - before
            if turn != RISING:
                wake(state, power, depths, rules.wakes_per_min, node)
            if power.table.state[index(node)] == FAILED:
                fails_s = now.now_s
            elif power.ready_s[index(node)] != NEVER:
                begin_s = max(begin_s, power.ready_s[index(node)])
                if power.fails[index(node)]:
                    fails_s = min(fails_s, power.ready_s[index(node)])
    return int(head), int(begin_s), int(fails_s)


@part
def start_powered(
    workload: Workload, state: State, power: Power, depths: DepthTable, rules: CapacityRules, position: int
) -> bool:
    """Give the job at queue `position`, which fits, its nodes.

    The job starts when the last of them is up. If one will fail, the job holds them until the failure shows. Returns
    whether the job must wait for nodes.
    """
    now = state.scalars[0]
    nodes = power.scalars[0]
    job = index(state.queue.job[index(position)])
    if power.wanted_s[job] == NOT_YET:
        power.wanted_s[job] = now.now_s
    head, begin_s, fails_s = hold_units(state, power, depths, rules, state.queue.size[index(position)])
    if begin_s > now.now_s:
        plan_later_end(state, position, begin_s)
    nodes.jobs_mw += int(1000 * workload.node_power_w[job] * state.queue.size[index(position)])
    slot = running_jobs.place_job(workload, state, position, head, begin_s)
    nodes.last_up_s = max(nodes.last_up_s, begin_s)
    now.free = free_units(power, rules)
    power.will_fail[index(slot)] = 1 if fails_s != NEVER else 0
    if fails_s != NEVER:
        state.slots.end_s[index(slot)] = fails_s
    running_jobs.await_end(state, slot)
    return bool(begin_s > now.now_s)


@part
def plan_later_end(state: State, position: int, begin_s: int) -> None:
    """Correct the discipline's plan for the job at queue `position`, which will start later than now."""
    now = state.scalars[0]
    size = state.queue.size[index(position)]
    duration_s = duration_of(state, position)
    if now.breakpoints > 0:
        running_jobs.add_free(state, now.now_s + duration_s, begin_s + duration_s, -size)
        now.corrected = 1
    estimate_s = state.queue.estimate_s[index(position)]
    if now.now_s + estimate_s <= now.shadow_s < begin_s + estimate_s:
        now.extra -= size


@part
def release_powered(state: State, power: Power, schedule: CapacitySchedule, slot: int) -> None:
    """Release the nodes of `slot` according to their states."""
    now = state.scalars[0]
    running_jobs.unlist(state, slot)
    if now.breakpoints > 0:
        running_jobs.add_free(state, now.now_s, running_jobs.held_until_s(state, slot), state.slots.size[index(slot)])
    return_units(state, power, schedule, state.slots.pieces[index(slot)])
    state.slots.pieces[index(slot)] = NOT_YET
    now.ended = 1


@part
def return_units(state: State, power: Power, schedule: CapacitySchedule, head: int) -> None:
    """Release the units of the pieces from `head`."""
    piece = head
    while piece != NO_PIECE:
        at = index(piece)
        mask = state.nodes.piece_mask[at]
        while mask != np.uint64(0):
            unit = state.nodes.piece_chunk[at] * CHUNK_NODES + lowest_bit(mask)
            mask &= mask - np.uint64(1)
            return_unit(state, power, schedule, unit)
        following = state.nodes.piece_next[at]
        state.nodes.piece_next[at] = state.nodes.cursor[1]
        state.nodes.cursor[1] = piece
        piece = following


@part
def return_unit(state: State, power: Power, schedule: CapacitySchedule, unit: int) -> None:
    """Release a unit of a job."""
    now = state.scalars[0]
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
        state.nodes.free[chunk] |= bit
        state.nodes.cursor[0] = min(state.nodes.cursor[0], unit >> 6)
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


@part
def end_powered(
    workload: Workload, state: State, power: Power, schedule: CapacitySchedule, rules: SchedulingRules
) -> None:
    """End the job that ends first, or put it back into the queue if a node that it waited for has failed."""
    slot = running_jobs.first_end(state)
    job = state.slots.job[index(slot)]
    planned_s = state.slots.expected_end_s[index(slot)] - state.start_s[index(job)]
    size = state.slots.size[index(slot)]
    power.scalars[0].jobs_mw -= int(1000 * workload.node_power_w[index(job)] * size)
    if state.slots.pieces[index(slot)] != NOT_YET:
        release_powered(state, power, schedule, slot)
    if power.will_fail[index(slot)]:
        state.start_s[index(job)] = NOT_YET
        put_back(workload, state, job, planned_s)
    else:
        running_jobs.learn_from(workload, state, rules, job)
    running_jobs.close_slot(state, slot)


@part
def put_back(workload: Workload, state: State, job: int, estimate_s: int) -> None:
    """Put a job back into the queue, at the position of its submission."""
    now = state.scalars[0]
    queue = state.queue
    compact(state)
    at = now.tail
    while at > 0 and queue.job[index(at - 1)] > job:
        copy_position(queue, at, at - 1)
        at -= 1
    fill_position(workload, queue, at, job, estimate_s)
    if at < now.passed_over:
        queue.passed_over_s[index(at)] = now.now_s
        now.passed_over += 1
    now.tail += 1
    now.waiting += 1
    now.smallest = min(now.smallest, workload.size[index(job)])
    if now.ranked:
        note_estimate(state.by_width, job, estimate_s)


@part
def drop_too_wide(state: State, power: Power) -> bool:
    """Remove the jobs that need more nodes than are left from the queue, and return whether there were any.

    They can never start, and would keep all others from starting.
    """
    now = state.scalars[0]
    queue = state.queue
    if power.nodes_in[FAILED] == 0:
        return False
    most = (len(power.ready_s) - power.nodes_in[FAILED]) * power.scalars[0].units_per_node
    dropped = False
    for position in range(now.head, now.tail):
        if most < queue.size[index(position)] < NEVER:
            promised_s = queue.reserved_s[index(position)]
            if now.breakpoints > 0 and promised_s != NOT_YET:
                end_s = promised_s + duration_of(state, position)
                running_jobs.add_free(state, promised_s, end_s, queue.size[index(position)])
            queue.size[index(position)] = NEVER
            if now.ranked:
                note_estimate(state.by_width, queue.job[index(position)], NEVER)
            now.waiting -= 1
            now.ended = 1
            dropped = True
    while now.head < now.tail and queue.size[index(now.head)] == NEVER:
        now.head += 1
    return dropped


NO_SLOT = -1


@part
def units_coming_up(state: State, power: Power, slot: int) -> int:
    """Return how many units of the job in `slot` are on nodes that are not active."""
    units = 0
    piece = state.slots.pieces[index(slot)]
    while piece != NO_PIECE:
        mask = state.nodes.piece_mask[index(piece)]
        while mask != np.uint64(0):
            unit = state.nodes.piece_chunk[index(piece)] * CHUNK_NODES + lowest_bit(mask)
            mask &= mask - np.uint64(1)
            if power.table.state[index(unit // power.scalars[0].units_per_node)] != ACTIVE:
                units += 1
        piece = state.nodes.piece_next[index(piece)]
    return units


@part
def next_to_rebind(state: State, behind: int) -> int:
    """Return the slot of the first job, by its start number above `behind`, that waits for its nodes, or NO_SLOT."""
    now = state.scalars[0]
    found = NO_SLOT
    first = NEVER
    for at in range(now.listed):
        slot = state.expected[index(at)]
        started = state.slots.started[index(slot)]
        if behind < started < first and state.start_s[index(state.slots.job[index(slot)])] > now.now_s:
            found = slot
            first = started
    return int(found)


@part
def begin_now(workload: Workload, state: State, power: Power, schedule: CapacitySchedule, slot: int) -> None:
    """Replace the rising nodes of the job of `slot` by idle ones, and start it."""
    now = state.scalars[0]
    held = index(slot)
    job = index(state.slots.job[held])
    planned_s = state.slots.expected_end_s[held] - state.start_s[job]
    release_powered(state, power, schedule, slot)
    head = take_nodes(state.nodes, state.slots.size[held])
    hold_active(state, power, head)
    state.slots.pieces[held] = head
    power.will_fail[held] = 0
    state.start_s[job] = now.now_s
    state.slots.end_s[held] = now.now_s + workload.runtime_s[job]
    running_jobs.expect_end(state, slot, now.now_s + planned_s)
    if now.breakpoints > 0:
        running_jobs.add_free(state, now.now_s, running_jobs.held_until_s(state, slot), -state.slots.size[held])
    at = 0
    while state.ends[index(at)] != slot:
        at += 1
    running_jobs.push(state.ends, at, state.slots, slot)
    now.next_end_s = state.slots.end_s[index(state.ends[0])]


@part
def rebind(workload: Workload, state: State, power: Power, rules: CapacityRules, schedule: CapacitySchedule) -> None:
    """Start jobs that wait for nodes to come up on nodes that have become free, in the order of their allocation."""
    now = state.scalars[0]
    nodes = power.scalars[0]
    if not rules.late or nodes.last_up_s <= now.now_s or nodes.idle_units == 0:
        return
    slot = next_to_rebind(state, -1)
    while slot != NO_SLOT and nodes.idle_units > 0:
        started = state.slots.started[index(slot)]
        if units_coming_up(state, power, slot) <= nodes.idle_units:
            begin_now(workload, state, power, schedule, slot)
        slot = next_to_rebind(state, started)
