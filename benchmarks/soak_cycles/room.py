"""The room: nodes with their BMCs, jobs that come and go, what ails them, and the scheduler's word on all that."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.soak_cycles.bmcs import OTHER_BMC_GUID, Bmcs
from benchmarks.soak_cycles.clock import RoomClock
from benchmarks.soak_cycles.node import CycledNode
from benchmarks.soak_cycles.plan import CyclesPlan
from offpeak.model.orders import NodeOrder
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.plugin.scheduler.port import NodeUses

FAULTS = ("frozen", "dead", "exchanged", "drops orders", "stays on", "hangs in its boot", "by hand")
LONGEST_SWEEPS = 8
SEASON_SWEEPS = 40
"""So many sweeps with faults, then as many without new ones, and so on."""
JOBS_UP, JOBS_ASLEEP, BEGINS = 0.05, 0.5, 0.5
"""So often in a sweep a job comes for a node that is up, for one asleep; and one that waits begins, if it can."""
LATE_JOBS, LATE_FREEZES, FALLS_ILL = 0.05, 0.005, 0.5
"""So often a job begins, or the BMC freezes, when the scheduler is asked; so often in a sweep one more falls ill."""


@dataclass
class _Ill:
    fault: str
    last_sweep: int


class CyclesRoom:
    """The true states, independent of the agent."""

    def __init__(self, plan: CyclesPlan, bmcs: Bmcs, clock: RoomClock) -> None:
        self._plan, self._bmcs, self._clock = plan, bmcs, clock
        self._chance = random.Random(plan.seed)
        self.nodes = {
            name: CycledNode(name, bmc, self._chance) for name, bmc in zip(plan.nodes, bmcs.made, strict=True)
        }
        self._ill: dict[str, _Ill] = {}
        self._calm = False
        self.faults = Counter[str]()
        self.sweep = 0

    @property
    def cycles(self) -> int:
        """All cycles so far."""
        return sum(node.cycles for node in self.nodes.values())

    def pass_time(self, seconds: float) -> None:
        """Let time pass: nodes follow, jobs end and begin, others wait for their node, and somebody falls ill."""
        self._clock.pass_(seconds)
        self.sweep += 1
        for node in self.nodes.values():
            node.advance(self._clock.monotonic_s)
            node.pending = node.pending or self._chance.random() < (JOBS_UP if node.up else JOBS_ASLEEP)
            if node.pending and self._chance.random() < BEGINS:
                node.begin_job(self._clock.monotonic_s)
        self._mend(self.sweep)
        if self.sweep // SEASON_SWEEPS % 2 == 0 and self._chance.random() < FALLS_ILL:
            self._fall_ill(self._chance.choice(self._plan.nodes), self._chance.choice(FAULTS))

    def end_of_faults(self) -> None:
        """Make all well for good; no job runs any more, and none comes."""
        self._calm = True
        self._mend(self.sweep + LONGEST_SWEEPS + 1)
        for node in self.nodes.values():
            node.job = node.pending = False

    def settle(self, seconds: float) -> None:
        """Let time pass in which nothing comes and nobody falls ill."""
        self._clock.pass_(seconds)
        for node in self.nodes.values():
            node.advance(self._clock.monotonic_s)

    def scheduler_states(self) -> dict[str, SchedulerState]:
        """Return the current states in the scheduler."""
        return {name: node.scheduler_state for name, node in self.nodes.items()}

    def desired_orders(self) -> dict[str, NodeOrder | None]:
        """Return the desired orders of a planner: a node for which a job waits must be up, an idle one must sleep."""
        return {name: self._desired(node) for name, node in self.nodes.items()}

    def ill(self) -> Sequence[str]:
        """Return the nodes with which something is wrong."""
        return tuple(self._ill)

    def in_use(self, name: str) -> str:
        """Return why a node is not free, as the scheduler does; a job may begin in that very moment."""
        node = self.nodes[name]
        if not self._calm and self._chance.random() < LATE_JOBS:
            node.begin_job(self._clock.monotonic_s)
        if not self._calm and self._chance.random() < LATE_FREEZES:
            self._fall_ill(name, "frozen")
        return "runs a job" if node.job else ""

    def find_uses(self, names: Sequence[str]) -> NodeUses:
        """Return the use of each of these nodes."""
        return {name: self.in_use(name) for name in names}

    def orders(self) -> dict[str, list[str]]:
        """Return what each BMC has logged since it was last asked for, of those that were told anything."""
        logged = {name: node.new_orders() for name, node in self.nodes.items()}
        return {name: orders for name, orders in logged.items() if orders}

    def follow(self, logged: Mapping[str, Sequence[str]]) -> None:
        """Let the nodes start to follow their orders."""
        for name, orders in logged.items():
            for order in orders:
                self.nodes[name].follow(order, self._clock.monotonic_s)

    def _desired(self, node: CycledNode) -> NodeOrder | None:
        if node.pending or node.job:
            return NodeOrder.ON
        return NodeOrder.SOFT_OFF if self._clock.monotonic_s >= node.until_s else None

    def _fall_ill(self, name: str, fault: str) -> None:
        node = self.nodes[name]
        if node.fault or len(self._ill) >= self._plan.most_ill or (fault == "by hand" and node.job):
            return
        self._ill[name] = _Ill(fault, self.sweep + self._chance.randint(1, LONGEST_SWEEPS))
        self.faults[fault] += 1
        node.fault = fault
        number = self._plan.nodes.index(name)
        match fault:
            case "frozen":
                node.bmc.freeze()
            case "dead":
                node.bmc.kill()
            case "exchanged":
                node.bmc = self._bmcs.restart(number, guid=OTHER_BMC_GUID)
            case "by hand":
                node.switched_by_hand()

    def _mend(self, sweep: int) -> None:
        for name in [name for name, ill in self._ill.items() if ill.last_sweep < sweep]:
            node, fault = self.nodes[name], self._ill.pop(name).fault
            if fault == "frozen":
                self._thaw(name)
            elif fault in ("dead", "exchanged"):
                node.bmc = self._bmcs.restart(self._plan.nodes.index(name))
            node.fault = ""

    def _thaw(self, name: str) -> None:
        """Let a BMC go on; one that has ended by itself, as ipmi_sim rarely does then, is started again."""
        node = self.nodes[name]
        node.bmc.thaw()
        try:
            node.bmc.settle()
        except RuntimeError:
            self.faults["ended by itself"] += 1
            node.bmc = self._bmcs.restart(self._plan.nodes.index(name))
