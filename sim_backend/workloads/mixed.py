"""Generates logs of interactive and batch jobs together, each kind with its own arrivals, as the model's program does.

The program is m_lublin99.c of the Parallel Workloads Archive with INCLUDE_JOBS_TYPE: the next job is always of the
kind whose next arrival comes first, an interactive one where both come in the same second; the queue tells them apart.
"""

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from offpeak.model.jobs import Jobs
from sim_backend.workloads.arrivals import Arrivals, draw_arrivals, stretched
from sim_backend.workloads.demand import Demand, draw_demand
from sim_backend.workloads.job_columns import Estimates, jobs_of
from sim_backend.workloads.lublin import check_request
from sim_backend.workloads.lublin_model import BATCH, INTERACTIVE
from sim_backend.workloads.user_habits import draw_estimates_s, draw_habits_w

KINDS = (INTERACTIVE, BATCH)
"""By queue: 0 is interactive, as the Standard Workload Format suggests."""


def mixed_jobs(
    count: int,
    *,
    machine_size: int,
    seed: Generator | int,
    load: float | None = None,
    estimates: Estimates = draw_estimates_s,
) -> Jobs:
    """Generate `count` jobs of both kinds, in queues 0 (interactive) and 1 (batch); the rest as in `lublin_jobs`."""
    check_request(count, machine_size, load)
    rng = np.random.default_rng(seed)
    habits_w = draw_habits_w(rng)
    arrivals = _first_arrivals(count, rng)
    demand = _joined([draw_demand(len(arrivals[queue].even_s), KINDS[queue], machine_size, rng) for queue in arrivals])
    if load is not None:
        at_load = stretched(tuple(arrivals.values()), demand.span_s(machine_size=machine_size, load=load))
        arrivals = dict(zip(arrivals, at_load, strict=True))
    submit_s = np.concatenate([kind.submit_s() for kind in arrivals.values()])
    queue = np.repeat(list(arrivals), [len(kind.even_s) for kind in arrivals.values()])
    order = np.argsort(submit_s, kind="stable")
    jobs = jobs_of(Demand(demand.size[order], demand.runtime_s[order]), habits_w, estimates, rng)
    return replace(jobs, submit_s=submit_s[order], queue=queue[order])


def _first_arrivals(count: int, rng: Generator) -> dict[int, Arrivals]:
    """Draw the first `count` arrivals of all kinds, by queue; a kind of which none has come yet is left out."""
    drawn = [draw_arrivals(count, model, rng) for model in KINDS]
    clock_s = np.concatenate([kind.clock_s(slice(None)) for kind in drawn])
    first = np.argpartition(clock_s, count - 1)[:count]
    number = np.bincount(first // count, minlength=len(KINDS))
    return {
        queue: replace(kind, even_s=kind.even_s[: number[queue]]) for queue, kind in enumerate(drawn) if number[queue]
    }


def _joined(demands: list[Demand]) -> Demand:
    return Demand(
        np.concatenate([demand.size for demand in demands]), np.concatenate([demand.runtime_s for demand in demands])
    )
