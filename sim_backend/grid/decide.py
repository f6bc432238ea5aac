"""The policies of plugin.federation in a simulated grid: what they are told of a cycle, and what they answer."""

from typing import Protocol

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.step_series import Series
from plugin.federation.cycle import GridCycle, GridRules, SiteStates
from plugin.federation.policies import GridPolicy
from sim_backend.grid.broker import Moment


class Waits(Protocol):
    """Says how long jobs would wait."""

    def wait_s(self, moment: Moment) -> Float64:
        """Return the expected wait [s] of each pending job at each site, alone and submitted now: float64[n, m]."""
        ...


class Electricity(Protocol):
    """Says what is known of electricity at an instant: published, else forecast."""

    def price(self, now_s: int) -> tuple[Series, ...]:
        """Return a series per MWh for each site, from now on or before."""
        ...

    def carbon(self, now_s: int) -> tuple[Series, ...]:
        """Return a series in g/kWh for each site."""
        ...


class Decider:
    """A policy with its rules, its waits and its electricity, as the broker asks it."""

    def __init__(self, policy: GridPolicy, rules: GridRules, waits: Waits, electricity: Electricity) -> None:
        self._policy, self._rules, self._waits, self._electricity = policy, rules, waits, electricity
        self._turn = 0

    def choose(self, moment: Moment) -> Int64:
        """Return the site of each pending job, NOBODY for those that wait for the next cycle."""
        cycle = GridCycle(
            now_s=moment.now_s,
            grid=moment.grid.federation,
            jobs=moment.grid.asked.take(moment.job),
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
