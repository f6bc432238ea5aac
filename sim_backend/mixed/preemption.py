"""Preemption: a job stops jobs of lower tiers, or of QOS that its own preempts, on the nodes that it needs.

As in Slurm with PreemptMode=REQUEUE or CANCEL, a job that finds no free nodes takes those of running jobs into
account: those of the lowest tier first, in a tier the youngest. Of these it stops no more than its place needs. A
requeued job waits again with its full run time. The pass ends then, and the next one begins in the same second.
"""

import numpy as np

from offpeak.compiled import apart, index, part
from offpeak.model.arrays import Int64
from sim_backend.engine.running_jobs import drop_first
from sim_backend.engine.state import NEVER, NOT_YET
from sim_backend.mixed.cells import change_cell, find_place, put_back
from sim_backend.mixed.running import NO_PIECE, free_slot
from sim_backend.mixed.state import KIND, REQUEUED, TIER, MixedState, MixedWorkload, Placements, Stops, Tables


@part
def term(workload: MixedWorkload, state: MixedState, slot: int, column: int) -> int:
    """Return a term of the class of the job that runs in a slot."""
    job = state.slots.job[index(slot)]
    return int(workload.preemption.terms[index(workload.request_class[index(job)]), index(column)])


@part
def is_before(workload: MixedWorkload, state: MixedState, slot: int, other: int) -> bool:
    """Tell whether the job of a slot is stopped before that of another."""
    tier = term(workload, state, slot, TIER)
    other_tier = term(workload, state, other, TIER)
    if tier != other_tier:
        return bool(tier < other_tier)
    return bool(state.slots.started[index(slot)] > state.slots.started[index(other)])


@apart
def list_candidates(workload: MixedWorkload, state: MixedState, request_class: int, group: int) -> int:
    """List the slots of the group that a job of the class may stop, in the order of stops; return their number."""
    here = state.groups[group]
    order = state.stops.order
    kind = workload.preemption.terms[index(request_class), KIND]
    found = 0
    for at in range(here.first, here.first + here.listed):
        slot = int(state.expected[index(at)])
        other = term(workload, state, slot, KIND)
        if workload.preemption.stops[index(kind), index(other)]:
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
def change_by(matrix: Int64, tables: Tables, state: MixedState, slot: int, sign: int) -> None:
    """Add what the running job of the slot holds to the matrix, or take it where `sign` is -1."""
    pieces = state.pieces
    piece = state.slots.pieces[index(slot)]
    while piece != NO_PIECE:
        at = index(piece)
        change_cell(matrix, tables, pieces.option[at], pieces.cell[at], sign * pieces.units[at])
        piece = pieces.following[at]


@part
def place_without(matrix: Int64, tables: Tables, state: MixedState, request_class: int, first: int, last: int) -> int:
    """Add what the candidates [first, last) hold to the matrix, and find a place for a job of the class in it."""
    now = state.scalars[0]
    for at in range(first, last):
        change_by(matrix, tables, state, state.stops.order[index(at)], 1)
    now.searches += 1
    return int(find_place(matrix, tables, state.picks, request_class, now.searches))


@apart
def may_stay(matrix: Int64, tables: Tables, state: MixedState, slot: int, search: int) -> bool:
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
def find_stops(
    matrix: Int64, tables: Tables, workload: MixedWorkload, state: MixedState, request_class: int, group: int
) -> int:
    """List the slots to stop so that a job of the class has a place; return the cells of the place, 0 if none helps.

    The matrix is what the job may take without stops; it is as before afterwards.
    """
    now = state.scalars[0]
    picks = state.picks
    order = state.stops.order
    candidates = list_candidates(workload, state, request_class, group)
    found = place_without(matrix, tables, state, request_class, 0, candidates)
    put_back(matrix, tables, picks, found)
    if found == 0:
        for at in range(candidates):
            change_by(matrix, tables, state, order[index(at)], -1)
        return 0
    enough = candidates
    too_few = 0
    freed = candidates
    while enough - too_few > 1:
        middle = (enough + too_few) >> 1
        for at in range(middle, freed):
            change_by(matrix, tables, state, order[index(at)], -1)
        found = place_without(matrix, tables, state, request_class, min(freed, middle), middle)
        put_back(matrix, tables, picks, found)
        freed = middle
        if found > 0:
            enough = middle
        else:
            too_few = middle
    for at in range(enough, freed):
        change_by(matrix, tables, state, order[index(at)], -1)
    found = place_without(matrix, tables, state, request_class, min(freed, enough), enough)
    for pick in range(found):
        picks.taken[index(picks.cell[index(pick)])] = now.searches
    stopped = 0
    for back in range(enough):
        slot = int(order[index(enough - 1 - back)])
        if not may_stay(matrix, tables, state, slot, now.searches):
            # The places behind the one that is looked at are free.
            order[index(enough - 1 - stopped)] = slot
            stopped += 1
    for at in range(stopped):
        order[index(at)] = order[index(enough - stopped + at)]
    put_back(matrix, tables, picks, found)
    for at in range(stopped):
        change_by(matrix, tables, state, order[index(at)], -1)
    now.stopping = stopped
    return found


@apart
def stop_job(tables: Tables, workload: MixedWorkload, state: MixedState, slot: int, mode: int) -> None:
    """End a running job now, and note its run."""
    now = state.scalars[0]
    slots = state.slots
    stops = state.stops
    job = slots.job[index(slot)]
    at = 0
    while state.ends[index(at)] != slot:
        at += 1
    while at > 0:
        above = (at - 1) >> 1
        state.ends[index(at)] = state.ends[index(above)]
        at = above
    state.ends[index(0)] = slot
    drop_first(state.ends, now.running, slots)
    now.running -= 1
    now.next_end_s = slots.end_s[index(state.ends[0])] if now.running > 0 else NEVER
    row = index(now.stops)
    stops.rows[row, index(0)] = job
    stops.rows[row, index(1)] = state.start_s[index(job)]
    stops.rows[row, index(2)] = now.now_s
    stops.rows[row, index(3)] = mode
    now.stops += 1
    if mode == REQUEUED:
        state.start_s[index(job)] = NOT_YET
    free_slot(tables, workload, state, slot)


@apart
def make_room(matrix: Int64, tables: Tables, workload: MixedWorkload, state: MixedState, request_class: int) -> int:
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
def lacks_room(state: MixedState) -> bool:
    """Tell whether the passes of this second may stop more jobs than there is room to note."""
    now = state.scalars[0]
    return bool(len(state.stops.rows) > 0 and now.stops + now.running + now.waiting > len(state.stops.rows))


def with_room(state: MixedState, tables: Tables) -> MixedState:
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
