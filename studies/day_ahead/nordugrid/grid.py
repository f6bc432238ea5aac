"""Fifty systems and their jobs, drawn: what is published of them is how many cores, jobs and hours there are in all.

The paper (Murali and Vadhiyar 2018, sections 4.2.2 and 4.3.2) took cores and limits from pages of 2014 and jobs from an
archived log; neither is with its programs. Sums and means here are the paper's, everything else is ours.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Int64
from offpeak.model.step_integrals import integrate_constant
from offpeak.settings.replay import SchedulingSettings
from plugin.federation.sites import Site
from sim_backend.grid.electricity import HOUR_S, DayAhead
from sim_backend.grid.grid import GridLog, SimulatedGrid, SimulatedSite
from sim_backend.policy import parse_policy
from studies.day_ahead.lublin import Demand, draw
from studies.day_ahead.nordugrid.zones import CLOCK, JANUARY, ZONES, places, zone_of
from studies.energy_carbon.workload import batch

SYSTEMS, CORES = 50, 356_856
JOBS_PER_H = 126_344 / (90 * 24)
RUNTIME_H = 30.0
"""3.4 times XSEDE's 8.8 h: section 5.4."""
MEAN_CORES, WIDEST = 5.0, 64
"""Of a job: with them a job costs about the 0.13 EUR of Table 4."""
LONGEST_S = 7 * 24 * HOUR_S
STEEPNESS = 1.5
"""The n-th largest system has 1 / n to this power of the cores of the largest."""


@dataclass(frozen=True)
class Core:
    """A core of a processor of 2006 to 2013 by its maker's data sheet: peak power and peak speed."""

    watts: float
    gflops: float


PROCESSORS = (
    Core(95 / 2, 5.2),
    Core(80 / 4, 9.3),
    Core(95 / 6, 10.6),
    Core(115 / 12, 8.4),
    Core(115 / 8, 20.8),
    Core(115 / 10, 22.4),
)
"""Opteron 2218, Xeon E5345, Xeon X5650, Opteron 6172, Xeon E5-2670 and E5-2680 v2."""


def grid_of(
    folder: Path, out: Path, rng: Generator, *, jobs: int, history: int
) -> tuple[SimulatedGrid, tuple[DayAhead, ...]]:
    """Return a grid with its log, all jobs but the first `history` brokered, and the markets; EASY everywhere."""
    zone = {name: zone_of(place) for name, place in places(folder, out).items()}
    stands_in = [name for name, count in ZONES.items() for _ in range(count)]
    policy, nothing = parse_policy("easy", SchedulingSettings()), integrate_constant(0.0)
    drawn = drawn_sites(rng)
    sites = tuple(
        SimulatedSite(site, policy, zone[name].meter, nothing) for site, name in zip(drawn, stands_in, strict=True)
    )
    return SimulatedGrid(sites, log_of(drawn, rng, jobs, history)), tuple(zone[name].market for name in stands_in)


def drawn_sites(rng: Generator) -> tuple[Site, ...]:
    """Draw the systems: sizes by rank, each with one of the processors."""
    share = 1 / np.arange(1, SYSTEMS + 1) ** STEEPNESS
    cores = rng.permutation(np.rint(CORES * share / share.sum()).astype(np.int64))
    kind = rng.integers(0, len(PROCESSORS), SYSTEMS)
    return tuple(
        _site(f"n{number + 1}", int(size), PROCESSORS[each])
        for number, (size, each) in enumerate(zip(cores, kind, strict=True))
    )


def _site(name: str, cores: int, core: Core) -> Site:
    return Site(name, cores, core.watts, core_gflops=core.gflops, zone=CLOCK, longest_job_s=LONGEST_S)


def log_of(sites: tuple[Site, ...], rng: Generator, jobs: int, history: int) -> GridLog:
    """Draw the jobs of all systems; a system's share of them goes by the root of its size."""
    count = jobs + history
    span_s = count / JOBS_PER_H * HOUR_S
    load = count * MEAN_CORES * RUNTIME_H * HOUR_S / (CORES * span_s)
    drawn = draw(Demand(count, load, MEAN_CORES, CORES, WIDEST, LONGEST_S), span_s, rng)
    share = np.sqrt([site.units for site in sites])
    home: Int64 = rng.choice(len(sites), count, p=share / share.sum())
    asked = batch(int(JANUARY.timestamp()) + drawn.submit_s, drawn.size, drawn.runtime_s, drawn.estimate_s)
    return GridLog(asked, home, np.arange(count) >= history, np.zeros(count), np.ones(count))
