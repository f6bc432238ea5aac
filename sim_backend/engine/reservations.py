"""Reservations: the start of a blocked job by the expected ends of running jobs, and what others must leave to it.

A reservation holds the cells that the job would take at its start. A job that ends before that is free in its choice; a
longer one takes only what is left in these cells beside the reservation. With several reservations each is found
beside those that were made before it, for as long as its job is expected to run. A job that runs for longer than
expected counts as ending now.
"""

from offpeak.compiled import apart, index, part
from offpeak.sim_backend.engine.allocation import NO_PIECE
from offpeak.sim_backend.engine.cells import (
    change_cell,
    copy_cell,
    find_place,
    leave_spare,
    parts_free,
    parts_in,
    put_back,
)
from offpeak.sim_backend.engine.planned_wakes import PLAN_S, reserve_in_plan
from offpeak.sim_backend.engine.pool_jobs import lend_returning, prefer_awake, take_back_returning
from offpeak.sim_backend.engine.preemption import make_room
from offpeak.sim_backend.engine.queue import limits_beside, longest_before_s
from offpeak.sim_backend.engine.rules import NEVER, NOT_YET, EngineRules
from offpeak.sim_backend.engine.running import give_up, place_of, refuse, run_job
from offpeak.sim_backend.engine.state import CAN_STOP, CORES, COUNTS, RANKS_SEVERAL, SLOTS, State, Tables, Workload

UNUSABLE = -1


@part
def first_reservation(rules: EngineRules, group: int) -> int:
    """Return the number of the group's first reservation."""
    return group * max(1, rules.reservations)


@part
def drop_reservations(state: State, group: int) -> None:
    """Give up the reservations of the group."""
    here = state.groups[group]
    for hold in range(here.first_hold, here.first_hold + here.holds):
        cell = state.holds.cell[index(hold)]
        state.holds.cell_holds[index(cell)] = 0
        copy_cell(state.late, state.free, cell)
    here.holds = 0
    here.reserved = 0
    here.late_of = 0
    here.is_moved = 0
    here.changes += 1


@part
def first_start_s(state: State, rules: EngineRules, group: int) -> int:
    """Return when the earliest reservation of the group starts, NEVER if it has none."""
    first = first_reservation(rules, group)
    found = NEVER
    for reservation in range(first, first + state.groups[group].reserved):
        found = min(found, state.holds.start_s[index(reservation)])
    return int(found)


@part
def reach_s(rules: EngineRules, until_s: int) -> int:
    """Return before which second reservations start that count for a job until `until_s`.

    slurmctld rounds their starts down to its resolution, and a job must end before the start.
    """
    step_s = rules.bf_resolution_s
    return until_s - until_s % step_s + step_s if step_s > 0 else until_s


@part
def open_late(state: State, rules: EngineRules, group: int, until_s: int) -> int:
    """Let `late` be what is left to a job with that reach; return the latest start before it, else NOT_YET."""
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
def use_held_cell(tables: Tables, state: State, group: int, pick: int, until_s: int) -> None:
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


@part
def was_refused(tables: Tables, state: State, request_class: int, latest_s: int) -> bool:
    """Tell whether a job of a class that ranks nodes for several chunks was refused what is free to it now."""
    refused = state.waiting.last_refusal[index(request_class)]
    changes = state.groups[tables.class_group[index(request_class)]].changes
    return bool(refused[0] == changes and refused[1] == latest_s)


@part
def start_counted(tables: Tables, workload: Workload, state: State, rules: EngineRules, position: int) -> bool:
    """Start the waiting job at `position`, which delays no reservation, if it fits now; return whether it started."""
    here = state.groups[0]
    own_class = state.waiting.request_class[index(position)]
    units = tables.units[index(own_class)]
    if units > state.free[SLOTS, 0]:
        give_up(tables, state, own_class)
        return False
    if here.reserved > 0 and state.waiting.hold_s[index(position)] > limits_beside(state, rules).longest_s:
        here.extra -= units
    run_job(tables, workload, state, rules, position, units)
    return True


@part
def reserve_counted(tables: Tables, state: State, position: int) -> None:
    """Do as `reserve` does, where nodes are only counted."""
    here = state.groups[0]
    slots = state.slots
    units = tables.units[index(state.waiting.request_class[index(position)])]
    available = state.free[SLOTS, 0]
    start_s = state.scalars[0].now_s
    if state.sleeping is not None:
        if state.sleeping.policies.rules[0, PLAN_S] > 0:
            reserve_in_plan(state, state.sleeping, units)
            return
        available += state.sleeping.machine[0].returning
    for rank in range(here.listed):
        slot = index(state.expected[index(rank)])
        if available >= units and slots.expected_end_s[slot] > start_s:
            break
        available += slots.pieces[slot]
        start_s = max(start_s, slots.expected_end_s[slot])
    here.extra = available - units
    here.reserved = 1
    here.changes += 1
    state.holds.start_s[0] = start_s


@apart
def try_start(tables: Tables, workload: Workload, state: State, rules: EngineRules, position: int) -> bool:
    """Start the waiting job at `position` if it fits now and delays no reservation; return whether it started."""
    if tables.need is None:
        return start_counted(tables, workload, state, rules, position)
    now = state.scalars[0]
    waiting = state.waiting
    picks = state.picks
    own_class = waiting.request_class[index(position)]
    group = tables.class_group[index(own_class)]
    until_s = now.now_s + waiting.hold_s[index(position)]
    latest_s = open_late(state, rules, group, reach_s(rules, until_s))
    is_late = latest_s != NOT_YET
    if was_refused(tables, state, own_class, latest_s):
        return False
    found = 0
    if not (is_late and (rules.ends_before or state.groups[group].holds == 0)):
        now.searches += 1
        found = find_place(state.late if is_late else state.free, tables, picks, own_class, now.searches)
        if found == 0 and workload.preemption.terms[index(own_class), CAN_STOP]:
            found = make_room(state.late if is_late else state.free, tables, workload, state, own_class)
            is_late = is_late and found == 0
    if found == 0:
        if tables.ranking[index(own_class)] == RANKS_SEVERAL:
            waiting.last_refusal[index(own_class), 0] = state.groups[group].changes
            waiting.last_refusal[index(own_class), 1] = latest_s
        elif is_late:
            refuse(tables, state, own_class, longest_before_s(rules, latest_s) - now.now_s)
        else:
            give_up(tables, state, own_class)
        return False
    if state.sleeping is not None:
        prefer_awake(state.late if is_late else state.free, tables, picks, state.sleeping, found)
    for pick in range(found):
        cell = picks.cell[index(pick)]
        if is_late:
            change_cell(state.free, tables, picks.option[index(pick)], cell, -picks.units[index(pick)])
        copy_cell(state.ahead, state.free, cell)
    here = state.groups[group]
    if here.reserved > 0 and (is_late or here.ranking_several > 0):
        here.is_moved = 1
    until_s += run_job(tables, workload, state, rules, position, found) - now.now_s
    for pick in range(found):
        cell = picks.cell[index(pick)]
        copy_cell(state.late, state.free, cell)
        if state.holds.cell_holds[index(cell)] > 0:
            use_held_cell(tables, state, group, pick, reach_s(rules, until_s))
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
def end_ahead(tables: Tables, state: State, request_class: int, slot: int) -> int:
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
def restore_ahead(state: State, group: int, ended: int) -> None:
    """Set `ahead` to what is free now, after the first `ended` expected ends of the group were taken."""
    here = state.groups[group]
    for rank in range(here.first, here.first + ended):
        piece = state.slots.pieces[index(state.expected[index(rank)])]
        while piece != NO_PIECE:
            copy_cell(state.ahead, state.free, state.pieces.cell[index(piece)])
            piece = state.pieces.following[index(piece)]


@part
def apply_holds(state: State, group: int, from_s: int, until_s: int) -> None:
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
                cell = index(holds.cell[index(hold)])
                ahead[index(column), cell] = max(0, ahead[index(column), cell] - holds.take[index(hold), index(column)])
    for hold in rows:
        cell = index(holds.cell[index(hold)])
        if from_s < holds.start_s[index(holds.reservation[index(hold)])] < until_s:
            for column in range(len(ahead)):
                least = min(ahead[index(column), cell], holds.spare[index(hold), index(column)])
                ahead[index(column), cell] = max(0, least)


@part
def undo_holds(state: State, group: int) -> None:
    """Take back what `apply_holds` has done."""
    here = state.groups[group]
    for hold in range(here.first_hold, here.first_hold + here.holds):
        for column in range(len(state.ahead)):
            cell = index(state.holds.cell[index(hold)])
            state.ahead[index(column), cell] = state.holds.saved[index(hold), index(column)]


@part
def place_ahead(
    tables: Tables, state: State, rules: EngineRules, group: int, request_class: int, span_s: tuple[int, int]
) -> int:
    """Find a place for a job at its start, of which `ahead` is the state; return its cells, 0 if there is none."""
    now = state.scalars[0]
    from_s, until_s = span_s
    apply_holds(state, group, from_s, reach_s(rules, until_s))
    now.searches += 1
    found = find_place(state.ahead, tables, state.picks, request_class, now.searches)
    if state.sleeping is not None:
        prefer_awake(state.ahead, tables, state.picks, state.sleeping, found)
    put_back(state.ahead, tables, state.picks, found)
    undo_holds(state, group)
    return int(found)


@part
def kept(tables: Tables, state: State, rules: EngineRules, pick: int, column: int) -> int:
    """Return how much of a column a reservation keeps in a picked cell: with a resolution all of a shared node."""
    picks = state.picks
    cell = index(picks.cell[index(pick)])
    if rules.bf_resolution_s > 0 and tables.window_column[cell] == CORES:
        return int(tables.capacity[index(column), cell])
    return int(picks.units[index(pick)] * tables.need[index(picks.option[index(pick)]), index(column)])


@part
def hold_cells(
    tables: Tables, state: State, rules: EngineRules, group: int, span_s: tuple[int, int], found: int
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
            holds.take[row, index(column)] = kept(tables, state, rules, pick, column)
            holds.spare[row, index(column)] = state.ahead[index(column), cell]
    here.holds += found
    here.reserved += 1
    here.changes += 1
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
def overlaps(tables: Tables, state: State, request_class: int, slot: int) -> bool:
    """Tell whether the running job holds a cell that the class can use."""
    piece = state.slots.pieces[index(slot)]
    while piece != NO_PIECE:
        if option_in(tables, request_class, state.pieces.cell[index(piece)]) != UNUSABLE:
            return True
        piece = state.pieces.following[index(piece)]
    return False


@part
def next_change_s(tables: Tables, state: State, rules: EngineRules, request_class: int, span: tuple[int, int]) -> int:
    """Return when, after a second, the next running job is expected to end or a reservation ends; NEVER if none does.

    `span` is the number of the group's expected ends that were taken, and that second. Where ends within a window are
    taken together, only jobs on nodes that the class can use count.
    """
    ended, at_s = span
    group = tables.class_group[index(request_class)]
    here = state.groups[group]
    found = NEVER
    for rank in range(here.first + ended, here.first + here.listed):
        slot = int(state.expected[index(rank)])
        if rules.end_window_s == 0 or overlaps(tables, state, request_class, slot):
            found = state.slots.expected_end_s[index(slot)]
            break
    first = first_reservation(rules, group)
    for reservation in range(first, first + here.reserved):
        end_s = state.holds.end_s[index(reservation)]
        if end_s > at_s:
            found = min(found, end_s)
    return int(found)


@part
def rank_behind(state: State, group: int, at_s: int) -> int:
    """Return the rank behind the group's running jobs that are expected to end by then."""
    here = state.groups[group]
    return int(place_of(state.slots.expected_end_s, state.expected, here.first, here.listed, at_s))


@part
def next_end_s(state: State, at_s: int) -> int:
    """Return the first expected end of all groups after that second, NEVER if there is none."""
    found = NEVER
    for group in range(len(state.groups)):
        rank = rank_behind(state, group, at_s)
        if rank < state.groups[group].first + state.groups[group].listed:
            found = min(found, state.slots.expected_end_s[index(state.expected[index(rank)])])
    return int(found)


@part
def last_end_s(tables: Tables, state: State, request_class: int, span_s: tuple[int, int], ended: int) -> int:
    """Return the last of the expected ends that slurmctld takes together, from one second to the end of its window.

    Jobs on other nodes than those of the class are passed over. Where the next job to end is such a job, and ends
    within the window, the next one on the nodes of the class counts too, however late it ends.
    """
    at_s, until_s = span_s
    own = tables.class_group[index(request_class)]
    elsewhere_s = NOT_YET
    for group in range(len(state.groups)):
        rank = rank_behind(state, group, until_s) - 1
        if group != own and rank >= state.groups[group].first:
            elsewhere_s = max(elsewhere_s, state.slots.expected_end_s[index(state.expected[index(rank)])])
    here = state.groups[own]
    for rank in range(here.first + ended, here.first + here.listed):
        slot = int(state.expected[index(rank)])
        end_s = state.slots.expected_end_s[index(slot)]
        if end_s > until_s and elsewhere_s <= at_s:
            break
        if not overlaps(tables, state, request_class, slot):
            if end_s <= until_s:
                elsewhere_s = max(elsewhere_s, end_s)
            continue
        at_s = max(at_s, end_s)
        if end_s > until_s:
            break
    return int(at_s)


@apart
def find_start(tables: Tables, state: State, rules: EngineRules, position: int) -> tuple[int, int, int]:
    """Find the earliest start of the blocked job at `position`: its second, the cells picked, 0 if there is none.

    The third number says how many expected ends `ahead` has taken; `end_search` takes them back.
    """
    here_class = state.waiting.request_class[index(position)]
    group = tables.class_group[index(here_class)]
    here = state.groups[group]
    hold_s = max(1, state.waiting.hold_s[index(position)])
    chunk = tables.chunk_first[index(here_class)]
    copies = tables.copies[index(chunk)]
    is_single = tables.chunk_first[index(here_class + 1)] == chunk + 1
    if state.sleeping is not None:
        lend_returning(tables, state, state.sleeping, group)
    room = parts_free(state.ahead, tables, chunk, NEVER) if is_single else 0
    at_s = int(state.scalars[0].now_s)
    window_s = rules.end_window_s
    barrier_s = NOT_YET
    ended = 0
    while True:
        while ended < here.listed:
            slot = int(state.expected[index(here.first + ended)])
            if state.slots.expected_end_s[index(slot)] > at_s:
                break
            room += end_ahead(tables, state, here_class, slot)
            ended += 1
        if room >= copies or not is_single:
            found = place_ahead(tables, state, rules, group, here_class, (at_s, at_s + hold_s))
            if found > 0:
                return at_s, found, ended
        before_s = at_s
        at_s = next_change_s(tables, state, rules, here_class, (ended, at_s))
        if at_s == NEVER:
            return at_s, 0, ended
        if window_s > 0:
            if barrier_s == NOT_YET:
                barrier_s = at_s + window_s - at_s % window_s
            next_s = min(at_s, next_end_s(state, before_s))
            while barrier_s + window_s < next_s:
                window_s = window_s + rules.end_window_step_s if rules.end_window_step_s > 0 else 2 * window_s
            if at_s <= barrier_s + window_s:
                at_s = last_end_s(tables, state, here_class, (at_s, barrier_s + window_s), ended)


@part
def end_search(tables: Tables, state: State, group: int, ended: int) -> None:
    """Set `ahead` to what is free now, after the first `ended` expected ends of the group were taken."""
    restore_ahead(state, group, ended)
    if state.sleeping is not None:
        take_back_returning(tables, state, group)


@apart
def reserve(tables: Tables, state: State, rules: EngineRules, position: int) -> bool:
    """Reserve the earliest start of the blocked job at `position`; return whether that was possible."""
    if tables.need is None:
        reserve_counted(tables, state, position)
        return True
    group = tables.class_group[index(state.waiting.request_class[index(position)])]
    here = state.groups[group]
    hold_s = max(1, state.waiting.hold_s[index(position)])
    at_s, found, ended = find_start(tables, state, rules, position)
    can_hold = found > 0 and here.first_hold + here.holds + found <= here.behind_holds
    if can_hold:
        until_s = at_s + hold_s
        if rules.bf_resolution_s > 0:
            until_s += -until_s % rules.bf_resolution_s
        hold_cells(tables, state, rules, group, (at_s, until_s), found)
    end_search(tables, state, group, ended)
    return can_hold


@part
def reserve_no_place(state: State, rules: EngineRules, group: int) -> bool:
    """Reserve the last expected end without cells for a job that lacks nodes which its pools keep asleep.

    As with equal nodes, only jobs that end by then may pass it. Return False where nodes do not sleep.
    """
    if state.sleeping is None:
        return False
    here = state.groups[group]
    start_s = state.scalars[0].now_s
    if here.listed > 0:
        last = state.expected[index(here.first + here.listed - 1)]
        start_s = max(start_s, state.slots.expected_end_s[index(last)])
    own = index(first_reservation(rules, group))
    state.holds.start_s[own] = start_s
    state.holds.end_s[own] = NEVER
    here.reserved = 1
    here.changes += 1
    here.late_of = NOT_YET
    return True


@part
def holds_picks(tables: Tables, state: State, rules: EngineRules, group: int, found: int) -> bool:
    """Tell whether the group's holds are on the cells that were picked, and as large."""
    here = state.groups[group]
    holds = state.holds
    picks = state.picks
    if found != here.holds:
        return False
    for pick in range(found):
        cell = picks.cell[index(pick)]
        for column in range(len(state.free)):
            more = 0
            for row in range(found):
                hold = index(here.first_hold + row)
                if holds.cell[hold] == cell:
                    more += holds.take[hold, index(column)]
                if picks.cell[index(row)] == cell:
                    more -= kept(tables, state, rules, row, column)
            if more != 0:
                return False
    return True


@apart
def is_found_again(tables: Tables, state: State, rules: EngineRules, group: int) -> bool:
    """Tell whether another search for the start of the blocked job finds what the only reservation holds."""
    here = state.groups[group]
    holds = here.holds
    here.holds = 0
    here.reserved = 0
    at_s, found, ended = find_start(tables, state, rules, here.blocked)
    end_search(tables, state, group, ended)
    here.holds = holds
    here.reserved = 1
    is_same = at_s == state.holds.start_s[index(first_reservation(rules, group))]
    return bool(is_same and holds_picks(tables, state, rules, group, found))


@part
def keeps_reservation(tables: Tables, state: State, rules: EngineRules, group: int) -> bool:
    """Tell whether the reservation of the blocked job is the one that a pass would make now.

    Jobs that have started since may let the job take other shared nodes, and move the windows of expected ends.
    """
    if tables.need is None:
        return True
    here = state.groups[group]
    if here.reserved == 0:
        return True
    if here.is_moved and here.ranking_several > 0:
        return False
    own_class = state.waiting.request_class[index(here.blocked)]
    is_moved = here.is_moved and tables.ranking[index(own_class)] != COUNTS
    if (is_moved or rules.end_window_s > 0) and not is_found_again(tables, state, rules, group):
        return False
    here.is_moved = 0
    return True
