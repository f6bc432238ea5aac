"""Which of the twenty most popular estimates are short and which are long: counted in four logs, and drawn from them.

Source: Tsafrir, Etsion and Feitelson, "Modeling user runtime estimates", JSSPP 2005.
"""

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Int64

HEAD = 20
RANKS_BY_TIME = {
    "SDSC-SP2": (3, 1, 4, 17, 13, 7, 8, 18, 2, 6, 16, 10, 5, 15, 14, 19, 11, 12, 9, 20),
    "CTC-SP2": (1, 3, 4, 2, 12, 9, 8, 18, 6, 7, 11, 20, 16, 5, 14, 13, 10, 15, 17, 19),
    "KTH-SP2 up to 4 h": (1, 4, 10, 14, 20, 2, 3, 7, 12, 6, 19, 5, 18, 16, 9, 17, 15, 13, 8, 11),
    "SDSC-BLUE": (1, 6, 5, 3, 7, 2, 18, 19, 4, 11, 20, 9, 10, 14, 13, 16, 15, 17, 8, 12),
}
"""Popularity (1 the most popular) of each log's top twenty estimates: the longest first, then the others by time."""


def draw_ranks(rng: Generator) -> Int64:
    """Draw the popularity of twenty estimates, the longest first, then the others by time: a permutation of 1..20.

    The longest is the most popular. Each other time takes the smaller of two draws from the ranks that it or a
    shorter one has in a log and that are still free; a rank that no later time has in any log is taken at once.
    """
    return np.fromiter(_ranks(rng), np.int64, HEAD)


def _ranks(rng: Generator) -> Iterator[int]:
    by_time = list(zip(*RANKS_BY_TIME.values(), strict=True))
    free = set(range(1, HEAD + 1))
    candidates: list[int] = []
    for time, ranks in enumerate(by_time):
        candidates = [rank for rank in (*candidates, *ranks) if rank in free]
        later = {rank for row in by_time[time + 1 :] for rank in row}
        due = free - later
        rank = 1 if time == 0 else min(due) if due else min(rng.choice(candidates, 2))
        free.remove(rank)
        yield int(rank)
