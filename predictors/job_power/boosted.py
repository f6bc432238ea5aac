"""A job's draw by boosted trees, from its request and from what its user's jobs drew."""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs
from predictors.job_power.reading import LEAST_W, readings_w
from predictors.trees.boosted import SCHEDULE, Boosted
from predictors.trees.history import Schedule


@dataclass(frozen=True)
class Draw:
    """The power [W per allocated unit]; `at_first_w` is said before there are trees."""

    at_first_w: float
    edges: tuple[float, ...] = ()

    def actual(self, jobs: Jobs, /) -> Float64:
        """Return the readings, NaN where there are none."""
        return readings_w(jobs)

    def scale(self, jobs: Jobs, /) -> Float64:
        """Return 1 W."""
        return np.ones(len(jobs))

    def bounded(self, value: Float64, _jobs: Jobs, /) -> Float64:
        """Return the values, LEAST_W where they are less."""
        return np.maximum(value, LEAST_W)

    def at_first(self, jobs: Jobs, /) -> Float64:
        """Return what was said to say."""
        return np.full(len(jobs), self.at_first_w)


def boosted_power(at_first_w: float, schedule: Schedule = SCHEDULE) -> Boosted:
    """Return a predictor that has learned nothing."""
    return Boosted("boosted", Draw(at_first_w), schedule=schedule)
