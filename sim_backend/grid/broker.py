"""Runs a grid: all sites advance together, and a broker chooses in cycles where each of its jobs runs."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from offpeak.errors import OffpeakError
from offpeak.model.arrays import Int64
from sim_backend.engine.state import NEVER
from sim_backend.grid.grid import SimulatedGrid
from sim_backend.grid.open_site import OpenSite
from sim_backend.grid.running import NOBODY, GridSchedule, RunningGrid


@dataclass(frozen=True, eq=False)
class Moment:
    """What a choice is made from: pending jobs of the grid by index, in order, and the sites before this second."""

    now_s: int
    job: Int64
    grid: SimulatedGrid
    sites: tuple[OpenSite, ...]


class Chooser(Protocol):
    """Chooses a site for each pending job of a cycle, NOBODY for those that wait for the next one."""

    def choose(self, moment: Moment) -> Int64:
        """Return int64[jobs]."""
        ...


class StayHome:
    """The baseline: every job runs where it was submitted."""

    def choose(self, moment: Moment) -> Int64:
        """Return the home of each job."""
        return moment.grid.log.home[moment.job]


def run_grid(grid: SimulatedGrid, chooser: Chooser, *, period_s: int = 0) -> GridSchedule:
    """Return the schedule of all jobs. Cycles are at multiples of `period_s`; 0: whenever a job is submitted.

    OffpeakError if the chooser sends a job to a site that cannot run it, or leaves all sites empty and jobs waiting.
    """
    running = RunningGrid(grid)
    pending = np.empty(0, dtype=np.int64)
    brokered = np.flatnonzero(grid.log.brokered)
    submit_s = grid.log.jobs.submit_s[brokered]
    first = now_s = 0
    while first < len(brokered) or len(pending):
        now_s = _next_cycle_s(submit_s[first:], period_s, now_s if len(pending) else None)
        last = int(np.searchsorted(submit_s, now_s, side="right"))
        running.advance_to(now_s)
        pending = np.concatenate([pending, brokered[first:last]])
        chosen = chooser.choose(Moment(now_s, pending, grid, running.sites))
        running.submit(now_s, pending[chosen != NOBODY], chosen[chosen != NOBODY])
        pending, first = pending[chosen == NOBODY], last
        if len(pending) and first == len(brokered) and running.is_empty:
            job_id = grid.log.jobs.job_id[pending[0]]
            raise OffpeakError(
                f"job {job_id} waits in an empty grid", hint="no site accepts it, or the policy holds it"
            )
    running.finish()
    return running.schedule()


def _next_cycle_s(coming_s: Int64, period_s: int, waits_since_s: int | None) -> int:
    """Return when the next cycle is; jobs left over by the last one wait for the next period."""
    step_s = max(period_s, 1)
    due_s = NEVER if waits_since_s is None else waits_since_s + step_s
    return min(due_s, -(-int(coming_s[0]) // step_s) * step_s) if len(coming_s) else due_s
