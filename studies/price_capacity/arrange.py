"""Lays a log out as a setup wants it: jobs that fill 30 days, longer or shorter, at a load; and spreads prices."""

from dataclasses import replace

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs
from offpeak.model.local_time import DAY_S
from offpeak.model.step_series import Series
from studies.dynamic_pricing.arrange import at_load
from studies.dynamic_pricing.logs import Log
from studies.price_capacity.experiment import Setup

STRETCH_S = 30 * DAY_S


def arranged(log: Log, setup: Setup, replay: int) -> Jobs:
    """Return the jobs of a replay, submitted from the same day on in every setup: prices differ from month to month."""
    # Jobs a quarter as long are four times as many in 30 days at the same load.
    stretch = stretch_of(log, int(STRETCH_S / setup.length), replay)
    jobs = at_load(lengthened(stretch, setup.length), log.size, setup.load)
    months = stretches_of(log, STRETCH_S)
    begin_s = log.trace.jobs.submit_s[0] + months[replay % len(months)] * STRETCH_S
    return replace(jobs, submit_s=jobs.submit_s - jobs.submit_s[0] + begin_s)


def stretch_of(log: Log, stretch_s: int, replay: int) -> Jobs:
    """Return the jobs of the stretch for a replay: from the first again behind the last."""
    jobs, numbers = log.trace.jobs, stretches_of(log, stretch_s)
    after_s = jobs.submit_s - jobs.submit_s[0]
    return jobs.take(after_s // stretch_s == numbers[replay % len(numbers)])


def stretches_of(log: Log, stretch_s: int) -> Int64:
    """Return the numbers of the log's whole stretches that have jobs, of the first where none is whole."""
    submit_s = log.trace.jobs.submit_s
    numbers: Int64 = np.unique((submit_s - submit_s[0]) // stretch_s)
    return numbers[numbers < max(log.span_s // stretch_s, 1)]


def lengthened(jobs: Jobs, times: float) -> Jobs:
    """Return the jobs with run times and estimates multiplied, a second of each at least."""
    runtime_s, estimate_s = (
        np.maximum(np.rint(column * times), np.minimum(column, 1)).astype(np.int64)
        for column in (jobs.runtime_s, jobs.estimate_s)
    )
    return replace(jobs, runtime_s=runtime_s, estimate_s=estimate_s)


def spread_out(series: Series, times: float) -> Series:
    """Return the series with each value so many times as far from the mean by time."""
    known = series.known
    mean = float(np.average(series.value[known], weights=series.length_s[known]))
    return replace(series, value=mean + times * (series.value - mean))
