"""Which of a log's readings of power can be learned from."""

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs

LEAST_W = 0.1
"""Less than a sleeping core draws: what a meter says below it is no reading."""


def readings_w(jobs: Jobs) -> Float64:
    """Return the readings [W per allocated unit], float64[n], NaN where there is none or none that can be."""
    known = np.isfinite(jobs.node_power_w) & (jobs.node_power_w >= LEAST_W)
    return np.where(known, jobs.node_power_w, np.nan)
