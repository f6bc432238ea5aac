"""Cores and units, speeds and data: what a job is at another site."""

import numpy as np
from small_grids import jobs_of, log_of, site_of

from offpeak.plugin.federation.sites import Link
from offpeak_studies.simulated_grid.grid import SimulatedGrid


def grid_of() -> SimulatedGrid:
    """Return two jobs at home, a site twice as fast with 4 cores a unit, and a link."""
    jobs = jobs_of([(0, 101, 9, 5), (1, 0, 20, 4)])
    sites = (site_of(), site_of(name="away", speed=2.0, cores_per_unit=4))
    return SimulatedGrid(sites, log_of(jobs, data_mb=[90.0, 0.0]), (Link(("home", "away"), 0.5, 10.0),))


def test_a_job_takes_whole_units_less_time_and_its_data_along() -> None:
    grid, job = grid_of(), np.array([0, 1])
    assert grid.units(job, 0).tolist() == [5, 4]
    assert grid.units(job, 1).tolist() == [2, 1]
    assert grid.at_site_s(grid.log.jobs.runtime_s, job, 0).tolist() == [101, 0]
    assert grid.at_site_s(grid.log.jobs.runtime_s, job, 1).tolist() == [51, 0]
    assert grid.data_s(job, 0).tolist() == [0, 0]
    assert grid.data_s(job, 1).tolist() == [10, 0]


def test_policies_get_estimates_alone() -> None:
    jobs = grid_of().as_requested
    assert jobs.estimate_s.tolist() == [110, 20]
    assert jobs.data_mb.tolist() == [90.0, 0.0]
    assert not hasattr(jobs, "runtime_s")
