"""Free capacity over time, as step functions: of each node, of the power budget, and of each limit.

A row has the free capacity of a node. The rows of the totals are the power budget and the limits. Kernels look for the
first second from which a row has enough for a whole run, and take it.
"""

from typing import NamedTuple

import numpy as np

from offpeak.compiled import in_place
from offpeak.model.arrays import Float64, Int64
from offpeak.plugin.planner.problem import ALL_POOLS, NO_LIMIT, Demands, Problem

ROOM = 64

BUDGET = 0
"""The row of the power budget in the totals; limit l has row FIRST_LIMIT + l."""
FIRST_LIMIT = 1

NO_STEPS, STEPS_OF_NODES, STEPS_OF_TOTALS = 0, 1, 2
"""The rows of which a kernel had too few steps."""


class FreeCapacity(NamedTuple):
    """On row n, `cores[n, i]`, `memory_mb[n, i]` and `gpus[n, i]` are free from `at_s[n, i]` on, i < `length[n]`.

    Every job requests at least one core, so the other figures have no meaning while no core is free. `open_s[n]` is
    when the first core of row n is free, `pool[n]` the bit of its pool. The rows of totals are no nodes: their cores
    are watts of the power budget, or what is left of a limit.
    """

    length: Int64
    open_s: Int64
    at_s: Int64
    cores: Int64
    memory_mb: Int64
    gpus: Int64
    pool: Int64


class Capacity(NamedTuple):
    """What is free of nodes and of totals, and what the demands of jobs are; the power budget counts if `capped`."""

    nodes: FreeCapacity
    totals: FreeCapacity
    demands: Demands
    capped: bool


class UnitResources(NamedTuple):
    """What a job needs of a row: of a node cores, memory and GPUs, of a total its amount in place of cores.

    `pools` are the bits of the pools whose nodes it may use.
    """

    cores: int
    memory_mb: int
    gpus: int
    pools: int


class TotalNeeds(NamedTuple):
    """What a job needs of the totals: `power_w`, 0 without a power budget, and what its `demand` takes of limits."""

    power_w: int
    demand: int


class UnitDemand(NamedTuple):
    """The demand of one job in the search for a start."""

    from_s: int
    latest_s: int
    duration_s: int
    units: int
    resources: UnitResources
    totals: TotalNeeds


def node_capacity(problem: Problem, room: int) -> FreeCapacity:
    """Return the free capacity of the nodes besides the running jobs, with at least `room` steps per row."""
    machine, running = problem.machine, problem.running
    free = _capacity(machine.pool, room)
    free.cores[:, 0], free.memory_mb[:, 0], free.gpus[:, 0] = machine.cores, machine.memory_mb, machine.gpus
    begin_s = np.zeros(len(running), np.int64)
    taken = RowUse(running.node, begin_s, running.until_s, running.cores, running.memory_mb, running.gpus)
    return free if occupy_all(free, taken) else node_capacity(problem, 2 * room)


def total_capacity(problem: Problem, room: int) -> FreeCapacity:
    """Return what running jobs leave of the power budget and of the limits, with at least `room` steps per row."""
    rates, running, limits = problem.rates, problem.running, problem.limits
    steps = len(rates.cap_w)
    free = _capacity(np.full(FIRST_LIMIT + len(limits), ALL_POOLS), max(room, steps + 1))
    free.length[BUDGET] = steps + 1
    free.at_s[BUDGET, : steps + 1], free.cores[BUDGET, : steps + 1] = rates.edge_s, np.append(rates.cap_w, NO_LIMIT)
    free.cores[FIRST_LIMIT:, 0] = limits.most
    drawing = running.power_w > 0
    begin_s = np.zeros(int(drawing.sum()), np.int64)
    row = np.concatenate([np.full(len(begin_s), BUDGET), FIRST_LIMIT + limits.taken.limit])
    taken = RowUse(
        row=row,
        from_s=np.concatenate([begin_s, limits.taken.from_s]),
        until_s=np.concatenate([running.until_s[drawing], limits.taken.until_s]),
        cores=np.concatenate([watts(running.power_w[drawing]), limits.taken.amount]),
        memory_mb=np.zeros(len(row), np.int64),
        gpus=np.zeros(len(row), np.int64),
    )
    return free if occupy_all(free, taken) else total_capacity(problem, 2 * room)


def _capacity(pool: Int64, room: int) -> FreeCapacity:
    """Return rows of these pools of which nothing is free."""
    rows = len(pool)
    at_s, cores, memory_mb, gpus = np.zeros((4, rows, room), np.int64)
    return FreeCapacity(
        length=np.ones(rows, np.int64),
        open_s=np.zeros(rows, np.int64),
        at_s=at_s,
        cores=cores,
        memory_mb=memory_mb,
        gpus=gpus,
        pool=pool,
    )


def watts(power_w: Float64) -> Int64:
    """Return whole watts, rounded up: a budget is never exceeded by rounding."""
    return np.ceil(power_w - 1e-6).astype(np.int64)


@in_place
def of_total(amount: int) -> UnitResources:
    """Return the need of that amount of a total."""
    return UnitResources(amount, int(np.int64(0)), int(np.int64(0)), int(np.int64(ALL_POOLS)))


@in_place
def next_fit(free: FreeCapacity, row: int, from_s: int, latest_s: int, duration_s: int, needed: UnitResources) -> int:
    """Return the first second from `from_s` with the resources free for `duration_s`, NO_LIMIT if after `latest_s`."""
    cores, memory_mb, gpus, pools = needed
    if not pools & free.pool[row]:
        return NO_LIMIT
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
def occupy(free: FreeCapacity, row: int, start_s: int, end_s: int, needed: UnitResources) -> bool:
    """Take the resources from the row between these seconds; False, with nothing taken, if the row has no room."""
    cores, memory_mb, gpus, _ = needed
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
def _join(free: FreeCapacity, row: int, first: int) -> None:
    """Join steps from `first` on with those before them where no core is free, so that no job could start there."""
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
def _cut(free: FreeCapacity, row: int, at_s: int) -> int:
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


class RowUse(NamedTuple):
    """What is taken of rows from `from_s` to `until_s`."""

    row: Int64
    from_s: Int64
    until_s: Int64
    cores: Int64
    memory_mb: Int64
    gpus: Int64


@in_place
def occupy_all(free: FreeCapacity, taken: RowUse) -> bool:
    """Take all of these resources; False if a row has no room for steps."""
    row, from_s, until_s, cores, memory_mb, gpus = taken
    for unit in range(len(row)):
        needed = UnitResources(cores[unit], memory_mb[unit], gpus[unit], int(np.int64(ALL_POOLS)))
        if not occupy(free, row[unit], from_s[unit], until_s[unit], needed):
            return False
    return True


@in_place
def next_fit_of_totals(capacity: Capacity, job: UnitDemand, from_s: int) -> int:
    """Return the first second from `from_s` with totals left for the whole run, NO_LIMIT if after the latest start."""
    totals, demands = capacity.totals, capacity.demands
    power_w, demand = job.totals
    at_s = from_s
    while True:
        before_s = at_s
        if power_w > 0:
            at_s = next_fit(totals, BUDGET, at_s, job.latest_s, job.duration_s, of_total(power_w))
        for row in range(demands.first[demand], demands.first[demand + 1]):
            if at_s < NO_LIMIT:
                needed = of_total(demands.amount[row])
                at_s = next_fit(totals, FIRST_LIMIT + demands.limit[row], at_s, job.latest_s, job.duration_s, needed)
        if at_s == before_s or at_s >= NO_LIMIT:
            return at_s


@in_place
def occupy_totals(capacity: Capacity, job: UnitDemand, start_s: int) -> bool:
    """Take the job's power and what it takes of limits; False if a row has no room for steps."""
    totals, demands, end_s = capacity.totals, capacity.demands, start_s + job.duration_s
    power_w, demand = job.totals
    if power_w > 0 and not occupy(totals, BUDGET, start_s, end_s, of_total(power_w)):
        return False
    for row in range(demands.first[demand], demands.first[demand + 1]):
        if not occupy(totals, FIRST_LIMIT + demands.limit[row], start_s, end_s, of_total(demands.amount[row])):
            return False
    return True


def initial_capacity(problem: Problem, *, node_room: int = ROOM, total_room: int = ROOM) -> Capacity:
    """Return what is free besides the running jobs, with at least so many steps per row."""
    capped = bool(np.any(problem.rates.cap_w < NO_LIMIT))
    nodes, totals = node_capacity(problem, node_room), total_capacity(problem, total_room)
    return Capacity(nodes, totals, problem.limits.demands, capped)


def with_more_steps(problem: Problem, capacity: Capacity, lacking: int) -> Capacity:
    """Return the initial capacity with twice as many steps for the rows that lacked some."""
    node_room, total_room = capacity.nodes.at_s.shape[1], capacity.totals.at_s.shape[1]
    if lacking == STEPS_OF_NODES:
        return initial_capacity(problem, node_room=2 * node_room, total_room=total_room)
    return initial_capacity(problem, node_room=node_room, total_room=2 * total_room)
