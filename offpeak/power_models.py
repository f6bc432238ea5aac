"""Rules for what a job draws per node [W]: measured, invented, or looked up; each a frozen value."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.job_power_file import power_from_file
from offpeak.jobs import Float64, Jobs

EXAMPLES = "measured, constant:250W, uniform:100W-300W, classes:100W,200W,300W or file:FILE"


class PowerModel(Protocol):
    """A rule for the draw per node."""

    def draw_w(self, jobs: Jobs, rng: Generator, /) -> Float64:
        """Return each job's draw per node [W], float64[n]; chance comes from `rng` alone."""


@dataclass(frozen=True)
class Measured:
    """The log's readings; a job without one gets the mean of its user's measured jobs, else the mean of all."""

    def draw_w(self, jobs: Jobs, _rng: Generator, /) -> Float64:
        """Return the readings with the gaps filled; BadInput if there is none."""
        known = ~np.isnan(jobs.node_power_w)
        if not known.any():
            raise BadInput("the log holds no measured power", hint=f"choose another job power: {EXAMPLES}")
        return np.where(known, jobs.node_power_w, _mean_of_user_w(jobs, known))


@dataclass(frozen=True)
class Constant:
    """Every job draws the same."""

    power_w: float

    def draw_w(self, jobs: Jobs, _rng: Generator, /) -> Float64:
        """Return the one draw for each job."""
        return np.full(len(jobs), self.power_w)


@dataclass(frozen=True)
class Uniform:
    """Any draw from `low_w` to `high_w` is as likely as another."""

    low_w: float
    high_w: float

    def draw_w(self, jobs: Jobs, rng: Generator, /) -> Float64:
        """Draw a power for each job."""
        return rng.uniform(self.low_w, self.high_w, len(jobs))


@dataclass(frozen=True)
class Classes:
    """One of a few draws, each as likely as another."""

    power_w: tuple[float, ...]

    def draw_w(self, jobs: Jobs, rng: Generator, /) -> Float64:
        """Draw one of the values for each job."""
        return np.array(self.power_w)[rng.integers(len(self.power_w), size=len(jobs))]


@dataclass(frozen=True)
class FromFile:
    """A table of draws by job or by user: see `power_from_file`."""

    path: Path

    def draw_w(self, jobs: Jobs, _rng: Generator, /) -> Float64:
        """Look up each job; BadInput if the table misses one."""
        return power_from_file(self.path, jobs)


def _mean_of_user_w(jobs: Jobs, known: NDArray[np.bool_]) -> Float64:
    users, user = np.unique(jobs.user, return_inverse=True)
    readings = np.bincount(user[known], minlength=len(users))
    total_w = np.bincount(user[known], jobs.node_power_w[known], minlength=len(users))
    mean_w = np.where(readings > 0, total_w / np.maximum(readings, 1), jobs.node_power_w[known].mean())
    return mean_w[user]
