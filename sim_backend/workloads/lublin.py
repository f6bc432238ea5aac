"""Generates job logs after Lublin and Feitelson, "The workload on parallel supercomputers", JPDC 63(11), 2003."""

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from offpeak.errors import BadInput
from offpeak.model.jobs import Jobs
from sim_backend.workloads.arrivals import draw_arrivals, stretched
from sim_backend.workloads.demand import draw_demand
from sim_backend.workloads.job_columns import Estimates, jobs_of
from sim_backend.workloads.lublin_model import BATCH, Lublin
from sim_backend.workloads.user_habits import draw_estimates_s, draw_habits_w

LOWEST_LOAD, HIGHEST_LOAD = 0.001, 1000.0
MOST_JOBS = 100_000_000  # their columns take 8 GB
LARGEST_MACHINE = 100_000_000


def lublin_jobs(
    count: int,
    *,
    machine_size: int,
    seed: Generator | int,
    load: float | None = None,
    model: Lublin = BATCH,
    estimates: Estimates = draw_estimates_s,
) -> Jobs:
    """Generate `count` jobs of one kind for a machine of that many units, with estimates, users and power per unit.

    Second 0 is a midnight of local time. With `load`, gaps are scaled so that sum(size * runtime) over machine_size
    times the span of the submissions is `load`; the daily cycle stays. The same seed gives the same jobs.
    """
    check_request(count, machine_size, load)
    rng = np.random.default_rng(seed)
    habits_w = draw_habits_w(rng)
    demand = draw_demand(count, model, machine_size, rng)
    jobs = jobs_of(demand, habits_w, estimates, rng)
    arrivals = draw_arrivals(count, model, rng)
    if load is not None:
        (arrivals,) = stretched((arrivals,), demand.span_s(machine_size=machine_size, load=load))
    return replace(jobs, submit_s=arrivals.submit_s())


def check_request(count: int, machine_size: int, load: float | None) -> None:
    """Raise BadInput if no such log can be generated."""
    fewest = 1 if load is None else 2
    if not fewest <= count <= MOST_JOBS:
        raise BadInput(f"cannot generate {count:,} jobs", hint=f"ask for {fewest} to {MOST_JOBS:,}")
    if not 1 <= machine_size <= LARGEST_MACHINE:
        hint = f"give 1 to {LARGEST_MACHINE:,} nodes"
        raise BadInput(f"cannot generate jobs for a machine of {machine_size:,} nodes", hint=hint)
    if load is not None and not LOWEST_LOAD <= load <= HIGHEST_LOAD:
        hint = f"give the share of the machine that the jobs ask for, {LOWEST_LOAD:g} to {HIGHEST_LOAD:g}, such as 0.75"
        raise BadInput(f"no log has a load of {load:g}", hint=hint)
