"""The engine's state: what its kernels read (`Tables`, `Workload`) and what they move (`State`), as arrays.

A cell is what is searched for a place: a shared node with its free resources, or a pool whose nodes run one job at a
time: its nodes are equal and only counted. The columns of a cell are SLOTS (counted nodes; on a shared node a job of
whole nodes takes all of them, so that no other job joins it), CORES, MEMORY, GPUS, and GPUs by type where a node has
several types.
"""

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import by_reference
from offpeak.model.arrays import Float64, Int64
from offpeak.plugin.window_policy import ARRIVAL, EXTERNAL, KNAPSACK, KNAPSACK_SLIDE
from offpeak.sim_backend.engine.fitting import BLOCK, CLASSES
from offpeak.sim_backend.engine.limits import Limits
from offpeak.sim_backend.engine.pools import SleepingPools
from offpeak.sim_backend.engine.rules import NEVER, NOT_YET, PREDICTED_RUNTIME, EngineRules
from offpeak.sim_backend.engine.window import QueueWindow, new_window

Int32 = NDArray[np.int32]

SLOTS, CORES, MEMORY, GPUS, GPU_TYPES = range(5)
ALL_SLOTS = 1 << 30
"""The slots of a shared node: more than it can have jobs."""

COUNTS, RANKS, RANKS_SEVERAL = range(3)
"""How a class finds its nodes: it counts free ones, or it ranks shared ones, for one chunk or for several."""

ANY_LENGTH = NEVER
"""A job of any estimate may start, as far as is known."""

MOST_HOLDS = 200_000
"""Cells that reservations may hold in each competition group; when they are used up, later jobs get no reservation."""


NO_UNITS = np.empty(0, dtype=np.int64)


@by_reference
class Tables(NamedTuple):
    """The cluster and the classes of requests, never written by the kernels.

    Columns named `*_first` delimit ranges: the cells of pool p are [cell_first[p], cell_first[p + 1]). A class is a
    distinct request, its chunks are parts of it, and an option is a pool that a chunk can use, in the order in which
    the chunk fills pools. An option's unit takes `need` of a cell and holds `room` parts of the chunk; a job takes at
    most `most` units of one cell. Policies order the classes of a group with equal tiers and reservations together:
    `class_window` numbers these windows within the group, `group_windows` counts them. `ranking` is by class: COUNTS,
    RANKS or RANKS_SEVERAL. A job of a class that ranks nodes for several chunks may fit where less is free: its first
    chunks take other nodes then. Where only the nodes of one pool are counted, `units` are those that a job of each
    class takes, and `need` is None: the kernels are compiled without pieces, picks and holds (see `counted`).
    """

    cell_first: Int64
    cell_pool: Int64
    capacity: Int64
    window_column: Int64
    window_weight: Int64
    chunk_first: Int64
    class_group: Int64
    class_window: Int64
    group_windows: Int64
    ranking: Int64
    copies: Int64
    option_first: Int64
    option_pool: Int64
    option_class: Int64
    room: Int64
    most: Int64
    need: Int64
    unit_nodes: Float64
    is_ranked: Int64
    use_first: Int64
    use_option: Int64
    group_class_first: Int64
    group_class: Int64
    group_cell_first: Int64
    group_cell: Int64
    units: Int64 = NO_UNITS


PRECEDENCE, KIND, CAN_STOP, STOP_ORDER, EXEMPT_S = range(5)
REQUEUED, CANCELLED = 1, 2


class Preemption(NamedTuple):
    """Which jobs may stop which, never written by the kernels.

    `terms` are by class: PRECEDENCE, by which jobs go first whatever their priority; KIND; CAN_STOP, 1 if it may stop
    any other; STOP_ORDER, the lowest being stopped first; and EXEMPT_S, for how long a job runs before it may be
    stopped. Of jobs that are equal in STOP_ORDER the first in the order of submission is stopped first, or the last
    started where `youngest_first`. A job of kind k may stop one of kind l if `stops[k, l]` is REQUEUED or CANCELLED:
    that is how the stopped job ends.
    """

    terms: Int64
    stops: Int64
    youngest_first: bool


@by_reference
class Workload(NamedTuple):
    """The jobs in the order of their submissions, never written by the kernels.

    `rank` orders waiting jobs, lowest first. `size` [window units] and `node_power_w` [W per window unit] are what
    window policies weigh. `closes[p, q]` is 1 if all nodes of the partitions q are nodes of the partitions p.
    Policies move records: `record` is the first task of the job's array with an equal request, the job itself if it is
    in no array, and `tasks[record]` counts its tasks. `level`, `priority` and `fair_share` are the rights of the
    jobs, as in offpeak.plugin.priority_bands; `level` is empty where their order is no right.
    """

    submit_s: Int64
    runtime_s: Int64
    estimate_s: Int64
    request_class: Int64
    rank: Int64
    partition: Int64
    closes: Int64
    size: Int64
    node_power_w: Float64
    limits: Limits
    record: Int64
    tasks: Int64
    preemption: Preemption
    level: Int64
    priority: Int64
    fair_share: Int64
    foreseen_s: Int64
    user: Int64


class Waiting(NamedTuple):
    """The waiting jobs: each competition group has its own range of positions.

    Where a job has left, its position has the class after the last one, which never fits. `hold_s` is how long the job
    is expected to hold its nodes, `passed_over_s` when a later job began to pass it, `size` what it takes where nodes
    are only counted, NEVER where it has left, and `bounds` as those of Queue. The other columns are by class:
    waiting jobs, whether the class is known not to fit (`misfit`), and the longest hold with which a job of the class
    may start in this pass, as far as is known. `refused` lists the classes of which that is not ANY_LENGTH, in a range
    for each group: where nearly all requests differ, few of the classes have waiting jobs.
    `last_refusal` is that of classes that rank nodes for several chunks, of which nothing is known beyond it: the
    group's `changes` then, and the start of the last reservation that counted.
    """

    job: Int64
    request_class: Int64
    hold_s: Int64
    passed_over_s: Int64
    size: Int64
    bounds: Int64
    of_class: Int64
    misfit: Int64
    longest_s: Int64
    refused: Int64
    last_refusal: Int64


class Slots(NamedTuple):
    """The running jobs: `group` is that of the job, `pieces` the head of what it holds, or how many counted units."""

    job: Int64
    group: Int64
    started: Int64
    end_s: Int64
    expected_end_s: Int64
    pieces: Int64
    following: Int64


class Promises(NamedTuple):
    """What conservative backfilling has promised: `start_s` by position of the queue, NOT_YET without a promise.

    From `at_s[i]` on `free[i]` units are free beside running jobs and promised starts. `counts` has the number of these
    breakpoints, and 1 if a running job was given more time since the last pass.
    """

    at_s: Int64
    free: Int64
    start_s: Int64
    counts: Int64


BREAKPOINTS, CORRECTED = range(2)


class Pieces(NamedTuple):
    """What running jobs hold: `units` of `option` in `cell`; a job's pieces are a linked list."""

    cell: Int64
    option: Int64
    units: Int64
    following: Int64


@by_reference
class Picks(NamedTuple):
    """The place that was found last: units of options in cells. `taken[cell]` is the last search that took the cell."""

    cell: Int64
    option: Int64
    units: Int64
    taken: Int64


class Holds(NamedTuple):
    """What reservations hold, in a range for each competition group: a row for each reservation and cell.

    `take` are the resources held, `spare` those that are left at the start of the reservation beside all others.
    `cell_holds[cell]` counts the holds on a cell. `start_s` and `end_s` are by reservation.
    """

    cell: Int64
    reservation: Int64
    take: Int64
    spare: Int64
    saved: Int64
    cell_holds: Int64
    start_s: Int64
    end_s: Int64


class Freed(NamedTuple):
    """When the running jobs of a group are expected to end, sorted, and the window units that they give back."""

    end_s: Int64
    units: Int64


class Placements(NamedTuple):
    """The result beside the starts: a row for each job and pool, `nodes` in node equivalents; length in scalars."""

    job: Int64
    pool: Int64
    nodes: Float64


class Stops(NamedTuple):
    """The runs that other jobs stopped: each of the `rows` has a job, its start, its end, and REQUEUED or CANCELLED.

    There are no rows where no job may stop any. `order` has room for the running jobs that a job may stop.
    """

    rows: Int64
    order: Int64


@by_reference
class State(NamedTuple):
    """Everything that `advance` moves.

    `free` are the free resources by column and cell, `late` those for a job that outlasts the start of reservations,
    `ahead` those at a later second; `ahead` equals `free` except while a reservation is looked for, and `late` equals
    it in cells that no reservation holds. `ends` is a heap of the slots of running jobs, `expected` has those of each
    group sorted by expected end. `limit_used` is what running jobs take of each limit. The order that a policy has
    written is by record: `place` is the rank of the place that it has. `entry` is where the record is in the window,
    `band` the number of the band of each of its ranks.
    `recent_s` is the state of offpeak.predictors.run_times.
    `sleeping` is the power of the nodes, None where no node sleeps, `promises` None where no start is promised: the
    kernels are compiled without them then.
    """

    scalars: NDArray[np.void]
    groups: NDArray[np.void]
    free: Int64
    late: Int64
    ahead: Int64
    waiting: Waiting
    slots: Slots
    ends: Int64
    expected: Int32
    pieces: Pieces
    picks: Picks
    holds: Holds
    window: QueueWindow
    limit_used: Int64
    closed: Int64
    place: Int64
    entry: Int64
    band: Int64
    freed: Freed
    placements: Placements
    stops: Stops
    recent_s: Int64
    start_s: Int64
    sleeping: SleepingPools | None
    promises: Promises | None


SCALARS = np.dtype(
    [
        (name, np.int64)
        for name in (
            "now_s",  # the second whose events are handled
            "next_job",  # the next job to be submitted
            "next_submit_s",  # when, NEVER when all have been
            "next_end_s",  # when the next running job gives its nodes back, NEVER when none runs
            "next_peak",  # the next change of the price's state
            "stage",  # what the loop does next in this second
            "wanted_pass_s",  # when the next pass is due
            "wanted_backfill_s",  # when the next full pass is due, NEVER where each pass is one
            "wanted_order_s",  # when the policy orders the queue next, NEVER where it does so at each pass
            "waiting",  # jobs in all queues
            "running",  # jobs that hold nodes
            "started",  # jobs started so far
            "free_slot",  # head of the unused slots
            "free_piece",  # head of the unused pieces
            "searches",  # searches for a place so far
            "placements",  # rows of placements
            "deciding",  # the group for whose window an external policy decides, NOT_YET when none does
            "next_group",  # the group whose pass comes next
            "next_window",  # the window of that group that is ordered next
            "is_ordering",  # 1 while the policy orders the queue
            "is_pass",  # 1 while jobs may start
            "is_open",  # 1 while a pass over the present group may start a job
            "is_full_pass",  # 1 while passes backfill
            "free",  # the free units that the policy weighs
            "considered",  # how many entries of the order this pass may start
            "window",  # the number of jobs in the window of this pass
            "behind_window",  # the position behind the window
            "cursor",  # the rank that the pass looks at next
            "tried_size",  # where the widest job starts first: no job that is left is wider
            "tried_rank",  # nor is one of this size left up to this rank
            "stops",  # runs that other jobs stopped so far
            "requeued",  # how many of these have been looked through for jobs that wait again
            "next_stoppable_s",  # when a job may be stopped that may not be now, NEVER if none is in the way
            "stopping",  # how many running jobs are about to be stopped
            "is_interrupted",  # 1 if a stop has ended the pass: the next one follows in the same second
        )
    ]
)

GROUPS = np.dtype(
    [
        (name, np.int64)
        for name in (
            "first",  # its first position in the queue and in the expected ends
            "behind",  # the position behind its last one
            "head",  # no job waits at an earlier position
            "tail",  # the position behind the last waiting job
            "waiting",  # waiting jobs
            "hopeful",  # waiting jobs of classes that may fit
            "refused",  # classes in its list of refused ones
            "seen",  # all jobs at earlier positions cannot start before a job ends
            "blocked",  # the position of the first blocked job, NOT_YET where the next pass must look for it
            "passed_over",  # all jobs at earlier positions have been passed over
            "furthest",  # the position behind the furthest from which this pass has started a job
            "listed",  # its running jobs
            "is_due",  # 1 when a pass may start a job
            "is_backfill_due",  # 1 when a full pass may start a job
            "is_stale",  # 1 when the next pass has to begin anew
            "is_moved",  # 1 when a job has started since the reservation that may let it take other cells
            "changes",  # grows when a job starts, and when reservations are made or dropped
            "ranking_several",  # waiting jobs that rank nodes for several chunks
            "is_simple",  # 1 where the policy orders the first jobs anew at each pass
            "ordered",  # jobs up to this rank have places that a policy has written
            "reserved",  # its reservations
            "holds",  # cells that these hold
            "first_hold",  # the first row of its holds
            "behind_holds",  # the row behind the last
            "late_until_s",  # `late` is what reservations leave that start before this
            "late_of",  # how many those are
            "extra",  # where nodes are only counted: those that the reservation leaves over
            "reserves_always",  # 1 if passes reserve even where no job may start: nodes are woken for the reservation
        )
    ]
)


def column(length: int) -> Int64:
    """Return a column that is not written yet."""
    return np.empty(length, dtype=np.int64)


def new_state(
    tables: Tables, workload: Workload, rules: EngineRules, picks: Picks, *, sleeping: SleepingPools | None = None
) -> State:
    """Return the state before the first event: an empty cluster. `picks` has room for the place of one job.

    Without `sleeping` no node ever sleeps.
    """
    jobs, classes, groups = len(workload.submit_s), len(tables.class_group), len(tables.group_cell_first) - 1
    columns, cells = tables.capacity.shape
    of_group = np.bincount(tables.class_group[workload.request_class], minlength=groups)
    scalars = np.zeros(1, dtype=SCALARS)
    scalars["now_s"] = workload.submit_s[0] if jobs else 0
    scalars["next_submit_s"] = workload.submit_s[0] if jobs else NEVER
    for name in ("next_end_s", "next_stoppable_s", "wanted_pass_s", "wanted_backfill_s", "wanted_order_s"):
        scalars[name] = NEVER
    scalars["deciding"] = NOT_YET
    group = np.zeros(groups, dtype=GROUPS)
    group["first"] = np.concatenate(([0], np.cumsum(of_group)[:-1]))[:groups]
    group["behind"] = group["first"] + of_group
    group["head"] = group["tail"] = group["seen"] = group["passed_over"] = group["furthest"] = group["first"]
    group["blocked"] = NOT_YET
    group["ordered"] = NOT_YET
    group["is_simple"] = is_simple = _is_simple(tables, workload, rules)
    longest = max(rules.window, int(of_group[~is_simple].max(initial=0)))
    weighed = jobs if rules.order_interval_s and rules.policy in (KNAPSACK, EXTERNAL) else 0
    most_parts = most_cells(tables)
    of_class = np.bincount(workload.request_class, minlength=classes)
    widest = np.zeros(groups, dtype=np.int64)
    np.maximum.at(widest, tables.class_group, np.where(of_class > 0, most_parts, 0))
    most_holds = widest if rules.reservations <= 1 else np.minimum(widest * rules.reservations, MOST_HOLDS + widest)
    group["first_hold"] = np.concatenate(([0], np.cumsum(most_holds)[:-1]))[:groups]
    group["behind_holds"] = group["first_hold"] + most_holds
    is_counted = tables.need is None
    holds, pieces = int(most_holds.sum()), int((of_class * most_parts).sum())
    pieces = 0 if is_counted else min(pieces, _most_pieces(tables))
    reservations = groups * max(1, rules.reservations)
    users = int(workload.user.max(initial=0)) + 1 if rules.estimates == PREDICTED_RUNTIME else 0
    return State(
        scalars=scalars,
        groups=group,
        free=tables.capacity.copy(),
        late=tables.capacity.copy(),
        ahead=tables.capacity.copy(),
        waiting=Waiting(
            job=column(jobs),
            request_class=column(jobs),
            hold_s=column(jobs),
            passed_over_s=column(jobs),
            size=column(jobs if is_counted else 0),
            bounds=np.zeros((CLASSES, -(-jobs // BLOCK) if is_counted else 0), dtype=np.int64),
            of_class=np.zeros(classes + 1, dtype=np.int64),
            misfit=np.zeros(classes + 1, dtype=np.int64),
            longest_s=np.append(np.full(classes, ANY_LENGTH), NOT_YET),
            refused=column(classes),
            last_refusal=np.full((classes + 1, 2), NOT_YET, dtype=np.int64),
        ),
        slots=_free_slots(jobs),
        ends=column(jobs),
        expected=np.empty(jobs, dtype=np.int32),
        pieces=Pieces(column(pieces), column(pieces), column(pieces), np.arange(1, pieces + 1, dtype=np.int64)),
        picks=picks,
        holds=Holds(
            cell=column(holds),
            reservation=column(holds),
            take=np.zeros((holds, columns), dtype=np.int64),
            spare=np.zeros((holds, columns), dtype=np.int64),
            saved=np.zeros((holds, columns), dtype=np.int64),
            cell_holds=np.zeros(cells, dtype=np.int64),
            start_s=column(reservations),
            end_s=column(reservations),
        ),
        window=new_window(longest, int(window_units(tables).max(initial=0))),
        limit_used=np.zeros(len(workload.limits.most), dtype=np.int64),
        closed=np.zeros(int(workload.partition.max(initial=-1)) + 1, dtype=np.int64),
        place=np.empty(0, dtype=np.int64) if is_simple.all() else workload.rank.copy(),
        entry=np.zeros(0 if is_simple.all() else jobs, dtype=np.int64),
        band=column(longest),
        freed=Freed(column(weighed), column(weighed)),
        placements=_placements(tables, 0 * of_class if is_counted else of_class),
        stops=_stops(workload),
        recent_s=np.full(2 * users, NOT_YET, dtype=np.int64),
        start_s=np.full(jobs, NOT_YET, dtype=np.int64),
        sleeping=sleeping and sleeping._replace(units=column(jobs if is_counted else pieces)),
        promises=_promises(jobs) if rules.promises and is_counted else None,
    )


def _free_slots(jobs: int) -> Slots:
    return Slots(
        job=column(jobs),
        group=column(jobs),
        started=column(jobs),
        end_s=column(jobs),
        expected_end_s=column(jobs),
        pieces=column(jobs),
        following=np.arange(1, jobs + 1, dtype=np.int64),
    )


def _promises(jobs: int) -> Promises:
    return Promises(column(6 * jobs + 8), column(6 * jobs + 8), column(jobs), np.zeros(2, dtype=np.int64))


def _is_simple(tables: Tables, workload: Workload, rules: EngineRules) -> NDArray[np.bool_]:
    """Return by group whether a policy orders single jobs in one window, at each pass."""
    found = tables.group_windows <= 1
    found[tables.class_group[workload.request_class[workload.tasks[workload.record] > 1]]] = False
    if rules.policy in (ARRIVAL, KNAPSACK_SLIDE):
        return np.ones_like(found)
    return found & (rules.order_interval_s == 0)


def counted(tables: Tables, workload: Workload, rules: EngineRules) -> Tables:
    """Return the tables of a replay: `need` is None where it is enough to count the nodes of one pool."""
    if tables.need is None or not len(tables.class_group):
        return tables
    option = tables.option_first[:-1]
    units = -(-tables.copies // tables.room[option])
    is_one_pool = len(tables.cell_pool) == 1 and len(units) == len(tables.class_group) == len(tables.option_pool)
    takes_nodes = (
        is_one_pool
        and tables.window_column[0] == SLOTS
        and bool((tables.need == (np.arange(len(tables.capacity)) == SLOTS)).all())
    )
    is_plain = rules.reservations <= 1 and rules.end_window_s == 0
    if not (takes_nodes and is_plain and (tables.most >= units).all()) or workload.preemption.terms[:, CAN_STOP].any():
        return tables
    return tables._replace(units=units.astype(np.int64), need=cast(Any, None))


def unit_tables(units: Int64, machine_size: int) -> Tables:
    """Return the tables of one pool of which only the units are counted; a job of class c takes `units[c]` of them."""
    classes = len(units)
    zeros, first, zero = np.zeros(classes, dtype=np.int64), np.arange(classes + 1), np.zeros(1, dtype=np.int64)
    # The same types as the columns of other clusters have: the kernels are compiled once for both.
    narrow: Any = np.zeros(classes, dtype=np.int32)
    return Tables(
        cell_first=np.array([0, 1]),
        cell_pool=zero,
        capacity=np.array([[machine_size]]),
        window_column=zero,
        window_weight=zero + 1,
        chunk_first=first,
        class_group=zeros,
        class_window=zeros,
        group_windows=zero + 1,
        ranking=zeros,
        copies=units,
        option_first=first,
        option_pool=narrow,
        option_class=narrow + np.arange(classes, dtype=np.int32),
        room=narrow + 1,
        most=units.astype(np.int32),
        need=cast(Any, None),
        unit_nodes=np.ones(classes),
        is_ranked=np.zeros(classes, dtype=np.int8),
        use_first=np.array([0, classes]),
        use_option=narrow + np.arange(classes, dtype=np.int32),
        group_class_first=np.array([0, classes]),
        group_class=np.arange(classes),
        group_cell_first=np.array([0, 1]),
        group_cell=zero,
        units=units,
    )


def ranges(first: Int64) -> Int64:
    """Return the lengths of ranges that are delimited by `first`."""
    return np.diff(first)


def most_cells(tables: Tables) -> Int64:
    """Return in how many cells a job of each class is at most, a cell counted once for each chunk."""
    cells = np.add.reduceat(np.append(ranges(tables.cell_first)[tables.option_pool], 0), tables.option_first[:-1])
    return np.add.reduceat(np.append(np.minimum(tables.copies, cells), 0), tables.chunk_first[:-1])


def window_units(tables: Tables) -> Int64:
    """Return the units of each competition group as window policies weigh them."""
    cells = np.arange(len(tables.cell_pool))
    units = tables.window_weight * tables.capacity[tables.window_column, cells]
    return np.array([units[tables.group_cell[first:behind]].sum() for first, behind in _pairs(tables.group_cell_first)])


def _pairs(first: Int64) -> list[tuple[int, int]]:
    return list(zip(first[:-1].tolist(), first[1:].tolist(), strict=True))


def _most_pieces(tables: Tables) -> int:
    """Return how many pieces the cells have room for, whatever the jobs."""
    total = 0
    for pool, (first, behind) in enumerate(_pairs(tables.use_first)):
        options = tables.use_option[first:behind]
        cell, last = int(tables.cell_first[pool]), int(tables.cell_first[pool + 1])
        if len(options):
            least = tables.need[options].min(axis=0)
            total += (last - cell) * int((tables.capacity[:, cell][least > 0] // least[least > 0]).min())
    return total


def _placements(tables: Tables, of_class: Int64) -> Placements:
    options = np.add.reduceat(np.append(ranges(tables.option_first), 0), tables.chunk_first[:-1])
    rows = int((of_class * np.minimum(options, most_cells(tables))).sum())
    return Placements(np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64), np.empty(rows))


def _stops(workload: Workload) -> Stops:
    is_used = bool(workload.preemption.terms[:, CAN_STOP].any())
    return Stops(np.empty((int(is_used), 4), dtype=np.int64), column(len(workload.submit_s) if is_used else 0))
