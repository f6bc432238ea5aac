"""How power is spread over jobs: the slides give only the ratio of the hungriest to the most frugal."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs

LOWEST_W = 100.0


def draw_power_w(distribution: str, ratio: float, jobs: Jobs, rng: Generator) -> Float64:
    """Return each job's draw per unit [W], float64[n], from 100 W to `ratio` times that."""
    return LOWEST_W * (1 + (ratio - 1) * DISTRIBUTIONS[distribution](jobs, rng))


def _uniform(jobs: Jobs, rng: Generator) -> Float64:
    return rng.random(len(jobs))


def _two_kinds(jobs: Jobs, rng: Generator) -> Float64:
    return rng.integers(2, size=len(jobs)).astype(np.float64)


def _three_kinds(jobs: Jobs, rng: Generator) -> Float64:
    return rng.integers(3, size=len(jobs)) / 2


def _by_user(jobs: Jobs, rng: Generator) -> Float64:
    users, user = np.unique(jobs.user, return_inverse=True)
    return rng.random(len(users))[user]


def _wide_hungry(jobs: Jobs, rng: Generator) -> Float64:
    return _place(jobs.size, rng)


def _heavy_hungry(jobs: Jobs, rng: Generator) -> Float64:
    return _place(jobs.size * jobs.runtime_s, rng)


def _place(value: NDArray[np.int64], rng: Generator) -> Float64:
    """Return the place of each value among all, from 0 to 1; equal ones in an order of chance."""
    order = np.lexsort((rng.random(len(value)), value))
    place = np.empty(len(value))
    place[order] = np.arange(len(value)) / max(len(value) - 1, 1)
    return place


DISTRIBUTIONS: Mapping[str, Callable[[Jobs, Generator], Float64]] = {
    "uniform": _uniform,
    "two kinds": _two_kinds,
    "three kinds": _three_kinds,
    "by user": _by_user,
    "wide jobs hungry": _wide_hungry,
    "heavy jobs hungry": _heavy_hungry,
}
"""Each job's place between the most frugal (0) and the hungriest (1), by name."""
