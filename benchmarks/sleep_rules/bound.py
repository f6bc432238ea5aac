"""The bound of every sleeping rule: what a rule can do that knows when each level of nodes is needed.

Jobs stay where EASY starts them on nodes that are always on. Sorted by level, the nodes have gaps without a job
(sim_backend/nodes/bounds.py), and with a known future each gap is a ski-rental problem of its own: stay awake, sleep
and be up in time, or sleep and come up late. The third never pays for nodes whose transitions draw at least the idle
power less what the sleep saves, so the front has no delay and is that of energy against cycles.

Below the bound stand rules that see only a part of the future: a time-out that also sleeps at once when it sees no need
for so long a time.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_class import NodeClass
from offpeak.sim_backend.nodes.bounds import Gaps


class Prices(NamedTuple):
    """What a power cycle and a second of a job's delay are worth [J]."""

    cycle_j: float
    delay_j_per_s: float


class GapPlan(NamedTuple):
    """What one node does in a gap: the energy of the gap and of a late boot, its cycles, and the delay of the job."""

    energy_j: float
    cycles: int
    delay_s: int

    def cost_j(self, prices: Prices) -> float:
        """Return the cost."""
        return self.energy_j + prices.cycle_j * self.cycles + prices.delay_j_per_s * self.delay_s


def plans_of_gap(length_s: int, node_class: NodeClass) -> tuple[GapPlan, ...]:
    """Return the plans for a gap of which one is the cheapest at any prices; the class has one depth.

    Costs are linear in the times of sleeping and waking, so only extremes count: sleep at once, wake in time or at the
    job's start. A gap that is too short for both transitions delays the job.
    """
    (depth,) = node_class.depths
    enter_s, leave_s = depth.enter.duration_s, depth.leave.duration_s
    ways_j = enter_s * depth.enter.power_w + leave_s * depth.leave.power_w
    plans = [GapPlan(node_class.idle_w * length_s, 0, 0)]
    for wake_s in {max(enter_s, length_s - leave_s), max(enter_s, length_s)}:
        up_s = wake_s + leave_s
        plans.append(GapPlan(ways_j + depth.power_w * (wake_s - enter_s), 1, up_s - length_s))
    return tuple(plans)


def cheapest_plan(length_s: int, node_class: NodeClass, prices: Prices) -> GapPlan:
    """Return the cheapest plan for a gap."""
    return min(plans_of_gap(length_s, node_class), key=lambda plan: plan.cost_j(prices))


def delay_never_pays(node_class: NodeClass) -> bool:
    """Tell whether for each length a plan without delay needs no more energy and no more cycles than one with delay."""
    (depth,) = node_class.depths
    # From this length on both plans with a sleep exist, and the energies of all plans are linear.
    lengths = range(depth.enter.duration_s + depth.leave.duration_s + 2)
    return all(_no_delay_is_best(plans_of_gap(length_s, node_class)) for length_s in lengths)


def _no_delay_is_best(plans: tuple[GapPlan, ...]) -> bool:
    in_time = [plan for plan in plans if plan.delay_s == 0]
    return all(any(plan.energy_j <= late.energy_j and plan.cycles <= late.cycles for plan in in_time) for late in plans)


@dataclass(frozen=True)
class IdleLevels:
    """The gaps of a schedule within a period, and the terms of a sleep: watts saved, and joules that it costs."""

    length_s: Int64
    nodes: Int64
    saved_w: float
    sleep_j: float

    @classmethod
    def of(cls, gaps: Gaps, node_class: NodeClass, begin_s: int, until_s: int) -> "IdleLevels":
        """Return the gaps cut to a period; a cut gap counts as one that ends there."""
        (depth,) = node_class.depths
        sleep_j = sum(way.duration_s * (way.power_w - depth.power_w) for way in (depth.enter, depth.leave))
        length_s = np.minimum(gaps.until_s, until_s) - np.maximum(gaps.from_s, begin_s)
        inside = length_s > 0
        return cls(length_s[inside], gaps.nodes[inside], node_class.idle_w - depth.power_w, sleep_j)

    def timeout(self, after_s: float, seen_s: float = 0.0) -> tuple[float, int]:
        """Return the energy saved [J] and the cycles of nodes that sleep when idle for `after_s`, up in time.

        They see the needs of the next `seen_s` and sleep only if there is none.
        """
        wait_s = np.full(len(self.length_s), after_s)
        sleeps = self.length_s > wait_s + seen_s
        saved_j = (self.saved_w * (self.length_s - wait_s) - self.sleep_j) * self.nodes
        return float(saved_j[sleeps].sum()), int(self.nodes[sleeps].sum())

    def front(self) -> tuple[Float64, Int64]:
        """Return the most energy saved [J] by 1, 2, ... kinds of gaps, longest first, and their cycles."""
        order = np.argsort(-self.length_s, kind="stable")
        each_j = self.saved_w * self.length_s[order] - self.sleep_j
        worth = each_j > 0
        nodes = self.nodes[order][worth]
        return np.cumsum(each_j[worth] * nodes), np.cumsum(nodes)

    def fewest_cycles(self, saved_j: float) -> float:
        """Return the fewest cycles that save so much, NaN if all gaps save less."""
        saved, cycles = self.front()
        return float(np.interp(saved_j, np.append(0.0, saved), np.append(0, cycles), right=np.nan))

    def cycles_seeing(self, saved_j: float, seen_s: float) -> float:
        """Return the cycles of a time-out that sees `seen_s` ahead and saves so much; NaN if none saves it.

        The longest time-out that saves enough has the fewest cycles.
        """
        low_s, high_s = 0.0, float(self.length_s.max(initial=0))
        if self.timeout(low_s, seen_s)[0] < saved_j:
            return float("nan")
        for _ in range(50):
            middle_s = (low_s + high_s) / 2
            if self.timeout(middle_s, seen_s)[0] >= saved_j:
                low_s = middle_s
            else:
                high_s = middle_s
        return float(self.timeout(low_s, seen_s)[1])

    def shortest_gap_s(self, saved_j: float) -> int:
        """Return the shortest gap that the front uses to save so much; all gaps together must save it."""
        saved, _ = self.front()
        order = np.argsort(-self.length_s, kind="stable")
        return int(self.length_s[order][np.searchsorted(saved, saved_j)])
