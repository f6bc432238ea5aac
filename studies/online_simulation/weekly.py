"""Utilization and active processors of a replay week by week."""

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.local_time import WEEK_S
from offpeak.model.node_states import ACTIVE
from offpeak.model.step_integrals import StepIntegral, Usage, integrals
from sim_backend.nodes.node_log import NodeLog


def week_edges_s(begin_s: int, until_s: int) -> Int64:
    """Return the seconds at which weeks begin, and the end of the period, which ends the last week."""
    weeks = -(-(until_s - begin_s) // WEEK_S)
    return np.minimum(begin_s + WEEK_S * np.arange(weeks + 1), until_s)


def weekly_active(usage: Usage, log: NodeLog) -> tuple[Float64, Float64]:
    """Return by week how many units were active on average, and which share of their time ran jobs."""
    edges_s = week_edges_s(usage.begin_s, usage.until_s)
    counts = log.counts(usage.begin_s)
    active_s = _integral(edges_s, counts.at_s, (counts.nodes[:, ACTIVE] * log.units_per_node).astype(np.float64))
    busy_s = _integral(edges_s, *_busy(usage))
    share = np.divide(busy_s, active_s, out=np.zeros_like(busy_s), where=active_s > 0)
    return active_s / np.diff(edges_s), share


def _busy(usage: Usage) -> tuple[Int64, Float64]:
    """Return from when on how many units ran jobs."""
    moments_s = np.concatenate([[usage.begin_s], usage.start_s, usage.end_s])
    change = np.concatenate([[0], usage.size, -usage.size])
    at_s, which = np.unique(moments_s, return_inverse=True)
    return at_s, np.cumsum(np.bincount(which, weights=change)).astype(np.float64)


def _integral(edges_s: Int64, at_s: Int64, value: Float64) -> Float64:
    """Return the integrals of `value[i]`, which holds from `at_s[i]` on, between neighbours of `edges_s`."""
    total = np.append(0.0, np.cumsum(value[:-1] * np.diff(at_s)))
    return integrals(StepIntegral(at_s, value, total), edges_s[:-1], edges_s[1:])
