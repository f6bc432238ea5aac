"""What a schedule on several pools uses: the energy of jobs and idle nodes, and the same weighted by a meter."""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.step_integrals import StepIntegral, integral, integrals
from offpeak.sim_backend.engine.case import EngineCase
from offpeak.sim_backend.engine.rules import NOT_YET
from offpeak.sim_backend.replay.schedule import Schedule


@dataclass(frozen=True)
class MixedUsage:
    """What a schedule uses over a period: energy [J], and the same weighted by a meter's series [its unit x W x s].

    Columns named `job_*` are by job of the case, `idle_*` and `busy_node_s` by pool. A job on a share of a node counts
    as that share of a busy node; the rest of the node counts as idle.
    """

    job_j: Float64
    job_charge: Float64
    idle_j: Float64
    idle_charge: Float64
    busy_node_s: Float64


def usage_of(
    case: EngineCase, schedule: Schedule, meter: StepIntegral, idle_w: Float64, period_s: tuple[int, int]
) -> MixedUsage:
    """Return what the schedule uses over [begin, until), which holds all runs; `idle_w` is by pool."""
    begin_s, until_s = period_s
    pool, run = schedule.places.pool, schedule.places.run
    _, start_s, end_s = schedule.runs
    run_s = np.where(start_s == NOT_YET, 0, end_s - start_s)
    metered = np.where(run_s > 0, integrals(meter, start_s, end_s), 0.0)
    nodes = np.array([pool.nodes for pool in case.cluster.pools], dtype=np.int64)
    busy_s = np.bincount(pool, schedule.places.nodes * run_s[run], len(nodes))
    busy = np.bincount(pool, schedule.places.nodes * metered[run], len(nodes))
    job_s, job_metered = (_by_job(values, schedule) for values in (run_s.astype(np.float64), metered))
    return MixedUsage(
        job_j=case.power_w * job_s,
        job_charge=case.power_w * job_metered,
        idle_j=idle_w * (nodes * (until_s - begin_s) - busy_s),
        idle_charge=idle_w * (nodes * integral(meter, begin_s, until_s) - busy),
        busy_node_s=busy_s.astype(np.float64),
    )


def _by_job(of_run: Float64, schedule: Schedule) -> Float64:
    jobs = len(schedule.start_s)
    return of_run[:jobs] + np.bincount(schedule.lost.job, of_run[jobs:], jobs)
