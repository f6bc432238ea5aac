"""What is free on each node over time: step functions, a row a node, and one more row for the power budget."""

from typing import NamedTuple

import numpy as np

from offpeak.compiled import in_place
from offpeak.model.arrays import Float64, Int64
from plugin.planner.problem import NO_LIMIT, Problem

ROOM = 64


class Free(NamedTuple):
    """On row n, `cores[n, i]`, `memory_mb[n, i]` and `gpus[n, i]` are free from `at_s[n, i]` on, i < `length[n]`.

    The last row is the budget of power: its cores are watts. Every job asks for a core at least: where none is free the
    other figures mean nothing. `open_s[n]` is when the first core of row n is free.
    """

    length: Int64
    open_s: Int64
    at_s: Int64
    cores: Int64
    memory_mb: Int64
    gpus: Int64


def free_at_first(problem: Problem, room: int) -> Free | None:
    """Return what is free beside the jobs that run; None if `room` steps a row are too few."""
    machine, rates, running = problem.machine, problem.rates, problem.running
    rows = len(machine) + 1
    free = Free(
        np.ones(rows, np.int64), np.zeros(rows, np.int64), *(np.zeros((rows, room), np.int64) for _ in range(4))
    )
    free.cores[:-1, 0], free.memory_mb[:-1, 0], free.gpus[:-1, 0] = machine.cores, machine.memory_mb, machine.gpus
    steps = len(rates.cap_w)
    if steps >= room:
        return None
    free.length[-1], free.at_s[-1, :steps], free.cores[-1, :steps] = steps, rates.edge_s[:-1], rates.cap_w
    free.length[-1], free.at_s[-1, steps], free.cores[-1, steps] = steps + 1, rates.horizon_s, NO_LIMIT
    columns = (running.node, running.until_s, running.cores, running.memory_mb, running.gpus, watts(running.power_w))
    return free if occupy_all(free, *columns) else None


def watts(power_w: Float64) -> Int64:
    """Return whole watts, rounded up: a budget is never exceeded by rounding."""
    return np.ceil(power_w - 1e-6).astype(np.int64)


@in_place
def next_fit(
    free: Free, row: int, from_s: int, latest_s: int, duration_s: int, cores: int, memory_mb: int, gpus: int
) -> int:
    """Return the first second from which on so much is free on the row for so long.

    It is `from_s` at the earliest, NO_LIMIT if it is later than `latest_s`.
    """
    at_s, last = free.at_s, free.length[row] - 1
    low, high = 0, last
    while low < high:
        middle = (low + high + 1) // 2
        if at_s[row, middle] <= from_s:
            low = middle
        else:
            high = middle - 1
    start_s = from_s
    step = low
    while True:
        if free.cores[row, step] < cores or free.memory_mb[row, step] < memory_mb or free.gpus[row, step] < gpus:
            if step == last or at_s[row, step + 1] > latest_s:
                return NO_LIMIT
            start_s = at_s[row, step + 1]
        elif step == last or at_s[row, step + 1] - start_s >= duration_s:
            return start_s
        step += 1


@in_place
def occupy(free: Free, row: int, start_s: int, end_s: int, cores: int, memory_mb: int, gpus: int) -> bool:
    """Take so much from the row between these seconds; False, with nothing taken, if the row has no room for steps."""
    if free.length[row] + 2 > free.at_s.shape[1]:
        return False
    first = _cut(free, row, start_s)
    behind = _cut(free, row, end_s)
    for step in range(first, behind):
        free.cores[row, step] -= cores
        free.memory_mb[row, step] -= memory_mb
        free.gpus[row, step] -= gpus
    _join(free, row, first)
    return True


@in_place
def _join(free: Free, row: int, first: int) -> None:
    """Join steps from `first` on with those before them where nobody sees the difference.

    Where no core is free nobody can start, whatever else is: such steps are one.
    """
    kept = max(first, 1) - 1
    for step in range(kept + 1, free.length[row]):
        if free.cores[row, step] == free.cores[row, kept] and (
            free.cores[row, step] == 0
            or (free.memory_mb[row, step] == free.memory_mb[row, kept] and free.gpus[row, step] == free.gpus[row, kept])
        ):
            continue
        kept += 1
        if kept < step:
            free.at_s[row, kept] = free.at_s[row, step]
            free.cores[row, kept] = free.cores[row, step]
            free.memory_mb[row, kept] = free.memory_mb[row, step]
            free.gpus[row, kept] = free.gpus[row, step]
    free.length[row] = kept + 1
    free.open_s[row] = free.at_s[row, 1] if free.cores[row, 0] == 0 and kept else 0


@in_place
def _cut(free: Free, row: int, at_s: int) -> int:
    """Return the step that begins at that second, made if there is none."""
    step = int(free.length[row]) - 1
    while free.at_s[row, step] > at_s:
        step -= 1
    if free.at_s[row, step] == at_s:
        return step
    for later in range(free.length[row], step + 1, -1):
        free.at_s[row, later] = free.at_s[row, later - 1]
        free.cores[row, later] = free.cores[row, later - 1]
        free.memory_mb[row, later] = free.memory_mb[row, later - 1]
        free.gpus[row, later] = free.gpus[row, later - 1]
    step += 1
    free.at_s[row, step] = at_s
    free.cores[row, step] = free.cores[row, step - 1]
    free.memory_mb[row, step] = free.memory_mb[row, step - 1]
    free.gpus[row, step] = free.gpus[row, step - 1]
    free.length[row] += 1
    return step


@in_place
def occupy_all(
    free: Free, node: Int64, until_s: Int64, cores: Int64, memory_mb: Int64, gpus: Int64, power_w: Int64
) -> bool:
    """Take what runs from the beginning on, unit by unit; False if a row has no room for steps."""
    budget = len(free.length) - 1
    for unit in range(len(node)):
        if not occupy(free, node[unit], 0, until_s[unit], cores[unit], memory_mb[unit], gpus[unit]):
            return False
        if power_w[unit] > 0 and not occupy(free, budget, 0, until_s[unit], power_w[unit], 0, 0):
            return False
    return True
