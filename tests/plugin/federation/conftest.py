"""Cycles of a federation: made by hand, or drawn from a seed."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from offpeak.model.arrays import Float64
from offpeak.model.step_series import Series
from offpeak.plugin.federation.cycle import GridCycle, GridRules, SiteStates
from offpeak.plugin.federation.jobs import GridJobs, grid_jobs
from offpeak.plugin.federation.sites import Grid, Site

HOUR_S = 3600
NOW_S = 389_445 * HOUR_S
RULES = GridRules()


def flat(value: float, unit: str = "EUR/MWh") -> Series:
    return Series(np.array([NOW_S]), NOW_S + 7 * 86_400, np.array([value]), unit, "flat")


def states_of(grid: Grid) -> SiteStates:
    count = len(grid)
    return SiteStates(
        grid.units.copy(),
        np.zeros(count, np.int64),
        np.zeros(count, np.bool_),
        (flat(50.0),) * count,
        (flat(400.0, "g/kWh"),) * count,
        grid.allocated_core_s,
    )


def made_cycle(
    grid: Grid, jobs: GridJobs, wait_s: object = 0.0, rules: GridRules = RULES, **states: object
) -> GridCycle:
    shape = (len(jobs), len(grid))
    waits: Float64 = np.broadcast_to(np.asarray(wait_s, np.float64), shape).copy()
    known = {name: np.asarray(state) if isinstance(state, list) else state for name, state in states.items()}
    return GridCycle(NOW_S, grid, jobs, replace(states_of(grid), **known), waits, rules)


def hourly(rng: np.random.Generator, low: float, high: float, unit: str) -> Series:
    hours = NOW_S + HOUR_S * np.arange(72)
    return Series(hours, int(hours[-1]) + HOUR_S, rng.uniform(low, high, 72), unit, "drawn")


def drawn_site(rng: np.random.Generator, name: str, most: int | None) -> Site:
    return Site(
        name,
        units=int(rng.integers(64, 4096)),
        unit_w=float(rng.uniform(15, 90)),
        core_gflops=float(rng.uniform(7, 21)),
        pue=float(rng.uniform(1.0, 1.8)),
        max_per_cycle=most,
    )


def drawn_cycle(
    jobs: int, sites: int, seed: int = 1, *, most: int | None = None, rules: GridRules = RULES
) -> GridCycle:
    rng = np.random.default_rng(seed)
    grid = Grid(tuple(drawn_site(rng, f"s{number}", most) for number in range(sites)))
    columns = grid_jobs(
        job_id=np.arange(jobs) + 100,
        cores=2 ** rng.integers(0, 11, jobs),
        estimate_s=rng.integers(60, 172_800, jobs),
        submit_s=NOW_S,
        home=rng.integers(0, sites, jobs),
    )
    return made_cycle(
        grid,
        columns,
        rng.exponential(7200, (jobs, sites)) * (rng.random((jobs, sites)) < 0.7),
        rules,
        idle_units=rng.integers(0, grid.units),
        queued=rng.integers(0, 3, sites),
        price=tuple(hourly(rng, 20, 90, "EUR/MWh") for _ in range(sites)),
        carbon=tuple(hourly(rng, 20, 900, "g/kWh") for _ in range(sites)),
    )


@pytest.fixture(scope="session")
def draw() -> Callable[..., GridCycle]:
    """Draws a cycle of so many jobs and sites."""
    return drawn_cycle


@pytest.fixture(scope="session")
def make() -> Callable[..., GridCycle]:
    """Makes a cycle of sites that are idle, at 50 EUR/MWh and 400 g/kWh unless said otherwise."""
    return made_cycle


@pytest.fixture(scope="session")
def constant() -> Callable[..., Series]:
    """A price that holds for the week from the cycle's now on."""
    return flat
