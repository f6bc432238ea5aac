"""A lower bound for the energy of any capacity policy, even one that knows the future, for a given schedule of jobs.

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
"""

from dataclasses import dataclass

import numpy as np

from offpeak.compiled import kernel
from offpeak.errors import OffpeakError
from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_class import NodeClass
from offpeak.model.step_integrals import Usage, charge, integrate_constant


@dataclass(frozen=True)
class SleepTerms:
    """The minimal power and energy of a node without a job, by depth: float64[d], the first for no sleep.

    A depth draws `asleep_w`, never rising; a transition into or out of it takes `enter_j` and `leave_j` above that,
    never falling. `cut_enter_j` and `cut_leave_j` are the most by which a transition that is cut undercuts idling.
    """

    idle_w: float
    asleep_w: Float64
    enter_j: Float64
    leave_j: Float64
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
        cut_enter_j=float((np.maximum(idle_w - enter_w, 0) * enter_s).max()),
        cut_leave_j=float((np.maximum(idle_w - leave_w, 0) * leave_s).max()),
    )


def _least_from(value: Float64) -> Float64:
    """Return the minimum of each value and those behind it."""
    return np.minimum.accumulate(value[::-1])[::-1]


@dataclass(frozen=True)
class Gaps:
    """`nodes[i]` levels are not busy from `from_s[i]` to `until_s[i]`: between busy times or ends of the period."""

    from_s: Int64
    until_s: Int64
    nodes: Int64


def gaps_of(usage: Usage, units_per_node: int) -> Gaps:
    """Return the gaps over the period of `usage`. Raises OffpeakError if its jobs need more nodes than exist."""
    at_s, units = units_in_use(usage)
    # However the jobs are packed.
    nodes: Int64 = -(-units.astype(np.int64) // units_per_node)
    machine = usage.machine_size // units_per_node
    if nodes.max(initial=0) > machine:
        needed = f"the running jobs need {nodes.max()} of {machine} nodes at second {at_s[np.argmax(nodes)]}"
        raise OffpeakError(
            needed, hint=f"a machine is whole nodes of {units_per_node} units and holds all jobs that run"
        )
    return Gaps(*_gaps(at_s, nodes, machine, usage.begin_s, usage.until_s))


def units_in_use(usage: Usage) -> tuple[Int64, Float64]:
    """Return times, and the units that the running jobs have from each of them on."""
    at_s, at = np.unique(np.concatenate([usage.start_s, usage.end_s]), return_inverse=True)
    change = np.bincount(at, weights=np.concatenate([usage.size, -usage.size]), minlength=len(at_s))
    return at_s, np.cumsum(change)


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


def lowest_for_schedule(usage: Usage, node_class: NodeClass, *, units_per_node: int) -> float:
    """Return the least energy besides that of the jobs that any capacity policy can use with this schedule [J]."""
    terms = sleep_terms(node_class, usage.idle_w * units_per_node)
    gaps = gaps_of(usage, units_per_node)
    saved_j = float((gaps.nodes * saved_asleep(usage, gaps, terms)).sum())
    first, last = gaps.nodes[gaps.from_s == usage.begin_s].sum(), gaps.nodes[gaps.until_s == usage.until_s].sum()
    cut_j = float(first * terms.cut_leave_j + last * terms.cut_enter_j)
    return charge(integrate_constant(1.0), usage).idle - saved_j - cut_j


def captured_share(used: float, *, always_on: float, lowest: float) -> float:
    """Return the share of the possible saving that a run captured: 0 as always on, 1 at the bound, 0 if there is none.

    All three are of one period; the bound is that of the run's own schedule or, to include the effect of delays, that
    of all schedules.
    """
    return (always_on - used) / (always_on - lowest) if always_on > lowest else 0.0


def saved_asleep(usage: Usage, gaps: Gaps, terms: SleepTerms) -> Float64:
    """Return the most that a level saves in each gap against idling [J]."""
    length_s = (gaps.until_s - gaps.from_s).astype(np.float64)
    enters, leaves = gaps.from_s > usage.begin_s, gaps.until_s < usage.until_s
    saved = np.zeros(len(length_s))
    for asleep_w, enter_j, leave_j in zip(terms.asleep_w, terms.enter_j, terms.leave_j, strict=True):
        in_depth = (terms.idle_w - asleep_w) * length_s - enter_j * enters - leave_j * leaves
        saved = np.maximum(saved, in_depth)
    return saved
