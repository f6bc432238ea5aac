"""Which limits users ask for: few values, twenty of which serve 89 % of the jobs.

Model and parameters: Tsafrir, Etsion and Feitelson, "Modeling user runtime estimates", JSSPP 2005.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64, Int64
from sim_backend.workloads.tsafrir_ranks import HEAD, draw_ranks
from sim_backend.workloads.user_habits import COMMON_ESTIMATES_S, MINUTE_S

HEAD_SHARE = 0.89
ROUND_S = tuple(MINUTE_S * minutes for minutes in (12_000, 6_000, 3_000, 600, 300, 120, 60, 20, 10, 5))
JOBS = (0, 20, 200, 1000, 10_000, 70_000, 250_000)
VALUES = (0, 10, 20, 35, 90, 340, 565)
"""How many different values so many jobs ask for, linear in between."""

OUT_OF_THE_WAY_S = (0, 30, -30, 20, -20, 10, -10)


@dataclass(frozen=True)
class Asked:
    """How many jobs ask for each limit: values [s] rising, both int64[values]."""

    value_s: Int64
    jobs: Int64


def draw_asked(count: int, longest_s: int, rng: Generator) -> Asked:
    """Draw what `count` jobs (200 or more) ask for where the longest limit is `longest_s` (100 min or more)."""
    values = round(float(np.interp(count, JOBS, VALUES)))
    head_s = head_values_s(longest_s)
    tail_s = tail_values_s(values, head_s)
    head, tail = head_shares()[draw_ranks(rng) - 1], rng.permutation(tail_shares(len(tail_s)))
    value_s = np.array([*head_s, *tail_s])
    by_time = np.argsort(value_s)
    return Asked(value_s[by_time], whole_jobs(count, np.concatenate([head, tail]))[by_time])


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
    """Return the other of so many values [s], in whole minutes; one that is taken moves aside by up to 30 s or goes.

    Their relative times are (a - 1) x / (a - x), x being their relative ranks.
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
    """Return how many of `count` jobs each share stands for: at least one, `count` in all."""
    jobs: Int64 = np.maximum(np.rint(shares / shares.sum() * count).astype(np.int64), 1)
    surplus = int(jobs.sum()) - count
    jobs[np.argsort(-jobs, kind="stable")[: abs(surplus)]] -= np.sign(surplus)
    return jobs
