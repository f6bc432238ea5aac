"""Runs a grid: all sites advance together, and in cycles the broker chooses a site for each of its jobs.

The policies of plugin.federation choose: a `Decider` shows them a cycle and takes their decisions.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from offpeak.errors import OffpeakError
from offpeak.model.arrays import Float64, Int64
from offpeak.model.step_series import Series
from plugin.federation.cycle import GridCycle, GridRules, SiteStates
from plugin.federation.policies import GridPolicy
from sim_backend.engine.state import NEVER
from sim_backend.grid.grid import SimulatedGrid
from sim_backend.grid.sites import NO_SITE, GridSchedule, OpenSite, RunningGrid


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

    Raises OffpeakError if the chooser sends a job to a site that cannot run it, or leaves all sites empty and jobs
    waiting.
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
        running.submit(now_s, pending[chosen != NO_SITE], chosen[chosen != NO_SITE])
        pending, first = pending[chosen == NO_SITE], last
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


class WaitEstimator(Protocol):
    """Says how long jobs would wait."""

    def wait_s(self, moment: Moment) -> Float64:
        """Return the expected wait [s] of each pending job at each site, alone and submitted now: float64[n, m]."""
        ...


class Electricity(Protocol):
    """Returns the known electricity series at an instant: published, else forecast."""

    def price(self, now_s: int) -> tuple[Series, ...]:
        """Return a series per MWh for each site, from now on or before."""
        ...

    def carbon(self, now_s: int) -> tuple[Series, ...]:
        """Return a series in g/kWh for each site."""
        ...


class Decider:
    """A policy with its rules, waits and electricity, as the broker calls it."""

    def __init__(self, policy: GridPolicy, rules: GridRules, waits: WaitEstimator, electricity: Electricity) -> None:
        self._policy, self._rules, self._waits, self._electricity = policy, rules, waits, electricity
        self._turn = 0

    def choose(self, moment: Moment) -> Int64:
        """Return the site of each pending job, NOBODY for those that wait for the next cycle."""
        cycle = GridCycle(
            now_s=moment.now_s,
            grid=moment.grid.federation,
            jobs=moment.grid.as_requested.take(moment.job),
            states=self._states(moment),
            wait_s=self._waits.wait_s(moment),
            rules=self._rules,
            turn=self._turn,
        )
        decision = self._policy.decide(cycle)
        self._turn = decision.turn
        return decision.site

    def _states(self, moment: Moment) -> SiteStates:
        return SiteStates(
            idle_units=np.array([site.idle_units for site in moment.sites], np.int64),
            queued=np.array([site.waiting for site in moment.sites], np.int64),
            stale=np.zeros(len(moment.sites), np.bool_),
            price=self._electricity.price(moment.now_s),
            carbon=self._electricity.carbon(moment.now_s),
            left_core_s=moment.grid.federation.allocated_core_s,
        )
