"""A lower bound over all schedules of the jobs within the period: weaker than that of one schedule, but absolute.

Assumed: each job runs as long and draws as much as in the given schedule, at any time of the period (it may be moved
before its submission and cut into pieces, which only lowers the bound), and nodes behave as in `nodes.bounds`.

While the price is positive whatever runs no job draws the least of any state, so that unit-seconds of jobs and of such
sleep fill the machine; of all ways to lay them on the prices, the hungriest on the cheapest seconds costs least (the
rearrangement inequality). While the price is negative, whatever runs no job draws the most that a node can.

Wake-ups: the widest job needs that many nodes at once. Those of them that are not busy all the time idle or go to sleep
or come up at least once. What that takes is concave in a node's time without jobs, hence least where few nodes have
all of that time. It is paid at the lowest price of the period.
"""

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.node_class import NodeClass
from offpeak.model.step_integrals import Charge, StepIntegral, Usage
from offpeak.sim_backend.nodes.bounds import SleepTerms, sleep_terms


def lowest_of_all(meter: StepIntegral, usage: Usage, node_class: NodeClass, *, units_per_node: int) -> Charge:
    """Return the least that any schedule and capacity policy can use, weighted by the meter's series.

    The period is not empty. `idle` is all but the jobs. With `constant_meter(1.0)` it is energy [J].
    """
    terms = sleep_terms(node_class, usage.idle_w * units_per_node)
    length_s, price = _prices(meter, usage.begin_s, usage.until_s)
    jobs, asleep = _hungriest_on_cheapest(length_s, price, usage, terms.asleep_w[-1] / units_per_node)
    nodes = usage.machine_size / units_per_node
    most_w = max(terms.idle_w, float(node_class.state_w().max()))
    earned = nodes * (most_w - terms.asleep_w[-1]) * float((length_s * np.minimum(price, 0.0)).sum())
    wake = max(float(price[0]), 0.0) * _wake_j(usage, terms, units_per_node)
    return Charge(jobs, asleep + earned + wake)


def _prices(meter: StepIntegral, begin_s: int, until_s: int) -> tuple[Float64, Float64]:
    """Return lengths [s] and values of the pieces of the series within the period, cheapest first."""
    edges_s = np.unique(np.clip(np.concatenate([[begin_s, until_s], meter.at_s]), begin_s, until_s))
    piece = np.maximum(np.searchsorted(meter.at_s, edges_s[:-1], side="right") - 1, 0)
    order = np.argsort(meter.value[piece], kind="stable")
    return np.diff(edges_s)[order].astype(np.float64), meter.value[piece][order]


def _hungriest_on_cheapest(length_s: Float64, price: Float64, usage: Usage, asleep_w: float) -> tuple[float, float]:
    """Return the charge of jobs and of sleeping units if the hungriest have the cheapest unit-seconds."""
    slots_s = np.append(0.0, np.cumsum(usage.machine_size * length_s))
    total = np.append(0.0, np.cumsum(usage.machine_size * length_s * price))
    busy_s = (usage.size * (usage.end_s - usage.start_s)).astype(np.float64)
    unit_s, draw_w = np.append(busy_s, slots_s[-1] - busy_s.sum()), np.append(usage.node_power_w, asleep_w)
    order = np.argsort(-draw_w, kind="stable")
    ends = np.interp(np.cumsum(unit_s[order]), slots_s, total)
    charged = draw_w[order] * np.diff(ends, prepend=0.0)
    asleep = charged[order == len(busy_s)].sum()
    return float(charged.sum() - asleep), float(asleep)


def _wake_j(usage: Usage, terms: SleepTerms, units_per_node: int) -> float:
    """Return what the nodes of the widest job take at least above sleeping while they run nothing [J]."""
    runtime_s = usage.end_s - usage.start_s
    if not runtime_s.any():
        return 0.0
    widest = int(np.argmax(np.where(runtime_s > 0, usage.size, 0)))
    nodes = -(-int(usage.size[widest]) // units_per_node)
    period_s = usage.until_s - usage.begin_s
    longest_s = period_s - float(runtime_s[widest]) / units_per_node
    without_s = max(nodes * period_s - float((usage.size * runtime_s).sum()) / units_per_node, 0.0)
    if without_s == 0:
        return 0.0
    whole, rest_s = divmod(without_s, longest_s)
    awake_j = whole * _above_sleep_j(terms, longest_s) + _above_sleep_j(terms, rest_s)
    return max(awake_j - nodes * (terms.cut_enter_j + terms.cut_leave_j), 0.0)


def _above_sleep_j(terms: SleepTerms, without_s: float) -> float:
    """Return what a node takes at least above the deepest sleep in that time, if it is awake at some other time."""
    once_j = np.minimum(terms.enter_j, terms.leave_j)
    # Not to sleep at all is the first of the depths.
    return float(((terms.asleep_w - terms.asleep_w[-1]) * without_s + once_j).min())
