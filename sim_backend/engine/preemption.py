"""Preemption: a job stops jobs of lower tiers, or of QOS that its own preempts, on the nodes that it needs.

As in Slurm with PreemptMode=REQUEUE or CANCEL, a job that finds no free nodes takes those of running jobs into
account, in the order of `is_before`. Of these it stops no more than its place needs. A requeued job waits again with
its full run time. The pass ends then, and the next one begins in the same second.
"""

import numpy as np

from offpeak.compiled import apart, index, part
from offpeak.model.arrays import Int64
from offpeak.sim_backend.engine.allocation import NO_PIECE
from offpeak.sim_backend.engine.cells import change_cell, copy_cell, find_place, leave_spare, put_back
from offpeak.sim_backend.engine.rules import NEVER, NOT_YET
from offpeak.sim_backend.engine.running import begin_anew, close_slot, forget_end, release
from offpeak.sim_backend.engine.state import (
    CAN_STOP,
    EXEMPT_S,
    KIND,
    REQUEUED,
    STOP_ORDER,
    Placements,
    State,
    Stops,
    Tables,
    Workload,
)


@part
def term(workload: Workload, state: State, slot: int, column: int) -> int:
    """Return a term of the class of the job that runs in a slot."""
    job = state.slots.job[index(slot)]
    return int(workload.preemption.terms[index(workload.request_class[index(job)]), index(column)])


@part
def is_before(workload: Workload, state: State, slot: int, other: int) -> bool:
    """Tell whether the job of a slot is stopped before that of another."""
    order = term(workload, state, slot, STOP_ORDER)
    other_order = term(workload, state, other, STOP_ORDER)
    if order != other_order:
        return bool(order < other_order)
    job = state.slots.job[index(slot)]
    other_job = state.slots.job[index(other)]
    if workload.preemption.youngest_first and state.start_s[index(job)] != state.start_s[index(other_job)]:
        return bool(state.start_s[index(job)] > state.start_s[index(other_job)])
    return bool(job < other_job)


@part
def stoppable_s(workload: Workload, state: State, slot: int) -> int:
    """Return from when on the job of a slot may be stopped: it has begun then, and run for its exempt time."""
    return int(state.start_s[index(state.slots.job[index(slot)])] + term(workload, state, slot, EXEMPT_S))


@apart
def list_candidates(workload: Workload, state: State, request_class: int, group: int) -> int:
    """List the slots of the group that a job of the class may stop now, in the order of stops; return their number.

    Jobs that have ended and only complete are not among them.
    """
    now = state.scalars[0]
    here = state.groups[group]
    order = state.stops.order
    kind = workload.preemption.terms[index(request_class), KIND]
    found = 0
    for at in range(here.first, here.first + here.listed):
        slot = int(state.expected[index(at)])
        if workload.preemption.stops[index(kind), index(term(workload, state, slot, KIND))] == 0:
            continue
        job = index(state.slots.job[index(slot)])
        if state.start_s[job] + workload.runtime_s[job] <= now.now_s:
            continue
        from_s = stoppable_s(workload, state, slot)
        if from_s > now.now_s:
            now.next_stoppable_s = min(now.next_stoppable_s, from_s)
            continue
        order[index(found)] = slot
        found += 1
    gap = found // 2
    while gap > 0:
        for at in range(gap, found):
            slot = int(order[index(at)])
            place = at
            while place >= gap and is_before(workload, state, slot, order[index(place - gap)]):
                order[index(place)] = order[index(place - gap)]
                place -= gap
            order[index(place)] = slot
        gap //= 2
    return found


@part
def look_again(tables: Tables, workload: Workload, state: State) -> None:
    """Let the jobs that may stop others look for these again: some may be stopped from now on."""
    waiting = state.waiting
    state.scalars[0].next_stoppable_s = NEVER
    for own_class in range(len(tables.class_group)):
        if waiting.misfit[index(own_class)] and workload.preemption.terms[index(own_class), CAN_STOP]:
            waiting.misfit[index(own_class)] = 0
            state.groups[tables.class_group[index(own_class)]].hopeful += waiting.of_class[index(own_class)]
    for group in range(len(state.groups)):
        begin_anew(state, group)
        state.groups[group].is_stale = 1


@part
def change_by(matrix: Int64, tables: Tables, state: State, slot: int, sign: int) -> None:
    """Add what the running job of the slot holds to the matrix, or take it where `sign` is -1."""
    pieces = state.pieces
    piece = state.slots.pieces[index(slot)]
    while piece != NO_PIECE:
        at = index(piece)
        change_cell(matrix, tables, pieces.option[at], pieces.cell[at], sign * pieces.units[at])
        piece = pieces.following[at]


@apart
def lend(tables: Tables, state: State, group: int, slot: int, sign: int) -> None:
    """Count what the running job of the slot holds as free, now and at the starts of reservations; undo it with -1."""
    here = state.groups[group]
    holds = state.holds
    pieces = state.pieces
    piece = state.slots.pieces[index(slot)]
    while piece != NO_PIECE:
        cell = pieces.cell[index(piece)]
        option = pieces.option[index(piece)]
        units = sign * pieces.units[index(piece)]
        change_cell(state.free, tables, option, cell, units)
        copy_cell(state.late, state.free, cell)
        for hold in range(here.first_hold, here.first_hold + here.holds):
            if holds.cell[index(hold)] != cell:
                continue
            start_s = holds.start_s[index(holds.reservation[index(hold)])]
            if state.slots.expected_end_s[index(slot)] > start_s:
                for column in range(len(state.free)):
                    holds.spare[index(hold), index(column)] += units * tables.need[index(option), index(column)]
            if here.late_of > 0 and start_s < here.late_until_s:
                leave_spare(state, hold)
        piece = pieces.following[index(piece)]


@part
def place_without(
    matrix: Int64, tables: Tables, state: State, request_class: int, group: int, span: tuple[int, int]
) -> int:
    """Count what the candidates [first, last) hold as free, and find a place for a job of the class."""
    now = state.scalars[0]
    for at in range(span[0], span[1]):
        lend(tables, state, group, state.stops.order[index(at)], 1)
    now.searches += 1
    return int(find_place(matrix, tables, state.picks, request_class, now.searches))


@apart
def may_stay(matrix: Int64, tables: Tables, state: State, slot: int, search: int) -> bool:
    """Tell whether the job keeps its nodes beside the place that was found, and take them in the matrix if so."""
    pieces = state.pieces
    change_by(matrix, tables, state, slot, -1)
    piece = state.slots.pieces[index(slot)]
    while piece != NO_PIECE:
        cell = pieces.cell[index(piece)]
        if state.picks.taken[index(cell)] == search:
            for column in range(len(matrix)):
                if matrix[index(column), index(cell)] < 0:
                    change_by(matrix, tables, state, slot, 1)
                    return False
        piece = pieces.following[index(piece)]
    return True


@apart
def find_stops(matrix: Int64, tables: Tables, workload: Workload, state: State, request_class: int, group: int) -> int:
    """List the slots to stop so that a job of the class has a place; return the cells of the place, 0 if none helps.

    The matrix is what the job may take without stops: `free` or `late`. Both are as before afterwards.
    """
    now = state.scalars[0]
    picks = state.picks
    order = state.stops.order
    candidates = list_candidates(workload, state, request_class, group)
    if candidates == 0:
        return 0
    enough = candidates + 1
    too_few = 0
    lent = 0
    middle = candidates
    found = 0
    # The fewest candidates that are enough: first all of them, then half of what is left.
    while enough - too_few > 1:
        for at in range(middle, lent):
            lend(tables, state, group, order[index(at)], -1)
        found = place_without(matrix, tables, state, request_class, group, (min(lent, middle), middle))
        put_back(matrix, tables, picks, found)
        lent = middle
        if found > 0:
            enough = middle
        elif middle == candidates:
            break
        else:
            too_few = middle
        middle = (enough + too_few) >> 1
    now.stopping = 0
    if enough <= candidates:
        for at in range(enough, lent):
            lend(tables, state, group, order[index(at)], -1)
        found = place_without(matrix, tables, state, request_class, group, (min(lent, enough), enough))
        lent = enough
        keep_most(matrix, tables, state, found, enough)
        put_back(matrix, tables, picks, found)
    for at in range(lent):
        lend(tables, state, group, order[index(at)], -1)
    for at in range(now.stopping):
        order[index(at)] = order[index(enough - now.stopping + at)]
    return found


@part
def keep_most(matrix: Int64, tables: Tables, state: State, found: int, enough: int) -> None:
    """Move those of the first `enough` candidates to their end that cannot stay beside the place; count them."""
    now = state.scalars[0]
    picks = state.picks
    order = state.stops.order
    for pick in range(found):
        picks.taken[index(picks.cell[index(pick)])] = now.searches
    for back in range(enough):
        at = enough - 1 - back
        slot = int(order[index(at)])
        if not may_stay(matrix, tables, state, slot, now.searches):
            last = enough - 1 - now.stopping
            order[index(at)] = order[index(last)]
            order[index(last)] = slot
            now.stopping += 1
    for at in range(enough - now.stopping):
        change_by(matrix, tables, state, order[index(at)], 1)


@apart
def stop_job(tables: Tables, workload: Workload, state: State, slot: int, mode: int) -> None:
    """End a running job now, and note its run."""
    now = state.scalars[0]
    slots = state.slots
    stops = state.stops
    job = slots.job[index(slot)]
    forget_end(state, slot)
    row = index(now.stops)
    stops.rows[row, index(0)] = job
    stops.rows[row, index(1)] = state.start_s[index(job)]
    stops.rows[row, index(2)] = now.now_s
    stops.rows[row, index(3)] = mode
    now.stops += 1
    if mode == REQUEUED:
        state.start_s[index(job)] = NOT_YET
        if state.sleeping is not None:
            state.sleeping.power.wanted_s[index(job)] = NOT_YET
    release(tables, workload, state, slot)
    close_slot(state, slot)


@apart
def make_room(matrix: Int64, tables: Tables, workload: Workload, state: State, request_class: int) -> int:
    """Stop jobs so that a job of the class can start; return the cells that it then takes, 0 if that is impossible.

    The matrix is what the job may take without stops. The pass ends with its start.
    """
    now = state.scalars[0]
    group = int(tables.class_group[index(request_class)])
    found = find_stops(matrix, tables, workload, state, request_class, group)
    if found == 0:
        return 0
    kind = workload.preemption.terms[index(request_class), KIND]
    for at in range(now.stopping):
        slot = int(state.stops.order[index(at)])
        other = term(workload, state, slot, KIND)
        stop_job(tables, workload, state, slot, workload.preemption.stops[index(kind), index(other)])
    state.groups[group].is_stale = 1
    now.considered = 0
    now.is_interrupted = 1
    for pick in range(found):
        picked = index(pick)
        units = state.picks.units[picked]
        change_cell(state.free, tables, state.picks.option[picked], state.picks.cell[picked], -units)
    return found


@part
def lacks_room(state: State) -> bool:
    """Tell whether the passes of this second may stop more jobs than there is room to note."""
    now = state.scalars[0]
    return bool(len(state.stops.rows) > 0 and now.stops + now.running + now.waiting > len(state.stops.rows))


def with_room(state: State, tables: Tables) -> State:
    """Return the state with room for twice as many stops, and at least for those of the next passes."""
    now = state.scalars[0]
    rows = 2 * int(now["stops"] + now["running"] + now["waiting"])
    more = rows - len(state.stops.rows)
    widest = len(np.unique(tables.option_pool))
    stops = Stops(np.append(state.stops.rows, np.empty((more, 4), dtype=np.int64), axis=0), state.stops.order)
    job, pool, nodes = state.placements
    unused = np.empty(more * widest, dtype=np.int64)
    placements = Placements(np.append(job, unused), np.append(pool, unused), np.append(nodes, np.empty(len(unused))))
    return state._replace(stops=stops, placements=placements)
