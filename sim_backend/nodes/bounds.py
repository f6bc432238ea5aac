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

The gaps. Level 1 is busy while any node must be active for the running jobs, level 2 while two must be, and so on. A
gap is a time in which a level is not busy. Jobs that take the node that became free last leave just these gaps to the
nodes.

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

from dataclasses import dataclass

import numpy as np

from offpeak.compiled import kernel
from offpeak.errors import OffpeakError
from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_class import NodeClass
from offpeak.model.step_integrals import Charge, StepIntegral, Usage, charge, integrals, integrate_steps


@dataclass(frozen=True)
class SleepTerms:
    """What a node that runs no job takes at least, by depth: float64[d], the first being no sleep at all.

    A depth draws `asleep_w`, never rising; a transition into or out of it takes `enter_j` and `leave_j` above that,
    never falling. `most_w` is the most that a node draws in any state and `longest_s` the longest transition.
    `cut_enter_j` and `cut_leave_j` are what a transition that the period cuts takes at most less than an idle node.
    """

    idle_w: float
    asleep_w: Float64
    enter_j: Float64
    leave_j: Float64
    most_w: float
    longest_s: int
    cut_enter_j: float
    cut_leave_j: float


def sleep_terms(node_class: NodeClass, idle_w: float) -> SleepTerms:
    """Return the terms of a class whose idle node draws `idle_w`."""
    depths = node_class.depths
    enter_s, leave_s, enter_w, leave_w = (
        np.array([0, *values])
        for values in (
            [depth.enter.duration_s for depth in depths],
            [depth.leave.duration_s for depth in depths],
            [depth.enter.power_w for depth in depths],
            [depth.leave.power_w for depth in depths],
        )
    )
    # A transition may draw less than the sleep it leads to: then that depth, and deeper ones, are taken to draw it.
    asleep_w = np.array([idle_w, *(depth.power_w for depth in depths)])
    asleep_w = np.minimum(asleep_w, np.where(enter_s > 0, enter_w, np.inf))
    asleep_w = np.minimum(asleep_w, np.where(leave_s > 0, leave_w, np.inf))
    asleep_w = np.minimum.accumulate(asleep_w)
    return SleepTerms(
        idle_w=idle_w,
        asleep_w=asleep_w,
        enter_j=_least_from((enter_w - asleep_w) * enter_s),
        leave_j=_least_from((leave_w - asleep_w) * leave_s),
        most_w=float(max(idle_w, node_class.state_w().max())),
        longest_s=int(max(enter_s.max(), leave_s.max())),
        cut_enter_j=float((np.maximum(idle_w - enter_w, 0) * enter_s).max()),
        cut_leave_j=float((np.maximum(idle_w - leave_w, 0) * leave_s).max()),
    )


def _least_from(value: Float64) -> Float64:
    """Return the least of each value and those behind it."""
    return np.minimum.accumulate(value[::-1])[::-1]


@dataclass(frozen=True)
class Gaps:
    """`nodes[i]` levels are not busy from `from_s[i]` to `until_s[i]`, and are before and after, or the period ends."""

    from_s: Int64
    until_s: Int64
    nodes: Int64


def gaps_of(usage: Usage, units_per_node: int) -> Gaps:
    """Return the gaps over the period of `usage`; OffpeakError if its jobs need more nodes than there are."""
    at_s, nodes = _needed_nodes(usage, units_per_node)
    machine = usage.machine_size // units_per_node
    if nodes.max(initial=0) > machine:
        needed = f"the running jobs need {nodes.max()} of {machine} nodes at second {at_s[np.argmax(nodes)]}"
        raise OffpeakError(
            needed, hint=f"a machine is whole nodes of {units_per_node} units and holds all jobs that run"
        )
    return Gaps(*_gaps(at_s, nodes, machine, usage.begin_s, usage.until_s))


def _needed_nodes(usage: Usage, units_per_node: int) -> tuple[Int64, Int64]:
    """Return from when on the running jobs need how many nodes at least, however they are packed."""
    at_s, at = np.unique(np.concatenate([usage.start_s, usage.end_s]), return_inverse=True)
    change = np.bincount(at, weights=np.concatenate([usage.size, -usage.size]), minlength=len(at_s))
    units = np.cumsum(change).astype(np.int64)
    return at_s, -(-units // units_per_node)


@kernel
def _gaps(at_s: Int64, needed: Int64, machine: int, begin_s: int, until_s: int) -> tuple[Int64, Int64, Int64]:
    # The levels that are not busy, as groups on a stack: that which became free last is needed first.
    free_s, free = np.empty(len(at_s) + 1, dtype=np.int64), np.empty(len(at_s) + 1, dtype=np.int64)
    free_s[0], free[0] = begin_s, machine
    groups = 1
    gaps = np.empty((3, 2 * len(at_s) + 1), dtype=np.int64)
    found = 0
    before = 0
    for step in range(len(at_s) + 1):
        last = step == len(at_s)
        second = until_s if last else at_s[step]
        wanted = machine if last else needed[step]
        if wanted < before:
            free_s[groups], free[groups] = second, before - wanted
            groups += 1
        while before < wanted:
            taken = min(free[groups - 1], wanted - before)
            gaps[0, found], gaps[1, found], gaps[2, found] = free_s[groups - 1], second, taken
            found += 1 if second > free_s[groups - 1] else 0
            free[groups - 1] -= taken
            groups -= 1 if free[groups - 1] == 0 else 0
            before += taken
        before = wanted
    return gaps[0, :found].copy(), gaps[1, :found].copy(), gaps[2, :found].copy()


def clipped(meter: StepIntegral, lowest: float, highest: float) -> StepIntegral:
    """Return the meter of the same series, held between two bounds."""
    return integrate_steps(meter.at_s, np.clip(meter.value, lowest, highest))


def most(meter: StepIntegral, from_s: Int64, until_s: Int64) -> Float64:
    """Return the highest value of the series within each [from_s, until_s)."""
    return -least(StepIntegral(meter.at_s, -meter.value, -meter.total), from_s, until_s)


def least(meter: StepIntegral, from_s: Int64, until_s: Int64) -> Float64:
    """Return the lowest value of the series within each [from_s, until_s), of an empty one that at `from_s`.

    Before the series' first second its first value counts.
    """
    first = np.maximum(np.searchsorted(meter.at_s, from_s, side="right") - 1, 0)
    last = np.maximum(np.searchsorted(meter.at_s, until_s, side="left") - 1, first)
    pieces = last - first + 1
    found = np.empty(len(first))
    # `lowest[i]` is that of `width` pieces from `i` on: two such runs of them cover up to twice as many.
    lowest, width = meter.value, 1
    while width <= pieces.max(initial=0):
        fits = (pieces >= width) & (pieces < 2 * width)
        found[fits] = np.minimum(lowest[first[fits]], lowest[last[fits] - width + 1])
        lowest, width = np.minimum(lowest[:-width], lowest[width:]), 2 * width
    return found


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
