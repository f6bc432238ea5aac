"""What is run once: a solver in one of the four scenarios, on the paper's machine and days; and what it results in.

What the paper leaves open stands here. The jobs are some days of a log, as units for nodes of 32 cores, with
drawn power and modelled memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.facility import (
    Facility,
    TemperatureSegments,
    daily_temperature,
    facility_named,
    temperature_segments,
)
from offpeak.model.jobs import Jobs
from plugin.planner.problem import NO_LIMIT, NodeCapacities, Rates, Work
from sim_backend.traces.swf.read import read_swf

NODES, NODE_CORES, NODE_MEMORY_MB = 300, 32, 128 * 1024
LEAST_W, MOST_W = 7.8, 11.11
REVENUE_PER_CORE_H = 1.2
"""EUR. The paper's table 2 over its table 1 is a daily profit of about 262,000 EUR, of 9,600 cores kept busy."""
PRICE_PER_KWH = 0.15
"""EUR; the paper has a constant and does not print it."""


@dataclass(frozen=True)
class Scenario:
    """A cooling and a season: outside temperature is a day's sine around its mean."""

    facility: str
    mean_c: float
    swing_c: float

    @property
    def segments(self) -> TemperatureSegments:
        """The day's stretches of nearly one temperature."""
        return temperature_segments(*daily_temperature(self.mean_c, self.swing_c))


SCENARIOS: Mapping[str, Scenario] = {
    "air winter": Scenario("air", 2.0, 3.0),
    "air summer": Scenario("air", 26.0, 6.0),
    "hybrid winter": Scenario("hybrid", 2.0, 3.0),
    "hybrid summer": Scenario("hybrid", 26.0, 6.0),
}


def machine(nodes: int) -> NodeCapacities:
    """Return so many of the paper's nodes."""
    return NodeCapacities(np.full(nodes, NODE_CORES), np.full(nodes, NODE_MEMORY_MB), np.zeros(nodes, np.int64))


def facility_of(scenario: Scenario, machine: NodeCapacities) -> Facility:
    """Return the scenario's cooling of such a machine."""
    return facility_named(scenario.facility, full_power_w=float(machine.cores.sum()) * MOST_W)


def rates_of(scenario: Scenario, horizon_s: int) -> Rates:
    """Return the segments of the scenario's day, one day after the other."""
    segments, days = scenario.segments, horizon_s // DAY_S
    edges = (segments.edge_s[:-1] + DAY_S * np.arange(days)[:, None]).reshape(-1)
    count = len(edges)
    temperature_c = np.tile(segments.temperature_c, days)
    return Rates(np.append(edges, horizon_s), np.full(count, PRICE_PER_KWH), temperature_c, np.full(count, NO_LIMIT))


def least_pue(scenario: Scenario) -> float:
    """Return the best PUE of any hour on the paper's machine: no plan cools for less."""
    return float(facility_of(scenario, machine(NODES)).pue_range(scenario.segments.temperature_c)[0].min())


LOG = "CEA-curie.swf.gz"
FIRST_DAY, DAYS = 131, 23
WIDEST = 2048
"""Cores; with wider jobs the work would last far longer than the paper's 54 days."""
CORE_MEMORY_MB, MEMORY_SPREAD = 1024, 1.0
"""Memory a core: lognormal around a gigabyte, as the log has none; a unit never has more than its node."""


def find_log(folder: Path | None) -> Path:
    """Return the log's file in that folder; BadInput if there is none."""
    where = folder / LOG if folder else None
    if where is None or not where.is_file():
        said = f"{folder}: has no {LOG}" if folder else f"the study needs the log {LOG}"
        raise BadInput(
            said, hint="name its folder by --logs; it is the CEA Curie log of the Parallel Workloads Archive"
        )
    return where


def curie_jobs(log: Path) -> Jobs:
    """Return the jobs of the paper's 23 days that are no wider than `WIDEST`, submitted from second 0 on."""
    jobs = read_swf(log).jobs
    day = (jobs.submit_s - jobs.submit_s[0]) // DAY_S - FIRST_DAY
    first_s = int(jobs.submit_s[0]) + FIRST_DAY * DAY_S
    kept = jobs.take((day >= 0) & (day < DAYS) & (jobs.size <= WIDEST) & (jobs.runtime_s > 0))
    return Jobs(**{**vars(kept), "submit_s": kept.submit_s - first_s})


def work_of(jobs: Jobs, seed: int) -> Work:
    """Return the jobs as work: a unit for each 32 cores or part of them, all units equal."""
    rng = np.random.default_rng(seed)
    units = -(-jobs.size // NODE_CORES)
    cores = -(-jobs.size // units)
    per_core_mb = CORE_MEMORY_MB * np.exp(MEMORY_SPREAD * rng.standard_normal(len(jobs)))
    memory_mb = np.minimum(cores * per_core_mb, NODE_MEMORY_MB).astype(np.int64)
    power_w = jobs.size * rng.uniform(LEAST_W, MOST_W, len(jobs))
    revenue_per_s = jobs.size * REVENUE_PER_CORE_H / HOUR_S
    none = np.zeros(len(jobs), np.int64)
    latest_end_s = np.full(len(jobs), NO_LIMIT)
    return Work(
        job_id=jobs.job_id,
        units=units,
        cores=cores,
        memory_mb=memory_mb,
        gpus=none,
        duration_s=jobs.runtime_s,
        release_s=jobs.submit_s,
        latest_end_s=latest_end_s,
        power_w=power_w,
        revenue_per_s=revenue_per_s,
    )


@dataclass(frozen=True)
class CoolingExperiment:
    """A solver, by name, in a scenario; a search has so many seconds a plan."""

    scenario: str
    solver: str
    search_s: float
    seed: int


@dataclass(frozen=True)
class CoolingResult:
    """Profits of the days up to the last submission, and what the whole came to.

    `gap` has a share for each of these days, empty for rule-based schedulers. `seconds` is what all plans took,
    of which `search_s` after the plans that a search began with; `own` plans are others than those. `notes` say, for
    each plan that a search has not made itself, why.
    """

    profit: tuple[float, ...]
    gap: tuple[float, ...]
    makespan_s: int
    pue: float
    seconds: float
    search_s: float
    own: int
    plans: int
    violations: int
    notes: tuple[str, ...] = ()

    @property
    def profit_then(self) -> float:
        """The profit until the last submission."""
        return sum(self.profit)

    @property
    def makespan_d(self) -> float:
        """The time until the last job ended, in days."""
        return self.makespan_s / DAY_S

    @property
    def median_gap_pct(self) -> float | None:
        """The median of the days' gaps to the upper bound."""
        return 100 * median(self.gap) if self.gap else None


def parse_result(told: Mapping[str, Any]) -> CoolingResult:
    """Return the result that `dataclasses.asdict` gave; KeyError or TypeError if it is none."""
    return CoolingResult(**{**told, **{name: tuple(told[name]) for name in ("profit", "gap", "notes")}})
