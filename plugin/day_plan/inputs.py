"""The inputs of a day plan: queue facts, nodes, facility and power caps, and the rates that the planner takes.

Rates are the price, the outside temperature and the cap on power over the time of the plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.facility import Facility, PowerCap, temperature_segments
from offpeak.model.step_series import Series, value_at
from offpeak.plugin.planner.problem import NO_LIMIT, Plan, Problem, Rates
from offpeak.plugin.queue_hook.facts import QueueFacts, QueueRules
from offpeak.plugin.scheduler.job import Job
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.settings.plan import Revenue

OVERDUE_S = 300
"""A job that has outlived its prediction and its limit is taken to end so soon."""

SHORTEST_S = DAY_S


@dataclass(frozen=True)
class PlanFacility:
    """The machine room: its cooling, what an idle node draws, and what a core-hour earns, in the prices' currency.

    `revenues` are those of accounts and QOS that earn more or less. `outside_c` replaces an unknown temperature.
    """

    facility: Facility
    idle_w: float
    revenue_per_core_h: float
    outside_c: float
    revenues: tuple[Revenue, ...] = ()


@dataclass(frozen=True, eq=False)
class PlanInputs:
    """The inputs at `queue.now_s`; `weather` is the known outside temperature [degC], `measured_w` nodes' draw now."""

    queue: QueueFacts
    rules: QueueRules
    nodes: tuple[Node, ...]
    shared_nodes: bool
    room: PlanFacility
    caps: tuple[PowerCap, ...] = ()
    weather: Series | None = None
    measured_w: Mapping[str, float] = field(default_factory=dict)


def is_usable(node: Node) -> bool:
    """Whether jobs can use the node within the plan: a sleeping node is woken, a node that offpeak closed is opened."""
    kept = node.closed and not node.closed_by_us
    return not (node.failed or node.reserved or kept or node.use is NodeUse.UNKNOWN)


def expected_run_s_of(job: Job, facts: QueueFacts) -> int | None:
    """Return the expected run time of the job, its limit at most; None if neither is known."""
    return min((value for value in (facts.expected_run_s.get(job.job_id), job.limit_s) if value), default=None)


def expected_end_s(job: Job, inputs: PlanInputs) -> int:
    """Return when a job that has nodes is expected to end: one that has outlived its prediction, at its limit."""
    now_s, start_s = inputs.queue.now_s, job.start_s or inputs.queue.now_s
    expected = (expected_run_s_of(job, inputs.queue), job.limit_s)
    later = [start_s + run_s for run_s in expected if run_s and start_s + run_s > now_s]
    return min(later, default=now_s + OVERDUE_S)


def build_rates(inputs: PlanInputs, prices: Series) -> Rates:
    """Return the rates from now to the end of the prices, at least a day; unknown prices are replaced by the mean."""
    now_s = inputs.queue.now_s
    until_s = max(int(prices.end_s), now_s + SHORTEST_S)
    instants = [prices.start_s, [cap.from_s for cap in inputs.caps], [cap.until_s for cap in inputs.caps]]
    weather = _weather(inputs, now_s, until_s)
    edges = np.unique(np.concatenate([*instants, weather[0], [now_s, until_s]]).astype(np.int64))
    edges = edges[(edges >= now_s) & (edges <= until_s)]
    price = value_at(prices, edges[:-1])
    price = np.where(np.isnan(price), np.nanmean(prices.value), price) / 1000
    at = np.searchsorted(weather[0], edges[:-1], side="right") - 1
    temperature_c = weather[1][np.clip(at, 0, len(weather[1]) - 1)]
    least = np.full(len(edges) - 1, NO_LIMIT)
    for cap in inputs.caps:
        inside = (edges[:-1] < cap.until_s) & (edges[1:] > cap.from_s)
        least[inside] = np.minimum(least[inside], cap.cap_w)
    return Rates(edges - now_s, price, temperature_c, least)


def _weather(inputs: PlanInputs, now_s: int, until_s: int) -> tuple[Int64, Float64]:
    """Return starts [Unix s] of stretches of one temperature, and these [degC]."""
    series = inputs.weather
    if series is None or not series.known.any():
        return np.array([now_s]), np.array([inputs.room.outside_c])
    hours = np.append(np.arange(now_s // HOUR_S * HOUR_S, until_s, HOUR_S), until_s)
    known = np.interp(hours[:-1], series.start_s[series.known], series.value[series.known])
    segments = temperature_segments(hours, known)
    return segments.edge_s[:-1], segments.temperature_c


def subtract_power(rates: Rates, edge_s: Int64, power_w: Float64) -> Rates:
    """Return the rates with caps lowered by a draw that is `power_w[i]` between the edges [s from now]."""
    edges = np.union1d(rates.edge_s, edge_s[(edge_s > 0) & (edge_s < rates.horizon_s)])
    old = np.searchsorted(rates.edge_s, edges[:-1], side="right") - 1
    at = np.searchsorted(edge_s, edges[:-1], side="right") - 1
    inside = (at >= 0) & (at < len(power_w))
    taken = np.where(inside, power_w[np.clip(at, 0, len(power_w) - 1)], 0.0) if len(power_w) else np.zeros(len(at))
    cap = rates.cap_w[old]
    lowered = np.where(cap < NO_LIMIT, np.maximum(cap - np.ceil(taken).astype(np.int64), 0), cap)
    return Rates(edges, rates.price_per_kwh[old], rates.temperature_c[old], lowered)


def planned_power(problem: Problem, plan: Plan) -> tuple[Int64, Float64]:
    """Return edges [s from now] and the power of running and planned jobs between them."""
    work, placed = problem.work, plan.placed
    start_s, duration_s = plan.start_s[placed], work.duration_s[placed]
    begins = np.concatenate([np.zeros(len(problem.running), np.int64), start_s])
    ends = np.concatenate([problem.running.until_s, start_s + duration_s])
    power_w = np.concatenate([problem.running.power_w, work.power_w[placed]])
    return power_over_time(begins, ends, power_w)


def power_over_time(begin_s: Int64, end_s: Int64, power_w: Float64) -> tuple[Int64, Float64]:
    """Return the edges, and what all draw together between them."""
    edges, at = np.unique(np.concatenate([begin_s, end_s]), return_inverse=True)
    change = np.zeros(len(edges))
    np.add.at(change, at, np.concatenate([power_w, -power_w]))
    return edges, np.maximum(np.cumsum(change), 0.0)[:-1] if len(edges) else np.zeros(0)
