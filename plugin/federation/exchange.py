"""Improves a placement until no job that moves, and no two jobs that exchange their places, make it better.

Better is: fewer jobs too late, then a lower sum of costs. The jobs of a cycle wait behind each other, so a job that
moves changes the costs of all later jobs at both of its sites, which a flow, whose arcs have fixed costs, cannot
express. First jobs only move, which is fast, then they exchange their places, too. Each step tries all other places of
one job and takes the best; the last jobs come first, so of equal placements the earlier jobs keep their sites.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import in_place, part
from offpeak.model.arrays import Float64, Int64
from offpeak.plugin.federation.cycle import NO_SITE

LEAST_GAIN = 0.01
"""The step of the flow's rounded costs: for a smaller gain no job moves."""
LATE_COST = 1e6
"""More than all jobs of a cycle cost together: a job too late outweighs them."""
MOST_COSTS = 10_000_000
"""How many costs of single jobs a search computes at most, in about a second: two hundred jobs need fewer."""


class PlacementCosts(NamedTuple):
    """What n jobs cost at m sites by the time at which they start there: `metaschedule.flow_cost` of one arc.

    A job's delay is the longer of `wait_s` (alone) plus its wait behind others, and `data_s`. It costs `constant` +
    `per_second` x delay + `per_price` x the integral of the price over its run + `per_carbon` x that of the carbon
    intensity. Arrays are [n, m]; `per_second` and `latest_end_s` [n]; `free_units`, -1 behind a queue, and
    `site_units` [m]. Rows `first[k, j]` up to `first[k, j + 1]` of `edge_s` and `total` are the integral curve of
    site j, of the price for k = 0 and of the carbon intensity for k = 1.
    """

    now_s: int
    units: Int64
    runtime_s: Float64
    wait_s: Float64
    data_s: Float64
    constant: Float64
    per_second: Float64
    per_price: Float64
    per_carbon: Float64
    latest_end_s: Int64
    free_units: Int64
    site_units: Int64
    first: Int64
    edge_s: Float64
    total: Float64


class PlacementLimits(NamedTuple):
    """Which of n jobs may go to which of m sites, bool[n, m], and what a placement leaves free.

    `places` int64[m] are the jobs that each site still takes, `left_core_s` float64[projects, m] the rest of the
    allocations. Job i takes `core_s[i, j]` from row `project[i]` at site j.
    """

    allowed: NDArray[np.bool_]
    places: Int64
    left_core_s: Float64
    core_s: Float64
    project: Int64


def exchange_places(site: Int64, costs: PlacementCosts, limits: PlacementLimits) -> Int64:
    """Return a placement that no move and no exchange makes better, int64[n]; `limits` are those beside `site`.

    As many jobs have a site as before. A search ends early after MOST_COSTS costs.
    """
    site = site.copy()
    limits = limits._replace(places=limits.places.copy(), left_core_s=limits.left_core_s.copy())
    # The last is that of jobs without a site.
    site_costs, computed = np.zeros(len(limits.places) + 1), np.zeros(1, np.int64)
    for exchanges in (False, True):
        job, unchanged = len(site) - 1, 0
        while unchanged < len(site) and computed[0] < MOST_COSTS:
            has_changed = improve_job(job, exchanges, site, costs, limits, site_costs, computed)
            unchanged = 0 if has_changed else unchanged + 1
            job = (job or len(site)) - 1
    return site


@in_place
def improve_job(
    job: int,
    exchanges: bool,
    site: Int64,
    costs: PlacementCosts,
    limits: PlacementLimits,
    site_costs: Float64,
    computed: Int64,
) -> bool:
    """Move the job, or exchange its place with that of an earlier job, as is best; return whether anything changed."""
    here, sites = site[job], len(limits.places)
    best_gain, best_place, best_other = LEAST_GAIN, here, NO_SITE
    for place in range(sites):
        site_costs[place] = site_cost(place, site, costs, computed)
    for candidate in range(sites + len(site) if exchanges else sites):
        # The first candidates are moves to each site, the others exchanges with each job.
        other = candidate - sites
        place = candidate if other < 0 else site[other]
        if place == here or other >= job or not may_change(job, other, place, site, limits):
            continue
        set_places(job, place, other, here, site)
        gain = site_costs[here] - site_cost(here, site, costs, computed)
        gain += site_costs[place] - site_cost(place, site, costs, computed)
        set_places(job, here, other, place, site)
        if gain > best_gain:
            best_gain, best_place, best_other = gain, place, other
    if best_place == here:
        return False
    take(job, here, -1, limits)
    take(job, best_place, 1, limits)
    if best_other >= 0:
        take(best_other, best_place, -1, limits)
        take(best_other, here, 1, limits)
    set_places(job, best_place, best_other, here, site)
    return True


@part
def set_places(job: int, place: int, other: int, other_place: int, site: Int64) -> None:
    """Set the place of the job, and of the other job if there is one."""
    site[job] = place
    if other >= 0:
        site[other] = other_place


@part
def take(job: int, place: int, sign: int, limits: PlacementLimits) -> None:
    """Let the job take its part of the limits of a site (`sign` 1) or give it back (-1)."""
    if place != NO_SITE:
        limits.places[place] -= sign
        limits.left_core_s[limits.project[job], place] -= sign * limits.core_s[job, place]


@part
def may_change(job: int, other: int, place: int, site: Int64, limits: PlacementLimits) -> bool:
    """Return whether the limits allow the job at the place, and the other job, if there is one, at the job's."""
    here = site[job]
    if other < 0:
        return bool(here != NO_SITE and limits.places[place] > 0 and fits(job, place, other, limits))
    return fits(job, place, other, limits) and fits(other, here, job, limits)


@part
def fits(job: int, place: int, leaves: int, limits: PlacementLimits) -> bool:
    """Return whether the job may be at the place, and its project can pay for it when the job `leaves` has left."""
    if place == NO_SITE:
        return True
    if not limits.allowed[job, place]:
        return False
    left_core_s = limits.left_core_s[limits.project[job], place]
    if leaves >= 0 and limits.project[leaves] == limits.project[job]:
        left_core_s += limits.core_s[leaves, place]
    return bool(limits.core_s[job, place] <= left_core_s)


@part
def site_cost(place: int, site: Int64, costs: PlacementCosts, computed: Int64) -> float:
    """Return what the jobs of a site cost together, each behind those before it."""
    taken, ahead_unit_s, cost = 0, 0.0, 0.0
    for job in range(len(site) if place != NO_SITE else 0):
        if site[job] != place:
            continue
        units, run_s = costs.units[job, place], costs.runtime_s[job, place]
        starts_at_once = taken + units <= costs.free_units[place]
        behind_s = 0.0 if starts_at_once else ahead_unit_s / costs.site_units[place]
        delay_s = max(costs.wait_s[job, place] + behind_s, costs.data_s[job, place])
        from_s = costs.now_s + delay_s
        cost += costs.constant[job, place] + costs.per_second[job] * delay_s
        until_s = from_s + run_s
        if costs.per_price[job, place] > 0:
            cost += costs.per_price[job, place] * integral(0, place, from_s, until_s, costs)
        if costs.per_carbon[job, place] > 0:
            cost += costs.per_carbon[job, place] * integral(1, place, from_s, until_s, costs)
        if until_s > costs.latest_end_s[job]:
            cost += LATE_COST
        taken += units
        ahead_unit_s += units * run_s
        computed[0] += 1
    return cost


@part
def integral(curve: int, place: int, from_s: float, until_s: float, costs: PlacementCosts) -> float:
    """Return the integral of a site's price (curve 0) or carbon intensity (curve 1) over that time."""
    return total_at(curve, place, until_s, costs) - total_at(curve, place, from_s, costs)


@part
def total_at(curve: int, place: int, at_s: float, costs: PlacementCosts) -> float:
    """Return the integral up to a time, which is between the first and the last edge of the curve."""
    low, high = costs.first[curve, place], costs.first[curve, place + 1] - 1
    while high - low > 1:
        middle = (low + high) // 2
        if costs.edge_s[middle] <= at_s:
            low = middle
        else:
            high = middle
    share = (at_s - costs.edge_s[low]) / (costs.edge_s[high] - costs.edge_s[low])
    return float(costs.total[low] + share * (costs.total[high] - costs.total[low]))
