"""What a plan comes to over time: power of jobs and idle nodes beside price, temperature and PUE."""

from collections.abc import Sequence

import numpy as np

from plugin.day_plan.day_plan import Course, Load, PlannedJob
from plugin.day_plan.rates import power_over_time
from plugin.day_plan.sight import Sight
from plugin.planner.problem import Rates


def course_of(
    sight: Sight, rates: Rates, jobs: Sequence[PlannedJob], loads: Sequence[Load], *, idle_w: float
) -> Course:
    """Return the course from now to the end of the rates."""
    now_s = sight.queue.now_s
    runs = [(job.start_s, job.start_s + job.run_s, job.power_w) for job in jobs if job.start_s is not None]
    runs += [(now_s, load.until_s, load.power_w) for load in loads]
    begin_s, end_s, power_w = (np.array([run[at] for run in runs], np.float64) for at in range(3))
    edges, drawn_w = power_over_time(begin_s.astype(np.int64), end_s.astype(np.int64), power_w)
    rate_edges = now_s + rates.edge_s
    inside = edges[(edges > now_s) & (edges < rate_edges[-1])]
    edge_s = np.union1d(rate_edges, inside)
    at = np.searchsorted(rate_edges, edge_s[:-1], side="right") - 1
    jobs_w = _along(edges, drawn_w, edge_s[:-1])
    temperature_c, total_w = rates.temperature_c[at], jobs_w + idle_w
    pue = sight.room.facility.pue_at(total_w, temperature_c)
    return Course(edge_s, rates.price_per_kwh[at], temperature_c, total_w, pue)


def _along(edges: np.ndarray, value: np.ndarray, at_s: np.ndarray) -> np.ndarray:
    index = np.searchsorted(edges, at_s, side="right") - 1
    inside = (index >= 0) & (index < len(value))
    return (
        np.where(inside, value[np.clip(index, 0, max(len(value) - 1, 0))], 0.0) if len(value) else np.zeros(len(at_s))
    )
