"""Run times by boosted trees: the share of the estimate that a job uses, from its request and its user's past.

The features are those that Gaussier, Glesser, Reis and Trystram ("Improving backfilling by using machine learning to
predict running times", SC 2015) found telling; the trees take the place of their linear model.
"""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs
from predictors.trees.boosted import SCHEDULE, Boosted
from predictors.trees.history import Schedule

EDGES = (0.01, 0.03, 0.1, 0.25, 0.5, 0.75)


@dataclass(frozen=True)
class RunTime:
    """The run time [s] as a share of the user's estimate: from a second to the estimate, as in backfilling."""

    edges: tuple[float, ...] = EDGES

    def actual(self, jobs: Jobs, /) -> Float64:
        """Return the run times, NaN where unknown."""
        return np.where(jobs.runtime_s < 0, np.nan, jobs.runtime_s)

    def scale(self, jobs: Jobs, /) -> Float64:
        """Return the estimates, at least a second."""
        return np.maximum(jobs.estimate_s, 1).astype(np.float64)

    def bounded(self, value: Float64, jobs: Jobs, /) -> Float64:
        """Return the values from a second to the estimate; the estimate where it is less than a second."""
        return np.minimum(np.maximum(value, 1.0), jobs.estimate_s[:, None])

    def at_first(self, jobs: Jobs, /) -> Float64:
        """Return the estimates."""
        return self.scale(jobs)


def boosted_run_time(schedule: Schedule = SCHEDULE) -> Boosted:
    """Return a predictor that has learned nothing."""
    return Boosted("boosted", RunTime(), schedule=schedule)
