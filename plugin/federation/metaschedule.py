"""The policies that place all jobs of a cycle together, by minimum cost maximum flow.

Source: Murali and Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets", section 3.3.1; INST and
TWOPRICE section 5. TWOPRICE treats prices like a policy that knows only expensive and cheap hours. Additions of
offpeak: the jobs of a cycle take each other into account; green SLAs, allocations, and goals of single jobs. According
to section 5.7.3, the paper's predictor ignores how much longer a job waits behind the jobs that get the same site in
the same cycle. A flow cannot bound sums of core-hours, so jobs beyond the allocation of their project are removed and
the flow is solved again.

Each job sends one unit of flow over one of its arcs to a site; each site passes on as many as it takes in a cycle
(figure 1). The costs are time, money (equations (4) to (6)), CO2 and energy, normalised and weighted. The least and the
most of equation (4) include the longest waits behind each other, or these waits would outweigh all other terms.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import OffpeakError
from offpeak.installation import missing_extra
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, J_PER_KWH, J_PER_MWH
from offpeak.model.step_series import Series, merge, split
from offpeak.model.weighing import WHOLE_PERCENT, Weights
from offpeak.plugin.federation.cycle import NO_SITE, DecisionReason, GridCycle, GridDecision, Predictions
from offpeak.plugin.federation.exchange import PlacementCosts, PlacementLimits, exchange_places
from offpeak.plugin.federation.jobs import Goal
from offpeak.plugin.federation.placement_costs import CostModel
from offpeak.prices.peak import ClockHours

INTEGER_SCALE = 100
# A thousand times the range: beyond it the solver's integers would overflow, and no site is meant.
HIGHEST_COST = 1e5

OFF_AND_ON_PERCENT = (10, 90)
NOON_S = DAY_S // 2

MOST_ALLOCATION_ROUNDS = 8


@dataclass(frozen=True)
class CostScale:
    """The least and the range of each of the four terms over the cycle's arcs (the paper's normalisation)."""

    least: tuple[float, ...]
    extent: tuple[float, ...]

    def of(self, term: Float64, number: int) -> Float64:
        """Return the term from 0 to 1; 0 everywhere if it is the same everywhere."""
        if self.extent[number] == 0:
            return np.zeros_like(term)
        return np.asarray((term - self.least[number]) / self.extent[number])


def cost_terms(predicted: Predictions) -> Sequence[Float64]:
    """Return time, cost, CO2 and energy, in the order of `Goal` and of `Weights`."""
    return predicted.response_s, predicted.cost, predicted.co2_g, predicted.energy_j


def scale_of(allowed: NDArray[np.bool_], *predictions: Predictions) -> CostScale:
    """Return the scale over the allowed arcs, of which there is at least one, of all these predictions of a cycle."""
    among = [np.stack(terms)[:, allowed] for terms in zip(*map(cost_terms, predictions), strict=True)]
    return CostScale(tuple(float(each.min()) for each in among), tuple(float(np.ptp(each)) for each in among))


def weights_of(cycle: GridCycle) -> Float64:
    """Return each job's weights in per cent, float64[n, 4]: all on its owner's goal, the rules' where there is none."""
    usual: Weights = cycle.rules.weights
    weights = np.tile(np.array((usual.time, usual.cost, usual.co2, usual.energy), np.float64), (len(cycle.jobs), 1))
    for goal in (Goal.TIME, Goal.COST, Goal.CO2, Goal.ENERGY):
        weights[cycle.jobs.goal == goal] = np.eye(weights.shape[1])[goal] * WHOLE_PERCENT
    return weights


def flow_cost(predicted: Predictions, weights: Float64, scale: CostScale) -> Float64:
    """Return the cost of each job at each site, float64[n, m]: from 0 to 100 on the scale that it was made with."""
    each = [weights[:, [number]] * scale.of(term, number) for number, term in enumerate(cost_terms(predicted))]
    return np.asarray(sum(each))


def integer_costs(cost: Float64, allowed: NDArray[np.bool_]) -> Int64:
    """Return the costs as the flow takes them: a hundredfold and rounded; 0 where they do not count."""
    scaled = np.rint(np.where(allowed, np.minimum(cost, HIGHEST_COST), 0.0) * INTEGER_SCALE)
    return np.asarray(scaled, np.int64)


def need_or_tools() -> None:
    """Raise BadInput without OR-tools."""
    if find_spec("ortools") is None:
        raise missing_extra("a policy by minimum cost maximum flow", "federation", "OR-tools")


def cheapest_flow(cost: Int64, allowed: NDArray[np.bool_], most: Int64) -> Int64:
    """Return the site of each job, NO_SITE for some if not all find a place; int64[n].

    `cost` int64[n, m] counts where `allowed`; site j takes at most `most[j]` jobs. As many jobs as possible get a site,
    at the least sum of costs. The same question has the same answer, and a number added to all costs changes nothing.
    Raises BadInput without OR-tools.
    """
    need_or_tools()
    site = np.full(len(cost), NO_SITE, np.int64)
    job, to = np.nonzero(allowed)
    if len(job):
        arc_cost = cost[allowed] - cost[allowed].min()
        used = _solve(job, to, arc_cost, np.minimum(most, len(cost)))
        site[job[used]] = to[used]
    return site


def _solve(job: Int64, to: Int64, cost: Int64, most: Int64) -> NDArray[np.bool_]:
    """Return which arcs from jobs to sites have flow."""
    jobs, sites = int(job.max()) + 1, len(most)
    sink = jobs + sites
    network = _new_network()
    arcs = network.add_arcs_with_capacity_and_unit_cost(job, jobs + to, np.ones(len(job), np.int64), cost)
    into_sink = np.arange(jobs, sink)
    network.add_arcs_with_capacity_and_unit_cost(into_sink, np.full(sites, sink), most, np.zeros(sites, np.int64))
    sends = np.unique(job)
    network.set_nodes_supplies(np.append(sends, sink), np.append(np.ones(len(sends), np.int64), -len(sends)))
    status = network.solve_max_flow_with_min_cost()
    if status != network.OPTIMAL:
        raise OffpeakError(f"the flow of {len(sends)} jobs to {sites} sites was not solved: {status}")
    return np.asarray(network.flows(arcs) > 0)


def _new_network() -> Any:
    # Imported here: it takes a third of a second, and only policies of this kind need it.
    from ortools.graph.python import min_cost_flow

    return min_cost_flow.SimpleMinCostFlow()


def two_price_curves(cycle: GridCycle) -> tuple[Series, ...]:
    """Return each site's prices as two: noon to midnight on its clock at the 90th percentile, else at the 10th."""
    return tuple(
        two_price_curve(price, ClockHours(NOON_S, DAY_S, zone=site.zone))
        for price, site in zip(cycle.states.price, cycle.grid.sites, strict=True)
    )


def two_price_curve(price: Series, on_peak: ClockHours) -> Series:
    """Return the series at its 90th percentile within the on-peak hours, at its 10th in all others, gaps included."""
    off, on = np.percentile(price.value[price.known], OFF_AND_ON_PERCENT)
    edges: Int64 = on_peak.edges_s(int(price.start_s[0]), price.end_s)
    cut = split(price, edges)
    return merge(replace(cut, value=np.where(on_peak.on_peak(cut), on, off)))


def solve_within_allocations(
    cycle: GridCycle, predicted: Predictions, allowed: NDArray[np.bool_], solve: Callable[[NDArray[np.bool_]], Int64]
) -> Int64:
    """Return the site of each job, such that no project exceeds the rest of its allocation at a site.

    What `solve` answers is tried; jobs beyond an allocation, the later ones first, may not go there and it is solved
    again. After eight rounds the jobs still beyond an allocation get no site in this cycle.
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


def extra_wait_s(cycle: GridCycle, predicted: Predictions, placed: NDArray[np.bool_]) -> Float64:
    """Return each job's extra wait at each site [s], float64[n, m].

    `placed` bool[n, m] states which jobs are there. Jobs count in their order, so the first waits for none. A job does
    not wait while the queue is empty and the idle units suffice for it and the jobs before it; else it waits for their
    work, spread over the whole site.
    """
    before = _sums_before(predicted.units * placed)
    work_unit_s = _sums_before(predicted.units * predicted.runtime_s * placed)
    at_once = before + predicted.units <= _free_units(cycle)
    return np.where(at_once, 0.0, work_unit_s / cycle.grid.units)


def longest_extra_wait_s(cycle: GridCycle, predicted: Predictions) -> Float64:
    """Return each job's longest possible extra wait at each site [s], float64[n, m].

    It waits behind the largest of the jobs before it that can go there, as many as the site takes in a cycle.
    """
    work_unit_s = np.where(predicted.compatible, predicted.units * predicted.runtime_s, 0.0)
    ahead_unit_s = np.zeros(work_unit_s.shape)
    for site, most in enumerate(cycle.grid.max_per_cycle.tolist()):
        largest: list[float] = []
        total = 0.0
        for job, work in enumerate(work_unit_s[:, site].tolist()):
            ahead_unit_s[job, site] = total
            total += work
            heappush(largest, work)
            if len(largest) >= most:
                total -= heappop(largest)
    at_once = _sums_before(predicted.units * predicted.compatible) + predicted.units <= _free_units(cycle)
    return np.where(at_once, 0.0, ahead_unit_s / cycle.grid.units)


def _free_units(cycle: GridCycle) -> Int64:
    """Return the units of each site where jobs start at once, -1 behind a queue; int64[m]."""
    return np.where(cycle.states.queued == 0, cycle.states.idle_units, -1)


def _sums_before(column: Float64 | Int64) -> Float64:
    return np.asarray(np.cumsum(column, axis=0) - column)


def mcmf(cycle: GridCycle) -> GridDecision:
    """All jobs at once, at the least weighted sum of response time, electricity cost, CO2 and energy.

    The flow places each job as if it were alone. Jobs that are placed together are then exchanged, see
    offpeak.plugin.federation.exchange: their terms are scaled up to the longest waits behind each other.
    """
    model = CostModel(cycle)
    alone = model.predict(cycle.wait_s)
    if not alone.compatible.any():
        no_sites = np.full(len(cycle.jobs), NO_SITE, np.int64)
        return _make_decision(cycle, no_sites, alone, np.full(alone.delay_s.shape, np.inf))
    # A single job has no job before it.
    together = cycle.rules.together and len(cycle.jobs) > 1
    longest = model.predict(cycle.wait_s + longest_extra_wait_s(cycle, alone)) if together else alone
    weights, scale = weights_of(cycle), scale_of(alone.compatible, alone, longest)
    allowed, most = sites_in_time(cycle, alone), cycle.grid.max_per_cycle
    cost = integer_costs(flow_cost(alone, weights, scale), allowed)
    jobs, sites = cost.shape
    place = np.tile(np.arange(1, sites + 1), (jobs, 1))
    place[np.arange(jobs), cycle.jobs.home] = 0
    arc_cost = np.asarray(cost * (jobs * sites + 1) + place)
    site = solve_within_allocations(cycle, alone, allowed, lambda left: cheapest_flow(arc_cost, left, most))
    predicted = alone
    if together:
        costs = _exchange_costs(cycle, model, alone, weights, scale)
        project = cycle.jobs.project
        core_s = alone.units * cycle.grid.cores_per_unit * alone.runtime_s
        placed = np.flatnonzero(site != NO_SITE)
        at = site[placed]
        left_core_s = cycle.states.left_core_s.copy()
        np.subtract.at(left_core_s, (project[placed], at), core_s[placed, at])
        places = np.minimum(cycle.grid.max_per_cycle, len(site)) - np.bincount(at, minlength=len(cycle.grid))
        site = exchange_places(site, costs, PlacementLimits(alone.compatible, places, left_core_s, core_s, project))
        predicted = model.predict(cycle.wait_s + extra_wait_s(cycle, alone, _is_at(site, cycle)))
    possible = sites_in_time(cycle, predicted) | _is_at(site, cycle)
    score = np.where(possible, flow_cost(predicted, weights, scale), np.inf)
    return _make_decision(cycle, site, predicted, score)


def inst(cycle: GridCycle) -> GridDecision:
    """As mcmf, as if no job ever waited: prices are those of the next hours (section 5)."""
    no_waits = np.where(np.isfinite(cycle.wait_s), 0.0, np.nan)
    return mcmf(replace(cycle, wait_s=no_waits, rules=replace(cycle.rules, together=False)))


def two_price(cycle: GridCycle) -> GridDecision:
    """As mcmf, with one price from noon to midnight and one for the rest of the day (section 5)."""
    return mcmf(replace(cycle, states=replace(cycle.states, price=two_price_curves(cycle))))


def _exchange_costs(
    cycle: GridCycle, model: CostModel, alone: Predictions, weights: Float64, scale: CostScale
) -> PlacementCosts:
    """Return `flow_cost` by the time at which jobs start."""
    least, extent = np.array(scale.least), np.array(scale.extent)
    per_unit = np.divide(weights, extent, out=np.zeros_like(weights), where=extent > 0)
    constant = -(per_unit @ least)[:, None] + per_unit[:, [Goal.TIME]] * alone.runtime_s
    curves = (*model.price, *model.carbon)
    ends = np.cumsum([len(curve.edge_s) for curve in curves])
    first = np.append(0, ends)
    sites = len(cycle.grid)
    return PlacementCosts(
        now_s=cycle.now_s,
        units=alone.units,
        runtime_s=alone.runtime_s,
        wait_s=np.where(alone.compatible, cycle.wait_s, 0.0),
        data_s=model.data_s,
        constant=constant + per_unit[:, [Goal.ENERGY]] * alone.energy_j,
        per_second=per_unit[:, Goal.TIME].copy(),
        per_price=per_unit[:, [Goal.COST]] * model.watts / J_PER_MWH,
        per_carbon=per_unit[:, [Goal.CO2]] * model.watts / J_PER_KWH,
        latest_end_s=cycle.jobs.latest_end_s,
        free_units=_free_units(cycle),
        site_units=cycle.grid.units,
        first=np.stack([first[: sites + 1], first[sites:]]),
        edge_s=np.concatenate([curve.edge_s for curve in curves]),
        total=np.concatenate([curve.total for curve in curves]),
    )


def _is_at(site: Int64, cycle: GridCycle) -> NDArray[np.bool_]:
    """Return which site each job has, bool[n, m]."""
    return np.asarray(site[:, None] == np.arange(len(cycle.grid)))


def _make_decision(cycle: GridCycle, site: Int64, predicted: Predictions, score: Float64) -> GridDecision:
    least = score[np.arange(len(site)), site] <= score.min(axis=1)
    why: NDArray[np.int8] = np.asarray(np.where(least, DecisionReason.CHEAPEST, DecisionReason.GIVES_WAY), np.int8)
    why[site == NO_SITE] = DecisionReason.NEXT_CYCLE
    why[~predicted.compatible.any(axis=1)] = DecisionReason.IMPOSSIBLE
    return GridDecision(site, why, score, predicted, cycle.turn)


def sites_in_time(cycle: GridCycle, predicted: Predictions) -> NDArray[np.bool_]:
    """Return where jobs may go, bool[n, m]: of the compatible sites those in time, all where none is."""
    by_then = cycle.now_s + predicted.response_s <= cycle.jobs.latest_end_s[:, None]
    in_time = predicted.compatible & by_then
    return np.asarray(np.where(in_time.any(axis=1, keepdims=True), in_time, predicted.compatible))
