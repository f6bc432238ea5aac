"""How good could a capacity policy be that knows the future? A lower bound for the schedule that it left to the jobs.

Assumed: starts and ends of the jobs are given, and so is what they draw; nodes are alike, and jobs run on active ones;
a node falls asleep from being active or from a shallower depth and wakes to be active; transitions succeed (one that
fails costs no less if it draws no less than idling does).

Why it is a lower bound. Let n(t) be the nodes that the running jobs need at least: their units over the units of a
node, rounded up, so no packing needs fewer. At each instant sort the nodes of any policy's run from active to deepest
asleep. The l-th of them, "level l", is active while n(t) >= l. When a node goes from active to depth d, some levels
go one step down each, together from active to d. Since transitions cost no less for deeper depths (`sleep_terms` lowers
those of a class that do), these steps can be charged for together what the move cost. So the run costs no less than
the levels would if each were planned alone, and a level that is not busy for a time g either idles or pays for the
deepest depth that it reaches, in and out: min(idle_w g, min over d of enter_d + leave_d + asleep_d g).

Why no higher bound on energy is true: a scheduler that gives jobs the nodes that became free last leaves the nodes
just these gaps, and where transitions draw at least what idling does, those of deeper depths no less, a depth pays off
only in gaps that they fit into. (Other assignments have crossing gaps somewhere; as the cost is concave in the length,
nesting the two costs no more.) With several units to a node the bound may be out of reach: jobs do not move.

The period's ends. A node may have slept before the period and may sleep on after it: the first gap needs no way in, the
last no way out. A transition that the period cuts counts as idling, less what it may draw below that.

Money and CO2. While the price p is positive the same holds with the integral of p in the place of time, transitions
taken at the lowest price in the gap or a transition's length around it. While p is negative a level that is not busy
draws the most that a node can. Jobs' own energy is as in the schedule.
"""

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_class import NodeClass
from offpeak.model.step_integrals import Charge, StepIntegral, Usage, charge, integrals
from sim_backend.nodes.gaps import Gaps, gaps_of
from sim_backend.nodes.meter_parts import clipped, least, most
from sim_backend.nodes.sleep_terms import SleepTerms, sleep_terms


def lowest_for_schedule(meter: StepIntegral, usage: Usage, node_class: NodeClass, *, units_per_node: int) -> Charge:
    """Return the least that any capacity policy can use with this schedule, weighted by the meter's series.

    `idle` is all but the jobs. With `constant_meter(1.0)` it is energy [J].
    """
    terms = sleep_terms(node_class, usage.idle_w * units_per_node)
    gaps = gaps_of(usage, units_per_node)
    positive = clipped(meter, 0.0, np.inf)
    saved = saved_asleep(positive, usage, gaps, terms) + _saved_below_0(meter, gaps, terms)
    always_on = charge(meter, usage)
    lowest = always_on.idle - float((gaps.nodes * saved).sum()) - _cut(positive, usage, gaps, terms)
    return Charge(always_on.jobs, lowest)


def captured_share(used: float, *, always_on: float, lowest: float) -> float:
    """Return the share of the possible saving that a run captured: 0 as always on, 1 at the bound, 0 if there is none.

    All three are of one period; the bound is that of the run's own schedule or, to count what its delays allowed, that
    of all schedules.
    """
    return (always_on - used) / (always_on - lowest) if always_on > lowest else 0.0


def saved_asleep(positive: StepIntegral, usage: Usage, gaps: Gaps, terms: SleepTerms) -> Float64:
    """Return what a level saves at most in each gap against idling, prices positive."""
    weight = integrals(positive, gaps.from_s, gaps.until_s)
    around_from_s = np.maximum(gaps.from_s - terms.longest_s, usage.begin_s)
    around_until_s = np.minimum(gaps.until_s + terms.longest_s, usage.until_s)
    price = least(positive, around_from_s, around_until_s)
    entering, leaving = price * (gaps.from_s > usage.begin_s), price * (gaps.until_s < usage.until_s)
    saved = np.zeros(len(weight))
    for asleep_w, enter_j, leave_j in zip(terms.asleep_w, terms.enter_j, terms.leave_j, strict=True):
        in_depth = (terms.idle_w - asleep_w) * weight - enter_j * entering - leave_j * leaving
        saved = np.maximum(saved, in_depth)
    return saved


def _saved_below_0(meter: StepIntegral, gaps: Gaps, terms: SleepTerms) -> Float64:
    """Return what a level earns at most in each gap above idling, prices negative."""
    return (terms.idle_w - terms.most_w) * integrals(clipped(meter, -np.inf, 0.0), gaps.from_s, gaps.until_s)


def _cut(positive: StepIntegral, usage: Usage, gaps: Gaps, terms: SleepTerms) -> float:
    """Return what transitions that the period cuts may take less than idling."""
    ends_s: Int64 = np.array([usage.begin_s, usage.until_s])
    inside_s = np.clip(ends_s + np.array([terms.longest_s, -terms.longest_s]), *ends_s)
    price = most(positive, np.array([ends_s[0], inside_s[1]]), np.array([inside_s[0], ends_s[1]]))
    first, last = gaps.nodes[gaps.from_s == ends_s[0]].sum(), gaps.nodes[gaps.until_s == ends_s[1]].sum()
    return float(price[0] * first * terms.cut_leave_j + price[1] * last * terms.cut_enter_j)
