"""A virtual PDU: outlets with nodes on them, what they deliver, and counters that follow; `snmp_agent` serves it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sim_backend.virtual.live_node import Clock


@dataclass(frozen=True)
class PduFaults:
    """What is wrong with a PDU: it says nothing, or -1 for all that it should have measured."""

    silent: bool = False
    sentinel: bool = False


class MeteredLoad(Protocol):
    """What hangs on an outlet: a virtual node, or a node of a real scheduler with simulated power."""

    @property
    def power_w(self) -> float:
        """What it draws now [W]."""

    @property
    def energy_j(self) -> float:
        """What it has drawn since it was made [J]."""


@dataclass
class VirtualPdu:
    """A PDU by its name. `outlets` are numbered from 1; an outlet without a node draws nothing.

    An outlet delivers `loss_factor` times what its node draws: 1 where a node's figures hold for the wall plug.
    """

    name: str
    clock: Clock
    outlets: Mapping[int, MeteredLoad | None]
    loss_factor: float = 1.0
    faults: PduFaults = PduFaults()
    _forgotten_j: dict[int, float] = field(default_factory=dict, init=False)
    _started_s: float = field(default=0.0, init=False)
    _shift: int = field(default=0, init=False)

    @property
    def uptime_s(self) -> float:
        """Seconds of the room since it started."""
        return self.clock() - self._started_s

    @property
    def power_w(self) -> float:
        """What all outlets deliver."""
        return sum(self.outlet_w(outlet) for outlet in self.outlets)

    @property
    def energy_j(self) -> float:
        """What all counters show together."""
        return sum(self.outlet_j(outlet) for outlet in self.outlets)

    def outlet_w(self, outlet: int) -> float:
        """Return what an outlet delivers."""
        node = self.outlets[outlet]
        return self.loss_factor * node.power_w if node else 0.0

    def outlet_j(self, outlet: int) -> float:
        """Return what an outlet's counter shows: its energy since the counter was reset."""
        return self._delivered_j(outlet) - self._forgotten_j.get(outlet, 0.0)

    def outlet_in(self, row: int) -> int:
        """Return which outlet stands in a row of the tables: its own, until a reboot changes that."""
        return (row - 1 + self._shift) % len(self.outlets) + 1

    def reset_counters(self) -> None:
        """Let all energy counters begin at 0 again."""
        self._forgotten_j = {outlet: self._delivered_j(outlet) for outlet in self.outlets}

    def reboot(self) -> None:
        """Let the uptime begin at 0 again, and every outlet stand in another row, as SNMP allows it."""
        self._started_s = self.clock()
        self._shift += 1

    def _delivered_j(self, outlet: int) -> float:
        node = self.outlets[outlet]
        return self.loss_factor * node.energy_j if node else 0.0
