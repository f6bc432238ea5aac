"""Starts and ends jobs: their resources, their ends, and the classes of requests that may fit again.

`State.ends` is a heap of slots by (end, number of the start).
"""

from offpeak.compiled import index, part
from offpeak.model.arrays import Int64
from offpeak.predictors.run_times import learn_run_time
from offpeak.sim_backend.engine.allocation import NO_PIECE
from offpeak.sim_backend.engine.cells import change_cell, copy_cell, has_room
from offpeak.sim_backend.engine.limits import change_limits
from offpeak.sim_backend.engine.peak_shaving import count_draw
from offpeak.sim_backend.engine.pool_jobs import hold_counted, hold_nodes, release_counted, release_nodes
from offpeak.sim_backend.engine.profile import add_free, held_until_s
from offpeak.sim_backend.engine.queue import longest_before_s, wait_again
from offpeak.sim_backend.engine.rules import NEVER, NOT_YET, PREDICTED_RUNTIME, EngineRules
from offpeak.sim_backend.engine.state import (
    ANY_LENGTH,
    CAN_STOP,
    CORRECTED,
    RANKS_SEVERAL,
    SLOTS,
    Int32,
    Slots,
    State,
    Tables,
    Workload,
)

OPTIONS_EACH = 4
"""About so many options of a refused class are looked at; where a pool has fewer in all, these are."""


@part
def ends_before(slots: Slots, a: int, b: int) -> bool:
    """Tell whether the job of slot `a` ends before that of slot `b`; within one second, whether it started first."""
    a_s = slots.end_s[index(a)]
    b_s = slots.end_s[index(b)]
    return bool(a_s < b_s or (a_s == b_s and slots.started[index(a)] < slots.started[index(b)]))


@part
def push(ends: Int64, length: int, slots: Slots, slot: int) -> None:
    """Add a slot to a heap of `length`."""
    child = length
    while child > 0:
        parent = (child - 1) >> 1
        above = ends[index(parent)]
        if not ends_before(slots, slot, above):
            break
        ends[index(child)] = above
        child = parent
    ends[index(child)] = slot


@part
def drop_first(ends: Int64, length: int, slots: Slots) -> None:
    """Remove the first slot from a heap of `length`."""
    last = length - 1
    slot = ends[index(last)]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= last:
            break
        if child + 1 < last and ends_before(slots, ends[index(child + 1)], ends[index(child)]):
            child += 1
        below = ends[index(child)]
        if not ends_before(slots, below, slot):
            break
        ends[index(parent)] = below
        parent = child
    ends[index(parent)] = slot


@part
def await_end(state: State, slot: int) -> None:
    """Add the job of `slot` to the heap of ends."""
    now = state.scalars[0]
    push(state.ends, now.running, state.slots, slot)
    now.next_end_s = state.slots.end_s[index(state.ends[0])]
    now.running += 1


@part
def first_end(state: State) -> int:
    """Remove the running job with the earliest end from the heap, and return its slot."""
    now = state.scalars[0]
    slot = state.ends[0]
    drop_first(state.ends, now.running, state.slots)
    now.running -= 1
    now.next_end_s = state.slots.end_s[index(state.ends[0])] if now.running > 0 else NEVER
    return int(slot)


@part
def forget_end(state: State, slot: int) -> None:
    """Take the running job of `slot` out of the heap of ends."""
    at = 0
    while state.ends[index(at)] != slot:
        at += 1
    while at > 0:
        above = (at - 1) >> 1
        state.ends[index(at)] = state.ends[index(above)]
        at = above
    state.ends[index(0)] = slot
    first_end(state)


@part
def close_slot(state: State, slot: int) -> None:
    """Mark the slot as unused."""
    now = state.scalars[0]
    state.slots.following[index(slot)] = now.free_slot
    now.free_slot = slot


@part
def learn_from(workload: Workload, state: State, rules: EngineRules, job: int) -> None:
    """Teach the predictor, if there is one, the run time of the job; the state is that."""
    if rules.estimates == PREDICTED_RUNTIME:
        learn_run_time(state.recent_s, workload.user[index(job)], workload.runtime_s[index(job)])


@part
def place_of(expected_end_s: Int64, expected: Int32, first: int, listed: int, at_s: int) -> int:
    """Return the place behind all listed slots that are expected to end by `at_s`."""
    low = first
    high = first + listed
    while low < high:
        middle = (low + high) >> 1
        if expected_end_s[index(expected[index(middle)])] <= at_s:
            low = middle + 1
        else:
            high = middle
    return low


@part
def expect_end(state: State, group: int, slot: int) -> None:
    """List the slot among the group's running jobs, sorted by expected end, then by start."""
    here = state.groups[group]
    expected = state.expected
    first = here.first
    at = first + here.listed
    place = place_of(state.slots.expected_end_s, expected, first, here.listed, state.slots.expected_end_s[index(slot)])
    while at > place:
        expected[index(at)] = expected[index(at - 1)]
        at -= 1
    expected[index(place)] = slot
    here.listed += 1


@part
def unlist(state: State, group: int, slot: int) -> None:
    """Take the slot off the group's list."""
    here = state.groups[group]
    expected = state.expected
    expected_end_s = state.slots.expected_end_s
    place = place_of(expected_end_s, expected, here.first, here.listed, expected_end_s[index(slot)])
    while expected[index(place - 1)] != slot:
        place -= 1
    last = here.first + here.listed
    for at in range(place, last):
        expected[index(at - 1)] = expected[index(at)]
    here.listed -= 1


@part
def note_placement(tables: Tables, state: State, job: int, pick: int) -> None:
    """Note the nodes of a pick: in a row for each pool of the job."""
    now = state.scalars[0]
    placements = state.placements
    option = state.picks.option[index(pick)]
    pool = tables.option_pool[index(option)]
    nodes = state.picks.units[index(pick)] * tables.unit_nodes[index(option)]
    row = now.placements - 1
    while row >= 0 and placements.job[index(row)] == job:
        if placements.pool[index(row)] == pool:
            placements.nodes[index(row)] += nodes
            return
        row -= 1
    at = index(now.placements)
    placements.job[at] = job
    placements.pool[at] = pool
    placements.nodes[at] = nodes
    now.placements += 1


@part
def take_pieces(tables: Tables, state: State, job: int, found: int) -> int:
    """Assign the picked resources to the job; return the first of its pieces."""
    now = state.scalars[0]
    pieces = state.pieces
    head = NO_PIECE
    for pick in range(found):
        piece = now.free_piece
        at = index(piece)
        now.free_piece = pieces.following[at]
        pieces.cell[at] = state.picks.cell[index(pick)]
        pieces.option[at] = state.picks.option[index(pick)]
        pieces.units[at] = state.picks.units[index(pick)]
        pieces.following[at] = head
        head = piece
        note_placement(tables, state, job, pick)
    return int(head)


@part
def run_job(tables: Tables, workload: Workload, state: State, rules: EngineRules, position: int, found: int) -> int:
    """Give the waiting job at `position` the cells that were picked; return when its last node is up and it starts.

    Where nodes are only counted, the job gets so many, and these are its `pieces`.
    """
    now = state.scalars[0]
    waiting = state.waiting
    slots = state.slots
    at = index(position)
    job = waiting.job[at]
    own_class = waiting.request_class[at]
    group = tables.class_group[index(own_class)]
    slot = now.free_slot
    held = index(slot)
    now.free_slot = slots.following[held]
    slots.job[held] = job
    slots.group[held] = group
    slots.started[held] = now.started
    if tables.need is None:
        state.free[SLOTS, 0] -= found
        slots.pieces[held] = found
        waiting.size[at] = NEVER
    else:
        slots.pieces[held] = take_pieces(tables, state, job, found)
    begin_s = int(now.now_s)
    failure_s = NEVER
    if state.sleeping is not None:
        if tables.need is None:
            begin_s, failure_s = hold_counted(state, state.sleeping, slot)
            count_draw(workload, state.sleeping, job, found)
        else:
            begin_s = hold_nodes(tables, state, state.sleeping, slot)
        if begin_s > now.now_s and rules.boot_check_s > 0:
            begin_s += -begin_s % rules.boot_check_s
    # Where a node will fail to come up, the job holds its nodes until then.
    end_s = begin_s + workload.runtime_s[index(job)] + rules.completing_s
    slots.end_s[held] = end_s if failure_s == NEVER else failure_s
    slots.expected_end_s[held] = begin_s + waiting.hold_s[at]
    expect_end(state, group, slot)
    await_end(state, slot)
    now.started += 1
    now.waiting -= 1
    state.start_s[index(job)] = begin_s
    if change_limits(workload.limits, state.limit_used, job, 1):
        # A blocked job that now waits for a limit must not keep its reservation.
        for each in range(len(state.groups)):
            state.groups[each].is_stale = 1
    here = state.groups[group]
    if begin_s > now.now_s:
        # The reservation was made before the late end of the job was known.
        here.is_stale = 1
        plan_later_end(tables, state, rules, waiting.hold_s[at], begin_s, found)
    here.waiting -= 1
    here.hopeful -= 1
    here.ranking_several -= tables.ranking[index(own_class)] == RANKS_SEVERAL
    here.changes += 1
    here.furthest = max(here.furthest, position)
    waiting.of_class[index(own_class)] -= 1
    waiting.request_class[at] = len(tables.class_group)
    return begin_s


@part
def plan_later_end(tables: Tables, state: State, rules: EngineRules, hold_s: int, begin_s: int, units: int) -> None:
    """Correct what is planned for a job that holds counted units from now on and starts later."""
    if tables.need is not None:
        return
    now_s = state.scalars[0].now_s
    if state.promises is not None:
        promised_s = max(1, hold_s)
        add_free(state, state.promises, now_s + promised_s, begin_s + promised_s, -units)
        state.promises.counts[CORRECTED] = 1
    here = state.groups[0]
    if here.reserved > 0:
        until_s = longest_before_s(rules, state.holds.start_s[0])
        if now_s + hold_s <= until_s < begin_s + hold_s:
            here.extra -= units


@part
def hope_again(tables: Tables, workload: Workload, state: State, cell: int) -> None:
    """Note which classes may fit now that the cell has more room."""
    pool = tables.cell_pool[index(cell)]
    first = tables.use_first[index(pool)]
    behind = tables.use_first[index(pool + 1)]
    if first == behind:
        return
    group = tables.class_group[index(tables.option_class[index(tables.use_option[index(first)])])]
    refused = state.groups[group].refused
    if refused * OPTIONS_EACH < behind - first:
        begin = tables.group_class_first[index(group)]
        for at in range(begin, begin + refused):
            own_class = state.waiting.refused[index(at)]
            chunk = tables.chunk_first[index(own_class)]
            last_chunk = tables.chunk_first[index(own_class + 1)]
            for option in range(tables.option_first[index(chunk)], tables.option_first[index(last_chunk)]):
                if tables.option_pool[index(option)] == pool:
                    hope_for_option(tables, workload, state, option, cell)
        return
    for use in range(first, behind):
        hope_for_option(tables, workload, state, tables.use_option[index(use)], cell)


@part
def hope_for_option(tables: Tables, workload: Workload, state: State, option: int, cell: int) -> None:
    """Note that the option's class may fit if it did not and the cell has room for it, or a job may be stopped."""
    waiting = state.waiting
    own_class = tables.option_class[index(option)]
    if waiting.misfit[index(own_class)] and (
        workload.preemption.terms[index(own_class), CAN_STOP] or has_room(state.free, tables.need, option, cell)
    ):
        waiting.misfit[index(own_class)] = 0
        state.groups[tables.class_group[index(own_class)]].hopeful += waiting.of_class[index(own_class)]


@part
def refuse(tables: Tables, state: State, own_class: int, longest_s: int) -> None:
    """Note that no job of the class that holds nodes for longer can start in this pass."""
    waiting = state.waiting
    if waiting.longest_s[index(own_class)] == ANY_LENGTH:
        group = tables.class_group[index(own_class)]
        here = state.groups[group]
        waiting.refused[index(tables.group_class_first[index(group)] + here.refused)] = own_class
        here.refused += 1
    waiting.longest_s[index(own_class)] = longest_s


@part
def forget_refusals(tables: Tables, state: State, group: int) -> None:
    """Let all jobs of the group's classes start again but those of classes that are known not to fit."""
    waiting = state.waiting
    here = state.groups[group]
    first = tables.group_class_first[index(group)]
    kept = first
    for at in range(first, first + here.refused):
        own_class = waiting.refused[index(at)]
        if waiting.misfit[index(own_class)]:
            waiting.longest_s[index(own_class)] = NOT_YET
            waiting.refused[index(kept)] = own_class
            kept += 1
        else:
            waiting.longest_s[index(own_class)] = ANY_LENGTH
    here.refused = kept - first


@part
def give_up(tables: Tables, state: State, own_class: int) -> None:
    """Note that the class does not fit before a job of its group ends."""
    waiting = state.waiting
    refuse(tables, state, own_class, NOT_YET)
    if waiting.misfit[index(own_class)] == 0:
        waiting.misfit[index(own_class)] = 1
        state.groups[tables.class_group[index(own_class)]].hopeful -= waiting.of_class[index(own_class)]


@part
def begin_anew(state: State, group: int) -> None:
    """Let the next pass over the group begin at its first job."""
    here = state.groups[group]
    here.blocked = NOT_YET
    here.is_stale = 1
    here.seen = here.first
    here.is_due = 1
    here.is_backfill_due = 1


@part
def correct_predictions(workload: Workload, state: State, rules: EngineRules) -> None:
    """Replace the predicted run time of running jobs that have outlived it by the user's estimate."""
    now_s = state.scalars[0].now_s
    slots = state.slots
    for group in range(len(state.groups)):
        here = state.groups[group]
        at = here.first
        while at < here.first + here.listed and slots.expected_end_s[index(state.expected[index(at)])] <= now_s:
            slot = int(state.expected[index(at)])
            job = index(slots.job[index(slot)])
            corrected_s = state.start_s[job] + workload.estimate_s[job] + rules.completing_s
            if corrected_s <= now_s:
                at += 1
                continue
            if state.promises is not None:
                units = slots.pieces[index(slot)]
                add_free(state, state.promises, held_until_s(state, slot), corrected_s, -units)
                state.promises.counts[CORRECTED] = 1
            unlist(state, group, slot)
            slots.expected_end_s[index(slot)] = corrected_s
            expect_end(state, group, slot)
            here.is_stale = 1


@part
def release_expected(tables: Tables, workload: Workload, state: State) -> None:
    """Release the nodes of running jobs whose expected end has come, before their end is handled."""
    now_s = state.scalars[0].now_s
    for group in range(len(state.groups)):
        here = state.groups[group]
        while here.listed > 0 and state.slots.expected_end_s[index(state.expected[index(here.first)])] <= now_s:
            release(tables, workload, state, int(state.expected[index(here.first)]))


@part
def end_first(tables: Tables, workload: Workload, state: State, rules: EngineRules) -> None:
    """End the running job whose nodes become free first, or let it wait again if one of its nodes has failed."""
    slots = state.slots
    slot = first_end(state)
    held = index(slot)
    job = slots.job[held]
    has_failed = False
    if state.sleeping is not None and tables.need is None:
        count_draw(workload, state.sleeping, job, -tables.units[index(workload.request_class[index(job)])])
        has_failed = state.sleeping.power.failure_s[held] != NEVER
    hold_s = slots.expected_end_s[held] - state.start_s[index(job)]
    if slots.pieces[held] != NO_PIECE:
        release(tables, workload, state, slot)
    else:
        # Its nodes were released when it was expected to end, but each event has a pass.
        state.groups[slots.group[held]].is_due = 1
        state.groups[slots.group[held]].is_backfill_due = 1
    if has_failed:
        state.start_s[index(job)] = NOT_YET
        wait_again(tables, workload, state, rules, job, hold_s)
    else:
        learn_from(workload, state, rules, job)
    close_slot(state, slot)


@part
def give_back_pieces(tables: Tables, workload: Workload, state: State, head: int) -> None:
    """Give back the pieces from `head`."""
    now = state.scalars[0]
    pieces = state.pieces
    piece = head
    while piece != NO_PIECE:
        at = index(piece)
        cell = pieces.cell[at]
        change_cell(state.free, tables, pieces.option[at], cell, pieces.units[at])
        copy_cell(state.late, state.free, cell)
        copy_cell(state.ahead, state.free, cell)
        hope_again(tables, workload, state, cell)
        following = pieces.following[at]
        pieces.following[at] = now.free_piece
        now.free_piece = piece
        piece = following


@part
def hope_for_counted(tables: Tables, state: State) -> None:
    """Note which classes may fit into the nodes that are free now, where these are only counted."""
    waiting = state.waiting
    here = state.groups[0]
    free = state.free[SLOTS, 0]
    for at in range(here.refused):
        own_class = index(waiting.refused[index(at)])
        if waiting.misfit[own_class] and tables.units[own_class] <= free:
            waiting.misfit[own_class] = 0
            here.hopeful += waiting.of_class[own_class]


@part
def release(tables: Tables, workload: Workload, state: State, slot: int) -> None:
    """Give back what the job of the slot holds, and let the next pass over its group begin anew."""
    slots = state.slots
    held = index(slot)
    group = slots.group[held]
    unlist(state, group, slot)
    if state.promises is not None:
        add_free(state, state.promises, state.scalars[0].now_s, held_until_s(state, slot), slots.pieces[held])
    if tables.need is None:
        if state.sleeping is None:
            state.free[SLOTS, 0] += slots.pieces[held]
        else:
            release_counted(state, state.sleeping, slot)
        hope_for_counted(tables, state)
    else:
        if state.sleeping is not None:
            release_nodes(tables, state, state.sleeping, slot)
        give_back_pieces(tables, workload, state, slots.pieces[held])
    begin_anew(state, group)
    if change_limits(workload.limits, state.limit_used, slots.job[held], -1):
        for each in range(len(state.groups)):
            begin_anew(state, each)
    slots.pieces[held] = NO_PIECE
