"""Lays a log out as a setup wants it: on a smaller machine, shorter, busier, faster, or one month of it."""

from dataclasses import replace

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs
from offpeak.model.local_time import DAY_S
from studies.dynamic_pricing.experiment import Setup
from studies.dynamic_pricing.logs import Log

MONTH_S = 30 * DAY_S


def arranged(log: Log, setup: Setup) -> tuple[Jobs, int]:
    """Return the jobs that are replayed and the size of their machine."""
    size = setup.machine_size or log.size
    jobs = log.trace.jobs
    jobs = jobs.take(np.flatnonzero(jobs.size <= size)[: setup.first_jobs])
    if setup.load is not None:
        jobs = at_load(jobs, size, setup.load)
    if setup.compressed > 1:
        jobs = faster(jobs, setup.compressed)
    if setup.month is not None:
        jobs = jobs.take(month_of(jobs) == setup.month)
    return jobs, size


def offered_load(jobs: Jobs, size: int) -> float:
    """Return the share of the machine that the jobs ask for, from the first to the last submission."""
    span_s = max(int(jobs.submit_s[-1] - jobs.submit_s[0]), 1)
    return float(np.dot(jobs.size, jobs.runtime_s)) / (size * span_s)


def at_load(jobs: Jobs, size: int, load: float) -> Jobs:
    """Return the jobs with the gaps between submissions scaled to an offered load."""
    first_s = jobs.submit_s[0]
    scaled_s = (jobs.submit_s - first_s) * (offered_load(jobs, size) / load)
    return replace(jobs, submit_s=first_s + np.rint(scaled_s).astype(np.int64))


def faster(jobs: Jobs, times: int) -> Jobs:
    """Return the jobs with gaps, run times and estimates divided; a run or an estimate keeps a second at least."""
    first_s = jobs.submit_s[0]
    return replace(
        jobs,
        submit_s=first_s + (jobs.submit_s - first_s) // times,
        runtime_s=np.maximum(jobs.runtime_s // times, np.minimum(jobs.runtime_s, 1)),
        estimate_s=np.maximum(jobs.estimate_s // times, np.minimum(jobs.estimate_s, 1)),
    )


def month_of(jobs: Jobs) -> Int64:
    """Return the number of each job's 30-day stretch after the first submission, int64[n]."""
    after_s: Int64 = jobs.submit_s - jobs.submit_s[0]
    return after_s // MONTH_S


def months_of(log: Log, setup: Setup) -> int:
    """Return how many whole 30-day stretches a setup has."""
    jobs, _ = arranged(log, replace(setup, month=None))
    return int(jobs.submit_s[-1] - jobs.submit_s[0]) // MONTH_S
