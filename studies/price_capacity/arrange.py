"""Lays a log out as a setup wants it: 30 days of it, jobs longer or shorter, at a load; and prices spread otherwise."""

from dataclasses import replace

import numpy as np

from offpeak.jobs import Jobs
from offpeak.prices.series import Series
from offpeak.zones import DAY_S
from studies.dynamic_pricing.arrange import at_load
from studies.dynamic_pricing.logs import Log
from studies.price_capacity.experiment import Setup

STRETCH_S = 30 * DAY_S


def arranged(log: Log, setup: Setup, replay: int) -> Jobs:
    """Return the jobs of a replay."""
    jobs = log.trace.jobs
    # Jobs a quarter as long are four times as many in 30 days at the same load.
    stretch_s = int(STRETCH_S / setup.length)
    stretches = max(log.span_s // stretch_s, 1)
    after_s = jobs.submit_s - jobs.submit_s[0]
    stretch = jobs.take(after_s // stretch_s == replay % stretches)
    return at_load(lengthened(stretch, setup.length), log.size, setup.load)


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
