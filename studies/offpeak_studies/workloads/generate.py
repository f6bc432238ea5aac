"""Generates a complete job log: its jobs and the notes in its header.

The model is that of Lublin and Feitelson, "The workload on parallel supercomputers", JPDC 63(11), 2003. A mixed log has
interactive and batch jobs, each kind with its own arrivals, like the model's program m_lublin99.c of the Parallel
Workloads Archive with INCLUDE_JOBS_TYPE. The next job is of the kind whose next arrival comes first, an interactive one
if both come in the same second; the queue distinguishes the kinds.

The models of the other columns are simple. Users: the k-th most active one submits in proportion to 1/k (Zipf).
Estimates: users request too much and choose few round values (Tsafrir, Etsion and Feitelson 2005); here the smallest
common value that is at least the run time times a factor uniform in 1..5 (the "f-model" with f = 4). Power: each user
runs one kind of program, whose draw per node, between 100 and 300 W, varies by 5 % from job to job.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.random import Generator

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.jobs import Jobs
from offpeak.text import did_you_mean
from offpeak_studies.workloads import lublin_model
from offpeak_studies.workloads.tsafrir import COMMON_ESTIMATES_S, FEWEST_JOBS, tsafrir_estimates_s

USERS = 100
LARGEST_OVERESTIMATE = 5.0
LOWEST_W, HIGHEST_W = 100.0, 300.0
POWER_SPREAD = 0.05


def draw_users(count: int, rng: Generator) -> Int64:
    """Draw the user of each job: int64[count] in 1..USERS, 1 the most active."""
    shares = 1.0 / np.arange(1, USERS + 1)
    cumulative = np.cumsum(shares) / shares.sum()
    return np.searchsorted(cumulative, rng.random(count), side="right").clip(max=USERS - 1) + 1


def draw_estimates_s(runtime_s: Int64, rng: Generator) -> Int64:
    """Draw the limits [s] that users request, never below the run time."""
    estimate_s = np.empty_like(runtime_s)
    for block in lublin_model.blocks(len(runtime_s)):
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


def jobs_of(demand: lublin_model.JobDemand, user_power_w: Float64, estimates: Estimates, rng: Generator) -> Jobs:
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
    for block in lublin_model.blocks(count):
        user[block] = draw_users(block.stop - block.start, rng)
        node_power_w[block] = draw_node_power_w(user[block], user_power_w, rng)
    return user, node_power_w


LOWEST_LOAD, HIGHEST_LOAD = 0.001, 1000.0
MOST_JOBS = 100_000_000  # their columns take 8 GB
LARGEST_MACHINE = 100_000_000


def lublin_jobs(
    count: int,
    *,
    machine_size: int,
    seed: Generator | int,
    load: float | None = None,
    model: lublin_model.Lublin = lublin_model.BATCH,
    estimates: Estimates = draw_estimates_s,
) -> Jobs:
    """Generate `count` jobs of one kind for a machine of that many units, with estimates, users and power per unit.

    Second 0 is a local midnight. With `load`, gaps are scaled so that sum(size * runtime) divided by machine_size times
    the span of the submissions is `load`; the daily cycle stays. The same seed gives the same jobs.
    """
    check_request(count, machine_size, load)
    rng = np.random.default_rng(seed)
    user_power_w = draw_user_power_w(rng)
    demand = lublin_model.draw_demand(count, model, machine_size, rng)
    jobs = jobs_of(demand, user_power_w, estimates, rng)
    arrivals = lublin_model.draw_arrivals(count, model, rng)
    if load is not None:
        (arrivals,) = lublin_model.stretched((arrivals,), demand.span_s(machine_size=machine_size, load=load))
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


KINDS = (lublin_model.INTERACTIVE, lublin_model.BATCH)
"""The models by queue: 0 is interactive, as the Standard Workload Format suggests."""


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
    user_power_w = draw_user_power_w(rng)
    drawn = [lublin_model.draw_arrivals(count, model, rng) for model in KINDS]
    clock_s = np.concatenate([kind.clock_s(slice(None)) for kind in drawn])
    first = np.argpartition(clock_s, count - 1)[:count]
    number = np.bincount(first // count, minlength=len(KINDS))
    arrivals = {
        queue: replace(kind, even_s=kind.even_s[: number[queue]]) for queue, kind in enumerate(drawn) if number[queue]
    }
    demand = _joined(
        [lublin_model.draw_demand(len(arrivals[queue].even_s), KINDS[queue], machine_size, rng) for queue in arrivals]
    )
    if load is not None:
        at_load = lublin_model.stretched(tuple(arrivals.values()), demand.span_s(machine_size=machine_size, load=load))
        arrivals = dict(zip(arrivals, at_load, strict=True))
    submit_s = np.concatenate([kind.submit_s() for kind in arrivals.values()])
    queue = np.repeat(list(arrivals), [len(kind.even_s) for kind in arrivals.values()])
    order = np.argsort(submit_s, kind="stable")
    jobs = jobs_of(lublin_model.JobDemand(demand.size[order], demand.runtime_s[order]), user_power_w, estimates, rng)
    return replace(jobs, submit_s=submit_s[order], queue=queue[order])


def _joined(demands: list[lublin_model.JobDemand]) -> lublin_model.JobDemand:
    return lublin_model.JobDemand(
        np.concatenate([demand.size for demand in demands]), np.concatenate([demand.runtime_s for demand in demands])
    )


MIXED = "mixed"
ONE_KIND = {"batch": lublin_model.BATCH, "interactive": lublin_model.INTERACTIVE, "typeless": lublin_model.TYPELESS}
MODELS = (*ONE_KIND, MIXED)
LONGEST_LIMIT_H = 48
"""The longest limit: the model cuts run times at e^12 s, 45 hours."""


@dataclass(frozen=True)
class LogRequest:
    """A request for a log: the number of jobs and of nodes, the model (of MODELS), the load and the seed."""

    jobs: int
    nodes: int
    load: float
    model: str
    seed: int


def generate_jobs(request: LogRequest) -> Jobs:
    """Generate the log's jobs; the same request gives the same jobs. Raises BadInput."""
    if request.model not in MODELS:
        raise BadInput(f"unknown workload model {request.model!r}", hint=did_you_mean(request.model, MODELS))
    estimates: Estimates = draw_estimates_s
    if has_modelled_estimates(request):
        # The limit of the site is two days.
        estimates = partial(tsafrir_estimates_s, longest_s=LONGEST_LIMIT_H * HOUR_S)
    size, seed, load = request.nodes, request.seed, request.load
    if request.model == MIXED:
        return mixed_jobs(request.jobs, machine_size=size, seed=seed, load=load, estimates=estimates)
    model = ONE_KIND[request.model]
    return lublin_jobs(request.jobs, machine_size=size, seed=seed, load=load, model=model, estimates=estimates)


def has_modelled_estimates(request: LogRequest) -> bool:
    """Tell whether there are enough jobs for the model of estimates."""
    return request.jobs >= FEWEST_JOBS


def notes_of(request: LogRequest) -> tuple[str, ...]:
    """Return the lines of the header that describe how the log was generated."""
    options = f"--jobs {request.jobs} --nodes {request.nodes} --load {request.load:g}"
    estimates = "common values from 1 to 5 times the run time"
    if has_modelled_estimates(request):
        estimates = f"Tsafrir, Etsion and Feitelson, JSSPP 2005, at most {LONGEST_LIMIT_H} h"
    return (
        f"Generated by `offpeak generate {options} --model {request.model} --seed {request.seed}`; no real machine.",
        f"Jobs: Lublin and Feitelson, JPDC 63(11), 2003, {request.model}. Requested times: {estimates}.",
    )
