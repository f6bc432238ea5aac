"""The federated testbed: 135 jobs over Juggle, Jufit and Dune, each charged as it was measured.

What the paper gives is an average walltime of 720 s, a tenth of the jobs that only Juggle can run (8 nodes), ranks of
LINPACK and what each cluster drew on average. The rest is from Table IX's own node-seconds (nodes x time x utilization
over jobs): 1,957 of a narrow job on Juggle under round-robin, 57 to 98 on Jufit, 154 to 191 on Dune agree with 8 cores
for most of 720 s on Juggle, a tenth of that on Jufit and a quarter on Dune; 1,474 of a job that runs on Juggle alone,
under ECA, with 8 nodes for 184 s. A job comes each second: they are "submitted in parallel".
"""

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Int64
from offpeak.model.step_integrals import integrate_constant
from offpeak.settings.replay import SchedulingSettings
from plugin.federation.cycle import GridRules
from plugin.federation.jobs import Goal
from plugin.federation.policies import grid_policy
from plugin.federation.sites import Site
from sim_backend.grid.broker import Decider, run_grid
from sim_backend.grid.electricity import Steady
from sim_backend.grid.grid import GridLog, SimulatedGrid, SimulatedSite
from sim_backend.grid.sites import GridSchedule
from sim_backend.grid.waits import LongestWaits
from sim_backend.policy import parse_policy
from studies.energy_carbon.grid.experiment import Bench
from studies.energy_carbon.grid.paper import LATEST_S, TABLE_IX, TESTBED_JOBS, TESTBEDS, Testbed
from studies.energy_carbon.grid.result import Result
from studies.energy_carbon.paper import WALLTIME_S, WIDE_SHARE
from studies.energy_carbon.workload import batch

NARROW_CORES, WIDE_CORES = 8, 32
NARROW_S, WIDE_S = (648, 720), (150, 245)
"""Run times on Juggle, drawn between the two."""
POLICIES = {"ECA, 3600 s": "eca-sla", "ECA, 10800 s": "eca-sla", "FP": "fastest", "RR": "round-robin"}
HOUR_S = 3600
G_PER_KG = 1000


def measure(case: Bench, rng: Generator) -> Result:
    """Return what a column of Table IX comes to."""
    grid = SimulatedGrid(tuple(map(_site, TESTBEDS)), log_of(LATEST_S[case.column], rng))
    electricity = Steady((0.0,) * len(TESTBEDS), [G_PER_KG * each.cue / each.pue for each in TESTBEDS])
    decider = Decider(grid_policy(POLICIES[case.column]), GridRules(goal=Goal.CO2), LongestWaits(), electricity)
    return _result(grid, run_grid(grid, decider))


def log_of(latest_s: int | None, rng: Generator) -> GridLog:
    """Draw the workload; each job is to have ended `latest_s` after its submission."""
    submit_s = np.arange(TESTBED_JOBS)
    wide = rng.permutation(submit_s < WIDE_SHARE * TESTBED_JOBS)
    size = np.where(wide, WIDE_CORES, NARROW_CORES)
    runtime_s = np.where(wide, rng.integers(*WIDE_S, TESTBED_JOBS), rng.integers(*NARROW_S, TESTBED_JOBS))
    estimate_s = np.where(wide, WIDE_S[1], WALLTIME_S)
    everywhere = np.ones(TESTBED_JOBS)
    return GridLog(
        batch(submit_s, size, runtime_s, estimate_s),
        np.zeros(TESTBED_JOBS, np.int64),
        everywhere.astype(np.bool_),
        np.zeros(TESTBED_JOBS),
        everywhere,
        None if latest_s is None else submit_s + latest_s,
    )


def _site(testbed: Testbed) -> SimulatedSite:
    nothing = integrate_constant(0.0)
    site = Site(
        testbed.name,
        testbed.nodes,
        testbed.node_w,
        cores_per_unit=testbed.cores,
        core_gflops=float(testbed.rank),
        pue=testbed.pue,
        largest_job_cores=WIDE_CORES if testbed.rank == 1 else NARROW_CORES,
    )
    return SimulatedSite(site, parse_policy("first-fit", SchedulingSettings()), nothing, nothing)


def mean_power_w(number: int) -> float:
    """Return the average of the powers that Table IX has of a cluster: it hardly depends on the utilization."""
    return float(np.mean([column.parts[number].power_w for column in TABLE_IX.values()]))


def _result(grid: SimulatedGrid, schedule: GridSchedule) -> Result:
    jobs, elapsed_s = _by_site(schedule)
    site_kwh = [elapsed_s[site] * mean_power_w(site) / 3.6e6 for site in range(len(TESTBEDS))]
    submit_s = grid.log.jobs.submit_s
    return Result(
        energy_kwh=sum(site_kwh),
        co2_kg=sum(each.cue * kwh for each, kwh in zip(TESTBEDS, site_kwh, strict=True)),
        wait_h=float((schedule.start_s - submit_s).mean()) / HOUR_S,
        turnaround_h=float((schedule.end_s - submit_s).mean()) / HOUR_S,
        duration_h=max(elapsed_s) / HOUR_S,
        jobs=tuple(jobs),
        site_kwh=tuple(site_kwh),
    )


def _by_site(schedule: GridSchedule) -> tuple[list[int], list[int]]:
    """Return of each cluster its jobs, and the time from its first submission to its last end [s]: eq. (9)."""
    jobs, elapsed_s = [], []
    for site in range(len(TESTBEDS)):
        here: Int64 = np.flatnonzero(schedule.site == site)
        jobs.append(len(here))
        elapsed_s.append(int(schedule.end_s[here].max() - schedule.queued_s[here].min()) if len(here) else 0)
    return jobs, elapsed_s
