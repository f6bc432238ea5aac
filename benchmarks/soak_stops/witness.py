"""What must never be, seen at the virtual nodes and in the scheduler's own truth, never in the agent's records."""

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from benchmarks.soak_stops.site import SiteScheduler
from offpeak.model.orders import PowerState
from offpeak.sim_backend.virtual.machine_room import MachineRoom
from offpeak.sim_backend.virtual.rmcp.server import HARD_OFF, ON, SOFT_OFF

ORDER_NAMES = {ON: "on", SOFT_OFF: "soft_off", HARD_OFF: "hard_off"}
MINUTE_S = 60.0
TAKES_EFFECT_S = 1.0
"""A real second after a change of mode was asked for, it must be in force."""
WAITS_S = 7200.0
"""No job may wait longer than this for nodes that are off: every fault is over long before."""


@dataclass
class Rules:
    """The orders of an admin to the agent, since when in real seconds: the mode, and the held nodes."""

    mode: str = "active"
    mode_since_s: float = 0.0
    held: set[str] = field(default_factory=set)


@dataclass
class Witness:
    """Collects what was `broken`, in words. `real_s` is real time, `clock` that of the site."""

    scheduler: SiteScheduler
    rules: Rules
    clock: Callable[[], float]
    real_s: Callable[[], float]
    broken: list[str] = field(default_factory=list)
    orders: dict[str, int] = field(default_factory=dict)
    most_wakes: int = 0
    longest_wait_s: float = 0.0

    def __post_init__(self) -> None:
        self._wakes: deque[float] = deque()
        self._reported: set[str] = set()

    def watch(self, room: MachineRoom) -> None:
        """See each order that reaches a node from now on, before the node follows it."""
        for name, bmc in room.bmcs.items():
            bmc.orders = _ObservedOrders(partial(self._arrives, name))

    def look(self) -> None:
        """Check waiting and lost jobs."""
        self.broken += self.scheduler.lost
        self.scheduler.lost.clear()
        for job in self.scheduler.unstarted():
            wait_s = self.clock() - job.submit_s
            self.longest_wait_s = max(self.longest_wait_s, wait_s)
            if wait_s > WAITS_S and job.job_id not in self._reported:
                self._reported.add(job.job_id)
                self.broken.append(f"job {job.job_id} waits since {wait_s / 60:.0f} min: {self._state_of(job.placed)}")

    def _arrives(self, name: str, order: int) -> None:
        order_name = ORDER_NAMES.get(order, str(order))
        self.orders[order_name] = self.orders.get(order_name, 0) + 1
        if order == ON:
            self._count_wake()
            return
        wrong = {
            f"job {self.scheduler.busy(name)} runs there": bool(self.scheduler.busy(name)),
            f"the mode is {self.rules.mode}": self._mode_forbids(),
            "an admin holds it": name in self.rules.held,
            "the order is not one that was asked for": order != SOFT_OFF,
        }
        self.broken += [f"{name}: {order_name}: {why}" for why, is_so in wrong.items() if is_so]

    def _mode_forbids(self) -> bool:
        return self.rules.mode != "active" and self.real_s() - self.rules.mode_since_s > TAKES_EFFECT_S

    def _count_wake(self) -> None:
        now_s = self.clock()
        self._wakes.append(now_s)
        while self._wakes[0] <= now_s - MINUTE_S:
            self._wakes.popleft()
        self.most_wakes = max(self.most_wakes, len(self._wakes))

    def _state_of(self, names: Collection[str]) -> str:
        nodes = self.scheduler.cluster.nodes
        states = (f"{name} is {nodes[name].power}, {self.scheduler.room.nodes[name].now().state}" for name in names)
        shut = [name for name, node in nodes.items() if node.shut]
        up = sum(node.power is PowerState.ON and not node.shut for node in nodes.values())
        return f"{'; '.join(states) or 'no node was given to it'}; {len(shut)} are closed, {up} up and open"


class _ObservedOrders(list[int]):
    """The orders that reached a BMC; `see` is called with each before the node follows it."""

    def __init__(self, see: Callable[[int], None]) -> None:
        super().__init__()
        self._see = see

    def append(self, order: int) -> None:
        self._see(order)
