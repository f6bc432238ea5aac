"""The policies that place one job after the other, in the order of their submission.

Round-robin, fastest-possible and energy- and CO2-aware selection are those of Majanen et al., "Energy and Carbon Aware
Scheduling in Supercomputing", section III-B; the baseline that of Murali and Vadhiyar, section 5.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64
from offpeak.model.snapshot import NEVER
from plugin.federation.cycle import Cycle
from plugin.federation.decision import NOBODY, Decision, Why
from plugin.federation.jobs import Goal
from plugin.federation.predict_costs import CostModel
from plugin.federation.predictions import Predictions
from plugin.federation.tally import Tally


class Placed(NamedTuple):
    """Where a job goes and why; `score` is what was compared, float64[m], inf where there was no choice."""

    site: int
    why: Why
    score: Float64


class View(NamedTuple):
    """What one job's place is chosen by; `open` are the sites that can have it, at least one."""

    cycle: Cycle
    predicted: Predictions
    tally: Tally
    open: NDArray[np.bool_]
    turn: int


def baseline(cycle: Cycle) -> Decision:
    """Every job stays at home."""
    return _placed(cycle, _stay)


def round_robin(cycle: Cycle) -> Decision:
    """Every job goes to the next site by turns that can run it (section III-B.1)."""
    return _placed(cycle, _next_by_turns)


def fastest_possible(cycle: Cycle) -> Decision:
    """A site with enough idle units and an empty queue, else the least estimated wait (section III-B.2)."""
    return _placed(cycle, _fastest)


def eca_queue(cycle: Cycle) -> Decision:
    """The least of the goal among sites whose queue is not over the limit (section III-B.3)."""
    return _placed(cycle, _least_with_queue)


def eca_sla(cycle: Cycle) -> Decision:
    """Jobs with a latest finish: the least of the goal among sites in time; others: fastest (sections III-B.3, VI)."""
    return _placed(cycle, _least_in_time)


def _placed(cycle: Cycle, choose: Callable[[View, int], Placed]) -> Decision:
    model = CostModel(cycle)
    predicted = model.predict(cycle.wait_s)
    tally, turn, count = Tally(cycle, predicted), cycle.turn, len(cycle.jobs)
    site, why = np.full(count, NOBODY, np.int64), np.zeros(count, np.int8)
    score, delay_s = np.full(predicted.delay_s.shape, np.inf), predicted.delay_s.copy()
    for job in range(count):
        free = tally.open_to(job)
        delay_s[job] = tally.delay_s(job)
        if not free.any():
            why[job] = Why.NEXT_CYCLE if predicted.compatible[job].any() else Why.IMPOSSIBLE
            continue
        site[job], why[job], score[job] = choose(View(cycle, predicted, tally, free, turn), job)
        if site[job] != NOBODY:
            tally.place(job, int(site[job]))
            turn = (int(site[job]) + 1) % len(cycle.grid)
    return Decision(site, why, score, model.predict(delay_s), turn)


def _stay(view: View, job: int) -> Placed:
    home = int(view.cycle.jobs.home[job])
    score = np.full(len(view.open), np.inf)
    if not view.open[home]:
        return Placed(NOBODY, Why.NOT_AT_HOME, score)
    score[home] = 0.0
    return Placed(home, Why.HOME, score)


def _next_by_turns(view: View, _job: int) -> Placed:
    turns = (np.arange(len(view.open)) - view.turn) % len(view.open)
    return _least(np.where(view.open, turns, np.inf), Why.TURN)


def _fastest(view: View, job: int) -> Placed:
    delay_s = np.where(view.open, view.tally.delay_s(job), np.inf)
    at_once = view.open & view.tally.starts_at_once(job)
    if at_once.any():
        return Placed(int(np.argmax(at_once)), Why.IDLE, delay_s)
    return _least(delay_s, Why.SHORTEST_WAIT)


def _least_with_queue(view: View, job: int) -> Placed:
    short = view.tally.queued <= view.cycle.rules.queue_limit
    return _least_among(view, job, short, Why.ALL_QUEUES_LONG)


def _least_in_time(view: View, job: int) -> Placed:
    latest_s = int(view.cycle.jobs.latest_end_s[job])
    if latest_s == NEVER:
        return _fastest(view, job)
    in_time = view.cycle.now_s + view.tally.response_s(job) <= latest_s
    return _least_among(view, job, in_time, Why.NONE_IN_TIME)


def _least_among(view: View, job: int, allowed: NDArray[np.bool_], otherwise: Why) -> Placed:
    if not (view.open & allowed).any():
        return _fastest(view, job)._replace(why=otherwise)
    wanted = np.where(view.open, _by_goal(view, job), np.inf)
    first = _least(wanted, Why.LEAST)
    among = _least(np.where(allowed, wanted, np.inf), Why.LEAST)
    return among if among.site == first.site else among._replace(why=Why.NEXT_BEST)


def _by_goal(view: View, job: int) -> Float64:
    own = Goal(int(view.cycle.jobs.goal[job]))
    match view.cycle.rules.goal if own is Goal.UNSAID else own:
        case Goal.COST:
            return np.asarray(view.predicted.cost[job])
        case Goal.CO2:
            return np.asarray(view.predicted.co2_g[job])
        case Goal.ENERGY:
            return np.asarray(view.predicted.energy_j[job])
        case _:
            return view.tally.response_s(job)


def _least(score: Float64, why: Why) -> Placed:
    return Placed(int(np.argmin(score)), why, score)
