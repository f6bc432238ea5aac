"""The other columns of a generated log: the users, the limits that they request, and the power of their programs.

The models are simple. Users: the k-th most active one submits in proportion to 1/k (Zipf). Estimates: users request too
much and choose few round values (Tsafrir, Etsion and Feitelson 2005); here the smallest common value that is at least
the run time times a factor uniform in 1..5 (the "f-model" with f = 4). Power: each user runs one kind of program, whose
draw per node, between 100 and 300 W, varies by 5 % from job to job.
"""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S
from offpeak.model.jobs import Jobs
from sim_backend.workloads.lublin_model import JobDemand, blocks

USERS = 100
LARGEST_OVERESTIMATE = 5.0
LOWEST_W, HIGHEST_W = 100.0, 300.0
POWER_SPREAD = 0.05

COMMON_ESTIMATES_S = np.array(
    [MINUTE_S * minutes for minutes in (5, 10, 15, 20, 30)]
    + [HOUR_S * hours for hours in (1, 2, 3, 4, 5, 6, 8, 10, 12, 18)]
)


def draw_users(count: int, rng: Generator) -> Int64:
    """Draw the user of each job: int64[count] in 1..USERS, 1 the most active."""
    shares = 1.0 / np.arange(1, USERS + 1)
    cumulative = np.cumsum(shares) / shares.sum()
    return np.searchsorted(cumulative, rng.random(count), side="right").clip(max=USERS - 1) + 1


def draw_estimates_s(runtime_s: Int64, rng: Generator) -> Int64:
    """Draw the limits [s] that users request, never below the run time."""
    estimate_s = np.empty_like(runtime_s)
    for block in blocks(len(runtime_s)):
        overestimate = rng.uniform(1.0, LARGEST_OVERESTIMATE, block.stop - block.start)
        estimate_s[block] = round_estimates_s(np.ceil(runtime_s[block] * overestimate).astype(np.int64))
    return estimate_s


def round_estimates_s(needed_s: Int64) -> Int64:
    """Round up to the next common estimate [s]: 5 min to 18 h, then whole days."""
    rank = np.searchsorted(COMMON_ESTIMATES_S, needed_s)
    common = COMMON_ESTIMATES_S[np.minimum(rank, len(COMMON_ESTIMATES_S) - 1)]
    whole_days = -(-needed_s // DAY_S) * DAY_S
    return np.where(rank < len(COMMON_ESTIMATES_S), common, whole_days)


def draw_user_power_w(rng: Generator) -> Float64:
    """Draw each user's usual draw per node [W], float64[USERS]."""
    return rng.uniform(LOWEST_W, HIGHEST_W, USERS)


def draw_node_power_w(user: Int64, user_power_w: Float64, rng: Generator) -> Float64:
    """Draw the jobs' power per node [W], to 0.1 W as a meter shows it."""
    return np.round(user_power_w[user - 1] * (1 + POWER_SPREAD * rng.standard_normal(len(user))), 1)


Estimates = Callable[[Int64, Generator], Int64]
"""Draws the limits [s] that users request from the run times [s] of all jobs; none is below its run time."""


def jobs_of(demand: JobDemand, user_power_w: Float64, estimates: Estimates, rng: Generator) -> Jobs:
    """Return the jobs, numbered from 1, all submitted in second 0 by users with these habits."""
    count = len(demand.size)
    # A broadcast value takes no memory.
    unknown, zero = np.broadcast_to(np.int64(-1), count), np.broadcast_to(np.int64(0), count)
    estimate_s = estimates(demand.runtime_s, rng)
    user, node_power_w = _users(count, user_power_w, rng)
    return Jobs(
        job_id=np.arange(1, count + 1, dtype=np.int64),
        submit_s=zero,
        runtime_s=demand.runtime_s,
        estimate_s=estimate_s,
        size=demand.size,
        user=user,
        group=unknown,
        queue=unknown,
        application=unknown,
        logged_start_s=unknown,
        node_power_w=node_power_w,
    )


def _users(count: int, user_power_w: Float64, rng: Generator) -> tuple[Int64, Float64]:
    user, node_power_w = np.empty(count, np.int64), np.empty(count)
    for block in blocks(count):
        user[block] = draw_users(block.stop - block.start, rng)
        node_power_w[block] = draw_node_power_w(user[block], user_power_w, rng)
    return user, node_power_w
