"""Generates job logs after Lublin and Feitelson, "The workload on parallel supercomputers", JPDC 63(11), 2003."""

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from offpeak.errors import BadInput
from offpeak.jobs import Float64, Int64, Jobs
from sim_backend.workloads.arrivals import blocks, draw_submits_s
from sim_backend.workloads.lublin_model import BATCH, Lublin
from sim_backend.workloads.user_habits import draw_estimates_s, draw_habits_w, draw_node_power_w, draw_users

LONGEST_RUN_LOG = 12.0  # e^12 s are two days
LOWEST_LOAD, HIGHEST_LOAD = 0.001, 1000.0


def lublin_jobs(
    count: int, *, machine_size: int, seed: Generator | int, load: float | None = None, model: Lublin = BATCH
) -> Jobs:
    """Generate `count` jobs for a machine of that many units, with estimates, users and power per unit.

    Second 0 is a midnight of local time. With `load`, gaps are scaled so that sum(size * runtime) over machine_size
    times the span of the submissions is `load`; the daily cycle stays. The same seed gives the same jobs.
    """
    _check(count, machine_size, load)
    rng = np.random.default_rng(seed)
    jobs = _unfilled(count)
    habits_w = draw_habits_w(rng)
    for block in blocks(count):
        _draw_demand(jobs, block, model, machine_size, rng)
        jobs.node_power_w[block] = draw_node_power_w(jobs.user[block], habits_w, rng)
    span_s = None if load is None else float(np.dot(jobs.size, jobs.runtime_s)) / (machine_size * load)
    return replace(jobs, submit_s=draw_submits_s(count, model, rng, span_s=span_s))


def _check(count: int, machine_size: int, load: float | None) -> None:
    fewest = 1 if load is None else 2
    if count < fewest:
        raise BadInput(f"cannot generate {count} jobs", hint=f"ask for at least {fewest}")
    if machine_size < 1:
        raise BadInput(f"a machine of {machine_size} nodes runs no job", hint="give at least one node")
    if load is not None and not LOWEST_LOAD <= load <= HIGHEST_LOAD:
        hint = f"give the share of the machine that the jobs ask for, {LOWEST_LOAD:g} to {HIGHEST_LOAD:g}, such as 0.75"
        raise BadInput(f"no log has a load of {load:g}", hint=hint)


def _unfilled(count: int) -> Jobs:
    # The model knows neither groups nor queues: one value for all takes no memory.
    unknown = np.broadcast_to(np.int64(-1), count)
    return Jobs(
        job_id=np.arange(1, count + 1, dtype=np.int64),
        submit_s=np.empty(count, np.int64),
        runtime_s=np.empty(count, np.int64),
        estimate_s=np.empty(count, np.int64),
        size=np.empty(count, np.int64),
        user=np.empty(count, np.int64),
        group=unknown,
        queue=unknown,
        application=unknown,
        logged_start_s=unknown,
        node_power_w=np.empty(count, np.float64),
    )


def _draw_demand(jobs: Jobs, block: slice, model: Lublin, machine_size: int, rng: Generator) -> None:
    count = block.stop - block.start
    jobs.size[block] = draw_sizes(count, model, machine_size, rng)
    jobs.runtime_s[block] = draw_runtimes_s(jobs.size[block], model, rng)
    jobs.estimate_s[block] = draw_estimates_s(jobs.runtime_s[block], rng)
    jobs.user[block] = draw_users(count, rng)


def draw_sizes(count: int, model: Lublin, machine_size: int, rng: Generator) -> Int64:
    """Draw sizes, int64[count] in 1..machine_size: serial, powers of two, or anything between."""
    highest = np.log2(machine_size)
    lowest = min(model.lowest, highest)
    medium = max(lowest, highest - model.medium_below)
    kind = rng.random(count)
    small = rng.random(count) <= model.small
    low, high = np.where(small, lowest, medium), np.where(small, medium, highest)
    log2_size = low + (high - low) * rng.random(count)
    rounded = np.where(kind <= model.serial + model.power_of_two, np.floor(log2_size + 0.5), log2_size)
    size = np.where(kind <= model.serial, 1, np.floor(2**rounded + 0.5))
    return np.clip(size.astype(np.int64), 1, machine_size)


def draw_runtimes_s(size: Int64, model: Lublin, rng: Generator) -> Int64:
    """Draw run times [s], at least 1; wide jobs tend to be long."""
    short_share = np.clip(model.short_slope * size + model.short_at_0, 0, 1)
    log_s = np.full(len(size), np.inf)
    while len(excess := np.flatnonzero(log_s > LONGEST_RUN_LOG)):
        log_s[excess] = _hyper_gamma(short_share[excess], model, rng)
    runtime_s: Float64 = np.maximum(np.exp(log_s), 1)
    return runtime_s.astype(np.int64)


def _hyper_gamma(short_share: Float64, model: Lublin, rng: Generator) -> Float64:
    short = rng.random(len(short_share)) <= short_share
    shape = np.where(short, model.short.shape, model.long.shape)
    scale = np.where(short, model.short.scale, model.long.scale)
    return np.asarray(rng.standard_gamma(shape) * scale)
