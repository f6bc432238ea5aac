"""Makes jobs of what they demand: numbers them, and draws who submits them, for how long, and what they draw."""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from sim_backend.workloads.blocks import blocks
from sim_backend.workloads.demand import Demand
from sim_backend.workloads.user_habits import draw_node_power_w, draw_users

Estimates = Callable[[Int64, Generator], Int64]
"""Draws the limits [s] that users ask for, from the run times [s] of all jobs; none is below its run time."""


def jobs_of(demand: Demand, habits_w: Float64, estimates: Estimates, rng: Generator) -> Jobs:
    """Return the jobs, numbered from 1, all submitted in second 0 by users with these habits."""
    count = len(demand.size)
    # One value for all takes no memory.
    unknown, zero = np.broadcast_to(np.int64(-1), count), np.broadcast_to(np.int64(0), count)
    estimate_s = estimates(demand.runtime_s, rng)
    user, node_power_w = _users(count, habits_w, rng)
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


def _users(count: int, habits_w: Float64, rng: Generator) -> tuple[Int64, Float64]:
    user, node_power_w = np.empty(count, np.int64), np.empty(count)
    for block in blocks(count):
        user[block] = draw_users(block.stop - block.start, rng)
        node_power_w[block] = draw_node_power_w(user[block], habits_w, rng)
    return user, node_power_w
