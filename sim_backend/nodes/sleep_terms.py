"""The least that sleeping can cost a node of a class, in a form that lower bounds can be proven with."""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.node_class import NodeClass


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
