"""The jobs of the study: some days of a log, as units for nodes of 32 cores, with drawn power and modelled memory."""

from pathlib import Path

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.jobs import Jobs
from offpeak.model.local_time import DAY_S
from plugin.planner.problem import NO_LIMIT, Work
from sim_backend.traces.swf.read import read_swf
from studies.profit_cooling.scenario import LEAST_W, MOST_W, NODE_CORES, NODE_MEMORY_MB, REVENUE_PER_CORE_H

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
    revenue_per_s = jobs.size * REVENUE_PER_CORE_H / 3600
    none = np.zeros(len(jobs), np.int64)
    latest_end_s = np.full(len(jobs), NO_LIMIT)
    return Work(
        jobs.job_id, units, cores, memory_mb, none, jobs.runtime_s, jobs.submit_s, latest_end_s, power_w, revenue_per_s
    )
