"""Problems that are drawn at random."""

from collections.abc import Callable

import numpy as np
import pytest

from offpeak.model.facility import facility_named
from offpeak.plugin.planner.problem import NO_LIMIT, NOTHING_RUNS, NodeCapacities, Problem, Rates, Running, Work

HORIZON_S = 1000
FULL_W = 5000.0

Draw = Callable[..., Problem]


def drawn_problem(jobs: int, *, seed: int, nodes: int = 5, cap_w: int = NO_LIMIT, running: int = 0) -> Problem:
    """Return jobs of one to three units for nodes of 8 cores and a GPU, at two prices and two temperatures."""
    rng = np.random.default_rng(seed)
    units = rng.integers(1, 4, jobs)
    cores = rng.integers(1, 9, jobs)
    duration_s = rng.integers(1, 400, jobs)
    release_s = rng.integers(0, 600, jobs)
    latest_end_s = np.where(rng.random(jobs) < 0.2, release_s + 2 * duration_s + 200, NO_LIMIT)
    size = units * cores
    work = Work(
        np.arange(1, jobs + 1), units, cores, rng.integers(1, 9, jobs), rng.integers(0, 2, jobs) // 1, duration_s,
        release_s, latest_end_s, size * rng.uniform(7.8, 11.11, jobs), size * rng.uniform(0.5, 1.5, jobs) / 3600,
    )  # fmt: skip
    machine = NodeCapacities(np.full(nodes, 8), np.full(nodes, 12), np.full(nodes, 1))
    rates = Rates(np.array([0, 500, HORIZON_S]), np.array([0.1, 0.3]), np.array([10.0, 25.0]), np.full(2, cap_w))
    return Problem(work, machine, _running(running, rng), rates, facility_named("air", full_power_w=FULL_W))


def _running(count: int, rng: np.random.Generator) -> Running:
    if not count:
        return NOTHING_RUNS
    one = np.ones(count, np.int64)
    until_s = rng.integers(1, 1500, count)
    return Running(np.arange(count), until_s, 3 * one, 4 * one, 0 * one, np.full(count, 25.0), np.full(count, 3 / 3600))


@pytest.fixture(scope="session")
def drawn() -> Draw:
    """Draws a problem: `drawn(jobs, seed=, nodes=, cap_w=, running=)`."""
    return drawn_problem
