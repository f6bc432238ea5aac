"""Small logs and sites for tests of grids."""

import numpy as np

from offpeak.model.jobs import Jobs
from offpeak.model.step_integrals import integrate_constant
from offpeak.plugin.federation.sites import Site
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak_studies.simulated_grid.grid import GridLog, SimulatedSite

UNITS = 6


def jobs_of(rows: list[tuple[int, int, int, int]]) -> Jobs:
    """Return jobs of (submit, run time, surplus of the estimate, size)."""
    table = np.array(sorted(rows, key=lambda row: row[0]), dtype=np.int64).reshape(-1, 4)
    # Copied, each column is contiguous; for others the engine would be compiled anew.
    submit_s, runtime_s, more_s, size = table.T.copy()
    unknown = np.full(len(size), -1)
    number = np.arange(1, len(size) + 1)
    columns = (number, submit_s, runtime_s, runtime_s + more_s, size, unknown, unknown, unknown, unknown, unknown)
    return Jobs(*columns, np.full(len(size), np.nan))


def log_of(jobs: Jobs, brokered=None, home=None, data_mb=None) -> GridLog:
    """Return the log of these jobs, all brokered, from site 0 and without data unless said otherwise."""
    count = len(jobs)
    return GridLog(
        jobs,
        np.zeros(count, np.int64) if home is None else np.array(home),
        np.ones(count, np.bool_) if brokered is None else np.array(brokered, np.bool_),
        np.zeros(count) if data_mb is None else np.array(data_mb, np.float64),
        np.ones(count),
    )


def site_of(
    discipline: str = "easy",
    units: int = UNITS,
    speed: float = 1.0,
    nodes=None,
    name: str = "home",
    price: float = 0.0,
    carbon: float = 0.0,
    **site,
) -> SimulatedSite:
    """Return a site of 100 W units with steady electricity."""
    policy = parse_policy(discipline, SchedulingSettings())
    here = Site(name, units, 100.0, core_gflops=speed, **site)
    return SimulatedSite(here, policy, integrate_constant(price), integrate_constant(carbon), nodes)
