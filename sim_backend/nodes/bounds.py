"""A lower bound for the cost of any capacity policy, even one that knows the future, for a given schedule of jobs.

Assumptions: starts, ends and power of the jobs are given; nodes are equal, and jobs run on active ones; a node falls
asleep from being active or from a shallower depth and wakes to be active; transitions succeed (one that fails costs no
less if it draws no less than idling does).

Why it is a lower bound. Let n(t) be the minimum of nodes for the running jobs: their units over the units of a node,
rounded up, so no packing needs fewer. At each instant sort the nodes of any policy's run from active to deepest asleep.
The l-th of them, "level l", is active while n(t) >= l. When a node goes from active to depth d, some levels go one step
down each, together from active to d. Since transitions cost no less for deeper depths (`sleep_terms` lowers those of a
class that do), the cost of the move can be charged to these steps. So the run costs no less than the levels would if
each were planned separately, and a level that is not busy for a time g either idles or pays for the deepest depth that
it reaches, in and out: min(idle_w g, min over d of enter_d + leave_d + asleep_d g).

The gaps. Level 1 is busy while any node must be active for the running jobs, level 2 while two must be, and so on. A
gap is a time in which a level is not busy. Jobs that take the node that became free last leave exactly these gaps to
the nodes.

Why no higher bound on energy holds: a scheduler that gives jobs the nodes that became free last leaves exactly these
gaps, and if transitions draw at least the idle power, and those of deeper depths no less, a depth pays off only in gaps
that its transitions fit into. (Other assignments have crossing gaps somewhere; as the cost is concave in the length,
nesting them costs no more.) With several units per node the bound may be unreachable, because jobs do not move.

The ends of the period. A node may have slept before the period and may sleep on after it, so the first gap needs no
transition into sleep and the last none out of it. A transition that the period cuts counts as idling, less the most
that it may draw below that.

Money and CO2. While the price p is positive the same holds with the integral of p instead of time, and with transitions
at the lowest price in the gap or within a transition's length around it. While p is negative, a level that is not busy
draws the most that a node can. The energy of the jobs is that of the schedule.
"""

from dataclasses import dataclass

import numpy as np

from offpeak.compiled import kernel
from offpeak.errors import OffpeakError
from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_class import NodeClass
from offpeak.model.step_series import Charge, StepIntegral, Usage, charge, integrals, integrate_steps


@dataclass(frozen=True)
class SleepTerms:
    """The minimal power and energy of a node without a job, by depth: float64[d], the first for no sleep.

    A depth draws `asleep_w`, never rising; a transition into or out of it takes `enter_j` and `leave_j` above that,
    never falling. `most_w` is the highest power of a node in any state and `longest_s` the longest transition.
    `cut_enter_j` and `cut_leave_j` are the most by which a transition that the period cuts uses less than an idle node.
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
    # A transition may draw less than the sleep it leads to: then that depth, and deeper ones, count with this power.
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
    """Return the minimum of each value and those behind it."""
    return np.minimum.accumulate(value[::-1])[::-1]


@dataclass(frozen=True)
class Gaps:
    """`nodes[i]` levels are not busy from `from_s[i]` to `until_s[i]`, between two busy times or an end of the
    period.
    """

    from_s: Int64
    until_s: Int64
    nodes: Int64


def gaps_of(usage: Usage, units_per_node: int) -> Gaps:
    """Return the gaps over the period of `usage`. Raises OffpeakError if its jobs need more nodes than exist."""
    at_s, nodes = _needed_nodes(usage, units_per_node)
    machine = usage.machine_size // units_per_node
    if nodes.max(initial=0) > machine:
        needed = f"the running jobs need {nodes.max()} of {machine} nodes at second {at_s[np.argmax(nodes)]}"
        raise OffpeakError(
            needed, hint=f"a machine is whole nodes of {units_per_node} units and holds all jobs that run"
        )
    return Gaps(*_gaps(at_s, nodes, machine, usage.begin_s, usage.until_s))


def _needed_nodes(usage: Usage, units_per_node: int) -> tuple[Int64, Int64]:
    """Return times, and the minimum of nodes for the running jobs from each of them on, however they are packed."""
    at_s, at = np.unique(np.concatenate([usage.start_s, usage.end_s]), return_inverse=True)
    change = np.bincount(at, weights=np.concatenate([usage.size, -usage.size]), minlength=len(at_s))
    units = np.cumsum(change).astype(np.int64)
    return at_s, -(-units // units_per_node)


@kernel
def _gaps(at_s: Int64, needed: Int64, machine: int, begin_s: int, until_s: int) -> tuple[Int64, Int64, Int64]:
    # The levels that are not busy, as groups on a stack: the one that became free last is used first.
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
    """Return the lowest value of the series within each [from_s, until_s), or the value at `from_s` if it is empty.

    Before the series' first second its first value counts.
    """
    first = np.maximum(np.searchsorted(meter.at_s, from_s, side="right") - 1, 0)
    last = np.maximum(np.searchsorted(meter.at_s, until_s, side="left") - 1, first)
    pieces = last - first + 1
    found = np.empty(len(first))
    # `lowest[i]` is the minimum of `width` pieces from `i` on; two such runs cover up to twice as many pieces.
    lowest, width = meter.value, 1
    while width <= pieces.max(initial=0):
        fits = (pieces >= width) & (pieces < 2 * width)
        found[fits] = np.minimum(lowest[first[fits]], lowest[last[fits] - width + 1])
        lowest, width = np.minimum(lowest[:-width], lowest[width:]), 2 * width
    return found


def lowest_for_schedule(meter: StepIntegral, usage: Usage, node_class: NodeClass, *, units_per_node: int) -> Charge:
    """Return the least energy that any capacity policy can use with this schedule, weighted by the meter's series.

    `idle` is everything except the jobs. With `constant_meter(1.0)` it is energy [J].
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

    All three are of one period; the bound is that of the run's own schedule or, to include the effect of delays, that
    of all schedules.
    """
    return (always_on - used) / (always_on - lowest) if always_on > lowest else 0.0


def saved_asleep(positive: StepIntegral, usage: Usage, gaps: Gaps, terms: SleepTerms) -> Float64:
    """Return the most that a level saves in each gap against idling, at positive prices."""
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
    """Return the most that a level earns in each gap above idling, at negative prices."""
    return (terms.idle_w - terms.most_w) * integrals(clipped(meter, -np.inf, 0.0), gaps.from_s, gaps.until_s)


def _cut(positive: StepIntegral, usage: Usage, gaps: Gaps, terms: SleepTerms) -> float:
    """Return the most by which transitions that the period cuts use less than idling."""
    ends_s: Int64 = np.array([usage.begin_s, usage.until_s])
    inside_s = np.clip(ends_s + np.array([terms.longest_s, -terms.longest_s]), *ends_s)
    price = most(positive, np.array([ends_s[0], inside_s[1]]), np.array([inside_s[0], ends_s[1]]))
    first, last = gaps.nodes[gaps.from_s == ends_s[0]].sum(), gaps.nodes[gaps.until_s == ends_s[1]].sum()
    return float(price[0] * first * terms.cut_leave_j + price[1] * last * terms.cut_enter_j)
