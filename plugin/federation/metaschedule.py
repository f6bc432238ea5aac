"""The policies that place all jobs of a cycle together, by minimum cost maximum flow.

Source: Murali and Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets", section 3.3.1; INST and
TWOPRICE section 5. TWOPRICE sees prices as a policy does that knows only expensive and cheap hours. Ours: the jobs of a
cycle know of each other, green SLAs, allocations, and goals of single jobs. Section 5.7.3 names as unknown to the
paper's predictor how much longer a job waits behind the jobs that get the same site in the same cycle. A flow knows no
sums of core-hours: jobs beyond the allocation of their project are taken out, and the flow is solved again.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S
from offpeak.model.step_series import Series, merge, split
from offpeak.prices.peak import ClockHours
from plugin.federation.cycle import NO_SITE, DecisionReason, GridCycle, GridDecision, Predictions
from plugin.federation.flow import cheapest_flow, cost_per_second, flow_cost, integer_costs, scale_of, weights_of
from plugin.federation.placement_costs import CostModel

OFF_AND_ON_PERCENT = (10, 90)
NOON_S = DAY_S // 2


def two_price_curves(cycle: GridCycle) -> tuple[Series, ...]:
    """Return each site's prices as two: noon to midnight on its clock at the 90th percentile, else at the 10th."""
    return tuple(
        two_price_curve(price, ClockHours(NOON_S, DAY_S, zone=site.zone))
        for price, site in zip(cycle.states.price, cycle.grid.sites, strict=True)
    )


def two_price_curve(price: Series, dear: ClockHours) -> Series:
    """Return the series at its 90th percentile within the dear hours, at its 10th in all others, gaps included."""
    off, on = np.percentile(price.value[price.known], OFF_AND_ON_PERCENT)
    edges: Int64 = dear.edges_s(int(price.start_s[0]), price.end_s)
    cut = split(price, edges)
    return merge(replace(cut, value=np.where(dear.on_peak(cut), on, off)))


MOST_ALLOCATION_ROUNDS = 8


def solve_within_allocations(
    cycle: GridCycle, predicted: Predictions, allowed: NDArray[np.bool_], solve: Callable[[NDArray[np.bool_]], Int64]
) -> Int64:
    """Return the site of each job, such that no project exceeds what it has left at a site.

    What `solve` answers is tried; jobs beyond an allocation, the later ones first, may not go there and it is solved
    again. After eight rounds those still beyond get nobody in this cycle.
    """
    allowed = allowed.copy()
    for _ in range(MOST_ALLOCATION_ROUNDS):
        site = solve(allowed)
        beyond = _jobs_beyond_allocation(cycle, predicted, site)
        if not len(beyond):
            return site
        allowed[beyond, site[beyond]] = False
    site[beyond] = NO_SITE
    return site


def _jobs_beyond_allocation(cycle: GridCycle, predicted: Predictions, site: Int64) -> Int64:
    """Return the jobs that a project can no longer pay for, its jobs taken in their order."""
    left_core_s = cycle.states.left_core_s
    bounded = np.isfinite(left_core_s)[cycle.jobs.project, site] & (site != NO_SITE)
    left = left_core_s.copy()
    beyond = []
    for job in np.flatnonzero(bounded):
        project, to = cycle.jobs.project[job], site[job]
        core_s = predicted.units[job, to] * cycle.grid.cores_per_unit[to] * predicted.runtime_s[job, to]
        if core_s > left[project, to]:
            beyond.append(job)
        else:
            left[project, to] -= core_s
    return np.array(beyond, np.int64)


def extra_wait_s(cycle: GridCycle, predicted: Predictions, share: Float64) -> Float64:
    """Return each job's extra wait at each site [s], float64[n, m].

    `share` float64[n, m] is how much of each job goes to each site, 0 to 1. Jobs count in their order, so the first
    waits for none. While nobody is in the queue and what is idle is enough for a job and those before it, it waits for
    none either; else for their work, spread over all of the site.
    """
    states, grid = cycle.states, cycle.grid
    before = _sums_before(predicted.units * share)
    work_unit_s = _sums_before(predicted.units * predicted.runtime_s * share)
    at_once = (states.queued == 0) & (before + predicted.units <= states.idle_units)
    return np.where(at_once, 0.0, work_unit_s / grid.units)


def _sums_before(column: Float64) -> Float64:
    return np.asarray(np.cumsum(column, axis=0) - column)


def place_in_turn(cycle: GridCycle, predicted: Predictions, cost: Float64, per_second: Float64) -> Int64:
    """Return the site of each job, NO_SITE where all are full; int64[n].

    `cost` float64[n, m] is what a job would cost alone, inf where it may not go, and `per_second` float64[n] what each
    second of waiting adds to it.
    """
    units, work_unit_s = predicted.units, predicted.units * predicted.runtime_s
    taken, ahead_unit_s = np.zeros(len(cycle.grid), np.int64), np.zeros(len(cycle.grid))
    places = cycle.grid.max_per_cycle.copy()
    idle_units = np.where(cycle.states.queued == 0, cycle.states.idle_units, -1)
    site = np.full(len(cost), NO_SITE, np.int64)
    for job in range(len(cost)):
        behind_s = np.where(taken + units[job] <= idle_units, 0.0, ahead_unit_s / cycle.grid.units)
        place = _least_site(np.where(places > 0, cost[job] + per_second[job] * behind_s, np.inf))
        if place == NO_SITE:
            continue
        site[job] = place
        places[place] -= 1
        taken[place] += units[job, place]
        ahead_unit_s[place] += work_unit_s[job, place]
    return site


def _least_site(score: Float64) -> int:
    place = int(np.argmin(score))
    return place if np.isfinite(score[place]) else NO_SITE


def mcmf(cycle: GridCycle) -> GridDecision:
    """All jobs at once, at the least weighted sum of response time, electricity cost, CO2 and energy."""
    model = CostModel(cycle)
    alone = model.predict(cycle.wait_s)
    if not alone.compatible.any():
        nobody = np.full(len(cycle.jobs), NO_SITE, np.int64)
        return _make_decision(cycle, nobody, alone, np.full(alone.delay_s.shape, np.inf))
    return min(_Passes(cycle, model, alone), key=lambda decision: _worth(cycle, decision))


def inst(cycle: GridCycle) -> GridDecision:
    """As mcmf, if nobody ever waited: prices are those of the next hours (section 5)."""
    no_waits = np.where(np.isfinite(cycle.wait_s), 0.0, np.nan)
    return mcmf(replace(cycle, wait_s=no_waits, rules=replace(cycle.rules, passes=1)))


def two_price(cycle: GridCycle) -> GridDecision:
    """As mcmf, with one price from noon to midnight and one for the rest of the day (section 5)."""
    return mcmf(replace(cycle, states=replace(cycle.states, price=two_price_curves(cycle))))


class _Passes:
    """The answers for one cycle, as many as its rules say, each by what the jobs of the last one mean for each other.

    The first is the paper's: every job as if it were alone. The second places one job after the other, and each further
    one is a flow over the waits behind the mean of those since: the last one alone would send all jobs to and fro.
    """

    def __init__(self, cycle: GridCycle, model: CostModel, alone: Predictions) -> None:
        self._cycle, self._model, self._alone = cycle, model, alone
        self._weights, self._scale = weights_of(cycle), scale_of(alone, alone.compatible)

    def __iter__(self) -> Iterator[GridDecision]:
        # A job alone has nobody before it.
        passes = self._cycle.rules.passes if len(self._cycle.jobs) > 1 else 1
        allowed = sites_in_time(self._cycle, self._alone)
        site = self._flow(self._alone, allowed)
        yield self._own(site, allowed) if passes > 1 else self._decided(site, allowed, self._alone)
        if passes > 1:
            site = self._in_turn(allowed)
            yield self._own(site, allowed)
            yield from self._behind_each_other(_shares(site, allowed.shape), passes - 2)

    def _behind_each_other(self, share: Float64, passes: int) -> Iterator[GridDecision]:
        for number in range(2, passes + 2):
            predicted = self._behind(share)
            allowed = sites_in_time(self._cycle, predicted)
            site = self._flow(predicted, allowed)
            share = share + (_shares(site, share.shape) - share) / number
            yield self._own(site, allowed)

    def _flow(self, predicted: Predictions, allowed: NDArray[np.bool_]) -> Int64:
        cost = integer_costs(flow_cost(predicted, self._weights, self._scale), allowed)
        cost, most = _break_ties(cost, self._cycle), self._cycle.grid.max_per_cycle
        return solve_within_allocations(self._cycle, self._alone, allowed, lambda left: cheapest_flow(cost, left, most))

    def _in_turn(self, allowed: NDArray[np.bool_]) -> Int64:
        cost = flow_cost(self._alone, self._weights, self._scale)
        second = cost_per_second(self._weights, self._scale)

        def place(left: NDArray[np.bool_]) -> Int64:
            return place_in_turn(self._cycle, self._alone, np.where(left, cost, np.inf), second)

        return solve_within_allocations(self._cycle, self._alone, allowed, place)

    def _behind(self, share: Float64) -> Predictions:
        return self._model.predict(self._cycle.wait_s + extra_wait_s(self._cycle, self._alone, share))

    def _own(self, site: Int64, allowed: NDArray[np.bool_]) -> GridDecision:
        return self._decided(site, allowed, self._behind(_shares(site, allowed.shape)))

    def _decided(self, site: Int64, allowed: NDArray[np.bool_], predicted: Predictions) -> GridDecision:
        score = np.where(allowed, flow_cost(predicted, self._weights, self._scale), np.inf)
        return _make_decision(self._cycle, site, predicted, score)


def _make_decision(cycle: GridCycle, site: Int64, predicted: Predictions, score: Float64) -> GridDecision:
    least = score[np.arange(len(site)), site] <= score.min(axis=1)
    why: NDArray[np.int8] = np.asarray(np.where(least, DecisionReason.CHEAPEST, DecisionReason.GIVES_WAY), np.int8)
    why[site == NO_SITE] = DecisionReason.NEXT_CYCLE
    why[~predicted.compatible.any(axis=1)] = DecisionReason.IMPOSSIBLE
    return GridDecision(site, why, score, predicted, cycle.turn)


def _worth(cycle: GridCycle, decision: GridDecision) -> tuple[int, int, float]:
    """Return what the best answer has least of: jobs without a site, jobs too late, and cost."""
    placed = np.flatnonzero(decision.site != NO_SITE)
    chosen = (placed, decision.site[placed])
    end_s = cycle.now_s + decision.predicted.response_s[chosen]
    late = np.count_nonzero(end_s > cycle.jobs.latest_end_s[placed])
    return -len(placed), int(late), float(decision.score[chosen].sum())


def sites_in_time(cycle: GridCycle, predicted: Predictions) -> NDArray[np.bool_]:
    """Return where jobs may go, bool[n, m]: of the compatible sites those in time, all where none is."""
    by_then = cycle.now_s + predicted.response_s <= cycle.jobs.latest_end_s[:, None]
    punctual = predicted.compatible & by_then
    return np.asarray(np.where(punctual.any(axis=1, keepdims=True), punctual, predicted.compatible))


def _shares(site: Int64, shape: tuple[int, ...]) -> Float64:
    share = np.zeros(shape)
    placed = np.flatnonzero(site != NO_SITE)
    share[placed, site[placed]] = 1.0
    return share


def _break_ties(cost: Int64, cycle: GridCycle) -> Int64:
    """Return costs whose order is the same, but of equal ones the home's is least, then that of the earlier site."""
    jobs, sites = cost.shape
    place = np.tile(np.arange(1, sites + 1), (jobs, 1))
    place[np.arange(jobs), cycle.jobs.home] = 0
    return np.asarray(cost * (jobs * sites + 1) + place)
