"""Jobs as they are known when they are submitted: what a question about a job may hold."""

from dataclasses import replace

import numpy as np

from offpeak.model.jobs import Jobs

UNKNOWN_S = -1


def as_submitted(jobs: Jobs) -> Jobs:
    """Return the jobs without what only time tells: run time and start are -1, the power is NaN, sizes are as asked."""
    unknown_s = np.full(len(jobs), UNKNOWN_S, np.int64)
    return replace(
        jobs,
        runtime_s=unknown_s,
        logged_start_s=unknown_s.copy(),
        node_power_w=np.full(len(jobs), np.nan),
        logged_size=None,
    )
