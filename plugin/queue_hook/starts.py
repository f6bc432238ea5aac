"""What a start at a time would cost: the integral of the price over the job's run, where every price of it is known."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.step_series import Series

JOULES_PER_MWH = 3.6e9
EQUAL = 1e-9


@dataclass(frozen=True)
class Start:
    """A start [Unix s] and what each watt of its run would cost [price x s]; NaN where not all is known."""

    at_s: int
    per_watt: float


@dataclass(frozen=True, eq=False)
class Paid:
    """Along the edges of a series' intervals [Unix s]: what was paid by a watt, and for how long no price is known."""

    edges_s: Float64
    per_watt: Float64
    unknown_s: Float64


def paid_along(prices: Series) -> Paid:
    """Return the sums from the first edge on."""
    edges_s: Float64 = np.append(prices.start_s, prices.end_s).astype(np.float64)
    paid: Float64 = np.where(prices.known, prices.value, 0.0) * prices.length_s
    unknown_s: Float64 = np.where(prices.known, 0.0, 1.0) * prices.length_s
    return Paid(edges_s, _running(paid), _running(unknown_s))


def _running(each: Float64) -> Float64:
    return np.concatenate([[0.0], np.cumsum(each)])


@dataclass(frozen=True, eq=False)
class Starts:
    """All starts of a job that runs for `run_s`, along the prices."""

    paid: Paid
    run_s: int
    _asked: dict[int, Start] = field(default_factory=dict)

    def at(self, at_s: int) -> Start:
        """Return the start at that second."""
        if at_s not in self._asked:
            self._asked[at_s] = Start(at_s, float(self._per_watt(np.array([at_s]))[0]))
        return self._asked[at_s]

    def cheapest(self, from_s: int, until_s: int) -> Start | None:
        """Return the cheapest start from `from_s` to `until_s`, both included, the earliest of equals, or None."""
        tried = [self.at(from_s), *self._best_between(from_s, until_s), self.at(until_s)]
        known = [start for start in tried if start.per_watt == start.per_watt]
        least = min((start.per_watt for start in known), default=0.0)
        return next((start for start in known if start.per_watt <= _about(least)), None)

    def _best_between(self, from_s: int, until_s: int) -> list[Start]:
        at_s, cost = self._turning
        first, end = np.searchsorted(at_s, (from_s, until_s), side="left")
        inside = cost[first:end]
        if not len(inside) or np.isinf(least := float(inside.min())):
            return []
        best = first + int(np.argmax(inside <= _about(least)))
        return [Start(int(at_s[best]), float(cost[best]))]

    @cached_property
    def _turning(self) -> tuple[Int64, Float64]:
        """The cost bends only where the run begins or ends with a price, so it is least at one of these starts."""
        at_s = np.union1d(self.paid.edges_s, self.paid.edges_s - self.run_s).astype(np.int64)
        cost = self._per_watt(at_s)
        return at_s, np.where(np.isnan(cost), np.inf, cost)

    def _per_watt(self, at_s: Int64) -> Float64:
        """Return the price times seconds [price per MWh x s] of starts at these seconds; NaN where not all is known."""
        end_s = at_s + self.run_s
        edges_s, paid, unknown_s = self.paid.edges_s, self.paid.per_watt, self.paid.unknown_s
        inside = (at_s >= edges_s[0]) & (end_s <= edges_s[-1])
        cost: Float64 = np.interp(end_s, edges_s, paid) - np.interp(at_s, edges_s, paid)
        if unknown_s[-1]:
            inside &= np.interp(end_s, edges_s, unknown_s) - np.interp(at_s, edges_s, unknown_s) < EQUAL
        return np.where(inside, cost, np.nan)


def _about(least: float) -> float:
    return least + EQUAL * max(1.0, abs(least))


def money(per_watt: float, power_w: float) -> float:
    """Return what a job that draws `power_w` pays."""
    return per_watt * power_w / JOULES_PER_MWH
