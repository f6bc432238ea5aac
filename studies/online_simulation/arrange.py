"""Lays a log out as a setup wants it: from a day on, on its machine, submissions shifted by chance."""

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from offpeak.model.jobs import Jobs
from offpeak.model.local_time import DAY_S
from sim_backend.replications import LARGEST_SHIFT_S
from studies.online_simulation.experiment import Setup


def arranged(jobs: Jobs, setup: Setup) -> Jobs:
    """Return the jobs that are replayed."""
    after_s = jobs.submit_s - jobs.submit_s[0]
    return jobs.take((jobs.size <= setup.size) & (after_s >= setup.first_day * DAY_S))


def shifted(jobs: Jobs, rng: Generator) -> Jobs:
    """Return the jobs, each submitted 0 to 60 s later, in their new order."""
    submit_s = jobs.submit_s + rng.integers(0, LARGEST_SHIFT_S, len(jobs), endpoint=True)
    return replace(jobs, submit_s=submit_s).take(np.argsort(submit_s, kind="stable"))
