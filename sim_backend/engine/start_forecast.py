"""Forecasts when one more job would start behind all jobs that run and wait now, for many sizes of that job at once.

Until it starts, such a job holds nothing and comes last in every pass, so it does not affect the others: one run of the
engine suffices for any number of jobs, each considered alone. Running jobs begin in the cells where they are.

The run stops at the ends of jobs. Stops are closer together at first: the time between two of them is at least a small
share of the time since the beginning, so that a long queue needs no more than a few hundred.
"""

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import by_reference, in_place, index, part
from offpeak.model.arrays import Int64
from offpeak.sim_backend.engine.advance import advance
from offpeak.sim_backend.engine.case import EngineCase
from offpeak.sim_backend.engine.cells import change_cell, copy_cell, has_room, new_picks
from offpeak.sim_backend.engine.limits import is_limited
from offpeak.sim_backend.engine.queue import is_hole, submit_next
from offpeak.sim_backend.engine.reservations import open_late, reserve
from offpeak.sim_backend.engine.rules import NEVER, NO_PEAKS, NOT_YET, PAUSED, EngineRules
from offpeak.sim_backend.engine.running import run_job
from offpeak.sim_backend.engine.state import ALL_SLOTS, CORES, SLOTS, State, Tables, Workload, new_state

STEP_SHARE = 0.02
"""A start that is forecast for an hour ahead may be this share of an hour late."""
HORIZON_S = 28 * 86_400
"""A job that does not start before counts as starting then."""
PATIENCE_S = 20.0
"""After this time of computing, starts that are not found yet are not known."""


@by_reference
class RunningPlaces(NamedTuple):
    """Where the first jobs of a case run: job j has `units[i]` units of its only option in `cell[i]`.

    The rows of job j are from `first[j]` to `first[j + 1]`. Their cells have room for them.
    """

    first: Int64
    cell: Int64
    units: Int64


@by_reference
class JobSizes(NamedTuple):
    """The sizes of which starts are forecast.

    Size s is `need[s]`, the resources by column on each of several nodes of pool `pool[s]`; `nodes` are the numbers of
    nodes, ranges of which `first` delimits. A job holds its nodes for `hold_s`, ascending. `cores` are sizes in cores
    anywhere on the cluster, ascending; a unit of cell c has `cell_cores[c]` cores.
    """

    pool: Int64
    need: Int64
    first: Int64
    nodes: Int64
    hold_s: Int64
    cores: Int64
    cell_cores: Int64


@by_reference
class JobStarts(NamedTuple):
    """When jobs would start [s], NOT_YET if not known: by row of `JobSizes.nodes` and hold, by size in cores and hold.

    `is_late` has room to note by pool whether a job would outlast the start of a reservation there. `of_jobs` are the
    starts of the jobs of the case.
    """

    of_nodes: Int64
    of_cores: Int64
    is_late: Int64
    of_jobs: Int64


@in_place
def place_running(tables: Tables, workload: Workload, state: State, rules: EngineRules, places: RunningPlaces) -> None:
    """Let the first jobs of the workload run in their cells."""
    picks = state.picks
    for job in range(len(places.first) - 1):
        submit_next(tables, workload, state, rules)
        own_class = workload.request_class[index(job)]
        option = tables.option_first[index(tables.chunk_first[index(own_class)])]
        found = 0
        for row in range(places.first[index(job)], places.first[index(job + 1)]):
            cell = places.cell[index(row)]
            picks.cell[index(found)] = cell
            picks.option[index(found)] = option
            picks.units[index(found)] = places.units[index(row)]
            change_cell(state.free, tables, option, cell, -places.units[index(row)])
            copy_cell(state.late, state.free, cell)
            copy_cell(state.ahead, state.free, cell)
            found += 1
        run_job(tables, workload, state, rules, state.groups[tables.class_group[index(own_class)]].tail - 1, found)


@part
def reserve_next(tables: Tables, workload: Workload, state: State, rules: EngineRules, group: int) -> None:
    """Reserve the start of the first job of the group that waits for nodes, if that of no job is reserved."""
    here = state.groups[group]
    if here.reserved > 0 or here.waiting == 0:
        return
    for position in range(here.head, here.tail):
        if not is_hole(tables, state, position) and not is_limited(
            workload.limits, state.limit_used, state.waiting.job[index(position)]
        ):
            reserve(tables, state, rules, position)
            return


@part
def is_counted(tables: Tables, pool: int) -> bool:
    """Tell whether the nodes of the pool are only counted: no jobs share them."""
    return bool(tables.capacity[SLOTS, index(tables.cell_first[index(pool)])] != ALL_SLOTS)


@part
def room_in(matrix: Int64, tables: Tables, sizes: JobSizes, size: int) -> int:
    """Return on how many nodes of its pool the size has room."""
    found = 0
    pool = sizes.pool[index(size)]
    largest = sizes.nodes[index(sizes.first[index(size + 1)] - 1)]
    for cell in range(tables.cell_first[index(pool)], tables.cell_first[index(pool + 1)]):
        if not has_room(matrix, sizes.need, size, cell):
            continue
        # A counted cell has a slot for each free node; of a shared node one part counts.
        found += matrix[SLOTS, index(cell)] if is_counted(tables, pool) else 1
        if found >= largest:
            return int(largest)
    return int(found)


@in_place
def note_starts(
    tables: Tables, workload: Workload, state: State, rules: EngineRules, sizes: JobSizes, starts: JobStarts
) -> int:
    """Note the present second for each job that could start now and could not before; return how many are left."""
    now = state.scalars[0]
    left = 0
    for group in range(len(state.groups)):
        reserve_next(tables, workload, state, rules, group)
    for hold in range(len(sizes.hold_s)):
        until_s = now.now_s + sizes.hold_s[index(hold)]
        for group in range(len(state.groups)):
            late = open_late(state, rules, group, until_s) != NOT_YET
            for at in range(tables.group_cell_first[index(group)], tables.group_cell_first[index(group + 1)]):
                starts.is_late[index(tables.cell_pool[index(tables.group_cell[index(at)])])] = late
        for size in range(len(sizes.pool)):
            last = index(sizes.first[index(size + 1)] - 1)
            if starts.of_nodes[last, index(hold)] != NOT_YET:
                continue
            matrix = state.late if starts.is_late[index(sizes.pool[index(size)])] else state.free
            room = room_in(matrix, tables, sizes, size)
            for row in range(sizes.first[index(size)], sizes.first[index(size + 1)]):
                if starts.of_nodes[index(row), index(hold)] == NOT_YET:
                    if sizes.nodes[index(row)] <= room:
                        starts.of_nodes[index(row), index(hold)] = now.now_s
                    else:
                        left += 1
        free = 0
        for cell in range(len(sizes.cell_cores)):
            pool = tables.cell_pool[index(cell)]
            column = index(SLOTS if is_counted(tables, pool) else CORES)
            matrix = state.late if starts.is_late[index(pool)] else state.free
            free += max(0, matrix[column, index(cell)]) * sizes.cell_cores[index(cell)]
        for row in range(len(sizes.cores)):
            if starts.of_cores[index(row), index(hold)] == NOT_YET:
                if sizes.cores[index(row)] <= free:
                    starts.of_cores[index(row), index(hold)] = now.now_s
                else:
                    left += 1
    return left


def shared_pools(tables: Tables) -> NDArray[np.bool_]:
    """Return for each pool whether jobs share its nodes, so that each node is a cell."""
    shared: NDArray[np.bool_] = tables.capacity[SLOTS, tables.cell_first[:-1]] == ALL_SLOTS
    return shared


def forecast_starts(
    case: EngineCase, rules: EngineRules, places: RunningPlaces, sizes: JobSizes, *, now_s: int
) -> JobStarts:
    """Return when each job would start if it alone were submitted now, behind the jobs of the case.

    All jobs of the case are submitted at `now_s`, and the first of them run in their `places`.
    """
    began_s = None
    tables, workload = case.tables, case.workload
    state = new_state(tables, workload, rules, new_picks(tables))
    state.scalars["now_s"] = now_s
    place_running(tables, workload, state, rules, places)
    shape = len(sizes.hold_s)
    starts = JobStarts(
        np.full((len(sizes.nodes), shape), NOT_YET, dtype=np.int64),
        np.full((len(sizes.cores), shape), NOT_YET, dtype=np.int64),
        np.zeros(len(tables.cell_first) - 1, dtype=np.int64),
        state.start_s,
    )
    until_s = now_s
    while True:
        answer = advance(tables, workload, NO_PEAKS, rules, state, until_s)
        left = note_starts(tables, workload, state, rules, sizes, starts)
        at_s = int(state.scalars["now_s"][0])
        # The first step may compile the kernels, which takes minutes: it does not count.
        began_s = time.monotonic() if began_s is None else began_s
        if not left or answer != PAUSED or at_s - now_s >= HORIZON_S:
            break
        if time.monotonic() - began_s > PATIENCE_S:
            return starts
        next_s = min(int(state.scalars["next_end_s"][0]), NEVER - 1)
        until_s = max(next_s, now_s + int((at_s - now_s) * (1 + STEP_SHARE)))
    for found in (starts.of_nodes, starts.of_cores):
        found[found == NOT_YET] = at_s
    return starts
