"""What must never happen, looked for in the BMCs' own logs and the room's truth, never in the agent's records."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.soak_cycles.node import CycledNode
from benchmarks.soak_cycles.plan import NODE_CLASS, CyclesPlan
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.orders import NodeState
from offpeak.power.interlocks.rate_limits import power_step_of_class


@dataclass(frozen=True, slots=True)
class LoggedOrder:
    """An order that a BMC has logged, at the room's time."""

    at_s: float
    node: str
    order: str

    @property
    def down(self) -> bool:
        """Whether it takes power away."""
        return self.order != "on"


class Witness:
    """Collects what was `broken`, in words. `most` is how near each limit came to its bound."""

    def __init__(self, plan: CyclesPlan, nodes: Mapping[str, CycledNode]) -> None:
        self._plan, self._nodes, self._limits = plan, nodes, plan.settings("active")
        self._swing = power_step_of_class(bundled_node_class(NODE_CLASS))
        self._day: deque[LoggedOrder] = deque()
        self.broken: list[str] = []
        self.most: dict[str, float] = {}
        self.orders = 0

    def after_sweep(self, logged: Mapping[str, Sequence[str]], seen: Mapping[str, NodeState], at_s: float) -> None:
        """Take in what reached the BMCs in a sweep, before the nodes begin to follow it."""
        new = [LoggedOrder(at_s, node, order) for node, orders in logged.items() for order in orders]
        for order in new:
            self.broken += [f"{order.node}: {order.order}: {why}" for why in self._wrong(order, seen)]
        self.orders += len(new)
        self._day.extend(new)
        while self._day and self._day[0].at_s <= at_s - DAY_S:
            self._day.popleft()
        if new:
            self._look_at_limits(new, at_s)

    def between_sweeps(self, logged: Mapping[str, Sequence[str]]) -> None:
        """Take in what reached the BMCs when nobody could be giving orders."""
        self.broken += [f"{node}: {orders}: came when nobody gave orders" for node, orders in logged.items()]

    def _wrong(self, each: LoggedOrder, seen: Mapping[str, NodeState]) -> Sequence[str]:
        node = self._nodes[each.node]
        wrong = {
            "a job ran there": each.down and node.job,
            "its state was not known": seen.get(each.node, NodeState.UNKNOWN) is NodeState.UNKNOWN,
            "another board was there": node.fault == "exchanged",
            "nobody wanted that": each.order not in ("on", "soft_off"),
        }
        return [why for why, is_so in wrong.items() if is_so]

    def _look_at_limits(self, new: Sequence[LoggedOrder], at_s: float) -> None:
        limits, downs = self._limits, [order for order in new if order.down]
        minute = [order for order in self._day if at_s - order.at_s < MINUTE_S]
        self._bound("per_sweep", len(downs), limits.nodes_per_sweep)
        self._bound("per_hour", sum(e.down and at_s - e.at_s < HOUR_S for e in self._day), limits.nodes_per_hour)
        for rack in {self._plan.rack_of(order.node) for order in new}:
            logged = sum(self._plan.rack_of(order.node) == rack for order in minute)
            self._bound("per_rack", logged, limits.rack_nodes_per_min)
        for node in {order.node for order in downs}:
            today = sum(order.down and order.node == node for order in self._day)
            self._bound("cycles_per_day", today, limits.cycles_per_day)
        falls = sum(order.down for order in minute)
        self._bound("sleep_ramp", falls * self._swing.fall_w, limits.sleep_ramp_w or 0.0)
        self._bound("wake_ramp", (len(minute) - falls) * self._swing.rise_w, limits.wake_ramp_w or 0.0)
        if downs:
            going_down = {order.node for order in downs}
            left = sum(node.stays_on and name not in going_down for name, node in self._nodes.items())
            # As what is missing, so that a larger number is worse here too.
            self._bound("min_on", len(self._nodes) - left, len(self._nodes) - limits.min_on)

    def _bound(self, limit: str, value: float, most: float) -> None:
        self.most[limit] = max(self.most.get(limit, 0.0), value / most)
        if value > most:
            self.broken.append(f"{limit}: {value:g}, at most {most:g} may be")
