"""Nodes and BMCs as a model: no sockets and no waiting, but all that may be wrong with them. Time is set by the test.

Each node's `log` is what reached it, and what was so at that moment: the witness of what nobody may do.
"""

from dataclasses import dataclass, field

from offpeak.door.door import Confirm
from offpeak.errors import BadAnswer, DeviceError, NoAnswer
from offpeak.machines.inventory import Hardware, InventoryNode, SleepMethod
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.power.drivers.port import PowerObservation, confirm_at_once
from offpeak.power.drivers.ssh import NodeProbe
from offpeak.power.lifecycle.sweep import NodePoller
from offpeak.power.meters.port import Reading

TAKES_S = {"booting": 180.0, "resuming": 10.0, "shutting down": 90.0, "suspending": 5.0}
ENDS = {"booting": "on", "resuming": "on", "shutting down": "off", "suspending": "standby"}
WATTS = {"standby": 11.0, "off": 5.0}

FAULTS = ("dead", "garbage", "drops", "never boots", "never sleeps", "slow", "says off")

SLEEP_METHODS = (
    SleepMethod(NodeOrder.STANDBY, ("bmc", "wol"), enter_timeout_s=60, wake_timeout_s=60, ceiling_w=25.0),
    SleepMethod(NodeOrder.SOFT_OFF, ("bmc", "wol"), enter_timeout_s=300, wake_timeout_s=600),
    SleepMethod(NodeOrder.HARD_OFF, ("bmc",), enter_timeout_s=60, wake_timeout_s=600),
)
HARDWARE = Hardware("model", "ipmi", sleep_methods=SLEEP_METHODS)


@dataclass(frozen=True)
class Arrived:
    """An order that reached a node: what it was, and the node's state, job and faults at that moment."""

    order: NodeOrder
    state: str
    job: bool
    faults: frozenset[str]


@dataclass
class ModelNode:
    """One node with its BMC; `now_s` is set by its room."""

    name: str
    state: str = "on"
    until_s: float = 0.0
    now_s: float = 0.0
    job: bool = False
    faults: set[str] = field(default_factory=set)
    log: list[Arrived] = field(default_factory=list)

    def advance(self, now_s: float) -> None:
        """Let time pass."""
        self.now_s = now_s
        if self.state not in ENDS or now_s < self.until_s:
            return
        stuck = "never boots" if self.state in ("booting", "resuming") else "never sleeps"
        if stuck not in self.faults:
            self.state = ENDS[self.state]
        elif stuck == "never sleeps":
            self.state = "on"

    @property
    def powered(self) -> bool:
        """What an honest BMC says."""
        return self.state not in ("off", "standby")

    @property
    def watts(self) -> float:
        """What it draws."""
        return WATTS.get(self.state, 200.0)

    @property
    def term(self) -> SchedulerState:
        """What the scheduler says."""
        if self.job:
            return SchedulerState.BUSY
        return SchedulerState.UP if self.state in ("on", "shutting down", "suspending") else SchedulerState.DOWN

    def toggled(self) -> None:
        """Somebody else switches it: at once, as by hand."""
        self.state = "off" if self.powered else "on"

    def reported(self, order: NodeOrder, *, way: str = "bmc") -> None:
        """Do what is ordered, or not."""
        self.log.append(Arrived(order, self.state, self.job, frozenset(self.faults)))
        if way == "bmc" and "drops" in self.faults:
            return
        asleep, up = self.state in ("off", "standby"), self.state == "on"
        if order is NodeOrder.ON and asleep:
            self._goes("booting" if self.state == "off" else "resuming")
        elif order is NodeOrder.SOFT_OFF and up:
            self._goes("shutting down")
        elif order is NodeOrder.STANDBY and up:
            self._goes("suspending")
        elif order is NodeOrder.HARD_OFF:
            self.state = "off"

    def _goes(self, change: str) -> None:
        self.state, self.until_s = change, self.now_s + TAKES_S[change] * (3 if "slow" in self.faults else 1)


class ModelDriver:
    """Implements offpeak.power.drivers.port.PowerDriver for a model node."""

    orders = frozenset(NodeOrder)

    def __init__(self, node: ModelNode) -> None:
        self.name, self._node = node.name, node

    async def query(self) -> PowerObservation:
        node = self._node
        if error := _device_error(node):
            return PowerObservation(PowerState.UNKNOWN, node.now_s, error)
        on = node.powered and "says off" not in node.faults
        return PowerObservation(PowerState.ON if on else PowerState.OFF, node.now_s)

    async def send(self, order: NodeOrder, confirm: Confirm = confirm_at_once) -> None:
        if error := _device_error(self._node):
            raise error
        if (await self.query()).state is not (PowerState.ON if order is NodeOrder.ON else PowerState.OFF):
            (await confirm())()
            self._node.reported(order)

    async def identity(self) -> str | None:
        return self.name

    async def close(self) -> None:
        pass


@dataclass
class ModelSsh:
    """The node itself, as far as it is asked whether it is up."""

    node: ModelNode

    async def probe(self) -> NodeProbe:
        if self.node.state != "on":
            raise NoAnswer(f"{self.node.name}: no answer to probe")
        return NodeProbe("1", "boot", 1.0, (), (), wake_clock=False, wake_on_lan=())


@dataclass
class ModelMeter:
    """Implements offpeak.power.meters.port.Meter."""

    node: ModelNode
    name: str = ""
    way: str = "dcmi"

    async def read(self) -> tuple[Reading, ...]:
        if error := _device_error(self.node):
            raise error
        return (Reading(self.node.name, self.way, "total", self.node.watts, 0.0, node=self.node.name),)

    async def close(self) -> None:
        pass


def model_lookout(nodes: dict[str, ModelNode]) -> NodePoller:
    """Return the lookout over these nodes."""
    return NodePoller(
        {name: InventoryNode(name, HARDWARE, rack="r1") for name in nodes},
        {name: ModelDriver(node) for name, node in nodes.items()},
        {name: ModelSsh(node) for name, node in nodes.items()},  # type: ignore[misc]
        {name: ModelMeter(node) for name, node in nodes.items()},
    )


def _device_error(node: ModelNode) -> DeviceError | None:
    if "dead" in node.faults:
        return NoAnswer(f"{node.name}: no answer")
    return BadAnswer(f"{node.name}: 2 bytes instead of 3") if "garbage" in node.faults else None
