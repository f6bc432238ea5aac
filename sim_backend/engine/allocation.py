"""Which units of a pool of nodes are free, and which of them each running job holds.

The allocation is a bitmap of free units and, for each running job, the pieces of it that the job holds. A piece is one
64-unit word with the mask of the units taken from it. A job's pieces are a linked list in a pool; every live piece
holds at least one unit, so as many pieces as units can never run out.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.bits import popcount
from offpeak.compiled import index, part

NO_PIECE = -1
CHUNK_NODES = 64


class Nodes(NamedTuple):
    """The units of a pool. `cursor` is [first word that may have a free node, head of the unused pieces]."""

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


MACHINE_SCALARS = np.dtype(
    [
        (name, np.int64)
        for name in (
            "now_s",  # the second whose events are handled
            "free",  # units that are available to jobs
            "returning",  # free units on nodes in transition, available soon
            "ended",  # 1 if these counts have changed
            "waiting",  # jobs that could use the pool
            "first_size",  # what the first of them takes where units are only counted, 0 if none waits
            "shadow_s",  # the reservation of the first job that waits, NOT_YET when there is none
            "extra",  # units that this reservation leaves over
        )
    ]
)


class PoolMachine(NamedTuple):
    """A pool as its capacity rules see it: its units, and the MACHINE_SCALARS of the queue."""

    scalars: NDArray[np.void]
    nodes: Nodes
