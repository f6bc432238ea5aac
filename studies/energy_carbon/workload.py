"""Workloads of the testbeds: batches of jobs, drawn until one has the required length and utilization."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from offpeak.settings.replay import SchedulingSettings
from sim_backend.policy import Policy, parse_policy
from sim_backend.replay import replay
from studies.energy_carbon.experiment import ANY_WIDTH, AS_MEASURED, Measurement
from studies.energy_carbon.paper import NARROW, TESTBEDS, WIDE_SHARE, MeasuredCluster

AWARE = "first-fit"
FEWEST_JOBS, MOST_JOBS = 2, 30
LONGEST_OVER_SHORTEST = 20.0
LIKENESS = 0.01
"""How far the utilization and, relatively, the length may be from what is asked for."""
MAY_COME = 0.03
"""How far the utilization may be at first: walltimes and passes do not stretch with the jobs."""


@dataclass(frozen=True)
class WorkloadMix:
    """The sizes and the run times of a workload's jobs, the latter relative to each other."""

    size: Int64
    length: Float64

    @property
    def fullest(self) -> float:
        """The most nodes that the mix can keep busy on average, whatever the order."""
        return float(np.dot(self.size, self.length) / self.length.max())

    def jobs(self, longest_s: float, walltime_s: int) -> Jobs:
        """Return the jobs, all submitted in second 0, the longest of them so long."""
        runtime_s = np.maximum(np.rint(self.length / self.length.max() * longest_s), 1).astype(np.int64)
        return batch(np.zeros_like(runtime_s), self.size, runtime_s, np.maximum(runtime_s, walltime_s))


@dataclass(frozen=True)
class BatchWorkload:
    """A batch of jobs and how long the default and the energy-aware scheduler take for it if no node sleeps [s]."""

    jobs: Jobs
    default_s: float
    aware_s: int


def batch(submit_s: Int64, size: Int64, runtime_s: Int64, estimate_s: Int64) -> Jobs:
    """Return jobs of which no more is known."""
    unknown = np.full(len(size), -1)
    number = np.arange(1, len(size) + 1)
    nothing = np.full(len(size), np.nan)
    return Jobs(
        job_id=number,
        submit_s=submit_s,
        runtime_s=runtime_s,
        estimate_s=estimate_s,
        size=size,
        user=unknown,
        group=unknown,
        queue=unknown,
        application=unknown,
        logged_start_s=unknown,
        node_power_w=nothing,
    )


def discipline(name: str, period_s: int = 0) -> Policy:
    """Return the scheduling policy of that name, with a pass each period, at each event if that is 0."""
    return parse_policy(name, SchedulingSettings(period_s=period_s or None))


def draw_mix(testbed: MeasuredCluster, widths: str, rng: Generator) -> WorkloadMix:
    """Draw 2 to 30 jobs of run times that differ up to twentyfold, of any size or as in the paper's federated test."""
    count = int(rng.integers(FEWEST_JOBS, MOST_JOBS, endpoint=True))
    widest = testbed.nodes if widths == ANY_WIDTH else NARROW
    size = rng.integers(1, widest, count, endpoint=True)
    if widths != ANY_WIDTH:
        size = np.where(rng.random(count) < WIDE_SHARE, testbed.wide, size)
    return WorkloadMix(size, np.exp(rng.uniform(0, np.log(LONGEST_OVER_SHORTEST), count)))


def draw_workload(asked: Measurement, rng: Generator) -> BatchWorkload:
    """Return the first workload drawn that has the utilization of the table and lasts as long, in the asked reading."""
    testbed = TESTBEDS[asked.testbed]
    while True:
        workload = fitted(draw_mix(testbed, asked.widths, rng), asked)
        if workload is not None:
            return workload


def fitted(mix: WorkloadMix, asked: Measurement) -> BatchWorkload | None:
    """Return the mix, stretched to the length that is asked for; None if its utilization is another."""
    testbed = TESTBEDS[asked.testbed]
    row, nodes, share = testbed.rows[asked.way][asked.load_pct], testbed.nodes, asked.load_pct / 100
    default, aware = discipline(asked.default, asked.period_s), discipline(AWARE)
    measured = asked.reading == AS_MEASURED
    reference, wanted_s = (aware, row.aware.elapsed_s) if measured else (default, row.default.elapsed_s)
    longest_s = wanted_s
    if mix.fullest / nodes < share - LIKENESS:
        return None
    for away in (MAY_COME, LIKENESS):
        jobs = mix.jobs(longest_s, asked.walltime_s)
        took_s = elapsed_s(jobs, nodes, reference)
        if abs(node_s(jobs) / nodes / took_s - share) > away:
            return None
        longest_s *= wanted_s / took_s
    if abs(took_s - wanted_s) > LIKENESS * wanted_s:
        return None
    return BatchWorkload(jobs, row.default.elapsed_s if measured else took_s, elapsed_s(jobs, nodes, aware))


def elapsed_s(jobs: Jobs, nodes: int, policy: Policy) -> int:
    """Return how long the batch takes if no node sleeps."""
    return int(replay(jobs, np.zeros(len(jobs)), machine_size=nodes, policy=policy).end_s.max())


def node_s(jobs: Jobs) -> float:
    """Return the jobs' node-seconds."""
    return float(np.dot(jobs.size, jobs.runtime_s))
