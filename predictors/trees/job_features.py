"""What trees look at to judge a job: its request, its hour, and what jobs like it did so far."""

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from predictors.state import State
from predictors.trees.running import RunningStatistics

DAY_S, HOUR_S, WEEK_DAYS = 86_400, 3_600, 7

USER, GROUP, QUEUE, APPLICATION, SIZE, ESTIMATE = range(6)
KINDS = (
    (USER,),
    (USER, SIZE),
    (USER, ESTIMATE),
    (USER, SIZE, ESTIMATE),
    (USER, APPLICATION),
    (GROUP, QUEUE),
)
"""Jobs are alike that have these columns in common."""

REQUEST_COLUMNS = 4


class JobFeatures:
    """Turns jobs into rows of features; remembers of each outcome its `target`."""

    def __init__(self) -> None:
        self._running = RunningStatistics(KINDS, targets=1)

    @property
    def columns(self) -> int:
        """How many features a job has."""
        return self._running.columns + REQUEST_COLUMNS

    def learn(self, category: Int64, target: Float64) -> None:
        """Take in jobs that ended, one after the other: their `categories` and finite targets float64[n]."""
        self._running.learn(category, target[:, None])

    def of(self, jobs: Jobs) -> Float64:
        """Return float64[n, columns] of jobs as submitted: each row depends on its own job alone."""
        return np.hstack([self._running.of(categories(jobs)), _request(jobs)])

    def state(self) -> State:
        """Return what was remembered."""
        return self._running.state()

    def restore(self, state: State) -> None:
        """Take over what was remembered."""
        self._running.restore(state)


def categories(jobs: Jobs) -> Int64:
    """Return the columns of which KINDS are made, int64[n, 6]."""
    return np.stack([jobs.user, jobs.group, jobs.queue, jobs.application, jobs.size, jobs.estimate_s], axis=1)


def _request(jobs: Jobs) -> Float64:
    """Return estimate and size as logarithms, hour and day of the week, both by the trace's own zero."""
    day = jobs.submit_s // DAY_S
    estimate, size = np.log(np.maximum(jobs.estimate_s, 1)), np.log(np.maximum(jobs.size, 1))
    return np.stack([estimate, size, (jobs.submit_s - day * DAY_S) / HOUR_S, day % WEEK_DAYS], axis=1)
