"""The engine's state: arrays only, so that copying the arrays copies the engine.

Time is integer seconds of the trace. Ties are decided by the order of submission and, among running jobs, by `started`,
the number of the start. The rules of a policy are the numbers that the kernels take.

The allocation of nodes is a bitmap of free nodes and, for each running job, the pieces of it that the job holds. A
piece is one 64-node word with the mask of the nodes taken from it. A job's pieces are a linked list in a pool; every
live piece holds at least one node, so a pool of as many pieces as nodes can never run out.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.bits import popcount
from offpeak.compiled import index, part
from offpeak.plugin.window_order import Fillings, scratch

NO_PIECE = -1
CHUNK_NODES = 64


class Nodes(NamedTuple):
    """The machine's allocation state. `cursor` is [first word that may have a free node, head of the unused pieces]."""

    free: NDArray[np.uint64]
    piece_chunk: NDArray[np.int32]
    piece_mask: NDArray[np.uint64]
    piece_next: NDArray[np.int32]
    cursor: NDArray[np.int64]


def all_free(machine_size: int) -> Nodes:
    """Return an empty machine of `machine_size` nodes."""
    chunks = -(-machine_size // CHUNK_NODES)
    free = np.full(chunks, ~np.uint64(0), dtype=np.uint64)
    surplus = chunks * CHUNK_NODES - machine_size
    free[-1] >>= np.uint64(surplus)
    following = np.arange(1, machine_size + 1, dtype=np.int32)
    following[-1] = NO_PIECE
    return Nodes(
        free=free,
        piece_chunk=np.zeros(machine_size, dtype=np.int32),
        piece_mask=np.zeros(machine_size, dtype=np.uint64),
        piece_next=following,
        cursor=np.zeros(2, dtype=np.int64),
    )


@part
def lowest_bits(chunk: np.uint64, count: int) -> np.uint64:
    """Return the `count` lowest set bits of `word`, which has more than `count`."""
    rest = chunk
    for _ in range(count):
        rest &= rest - np.uint64(1)
    return chunk ^ rest


@part
def take_nodes(nodes: Nodes, count: int) -> int:
    """Take the `count` lowest-numbered free nodes and return the head of their pieces. That many must be free."""
    head = NO_PIECE
    chunk = nodes.cursor[0]
    unused = int(nodes.cursor[1])
    left = count
    while True:
        available = nodes.free[index(chunk)]
        if available != np.uint64(0):
            here: int = popcount(available)
            mask = available if here <= left else lowest_bits(available, left)
            nodes.free[index(chunk)] = available ^ mask
            piece = index(unused)
            unused = int(nodes.piece_next[piece])
            nodes.piece_chunk[piece] = chunk
            nodes.piece_mask[piece] = mask
            nodes.piece_next[piece] = head
            head = int(piece)
            left -= here
            if left <= 0:
                break
        chunk += 1
    nodes.cursor[0] = chunk
    nodes.cursor[1] = unused
    return int(head)


FCFS, EASY, CONSERVATIVE, FIRST_FIT, BEST_FIT = range(5)
USER_ESTIMATE, EXACT_RUNTIME, PREDICTED_RUNTIME, FORESEEN_RUNTIME = range(4)
CAN_BE_OUTLIVED = PREDICTED_RUNTIME
"""From this code on, a job may run longer than the scheduler expects."""


class SchedulingRules(NamedTuple):
    """One policy's rules.

    `policy` is the code of a window policy (offpeak.plugin.window_policy), `window` the number of queued jobs that it
    may reorder, `period_s` the interval of scheduling passes (0: at each event), `max_postponement_s` the time after
    which a job that was passed over keeps its place. `pass_per_event`: a pass after every single event, submissions
    first, as in the simulator pyss; otherwise one pass a second after all its events.
    """

    discipline: int
    policy: int
    window: int
    period_s: int
    max_postponement_s: int
    estimates: int
    pass_per_event: bool


Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

NEVER = np.iinfo(np.int64).max
NOT_YET = -1
PAUSED, FINISHED, DECIDE, CAPACITY, LOG_FULL, FULL = range(6)
"""Why `advance` returns."""
RANK_FROM = 512
"""In a queue with fewer waiting jobs, a linear scan finds the widest one as fast."""
BLOCK, CLASSES = 64, 24
"""The positions in a block of the queue, and the number of classes of jobs by size: see `queue`."""


class Workload(NamedTuple):
    """The jobs to run, in submission order: times [s], allocation units, W per unit, users from 0. The engine never
    writes it.

    `foreseen_s` is the expected run time under FORESEEN_RUNTIME, known at submission.
    """

    submit_s: Int64
    runtime_s: Int64
    estimate_s: Int64
    foreseen_s: Int64
    size: Int64
    node_power_w: Float64
    user: Int64


class PeakTimes(NamedTuple):
    """From `at_s[i]` on the price is in state `peak[i]` (a `Peak`); before `at_s[0]` it is unknown."""

    at_s: Int64
    peak: NDArray[np.int8]


class Queue(NamedTuple):
    """Waiting jobs in submission order, at positions [scalars.head, scalars.tail).

    A job that leaves turns its position into a hole, too wide for any machine (`size` NEVER), until the queue is
    compacted. `bounds` are the bounds of offpeak.sim_backend.engine.queue.
    """

    job: Int64
    size: Int64
    estimate_s: Int64
    node_power_w: Float64
    passed_over_s: Int64
    reserved_s: Int64
    bounds: Int64


class ByWidth(NamedTuple):
    """The waiting jobs by size, for best fit in a long queue: see queue.py. In use if scalars.ranked.

    `rank[job]` and `job[rank]` order all jobs by size, then submission; `behind[width]` is the first rank of a wider
    job. `shortest_s` is a binary tree, its root at 1, the leaf of a rank in its second half.
    """

    rank: NDArray[np.int32]
    job: NDArray[np.int32]
    behind: Int64
    shortest_s: Int64


class Slots(NamedTuple):
    """The running jobs; `pieces` is the head of a job's nodes in `Nodes`, NOT_YET after their release.

    Pieces exist only in replays with sleeping nodes: elsewhere units are counted, not numbered.
    """

    job: Int64
    size: Int64
    started: Int64
    end_s: Int64
    expected_end_s: Int64
    pieces: Int64
    following: Int64


class AvailabilityProfile(NamedTuple):
    """Free units over time as promised to conservative backfilling: `free[i]` from `at_s[i]` on; length in scalars."""

    at_s: Int64
    free: Int64


class QueueWindow(NamedTuple):
    """The window of this pass by rank of submission, the order that a policy gives to these ranks, and its scratch."""

    position: Int64
    size: Int64
    node_power_w: Float64
    order: Int64
    fillings: Fillings


class State(NamedTuple):
    """The state that `advance` changes.

    `ends` is a binary heap of the slots of all running jobs by (end, start number), unused if each job ends when
    expected. `expected` holds the slots of jobs that still hold nodes, sorted by (expected end, start), in 4 bytes each
    because they are moved often. `recent_s` is the state of offpeak.predictors.run_times. `start_s` is the
    result: the start of each job, NOT_YET before it.
    """

    scalars: NDArray[np.void]
    queue: Queue
    by_width: ByWidth
    slots: Slots
    ends: Int64
    expected: NDArray[np.int32]
    nodes: Nodes
    profile: AvailabilityProfile
    window: QueueWindow
    recent_s: Int64
    start_s: Int64


SCALARS = np.dtype(
    [
        (name, np.int64)
        for name in (
            "now_s",  # the second whose events are handled
            "units",  # the units of the machine
            "next_job",  # the next job to be submitted
            "next_submit_s",  # its submission, NEVER after the last one
            "next_end_s",  # when the next running job ends, NEVER when none runs
            "next_peak",  # the next change of the price's state
            "wanted_pass_s",  # when the next scheduling pass is due
            "head",  # no job waits at an earlier position of the queue
            "tail",  # the position behind the last waiting job
            "waiting",  # jobs in the queue
            "smallest",  # no waiting job is smaller
            "rank_from",  # with more waiting jobs than this, jobs are ranked by width
            "ranked",  # 1 once they are, and by_width is kept
            "seen",  # the position behind the last job that the last pass has seen
            "passed_over",  # all jobs at earlier positions have been passed over
            "furthest",  # the furthest position from which this pass has started a job
            "cursor",  # the rank that the discipline looks at next
            "considered",  # how many entries of the order this pass may start
            "window",  # the number of jobs in the window of this pass
            "behind_window",  # the position behind the window
            "deciding",  # ORDER_REQUESTED or CAPACITY_REQUESTED while an external policy decides, else 0
            "running",  # jobs that have not ended
            "listed",  # running jobs that hold nodes
            "free",  # units without a job
            "returning",  # free units on nodes in transition, available soon
            "started",  # jobs started so far
            "ended",  # 1 if nodes were released since the last pass
            "free_slot",  # head of the unused slots
            "shadow_s",  # the reservation of the first job that waits, NOT_YET when there is none
            "extra",  # units that this reservation leaves over
            "corrected",  # 1 if a running job was given more time since the last pass
            "breakpoints",  # length of the profile
        )
    ]
)


def column(length: int) -> Int64:
    """Return a column that is not written yet."""
    return np.empty(length, dtype=np.int64)


def new_slots(most_running: int) -> Slots:
    """Return slots for so many running jobs, all of them free."""
    return Slots(
        job=column(most_running),
        size=column(most_running),
        started=column(most_running),
        end_s=column(most_running),
        expected_end_s=column(most_running),
        pieces=column(most_running),
        following=np.arange(1, most_running + 1, dtype=np.int64),
    )


def new_window(most_jobs: int, units: int) -> QueueWindow:
    """Return a window of at most so many jobs on a machine of so many units."""
    return QueueWindow(
        column(most_jobs), column(most_jobs), np.empty(most_jobs), column(most_jobs), fillings=scratch(units)
    )


def new_state(workload: Workload, rules: SchedulingRules, *, machine_size: int) -> State:
    """Return the state before the first event: an empty machine of `machine_size` units."""
    jobs = len(workload.submit_s)
    users = int(workload.user.max(initial=0)) + 1 if rules.estimates == PREDICTED_RUNTIME else 0
    breakpoints = 6 * jobs if rules.discipline == CONSERVATIVE else 0
    ranks = jobs if rules.discipline == BEST_FIT else 0
    # With a pass per event, a job that still must end in this second may have released its nodes.
    most_running = jobs if rules.pass_per_event else min(jobs, machine_size)
    scalars = np.zeros(1, dtype=SCALARS)
    scalars["units"] = scalars["free"] = machine_size
    scalars["smallest"] = NEVER
    scalars["wanted_pass_s"] = NEVER
    scalars["shadow_s"] = NOT_YET
    scalars["rank_from"] = RANK_FROM
    scalars["now_s"] = workload.submit_s[0] if jobs else 0
    scalars["next_submit_s"] = workload.submit_s[0] if jobs else NEVER
    scalars["next_end_s"] = NEVER
    return State(
        scalars=scalars,
        queue=Queue(
            job=column(jobs),
            size=column(jobs),
            estimate_s=column(jobs),
            node_power_w=np.empty(jobs),
            passed_over_s=column(jobs),
            reserved_s=column(jobs),
            bounds=np.zeros((CLASSES, -(-jobs // BLOCK)), dtype=np.int64),
        ),
        by_width=ByWidth(
            rank=np.empty(ranks, dtype=np.int32),
            job=np.empty(ranks, dtype=np.int32),
            behind=column(int(workload.size.max(initial=0)) + 1 if ranks else 0),
            shortest_s=column(2 << (ranks - 1).bit_length() if ranks else 0),
        ),
        slots=new_slots(most_running),
        ends=column(most_running),
        expected=np.empty(most_running, dtype=np.int32),
        nodes=all_free(machine_size),
        profile=AvailabilityProfile(column(breakpoints + 8), column(breakpoints + 8)),
        window=new_window(rules.window, machine_size),
        recent_s=np.full(2 * users, NOT_YET, dtype=np.int64),
        start_s=np.full(jobs, NOT_YET, dtype=np.int64),
    )
