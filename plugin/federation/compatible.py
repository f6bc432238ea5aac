"""Which jobs can run at which sites, and what is missing where they cannot."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from plugin.federation.choice import Miss
from plugin.federation.cycle import Cycle


@dataclass(frozen=True, eq=False)
class Fit:
    """What keeps jobs from sites, bool[n, m] each: True where it does not."""

    answers: NDArray[np.bool_]
    foreseen: NDArray[np.bool_]
    wide: NDArray[np.bool_]
    long: NDArray[np.bool_]
    features: NDArray[np.bool_]
    allocation: NDArray[np.bool_]

    @property
    def compatible(self) -> NDArray[np.bool_]:
        """Where nothing does."""
        return self.answers & self.foreseen & self.wide & self.long & self.features & self.allocation


def fit_of(cycle: Cycle, units: Int64, runtime_s: Float64) -> Fit:
    """Return what fits, given the units int64[n, m] and the run times [s] float64[n, m] of jobs at sites.

    As in section 3.3.1 of the day-ahead paper, but a job as wide or as long as the limit fits, and its time is the one
    at that site.
    """
    jobs, grid = cycle.jobs, cycle.grid
    wanted = jobs.features[:, None]
    asked_core_s = units * grid.cores_per_unit * runtime_s
    return Fit(
        np.broadcast_to(~cycle.states.stale, units.shape),
        np.isfinite(cycle.wait_s),
        jobs.cores[:, None] <= grid.largest_cores,
        runtime_s <= grid.longest_s,
        (wanted & grid.feature_masks) == wanted,
        asked_core_s <= cycle.states.left_core_s[jobs.project],
    )


def misses(cycle: Cycle, fit: Fit, runtime_s: Float64, job: int) -> tuple[Miss, ...]:
    """Return for each site that cannot run the job what is missing there."""
    nowhere = np.flatnonzero(~fit.compatible[job])
    return tuple(
        Miss(cycle.grid.names[site], ", ".join(_missing(cycle, fit, float(runtime_s[job, site]), job, int(site))))
        for site in nowhere
    )


def _missing(cycle: Cycle, fit: Fit, runtime_s: float, job: int, site: int) -> Iterator[str]:
    grid, jobs = cycle.grid, cycle.jobs
    if not fit.answers[job, site]:
        yield "its last answer is too old"
    if not fit.foreseen[job, site]:
        yield "its wait is not known"
    if not fit.wide[job, site]:
        yield f"{jobs.cores[job]:,} cores asked, {grid.largest_cores[site]:,} are the most"
    if not fit.long[job, site]:
        yield f"{runtime_s / 3600:.1f} h asked, {grid.longest_s[site] / 3600:.1f} h are the most"
    if not fit.features[job, site]:
        lacking = int(jobs.features[job] & ~grid.feature_masks[site])
        yield "has no " + ", ".join(name for bit, name in enumerate(grid.features) if lacking >> bit & 1)
    if not fit.allocation[job, site]:
        yield _no_allocation(cycle, job, site)


def _no_allocation(cycle: Cycle, job: int, site: int) -> str:
    project = int(cycle.jobs.project[job])
    name = cycle.grid.projects[project] if project >= 0 else "the job's project"
    left, given = (each[project, site] / 3600 for each in (cycle.states.left_core_s, cycle.grid.allocated_core_s))
    return f"{name} has {left:,.0f}{f' of {given:,.0f}' if given else ''} core-hours left"
