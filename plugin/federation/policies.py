"""All policies that choose sites, by name, and those that place one job after the other in the order of submission.

Round-robin, fastest-possible and energy- and CO2-aware selection are those of Majanen et al., "Energy and Carbon Aware
Scheduling in Supercomputing", section III-B; the baseline is that of Murali and Vadhiyar, section 5. The site loads
count what the jobs of this cycle have used of the sites so far.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.snapshot import NEVER
from offpeak.plugin.federation.cycle import NO_SITE, DecisionReason, GridCycle, GridDecision, Predictions
from offpeak.plugin.federation.jobs import Goal
from offpeak.plugin.federation.metaschedule import inst, mcmf, two_price
from offpeak.plugin.federation.placement_costs import CostModel
from offpeak.text import did_you_mean


class SiteLoads:
    """Idle units, queues, places and allocations that the previously placed jobs leave."""

    def __init__(self, cycle: GridCycle, predicted: Predictions) -> None:
        self._cycle, self._predicted = cycle, predicted
        self.idle_units: Int64 = cycle.states.idle_units.copy()
        self.queued: Int64 = cycle.states.queued.copy()
        self._places: Int64 = cycle.grid.max_per_cycle.copy()
        self._left_core_s: Float64 = cycle.states.left_core_s.copy()
        self._ahead_unit_s: Float64 = np.zeros(len(cycle.grid))

    def open_to(self, job: int) -> NDArray[np.bool_]:
        """Return which sites can run the job and take another one in this cycle, bool[m]."""
        left = self._left_core_s[self._cycle.jobs.project[job]]
        return np.asarray(self._predicted.compatible[job] & (self._places > 0) & (self._core_s(job) <= left))

    def starts_at_once(self, job: int) -> NDArray[np.bool_]:
        """Return the sites with enough idle units and an empty queue, bool[m]."""
        return np.asarray((self.queued == 0) & (self._predicted.units[job] <= self.idle_units))

    def response_s(self, job: int) -> Float64:
        """Return the time to the job's end behind those placed before it [s], float64[m]."""
        return np.asarray(self.delay_s(job) + self._predicted.runtime_s[job])

    def delay_s(self, job: int) -> Float64:
        """Return the time to the job's start behind those placed before it [s], float64[m]."""
        behind_s = np.where(self.starts_at_once(job), 0.0, self._ahead_unit_s / self._cycle.grid.units)
        return np.asarray(self._predicted.delay_s[job] + behind_s)

    def place(self, job: int, site: int) -> None:
        """Give the job to the site."""
        at_once = self.starts_at_once(job)[site]
        units = int(self._predicted.units[job, site])
        self._ahead_unit_s[site] += units * self._predicted.runtime_s[job, site]
        self.idle_units[site] -= units if at_once else 0
        self.queued[site] += 0 if at_once else 1
        self._places[site] -= 1
        self._left_core_s[self._cycle.jobs.project[job], site] -= self._core_s(job)[site]

    def _core_s(self, job: int) -> Float64:
        unit_s = self._predicted.units[job] * self._predicted.runtime_s[job]
        return np.asarray(unit_s * self._cycle.grid.cores_per_unit)


class Placement(NamedTuple):
    """The site of a job and the reason; `score` is the compared value, float64[m], inf for impossible sites."""

    site: int
    why: DecisionReason
    score: Float64


class PlacementView(NamedTuple):
    """What one job's place is chosen by; `open` are the sites that can have it, at least one."""

    cycle: GridCycle
    predicted: Predictions
    loads: SiteLoads
    open: NDArray[np.bool_]
    turn: int


def _place_jobs(cycle: GridCycle, *, choose: Callable[[PlacementView, int], Placement]) -> GridDecision:
    """Place one job after the other."""
    model = CostModel(cycle)
    predicted = model.predict(cycle.wait_s)
    loads, turn, count = SiteLoads(cycle, predicted), cycle.turn, len(cycle.jobs)
    site, why = np.full(count, NO_SITE, np.int64), np.zeros(count, np.int8)
    score, delay_s = np.full(predicted.delay_s.shape, np.inf), predicted.delay_s.copy()
    for job in range(count):
        free = loads.open_to(job)
        delay_s[job] = loads.delay_s(job)
        if not free.any():
            why[job] = DecisionReason.NEXT_CYCLE if predicted.compatible[job].any() else DecisionReason.IMPOSSIBLE
            continue
        site[job], why[job], score[job] = choose(PlacementView(cycle, predicted, loads, free, turn), job)
        if site[job] != NO_SITE:
            loads.place(job, int(site[job]))
            turn = (int(site[job]) + 1) % len(cycle.grid)
    return GridDecision(site, why, score, model.predict(delay_s), turn)


def _stay(view: PlacementView, job: int) -> Placement:
    """Every job stays at home."""
    home = int(view.cycle.jobs.home[job])
    score = np.full(len(view.open), np.inf)
    if not view.open[home]:
        return Placement(NO_SITE, DecisionReason.NOT_AT_HOME, score)
    score[home] = 0.0
    return Placement(home, DecisionReason.HOME, score)


def _next_by_turns(view: PlacementView, _job: int) -> Placement:
    """Each job goes to the next site in turn that can run it (section III-B.1)."""
    turns = (np.arange(len(view.open)) - view.turn) % len(view.open)
    return _least(np.where(view.open, turns, np.inf), DecisionReason.TURN)


def _fastest(view: PlacementView, job: int) -> Placement:
    """A site with enough idle units and an empty queue, else the least estimated wait (section III-B.2)."""
    delay_s = np.where(view.open, view.loads.delay_s(job), np.inf)
    at_once = view.open & view.loads.starts_at_once(job)
    if at_once.any():
        return Placement(int(np.argmax(at_once)), DecisionReason.IDLE, delay_s)
    return _least(delay_s, DecisionReason.SHORTEST_WAIT)


def _least_with_queue(view: PlacementView, job: int) -> Placement:
    """The site with the lowest goal value among those whose queue is within the limit (section III-B.3)."""
    short = view.loads.queued <= view.cycle.rules.queue_limit
    return _least_among(view, job, short, DecisionReason.ALL_QUEUES_LONG)


def _least_in_time(view: PlacementView, job: int) -> Placement:
    """Jobs with a latest finish: the least of the goal among sites in time; others: fastest (III-B.3, VI)."""
    latest_s = int(view.cycle.jobs.latest_end_s[job])
    if latest_s == NEVER:
        return _fastest(view, job)
    in_time = view.cycle.now_s + view.loads.response_s(job) <= latest_s
    return _least_among(view, job, in_time, DecisionReason.NONE_IN_TIME)


def _least_among(view: PlacementView, job: int, allowed: NDArray[np.bool_], otherwise: DecisionReason) -> Placement:
    if not (view.open & allowed).any():
        return _fastest(view, job)._replace(why=otherwise)
    wanted = np.where(view.open, _by_goal(view, job), np.inf)
    first = _least(wanted, DecisionReason.LEAST)
    among = _least(np.where(allowed, wanted, np.inf), DecisionReason.LEAST)
    return among if among.site == first.site else among._replace(why=DecisionReason.NEXT_BEST)


def _by_goal(view: PlacementView, job: int) -> Float64:
    own = Goal(int(view.cycle.jobs.goal[job]))
    match view.cycle.rules.goal if own is Goal.UNSPECIFIED else own:
        case Goal.COST:
            return np.asarray(view.predicted.cost[job])
        case Goal.CO2:
            return np.asarray(view.predicted.co2_g[job])
        case Goal.ENERGY:
            return np.asarray(view.predicted.energy_j[job])
        case _:
            return view.loads.response_s(job)


def _least(score: Float64, why: DecisionReason) -> Placement:
    return Placement(int(np.argmin(score)), why, score)


@dataclass(frozen=True)
class GridPolicy:
    """A policy: `decide` is a pure function of a cycle; `doc` is one line of help."""

    name: str
    decide: Callable[[GridCycle], GridDecision]
    doc: str


POLICIES = (
    GridPolicy("baseline", partial(_place_jobs, choose=_stay), "every job stays at home"),
    GridPolicy("round-robin", partial(_place_jobs, choose=_next_by_turns), "the next site by turns"),
    GridPolicy(
        "fastest", partial(_place_jobs, choose=_fastest), "idle units and no queue, else the least estimated wait"
    ),
    GridPolicy(
        "eca-queue",
        partial(_place_jobs, choose=_least_with_queue),
        "least CO2, energy or cost among sites with a short queue",
    ),
    GridPolicy(
        "eca-sla",
        partial(_place_jobs, choose=_least_in_time),
        "least CO2, energy or cost among sites in time; without a latest finish, fastest",
    ),
    GridPolicy("mcmf", mcmf, "all jobs of a cycle at once: least weighted response time, cost, CO2 and energy"),
    GridPolicy("inst", inst, "as mcmf, as if no job ever waited"),
    GridPolicy("two-price", two_price, "as mcmf, with an expensive and a cheap half of the day"),
)


def grid_policy(name: str) -> GridPolicy:
    """Return the policy of that name. Raises BadInput if there is none."""
    found = next((policy for policy in POLICIES if policy.name == name), None)
    if found is None:
        raise BadInput(f"unknown grid policy {name!r}", hint=did_you_mean(name, [policy.name for policy in POLICIES]))
    return found
