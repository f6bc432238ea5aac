"""The policies that place all jobs of a cycle together, by minimum cost maximum flow.

Source: Murali and Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets", section 3.3.1; INST and
TWOPRICE section 5. Ours: the jobs of a cycle know of each other, green SLAs, allocations, and goals of single jobs.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from plugin.federation.allocations import within_allocations
from plugin.federation.behind import behind_s
from plugin.federation.cycle import Cycle
from plugin.federation.decision import NOBODY, Decision, Why
from plugin.federation.flow import cheapest_flow
from plugin.federation.flow_costs import as_integers, flow_cost, per_second, scale_of, weights_of
from plugin.federation.in_turn import placed_in_turn
from plugin.federation.predict_costs import CostModel
from plugin.federation.predictions import Predictions
from plugin.federation.two_prices import two_price_curves


def mcmf(cycle: Cycle) -> Decision:
    """All jobs at once, at the least weighted sum of response time, electricity cost, CO2 and energy."""
    model = CostModel(cycle)
    alone = model.predict(cycle.wait_s)
    if not alone.compatible.any():
        nobody = np.full(len(cycle.jobs), NOBODY, np.int64)
        return _decided(cycle, nobody, alone, np.full(alone.delay_s.shape, np.inf))
    return min(_Passes(cycle, model, alone), key=lambda decision: _worth(cycle, decision))


def inst(cycle: Cycle) -> Decision:
    """As mcmf, if nobody ever waited: prices are those of the next hours (section 5)."""
    no_waits = np.where(np.isfinite(cycle.wait_s), 0.0, np.nan)
    return mcmf(replace(cycle, wait_s=no_waits, rules=replace(cycle.rules, passes=1)))


def two_price(cycle: Cycle) -> Decision:
    """As mcmf, with one price from noon to midnight and one for the rest of the day (section 5)."""
    return mcmf(replace(cycle, states=replace(cycle.states, price=two_price_curves(cycle))))


class _Passes:
    """The answers for one cycle, as many as its rules say, each by what the jobs of the last one mean for each other.

    The first is the paper's: every job as if it were alone. The second places one job after the other, and each further
    one is a flow over the waits behind the mean of those since: the last one alone would send all jobs to and fro.
    """

    def __init__(self, cycle: Cycle, model: CostModel, alone: Predictions) -> None:
        self._cycle, self._model, self._alone = cycle, model, alone
        self._weights, self._scale = weights_of(cycle), scale_of(alone, alone.compatible)

    def __iter__(self) -> Iterator[Decision]:
        # A job alone has nobody before it.
        passes = self._cycle.rules.passes if len(self._cycle.jobs) > 1 else 1
        allowed = in_time(self._cycle, self._alone)
        site = self._flow(self._alone, allowed)
        yield self._own(site, allowed) if passes > 1 else self._decided(site, allowed, self._alone)
        if passes > 1:
            site = self._in_turn(allowed)
            yield self._own(site, allowed)
            yield from self._behind_each_other(_shares(site, allowed.shape), passes - 2)

    def _behind_each_other(self, share: Float64, passes: int) -> Iterator[Decision]:
        for number in range(2, passes + 2):
            predicted = self._behind(share)
            allowed = in_time(self._cycle, predicted)
            site = self._flow(predicted, allowed)
            share = share + (_shares(site, share.shape) - share) / number
            yield self._own(site, allowed)

    def _flow(self, predicted: Predictions, allowed: NDArray[np.bool_]) -> Int64:
        cost = as_integers(flow_cost(predicted, self._weights, self._scale), allowed)
        cost, most = _with_ties_broken(cost, self._cycle), self._cycle.grid.max_per_cycle
        return within_allocations(self._cycle, self._alone, allowed, lambda left: cheapest_flow(cost, left, most))

    def _in_turn(self, allowed: NDArray[np.bool_]) -> Int64:
        cost = flow_cost(self._alone, self._weights, self._scale)
        second = per_second(self._weights, self._scale)

        def place(left: NDArray[np.bool_]) -> Int64:
            return placed_in_turn(self._cycle, self._alone, np.where(left, cost, np.inf), second)

        return within_allocations(self._cycle, self._alone, allowed, place)

    def _behind(self, share: Float64) -> Predictions:
        return self._model.predict(self._cycle.wait_s + behind_s(self._cycle, self._alone, share))

    def _own(self, site: Int64, allowed: NDArray[np.bool_]) -> Decision:
        return self._decided(site, allowed, self._behind(_shares(site, allowed.shape)))

    def _decided(self, site: Int64, allowed: NDArray[np.bool_], predicted: Predictions) -> Decision:
        score = np.where(allowed, flow_cost(predicted, self._weights, self._scale), np.inf)
        return _decided(self._cycle, site, predicted, score)


def _decided(cycle: Cycle, site: Int64, predicted: Predictions, score: Float64) -> Decision:
    least = score[np.arange(len(site)), site] <= score.min(axis=1)
    why: NDArray[np.int8] = np.asarray(np.where(least, Why.CHEAPEST, Why.GIVES_WAY), np.int8)
    why[site == NOBODY] = Why.NEXT_CYCLE
    why[~predicted.compatible.any(axis=1)] = Why.IMPOSSIBLE
    return Decision(site, why, score, predicted, cycle.turn)


def _worth(cycle: Cycle, decision: Decision) -> tuple[int, int, float]:
    """Return what the best answer has least of: jobs without a site, jobs too late, and cost."""
    placed = np.flatnonzero(decision.site != NOBODY)
    chosen = (placed, decision.site[placed])
    end_s = cycle.now_s + decision.predicted.response_s[chosen]
    late = np.count_nonzero(end_s > cycle.jobs.latest_end_s[placed])
    return -len(placed), int(late), float(decision.score[chosen].sum())


def in_time(cycle: Cycle, predicted: Predictions) -> NDArray[np.bool_]:
    """Return where jobs may go, bool[n, m]: of the compatible sites those in time, all where none is."""
    by_then = cycle.now_s + predicted.response_s <= cycle.jobs.latest_end_s[:, None]
    punctual = predicted.compatible & by_then
    return np.asarray(np.where(punctual.any(axis=1, keepdims=True), punctual, predicted.compatible))


def _shares(site: Int64, shape: tuple[int, ...]) -> Float64:
    share = np.zeros(shape)
    placed = np.flatnonzero(site != NOBODY)
    share[placed, site[placed]] = 1.0
    return share


def _with_ties_broken(cost: Int64, cycle: Cycle) -> Int64:
    """Return costs whose order is the same, but of equal ones the home's is least, then that of the earlier site."""
    jobs, sites = cost.shape
    place = np.tile(np.arange(1, sites + 1), (jobs, 1))
    place[np.arange(jobs), cycle.jobs.home] = 0
    return np.asarray(cost * (jobs * sites + 1) + place)
