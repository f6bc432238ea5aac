"""One node's life, walked through by hand: what is seen and ordered is told, time passes when it is said."""

import random
from dataclasses import dataclass, field
from typing import Any

from offpeak.door.effect import AGENT, Hold, Outcome, Refusal
from offpeak.errors import DeviceError, NoAnswer
from offpeak.machines.inventory import Hardware, SleepMethod
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.power.drivers.port import PowerObservation
from offpeak.power.lifecycle.decisions import DueOrder, find_due_order, find_obstacle
from offpeak.power.lifecycle.node_context import NodeContext, RetryPolicy
from offpeak.power.lifecycle.node_record import (
    DesiredState,
    DesiredStateChange,
    Event,
    HoldChange,
    Instant,
    NodeObservation,
    NodeRecord,
    OrderAnswer,
    Release,
    SchedulerReport,
    TimePassed,
)
from offpeak.power.lifecycle.transitions import apply_event

STANDBY = SleepMethod(NodeOrder.STANDBY, ("bmc", "wol"), enter_timeout_s=60, wake_timeout_s=60, ceiling_w=25.0)
SOFT_OFF = SleepMethod(NodeOrder.SOFT_OFF, ("bmc", "wol"), enter_timeout_s=600, wake_timeout_s=600)
HARD_OFF = SleepMethod(NodeOrder.HARD_OFF, ("bmc",), enter_timeout_s=30, wake_timeout_s=600)
SERVER = Hardware("server", "ipmi", sleep_methods=(STANDBY, SOFT_OFF, HARD_OFF))
DONE = Outcome("done", "")


def context_of(hardware: Hardware = SERVER, **retry: float) -> NodeContext:
    """Return terms whose pauses are always of the same length."""
    return NodeContext(hardware, _Even(), retry=RetryPolicy(**retry))  # type: ignore[arg-type]


class _Even(random.Random):
    def random(self) -> float:
        return 0.5


@dataclass
class Walk:
    """A life and the two clocks; what happens is a method."""

    context: NodeContext = field(default_factory=context_of)
    record: NodeRecord = field(default_factory=lambda: NodeRecord("n1"))
    monotonic_s: float = 1000.0
    unix_s: float = 1.8e9

    @property
    def now(self) -> Instant:
        return Instant(self.monotonic_s, self.unix_s)

    @property
    def state(self) -> str:
        return str(self.record.observed.state)

    @property
    def due(self) -> DueOrder | None:
        return find_due_order(self.record, self.now, self.context)

    @property
    def order(self) -> tuple[str, str] | None:
        """What is due: the order and its way."""
        found = self.due
        return None if found is None else (str(found.order), found.way)

    @property
    def blocked(self) -> str:
        return find_obstacle(self.record, self.now)

    def happens(self, event: Event) -> "Walk":
        self.record = apply_event(self.record, event, self.now, self.context)
        return self

    def passes(self, seconds: float) -> "Walk":
        self.monotonic_s += seconds
        self.unix_s += seconds
        return self.happens(TimePassed())

    def seen(self, power: str, **evidence: Any) -> "Walk":
        bmc = PowerObservation(PowerState(power), self.unix_s)
        return self.happens(NodeObservation(bmc, **evidence)).happens(TimePassed())

    def unseen(self, error: DeviceError | None = None) -> "Walk":
        error = error or NoAnswer("n1: no answer")
        return self.happens(NodeObservation(PowerObservation(PowerState.UNKNOWN, self.unix_s, error))).happens(
            TimePassed()
        )

    def desires(self, order: str | None, by: str = AGENT, why: str = "idle") -> "Walk":
        return self.happens(DesiredStateChange(DesiredState(NodeOrder(order), by, self.unix_s, why) if order else None))

    def reports(self, state: str | None) -> "Walk":
        return self.happens(SchedulerReport(SchedulerState(state) if state else None))

    def ordered(self, answer: Outcome | Refusal = DONE) -> "Walk":
        """Give what is due to a door that answers so."""
        found = self.due
        assert found is not None, self.blocked
        return self.happens(OrderAnswer(found.order, found.way, found.by, answer))

    def held(self, owner: str, until_unix_s: float | None = None) -> "Walk":
        return self.happens(HoldChange(Hold(owner, "repair", until_unix_s)))

    def released(self) -> "Walk":
        return self.happens(Release())


def asleep(**retry: float) -> Walk:
    """Return a node that was sent off and went."""
    walk = Walk(context_of(**retry)).seen("on").desires("soft_off").ordered()
    return walk.passes(90).seen("off")
