"""Gives jobs the limits that users would ask for, after Tsafrir, Etsion and Feitelson, JSSPP 2005.

The model says how many jobs ask for what; here each of these limits goes to a job that runs no longer.
"""

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from sim_backend.workloads.tsafrir_model import Asked, draw_asked
from sim_backend.workloads.user_habits import MINUTE_S

FEWEST_JOBS = 200
SHORTEST_LIMIT_S = 100 * MINUTE_S  # below, there are no twenty multiples of five minutes


def tsafrir_estimates_s(runtime_s: Int64, *, longest_s: int, rng: Generator) -> Int64:
    """Draw the limits [s] that the users of these jobs ask for; none is below its run time, `longest_s` is the longest.

    BadInput for fewer than 200 jobs, or if `longest_s` is below a run time or below 100 minutes.
    """
    if len(runtime_s) < FEWEST_JOBS:
        raise BadInput(f"{len(runtime_s)} jobs are too few for modelled estimates", hint=f"at least {FEWEST_JOBS} jobs")
    needed_s = max(SHORTEST_LIMIT_S, int(runtime_s.max()))
    if longest_s < needed_s:
        raise BadInput(
            f"a longest estimate of {longest_s} s is too short", hint=f"at least {needed_s} s for these jobs"
        )
    return assigned_s(runtime_s, draw_asked(len(runtime_s), longest_s, rng), rng)


def assigned_s(runtime_s: Int64, asked: Asked, rng: Generator) -> Int64:
    """Return who gets which limit [s]: all assignments with no limit below its run time are equally likely.

    There are as many limits as jobs. Where more jobs run long than limits are long, long enough ones take the place
    of short ones.
    """
    shortest = np.searchsorted(asked.value_s, runtime_s).astype(np.int16)
    needed = np.bincount(shortest, minlength=len(asked.value_s))
    enough = Asked(asked.value_s, sufficient(asked.jobs, needed))
    longest_first = np.argsort(-shortest, kind="stable")
    estimate_s = np.empty(len(runtime_s), np.int64)
    begin = 0
    for given_s in _given_s(enough, needed, rng):
        estimate_s[longest_first[begin : begin + len(given_s)]] = given_s
        begin += len(given_s)
    return estimate_s


def sufficient(asked: Int64, needed: Int64) -> Int64:
    """Return how many jobs ask for each value, changed as little as needed so that long limits suffice for long jobs.

    `needed` counts the jobs for which this value is the shortest that is long enough; both are int64[values].
    """
    or_longer = np.maximum(np.cumsum(asked[::-1]), np.cumsum(needed[::-1]))
    return np.diff(or_longer, prepend=0)[::-1]


def _given_s(asked: Asked, needed: Int64, rng: Generator) -> Iterator[Int64]:
    """Yield the limits [s] of the jobs that need each value or a longer one, the longest value first."""
    left = np.zeros_like(needed)
    for value in range(len(needed))[::-1]:
        left[value] = asked.jobs[value]
        given = rng.multivariate_hypergeometric(left, needed[value], method="marginals")
        left -= given
        yield rng.permutation(np.repeat(asked.value_s, given))
