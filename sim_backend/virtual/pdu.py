"""A virtual PDU: outlets with nodes, their power, energy counters, and its objects for SNMP.

The objects are those of an APC rack PDU of the second generation: PowerNet-MIB, rPDU2, as far as power goes. Each
object is a function, so that a request for one outlet does not read all the others. `snmp_agent` serves them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sim_backend.virtual.node import Clock


@dataclass(frozen=True)
class PduFaults:
    """The faults of a PDU: no reply, or -1 for every measured value."""

    silent: bool = False
    sentinel: bool = False


class MeteredLoad(Protocol):
    """The load of an outlet: a virtual node, or a node of a real scheduler with simulated power."""

    @property
    def power_w(self) -> float:
        """The present power [W]."""

    @property
    def energy_j(self) -> float:
        """The energy used since the load was made [J]."""


@dataclass
class VirtualPdu:
    """A PDU by its name. `outlets` are numbered from 1; an outlet without a node draws nothing.

    An outlet delivers `loss_factor` times the power of its node: 1 if a node's figures hold for the wall plug.
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
        """Seconds since the PDU started, by the clock of the room."""
        return self.clock() - self._started_s

    @property
    def power_w(self) -> float:
        """The power of all outlets [W]."""
        return sum(self.outlet_w(outlet) for outlet in self.outlets)

    @property
    def energy_j(self) -> float:
        """The sum of all energy counters [J]."""
        return sum(self.outlet_j(outlet) for outlet in self.outlets)

    def outlet_w(self, outlet: int) -> float:
        """Return the power of an outlet [W]."""
        node = self.outlets[outlet]
        return self.loss_factor * node.power_w if node else 0.0

    def outlet_j(self, outlet: int) -> float:
        """Return the reading of an outlet's counter: its energy since the counter was reset [J]."""
        return self._delivered_j(outlet) - self._forgotten_j.get(outlet, 0.0)

    def outlet_in(self, row: int) -> int:
        """Return the outlet in a row of the tables: that of the same number, until a reboot changes the rows."""
        return (row - 1 + self._shift) % len(self.outlets) + 1

    def reset_counters(self) -> None:
        """Reset all energy counters to 0."""
        self._forgotten_j = {outlet: self._delivered_j(outlet) for outlet in self.outlets}

    def reboot(self) -> None:
        """Reset the uptime to 0 and give every outlet another row, as SNMP allows after a reboot."""
        self._started_s = self.clock()
        self._shift += 1

    def _delivered_j(self, outlet: int) -> float:
        node = self.outlets[outlet]
        return self.loss_factor * node.energy_j if node else 0.0


Oid = tuple[int, ...]
Value = int | str | Oid
Rows = dict[Oid, Callable[[], Value]]

SYSTEM = (1, 3, 6, 1, 2, 1, 1)
APC = (1, 3, 6, 1, 4, 1, 318)
UPTIME = (*SYSTEM, 3, 0)
MASTER_SWITCHED = (*APC, 1, 3, 4, 6)
"""The sysObjectID of such PDUs."""
IDENT = (*APC, 1, 1, 12, 1)
RPDU2 = (*APC, 1, 1, 26)

NOT_AVAILABLE = -1
VOLTAGE_V = 230
TENTH_OF_KWH_J = 360_000
NORMAL_LOAD = 2


def apc_rows(pdu: VirtualPdu) -> Rows:
    """Return all objects of a PDU by their OIDs; uptime in hundredths of a second."""
    device, phase, outlets = (*RPDU2, 4, 3, 1), (*RPDU2, 6, 3, 1), (*RPDU2, 9, 4, 3, 1)
    rows: Rows = {
        (*SYSTEM, 1, 0): lambda: "APC Web/SNMP Management Card (offpeak's virtual PDU MN:AP8641)",
        (*SYSTEM, 2, 0): lambda: MASTER_SWITCHED,
        UPTIME: lambda: int(pdu.uptime_s * 100) & 0xFFFFFFFF,
        (*SYSTEM, 5, 0): lambda: pdu.name,
        # rPDUIdent of the first generation, which the second still fills: model, serial, outlets, power [W].
        (*IDENT, 5, 0): lambda: "AP8641",
        (*IDENT, 6, 0): lambda: f"VIRTUAL-{pdu.name}",
        (*IDENT, 8, 0): lambda: len(pdu.outlets),
        (*IDENT, 16, 0): lambda: _measured(pdu, pdu.power_w),
        # rPDU2DeviceStatus: index, module, name, load state, power [10 W], energy [0.1 kWh].
        (*device, 1, 1): lambda: 1,
        (*device, 2, 1): lambda: 1,
        (*device, 3, 1): lambda: pdu.name,
        (*device, 4, 1): lambda: NORMAL_LOAD,
        (*device, 5, 1): lambda: _measured(pdu, pdu.power_w / 10),
        (*device, 9, 1): lambda: _counted(pdu, pdu.energy_j),
        # rPDU2PhaseStatus of the only phase: index, module, number, load state, then [0.1 A], [V] and [10 W].
        **{(*phase, column, 1): lambda: 1 for column in (1, 2, 3)},
        (*phase, 4, 1): lambda: NORMAL_LOAD,
        (*phase, 5, 1): lambda: _measured(pdu, pdu.power_w / VOLTAGE_V * 10),
        (*phase, 6, 1): lambda: VOLTAGE_V,
        (*phase, 7, 1): lambda: _measured(pdu, pdu.power_w / 10),
    }
    for row in sorted(pdu.outlets):
        rows |= {(*outlets, column, row): value for column, value in _outlet(pdu, row).items()}
    return rows


def _outlet(pdu: VirtualPdu, row: int) -> dict[int, Callable[[], Value]]:
    """Return a row of rPDU2OutletMeteredStatus: index, module, name, number, state, then [0.1 A], [W] and [0.1 kWh]."""
    return {
        1: lambda: row,
        2: lambda: 1,
        3: lambda: f"Outlet {pdu.outlet_in(row)}",
        4: lambda: pdu.outlet_in(row),
        5: lambda: NORMAL_LOAD,
        6: lambda: _measured(pdu, pdu.outlet_w(pdu.outlet_in(row)) / VOLTAGE_V * 10),
        7: lambda: _measured(pdu, pdu.outlet_w(pdu.outlet_in(row))),
        11: lambda: _counted(pdu, pdu.outlet_j(pdu.outlet_in(row))),
    }


def _measured(pdu: VirtualPdu, value: float) -> int:
    return NOT_AVAILABLE if pdu.faults.sentinel else round(value)


def _counted(pdu: VirtualPdu, energy_j: float) -> int:
    return NOT_AVAILABLE if pdu.faults.sentinel else int(energy_j // TENTH_OF_KWH_J)
