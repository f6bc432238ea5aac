"""Finds a place for a request: pools in the order of their surplus, shared nodes by best fit.

A chunk fills the pools that it can use in a fixed order: first the pool whose nodes leave the least beside a part of
it, so that a small job takes no node with GPUs or much memory while others are free. On shared nodes it takes the node
with the fewest free cores that has room, of several the first. Parts that must be apart take each another node.
"""

import numpy as np

from offpeak.compiled import apart, in_place, index, part
from offpeak.model.arrays import Int64
from offpeak.sim_backend.engine.rules import NEVER
from offpeak.sim_backend.engine.state import CORES, GPUS, MEMORY, SLOTS, Picks, State, Tables, most_cells

NOWHERE = -1


@part
def units_in(matrix: Int64, need: Int64, option: int, cell: int) -> int:
    """Return how many units of the option the cell has room for."""
    found = NEVER
    for column in range(len(matrix)):
        least = need[index(option), index(column)]
        if least == 1:
            found = min(found, matrix[index(column), index(cell)])
        elif least > 0:
            found = min(found, matrix[index(column), index(cell)] // least)
    return found


@part
def has_room(matrix: Int64, need: Int64, option: int, cell: int) -> bool:
    """Tell whether the cell has room for a unit of the option."""
    for column in range(len(matrix)):
        if matrix[index(column), index(cell)] < need[index(option), index(column)]:
            return False
    return True


@part
def change_cell(matrix: Int64, tables: Tables, option: int, cell: int, units: int) -> None:
    """Add the resources of `units` of the option to the cell, or take them where `units` is negative."""
    for column in range(len(matrix)):
        matrix[index(column), index(cell)] += units * tables.need[index(option), index(column)]


@part
def copy_cell(target: Int64, source: Int64, cell: int) -> None:
    """Set the cell's resources in one matrix to those in another."""
    for column in range(len(source)):
        target[index(column), index(cell)] = source[index(column), index(cell)]


@part
def leave_spare(state: State, hold: int) -> None:
    """Leave in `late` no more of the hold's cell than the hold spares."""
    cell = state.holds.cell[index(hold)]
    for column in range(len(state.late)):
        least = min(state.late[index(column), index(cell)], state.holds.spare[index(hold), index(column)])
        state.late[index(column), index(cell)] = max(0, least)


@apart
def first_cell(matrix: Int64, tables: Tables, picks: Picks, option: int, search: int) -> int:
    """Return the option's first cell with room that this search has not taken, or NOWHERE."""
    pool = tables.option_pool[index(option)]
    for cell in range(tables.cell_first[index(pool)], tables.cell_first[index(pool + 1)]):
        if has_room(matrix, tables.need, option, cell) and picks.taken[index(cell)] != search:
            return cell
    return NOWHERE


@apart
def fullest_cell(matrix: Int64, tables: Tables, picks: Picks, option: int, search: int) -> int:
    """Return the option's cell with the fewest free cores that has room and is not taken, or NOWHERE."""
    pool = tables.option_pool[index(option)]
    need = tables.need[index(option)]
    cores_needed = need[CORES]
    memory_needed = need[MEMORY]
    gpus_needed = need[GPUS]
    slots, cores, memory, gpus = matrix[SLOTS], matrix[CORES], matrix[MEMORY], matrix[GPUS]
    found = NOWHERE
    fewest = NEVER
    for cell in range(tables.cell_first[index(pool)], tables.cell_first[index(pool + 1)]):
        at = index(cell)
        free = cores[at]
        if (
            cores_needed <= free < fewest
            and memory[at] >= memory_needed
            and gpus[at] >= gpus_needed
            and slots[at] > 0
            and (len(matrix) == GPUS + 1 or has_room(matrix, tables.need, option, cell))
            and picks.taken[at] != search
        ):
            found = cell
            fewest = free
    return found


@part
def next_cell(matrix: Int64, tables: Tables, picks: Picks, option: int, search: int) -> int:
    """Return the cell that the option uses next, or NOWHERE."""
    if tables.is_ranked[index(option)] == 0:
        return first_cell(matrix, tables, picks, option, search)
    return fullest_cell(matrix, tables, picks, option, search)


@part
def put_back(matrix: Int64, tables: Tables, picks: Picks, found: int) -> None:
    """Give back the resources of the first `found` picks."""
    for pick in range(found):
        at = index(pick)
        change_cell(matrix, tables, picks.option[at], picks.cell[at], picks.units[at])


@apart
def parts_free(matrix: Int64, tables: Tables, chunk: int, enough: int) -> int:
    """Return how many parts of the chunk, alone in these cells, have room; counting stops at `enough`."""
    found = 0
    for option in range(tables.option_first[index(chunk)], tables.option_first[index(chunk + 1)]):
        pool = tables.option_pool[index(option)]
        for cell in range(tables.cell_first[index(pool)], tables.cell_first[index(pool + 1)]):
            if found >= enough:
                return found
            found += parts_in(matrix, tables, option, cell)
    return found


@part
def parts_in(matrix: Int64, tables: Tables, option: int, cell: int) -> int:
    """Return how many parts of the option's chunk the cell has room for."""
    most = tables.most[index(option)]
    if most == 1:
        return int(tables.room[index(option)] * has_room(matrix, tables.need, option, cell))
    return int(tables.room[index(option)] * min(most, units_in(matrix, tables.need, option, cell)))


@apart
def find_place(matrix: Int64, tables: Tables, picks: Picks, request_class: int, search: int) -> int:
    """Take the resources of a job of the class; return how many cells it takes, 0 if it does not fit.

    `search` is another positive number each time. The picks say what was taken where; nothing is if it does not fit.
    """
    found = 0
    for chunk in range(tables.chunk_first[index(request_class)], tables.chunk_first[index(request_class + 1)]):
        missing = tables.copies[index(chunk)]
        if missing > 1 and parts_free(matrix, tables, chunk, missing) < missing:
            put_back(matrix, tables, picks, found)
            return 0
        for option in range(tables.option_first[index(chunk)], tables.option_first[index(chunk + 1)]):
            room = tables.room[index(option)]
            most = tables.most[index(option)]
            while missing > 0:
                cell = next_cell(matrix, tables, picks, option, search)
                if cell == NOWHERE:
                    break
                units = min(most, -(-missing // room))
                if units > 1:
                    units = min(units, units_in(matrix, tables.need, option, cell))
                at = index(found)
                picks.cell[at] = cell
                picks.option[at] = option
                picks.units[at] = units
                found += 1
                change_cell(matrix, tables, option, cell, -units)
                missing -= units * room
                if most == 1:
                    picks.taken[index(cell)] = search
        if missing > 0:
            put_back(matrix, tables, picks, found)
            return 0
    return found


@in_place
def find_alone(matrix: Int64, tables: Tables, picks: Picks) -> int:
    """Take the resources of a job of the first class; return how many cells it takes, 0 if it does not fit."""
    return find_place(matrix, tables, picks, 0, 1)


def new_picks(tables: Tables) -> Picks:
    """Return room for the place of one job, before the first search."""
    widest, cells = int(most_cells(tables).max(initial=0)), len(tables.cell_pool)
    return Picks(
        cell=np.empty(widest, dtype=np.int64),
        option=np.empty(widest, dtype=np.int64),
        units=np.empty(widest, dtype=np.int64),
        taken=np.zeros(cells, dtype=np.int64),
    )


def fits_empty(tables: Tables) -> bool:
    """Tell whether a job of the first class finds a place in the empty cluster."""
    return bool(find_alone(tables.capacity.copy(), tables, new_picks(tables)))
