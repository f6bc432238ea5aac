"""Draws the limits that users request for their jobs: few values, twenty of which cover 89 % of the jobs.

Model and parameters: Tsafrir, Etsion and Feitelson, "Modeling user runtime estimates", JSSPP 2005. Which of the twenty
most popular estimates are short or long is drawn from counts in four logs. The model gives how many jobs request each
limit; here each limit is assigned to a job that runs no longer.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import HOUR_S, MINUTE_S

COMMON_ESTIMATES_S = np.array(
    [MINUTE_S * minutes for minutes in (5, 10, 15, 20, 30)]
    + [HOUR_S * hours for hours in (1, 2, 3, 4, 5, 6, 8, 10, 12, 18)]
)
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

    The longest is the most popular. Each other time takes the smaller of two draws from the free ranks that it or a
    shorter one has in a log; a rank that no later time has in any log is taken at once.
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


HEAD_SHARE = 0.89
ROUND_S = tuple(MINUTE_S * minutes for minutes in (12_000, 6_000, 3_000, 600, 300, 120, 60, 20, 10, 5))
JOBS = (0, 20, 200, 1000, 10_000, 70_000, 250_000)
VALUES = (0, 10, 20, 35, 90, 340, 565)
"""The number of different values by the number of jobs, linear in between."""

OUT_OF_THE_WAY_S = (0, 30, -30, 20, -20, 10, -10)


@dataclass(frozen=True)
class EstimateCounts:
    """How many jobs request each limit: values [s] ascending, both int64[values]."""

    value_s: Int64
    jobs: Int64


def draw_estimate_counts(count: int, longest_s: int, rng: Generator) -> EstimateCounts:
    """Draw the requests of `count` jobs (200 or more) if the longest limit is `longest_s` (100 min or more)."""
    values = round(float(np.interp(count, JOBS, VALUES)))
    head_s = head_values_s(longest_s)
    tail_s = tail_values_s(values, head_s)
    head, tail = head_shares()[draw_ranks(rng) - 1], rng.permutation(tail_shares(len(tail_s)))
    value_s = np.array([*head_s, *tail_s])
    by_time = np.argsort(value_s)
    return EstimateCounts(value_s[by_time], whole_jobs(count, np.concatenate([head, tail]))[by_time])


def head_values_s(longest_s: int) -> list[int]:
    """Return the twenty most popular values [s]: the longest first, then the others by time.

    They are the longest, the common ones below it, and the roundest of all others, from the longest downwards.
    """
    values = [longest_s, *(common for common in COMMON_ESTIMATES_S.tolist() if common < longest_s)]
    rounds = (value for step in ROUND_S for value in range(longest_s // step * step, 0, -step))
    others = (value for value in rounds if value not in values)
    while len(values) < HEAD:
        values.append(next(others))
    return [longest_s, *sorted(values[1:])]


def head_shares() -> Float64:
    """Return the share of jobs of each of the twenty most popular values, float64[20], the largest first."""
    rank = np.arange(2, HEAD + 1)
    shares = (14.0491 * np.exp(-0.177531 * rank) + 0.462513) / 100
    return np.concatenate([[HEAD_SHARE - shares.sum()], shares])


def tail_values_s(values: int, head_s: list[int]) -> list[int]:
    """Return the other of so many values [s], in whole minutes; a value that exists already is moved by up to 30 s or
    dropped.

    Their relative times are (a - 1) x / (a - x), where x is the relative rank.
    """
    longest_s = head_s[0]
    a = 1 + 12.1039 * values**-0.6026
    x = np.arange(1, values - HEAD + 1) / max(values - HEAD, 1)
    time_s = np.rint((a - 1) * x / (a - x) * longest_s / MINUTE_S).astype(np.int64) * MINUTE_S
    return list(_beside(time_s.tolist(), set(head_s), longest_s))


def _beside(values_s: list[int], taken_s: set[int], longest_s: int) -> Iterator[int]:
    for value_s in values_s:
        places = (value_s + aside for aside in OUT_OF_THE_WAY_S)
        place = next((place for place in places if 0 < place < longest_s and place not in taken_s), None)
        if place is not None:
            taken_s.add(place)
            yield place


def tail_shares(values: int) -> Float64:
    """Return the share of jobs of each value beyond the twenty most popular, float64[values], the largest first."""
    rank = np.arange(HEAD + 1, HEAD + 1 + values, dtype=np.float64)
    shares: Float64 = 795.6 * np.power(rank, -2.267)
    return np.asarray(shares * (1 - HEAD_SHARE) / shares.sum())


def whole_jobs(count: int, shares: Float64) -> Int64:
    """Return the number of jobs of each share: at least one each, `count` in all."""
    jobs: Int64 = np.maximum(np.rint(shares / shares.sum() * count).astype(np.int64), 1)
    surplus = int(jobs.sum()) - count
    jobs[np.argsort(-jobs, kind="stable")[: abs(surplus)]] -= np.sign(surplus)
    return jobs


FEWEST_JOBS = 200
SHORTEST_LIMIT_S = 100 * MINUTE_S  # below, there are no twenty multiples of five minutes


def tsafrir_estimates_s(runtime_s: Int64, rng: Generator, *, longest_s: int) -> Int64:
    """Draw the limits [s] that the users of these jobs request; none is below its run time, `longest_s` is the longest.

    Raises BadInput for fewer than 200 jobs, or if `longest_s` is below a run time or below 100 minutes.
    """
    if len(runtime_s) < FEWEST_JOBS:
        raise BadInput(f"{len(runtime_s)} jobs are too few for modelled estimates", hint=f"at least {FEWEST_JOBS} jobs")
    needed_s = max(SHORTEST_LIMIT_S, int(runtime_s.max()))
    if longest_s < needed_s:
        raise BadInput(
            f"a longest estimate of {longest_s} s is too short", hint=f"at least {needed_s} s for these jobs"
        )
    return assigned_s(runtime_s, draw_estimate_counts(len(runtime_s), longest_s, rng), rng)


def assigned_s(runtime_s: Int64, requested: EstimateCounts, rng: Generator) -> Int64:
    """Return the limit [s] of each job: all assignments with no limit below its run time are equally likely.

    There are as many limits as jobs. If there are fewer long limits than long jobs, long ones replace short ones.
    """
    shortest = np.searchsorted(requested.value_s, runtime_s).astype(np.int16)
    needed = np.bincount(shortest, minlength=len(requested.value_s))
    enough = EstimateCounts(requested.value_s, sufficient(requested.jobs, needed))
    longest_first = np.argsort(-shortest, kind="stable")
    estimate_s = np.empty(len(runtime_s), np.int64)
    begin = 0
    for given_s in _given_s(enough, needed, rng):
        estimate_s[longest_first[begin : begin + len(given_s)]] = given_s
        begin += len(given_s)
    return estimate_s


def sufficient(requested: Int64, needed: Int64) -> Int64:
    """Return how many jobs request each value, changed as little as needed so that long limits suffice for long jobs.

    `needed` counts the jobs for which this value is the shortest that is long enough; both are int64[values].
    """
    or_longer = np.maximum(np.cumsum(requested[::-1]), np.cumsum(needed[::-1]))
    return np.diff(or_longer, prepend=0)[::-1]


def _given_s(requested: EstimateCounts, needed: Int64, rng: Generator) -> Iterator[Int64]:
    """Yield the limits [s] of the jobs that need each value or a longer one, the longest value first."""
    left = np.zeros_like(needed)
    for value in range(len(needed))[::-1]:
        left[value] = requested.jobs[value]
        given = rng.multivariate_hypergeometric(left, needed[value], method="marginals")
        left -= given
        yield rng.permutation(np.repeat(requested.value_s, given))
