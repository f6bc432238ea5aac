"""Reservations: the start of a blocked job by the expected ends of running jobs, and what others must leave to it.

A reservation holds the cells that the job would take at its start. A job that ends before that is free in its choice; a
longer one takes only what is left in these cells beside the reservation. With several reservations each is found
beside those that were made before it, for as long as its job is expected to run. A job that runs for longer than
expected counts as ending now.
"""

from offpeak.compiled import in_place, index, part
from sim_backend.engine.state import NEVER, NOT_YET
from sim_backend.mixed.cells import change_cell, copy_cell, find_place, parts_free, parts_in, put_back
from sim_backend.mixed.power_jobs import lend_returning, nodes_sleep, prefer_awake, take_back_returning
from sim_backend.mixed.preemption import make_room
from sim_backend.mixed.running import NO_PIECE, give_up, run_job
from sim_backend.mixed.state import CAN_STOP, MixedRules, MixedState, MixedWorkload, Tables

UNUSABLE = -1


@part
def first_reservation(rules: MixedRules, group: int) -> int:
    """Return the number of the group's first reservation."""
    return group * max(1, rules.reservations)


@part
def drop_reservations(state: MixedState, group: int) -> None:
    """Give up the reservations of the group."""
    here = state.groups[group]
    for hold in range(here.first_hold, here.first_hold + here.holds):
        cell = state.holds.cell[index(hold)]
        state.holds.cell_holds[index(cell)] = 0
        copy_cell(state.late, state.free, cell)
    here.holds = 0
    here.reserved = 0
    here.late_of = 0


@part
def first_start_s(state: MixedState, rules: MixedRules, group: int) -> int:
    """Return when the earliest reservation of the group starts, NEVER if it has none."""
    first = first_reservation(rules, group)
    found = NEVER
    for reservation in range(first, first + state.groups[group].reserved):
        found = min(found, state.holds.start_s[index(reservation)])
    return int(found)


@part
def leave_spare(state: MixedState, hold: int) -> None:
    """Leave in `late` no more of the hold's cell than the hold spares."""
    cell = state.holds.cell[index(hold)]
    for column in range(len(state.late)):
        least = min(state.late[index(column), index(cell)], state.holds.spare[index(hold), index(column)])
        state.late[index(column), index(cell)] = least


@part
def open_late(state: MixedState, rules: MixedRules, group: int, until_s: int) -> int:
    """Let `late` be what is left to a job that holds nodes until then; return the latest start before, else NOT_YET."""
    here = state.groups[group]
    holds = state.holds
    first = first_reservation(rules, group)
    count = 0
    latest_s = NOT_YET
    for reservation in range(first, first + here.reserved):
        if holds.start_s[index(reservation)] < until_s:
            count += 1
            latest_s = max(latest_s, holds.start_s[index(reservation)])
    if count > 0 and count != here.late_of:
        for hold in range(here.first_hold, here.first_hold + here.holds):
            copy_cell(state.late, state.free, holds.cell[index(hold)])
        for hold in range(here.first_hold, here.first_hold + here.holds):
            if holds.start_s[index(holds.reservation[index(hold)])] < until_s:
                leave_spare(state, hold)
        here.late_of = count
        here.late_until_s = until_s
    return int(latest_s)


@part
def use_held_cell(tables: Tables, state: MixedState, group: int, pick: int, until_s: int) -> None:
    """Note in the holds on a picked cell that a job takes a part of it until then, and bring `late` up to date."""
    here = state.groups[group]
    holds = state.holds
    cell = state.picks.cell[index(pick)]
    option = state.picks.option[index(pick)]
    for hold in range(here.first_hold, here.first_hold + here.holds):
        if holds.cell[index(hold)] != cell:
            continue
        start_s = holds.start_s[index(holds.reservation[index(hold)])]
        if start_s < until_s:
            for column in range(len(state.free)):
                taken = state.picks.units[index(pick)] * tables.need[index(option), index(column)]
                holds.spare[index(hold), index(column)] -= taken
        if here.late_of > 0 and start_s < here.late_until_s:
            leave_spare(state, hold)


@in_place
def try_start(tables: Tables, workload: MixedWorkload, state: MixedState, rules: MixedRules, position: int) -> bool:
    """Start the waiting job at `position` if it fits now and delays no reservation; return whether it started."""
    now = state.scalars[0]
    waiting = state.waiting
    picks = state.picks
    own_class = waiting.request_class[index(position)]
    group = tables.class_group[index(own_class)]
    until_s = now.now_s + waiting.hold_s[index(position)]
    latest_s = open_late(state, rules, group, until_s)
    is_late = latest_s != NOT_YET
    now.searches += 1
    found = find_place(state.late if is_late else state.free, tables, picks, own_class, now.searches)
    if found == 0 and workload.preemption.terms[index(own_class), CAN_STOP]:
        found = make_room(state.late if is_late else state.free, tables, workload, state, own_class)
        is_late = is_late and found == 0
    if found == 0:
        if is_late:
            waiting.longest_s[index(own_class)] = latest_s - now.now_s
        else:
            give_up(tables, state, own_class)
        return False
    if nodes_sleep(state):
        prefer_awake(state.late if is_late else state.free, tables, state, found)
    for pick in range(found):
        cell = picks.cell[index(pick)]
        if is_late:
            change_cell(state.free, tables, picks.option[index(pick)], cell, -picks.units[index(pick)])
        copy_cell(state.ahead, state.free, cell)
    until_s += run_job(tables, workload, state, rules, position, found) - now.now_s
    for pick in range(found):
        cell = picks.cell[index(pick)]
        copy_cell(state.late, state.free, cell)
        if state.holds.cell_holds[index(cell)] > 0:
            use_held_cell(tables, state, group, pick, until_s)
    return True


@part
def option_in(tables: Tables, request_class: int, cell: int) -> int:
    """Return an option of the class in the cell's pool, UNUSABLE if it has none."""
    pool = tables.cell_pool[index(cell)]
    first = tables.chunk_first[index(request_class)]
    last = tables.chunk_first[index(request_class + 1)]
    for option in range(tables.option_first[index(first)], tables.option_first[index(last)]):
        if tables.option_pool[index(option)] == pool:
            return option
    return UNUSABLE


@part
def end_ahead(tables: Tables, state: MixedState, request_class: int, slot: int) -> int:
    """Free in `ahead` what the running job holds of cells that the class can use; return the parts that gain room."""
    pieces = state.pieces
    gained = 0
    piece = state.slots.pieces[index(slot)]
    while piece != NO_PIECE:
        cell = pieces.cell[index(piece)]
        option = option_in(tables, request_class, cell)
        if option != UNUSABLE:
            gained -= parts_in(state.ahead, tables, option, cell)
            change_cell(state.ahead, tables, pieces.option[index(piece)], cell, pieces.units[index(piece)])
            gained += parts_in(state.ahead, tables, option, cell)
        piece = pieces.following[index(piece)]
    return gained


@part
def restore_ahead(state: MixedState, group: int, ended: int) -> None:
    """Set `ahead` to what is free now, after the first `ended` expected ends of the group were taken."""
    here = state.groups[group]
    for rank in range(here.first, here.first + ended):
        piece = state.slots.pieces[index(state.expected[index(rank)])]
        while piece != NO_PIECE:
            copy_cell(state.ahead, state.free, state.pieces.cell[index(piece)])
            piece = state.pieces.following[index(piece)]


@part
def apply_holds(state: MixedState, group: int, from_s: int, until_s: int) -> None:
    """Leave in `ahead`, which is the state at `from_s`, what the reservations leave to a job that runs until then."""
    here = state.groups[group]
    holds = state.holds
    ahead = state.ahead
    rows = range(here.first_hold, here.first_hold + here.holds)
    for hold in rows:
        for column in range(len(ahead)):
            holds.saved[index(hold), index(column)] = ahead[index(column), index(holds.cell[index(hold)])]
    for hold in rows:
        reservation = index(holds.reservation[index(hold)])
        if holds.start_s[reservation] <= from_s < holds.end_s[reservation]:
            for column in range(len(ahead)):
                ahead[index(column), index(holds.cell[index(hold)])] -= holds.take[index(hold), index(column)]
    for hold in rows:
        cell = index(holds.cell[index(hold)])
        if from_s < holds.start_s[index(holds.reservation[index(hold)])] < until_s:
            for column in range(len(ahead)):
                least = min(ahead[index(column), cell], holds.spare[index(hold), index(column)])
                ahead[index(column), cell] = least


@part
def undo_holds(state: MixedState, group: int) -> None:
    """Take back what `apply_holds` has done."""
    here = state.groups[group]
    for hold in range(here.first_hold, here.first_hold + here.holds):
        for column in range(len(state.ahead)):
            cell = index(state.holds.cell[index(hold)])
            state.ahead[index(column), cell] = state.holds.saved[index(hold), index(column)]


@part
def place_ahead(tables: Tables, state: MixedState, group: int, request_class: int, from_s: int, until_s: int) -> int:
    """Find a place for a job from `from_s`, of which `ahead` is the state; return its cells, 0 if there is none."""
    now = state.scalars[0]
    apply_holds(state, group, from_s, until_s)
    now.searches += 1
    found = find_place(state.ahead, tables, state.picks, request_class, now.searches)
    if nodes_sleep(state):
        prefer_awake(state.ahead, tables, state, found)
    put_back(state.ahead, tables, state.picks, found)
    undo_holds(state, group)
    return int(found)


@part
def hold_cells(
    tables: Tables, state: MixedState, rules: MixedRules, group: int, span_s: tuple[int, int], found: int
) -> None:
    """Make the reservation of the cells that were picked; `ahead` is the state at its start beside no reservation."""
    here = state.groups[group]
    holds = state.holds
    picks = state.picks
    start_s, end_s = span_s
    own = first_reservation(rules, group) + here.reserved
    holds.start_s[index(own)] = start_s
    holds.end_s[index(own)] = end_s
    before = int(here.first_hold + here.holds)
    for pick in range(found):
        row = index(before + pick)
        cell = index(picks.cell[index(pick)])
        holds.cell[row] = cell
        holds.reservation[row] = own
        holds.cell_holds[cell] += 1
        for column in range(len(state.free)):
            need = tables.need[index(picks.option[index(pick)]), index(column)]
            holds.take[row, index(column)] = picks.units[index(pick)] * need
            holds.spare[row, index(column)] = state.ahead[index(column), cell]
    here.holds += found
    here.reserved += 1
    here.late_of = NOT_YET
    for new in range(before, before + found):
        for other in range(here.first_hold, before + found):
            if holds.cell[index(other)] != holds.cell[index(new)]:
                continue
            reservation = index(holds.reservation[index(other)])
            for column in range(len(state.free)):
                if holds.start_s[reservation] <= start_s < holds.end_s[reservation]:
                    holds.spare[index(new), index(column)] -= holds.take[index(other), index(column)]
                if other < before and start_s <= holds.start_s[reservation] < end_s:
                    holds.spare[index(other), index(column)] -= holds.take[index(new), index(column)]


@part
def next_change_s(state: MixedState, rules: MixedRules, group: int, ended: int, at_s: int) -> int:
    """Return when, after `at_s`, the next running job is expected to end or a reservation ends; NEVER if none does."""
    here = state.groups[group]
    found = NEVER
    if ended < here.listed:
        found = state.slots.expected_end_s[index(state.expected[index(here.first + ended)])]
    first = first_reservation(rules, group)
    for reservation in range(first, first + here.reserved):
        end_s = state.holds.end_s[index(reservation)]
        if end_s > at_s:
            found = min(found, end_s)
    return int(found)


@part
def last_end_s(state: MixedState, group: int, ended: int, at_s: int, until_s: int) -> int:
    """Return the last expected end from `at_s` to `until_s`, `at_s` if there is none."""
    here = state.groups[group]
    for rank in range(here.first + ended, here.first + here.listed):
        end_s = state.slots.expected_end_s[index(state.expected[index(rank)])]
        if end_s > until_s:
            break
        at_s = max(at_s, end_s)
    return int(at_s)


@in_place
def reserve(tables: Tables, state: MixedState, rules: MixedRules, position: int) -> bool:
    """Reserve the earliest start of the blocked job at `position`; return whether that was possible."""
    here_class = state.waiting.request_class[index(position)]
    group = tables.class_group[index(here_class)]
    here = state.groups[group]
    hold_s = max(1, state.waiting.hold_s[index(position)])
    chunk = tables.chunk_first[index(here_class)]
    copies = tables.copies[index(chunk)]
    is_single = tables.chunk_first[index(here_class + 1)] == chunk + 1
    if nodes_sleep(state):
        lend_returning(tables, state, group)
    room = parts_free(state.ahead, tables, chunk, NEVER) if is_single else 0
    at_s = int(state.scalars[0].now_s)
    window_s = rules.end_window_s
    barrier_s = NOT_YET
    ended = 0
    found = 0
    while True:
        while ended < here.listed:
            slot = int(state.expected[index(here.first + ended)])
            if state.slots.expected_end_s[index(slot)] > at_s:
                break
            room += end_ahead(tables, state, here_class, slot)
            ended += 1
        if room >= copies or not is_single:
            found = place_ahead(tables, state, group, here_class, at_s, at_s + hold_s)
            if found > 0:
                break
        at_s = next_change_s(state, rules, group, ended, at_s)
        if at_s == NEVER:
            break
        if window_s > 0:
            if barrier_s == NOT_YET:
                barrier_s = at_s + window_s - at_s % window_s
            while barrier_s + window_s < at_s:
                window_s = window_s + rules.end_window_step_s if rules.end_window_step_s > 0 else 2 * window_s
            at_s = last_end_s(state, group, ended, at_s, barrier_s + window_s)
    can_hold = found > 0 and here.first_hold + here.holds + found <= here.behind_holds
    if can_hold:
        hold_cells(tables, state, rules, group, (at_s, at_s + hold_s), found)
    restore_ahead(state, group, ended)
    if nodes_sleep(state):
        take_back_returning(tables, state, group)
    return can_hold
