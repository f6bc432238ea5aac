"""The power of a node by its BMC: DCMI over the session that also switches it, or Redfish."""

import time
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

from offpeak.errors import BadAnswer, NotSupported
from offpeak.machines.inventory import InventoryNode
from offpeak.model.constants import J_PER_KWH
from offpeak.power.drivers.ipmi.bmc import address_of
from offpeak.power.drivers.ipmi.requests import IpmiRequest, SendRequest
from offpeak.power.drivers.logins import Logins
from offpeak.power.drivers.redfish import RedfishService, Resource, find_system, get_nested, parse_links
from offpeak.power.drivers.transport import Transport
from offpeak.power.meters.port import Reading

GROUP = 0xDC
POWER_READING = IpmiRequest("DCMI Get Power Reading", 0x2C, 0x02, bytes([GROUP, 0x01, 0x00, 0x00]))
"""Mode 1, system power statistics (DCMI v1.5, section 6.6.1)."""
LENGTH = 18
STATE, ACTIVE = 17, 0x40
NOT_ACTIVE = "the BMC reports that its power measurement is not active"
NO_READING = 0xFFFF
NO_WATTS = "the BMC reports 0 W: it has no sensor, or measures only while the node is on"

MAX_PLAUSIBLE = 1e15

SHARED_TYPES = frozenset({"Enclosure", "Rack", "RackGroup", "Row", "Pod", "Zone", "IPBasedDrive"})
COMPONENTS = ("/Processors/", "/Memory", "/PowerSupplies/", "/Drives/", "/NetworkAdapters/")
COMPONENT_CONTEXTS = frozenset(
    {"CPU", "CPUSubsystem", "GPU", "GPUSubsystem", "Memory", "MemorySubsystem", "Accelerator"}
)
"""What a value of PowerControl is about that is not the whole node (PhysicalContext of Redfish)."""


class DcmiMeter:
    """Implements offpeak.power.meters.port.Meter for one node."""

    way = "dcmi"

    def __init__(
        self, node: str, ask: SendRequest, close: Callable[[], Awaitable[None]], *, clock: Callable[[], float]
    ) -> None:
        self.name = node
        self._ask, self._close, self._clock = ask, close, clock

    async def read(self) -> tuple[Reading, ...]:
        """Return the present power, None if the BMC does not measure it. Raises NotSupported without DCMI."""
        answer = await self._ask(POWER_READING)
        power_w, why = watts(answer)
        now = self._clock()
        return (Reading(self.name, self.way, "total", power_w, now, node=self.name, why=why),)

    async def close(self) -> None:
        """Log out."""
        await self._close()


def watts(answer: bytes) -> tuple[float | None, str]:
    """Return the present power [W] of an answer, or None and the reason. Raises BadAnswer if it is not a power reading.

    After the group byte: current, minimum, maximum and average power [W], two bytes each, little-endian; time stamp and
    period, four bytes each; a byte whose bit 6 is set while the measurement is active.
    """
    if len(answer) < LENGTH or answer[0] != GROUP:
        what = f"{POWER_READING.name}: {len(answer)} bytes that are not a power reading"
        raise BadAnswer(what, hint="update the BMC's firmware, or meter the node at its PDU")
    power_w = float(int.from_bytes(answer[1:3], "little"))
    if not answer[STATE] & ACTIVE:
        return None, NOT_ACTIVE
    return (power_w, "") if power_w else (None, NO_WATTS)


def dcmi_meter(machine: InventoryNode, wire: Transport) -> DcmiMeter:
    """Return the meter of the machine's BMC, sharing its driver's session. Raises BadInventory like `address_of`."""
    bmc, sessions = address_of(machine), wire.sessions
    return DcmiMeter(bmc.node, partial(sessions.ask, bmc), partial(sessions.close, bmc), clock=wire.clock)


@dataclass(frozen=True)
class Chassis:
    """The measuring resource of a chassis: EnvironmentMetrics in newer services, Power in older ones.

    `is_shared`: other systems are in it, too, so that its power is not the node's.
    """

    part: str
    path: str
    metrics: str | None
    power: str | None
    is_shared: bool


class RedfishMeter:
    """Reads the power of one node's chassis; each request takes at most `timeout_s`."""

    way = "redfish"

    def __init__(
        self, machine: InventoryNode, *, logins: Logins, timeout_s: float = 10.0, now: Callable[[], float] = time.time
    ) -> None:
        self.name = machine.node
        self._machine = machine
        self._service = RedfishService(machine, logins=logins, timeout_s=timeout_s)
        self._now = now
        self._chassis: tuple[Chassis, ...] | None = None
        self._system = ""

    async def read(self) -> tuple[Reading, ...]:
        """Return a reading for each chassis. Raises DeviceError if the service fails or measures nothing."""
        if self._chassis is None:
            self._system = await find_system(self._service, self._machine)
            links = parse_links(get_nested(await self._service.get(self._system), "Links", "Chassis"))
            found = [parse_chassis(path, await self._service.get(path)) for path in links]
            measuring = tuple(chassis for chassis in found if chassis.metrics or chassis.power)
            own = tuple(chassis for chassis in measuring if not chassis.is_shared)
            if measuring and not own and len(found) > 1:
                hint = "measure it at its PDU, or by IPMI"
                raise NotSupported(f"{self._service.who}: measures only what it shares with other nodes", hint=hint)
            measuring = own or measuring
            if not measuring:
                hint = "measure it at its PDU, or by IPMI"
                raise NotSupported(f"{self._service.who}: measures no power by Redfish", hint=hint)
            self._chassis = measuring
        return tuple([await self._reading(chassis) for chassis in self._chassis])

    async def close(self) -> None:
        """Close the connection."""
        self._chassis = None
        await self._service.close()

    async def _reading(self, chassis: Chassis) -> Reading:
        metrics = await self._get(chassis.metrics)
        power_w, why = _watts(get_nested(metrics, "PowerWatts", "Reading"), "PowerWatts.Reading")
        if power_w is None and chassis.power:
            controls = (await self._get(chassis.power)).get("PowerControl")
            power_w, why = watts_of_controls(controls, {self._system, chassis.path})
        return Reading(
            meter=self.name,
            way=self.way,
            part=chassis.part,
            power_w=power_w,
            at_unix_s=self._now(),
            energy_j=_joules(metrics),
            node=self._machine.node,
            why=why,
        )

    async def _get(self, path: str | None) -> Resource:
        try:
            return await self._service.get(path) if path else {}
        except NotSupported:
            # Some firmware links to resources that it does not have.
            return {}


def watts_of_controls(controls: Any, of_node: Set[str]) -> tuple[float | None, str]:
    """Return the power of the node [W] among the entries of PowerControl, or None and the reason.

    It is the largest one of the entries of the whole node: no part draws more than the whole.
    """
    whole = controls_of_node(controls, of_node).values()
    found = [_watts(entry.get("PowerConsumedWatts"), "PowerConsumedWatts") for entry in whole]
    measured = [power_w for power_w, _ in found if power_w is not None]
    if measured:
        return max(measured), ""
    return None, f"PowerControl: {found[0][1]}" if found else "PowerControl has no entry of the whole node"


def controls_of_node(controls: Any, of_node: Set[str]) -> dict[int, Resource]:
    """Return the entries of PowerControl that are of the whole node, by their place in the list.

    They name the system or its chassis (`of_node`) as their RelatedItem, or else are of no component.
    """
    listed = enumerate(controls) if isinstance(controls, list) else ()
    entries = {place: entry for place, entry in listed if isinstance(entry, dict)}
    related = {
        place: entry
        for place, entry in entries.items()
        if not of_node.isdisjoint(parse_links(entry.get("RelatedItem")))
    }
    return related or {place: entry for place, entry in entries.items() if not _is_of_component(entry)}


def _is_of_component(entry: Resource) -> bool:
    related = parse_links(entry.get("RelatedItem"))
    return entry.get("PhysicalContext") in COMPONENT_CONTEXTS or (
        bool(related) and all(any(part in path for part in COMPONENTS) for path in related)
    )


def parse_chassis(path: str, resource: Resource) -> Chassis:
    """Return the links of a Chassis resource to its measurements."""
    systems = parse_links(get_nested(resource, "Links", "ComputerSystems"))
    metrics, power = (get_nested(resource, key, "@odata.id") for key in ("EnvironmentMetrics", "Power"))
    return Chassis(
        str(resource.get("Id") or "chassis"),
        path,
        metrics if isinstance(metrics, str) else None,
        power if isinstance(power, str) else None,
        is_shared=len(systems) > 1 or resource.get("ChassisType") in SHARED_TYPES,
    )


def _watts(value: Any, where: str) -> tuple[float | None, str]:
    number = _number(value)
    if number is None:
        return None, f"{where} is {'missing' if value is None else f'{value!r:.40}'}"
    if number == NO_READING:
        return None, f"{where} is {NO_READING}, which stands for no reading"
    return (number, "") if number else (None, NO_WATTS)


def _joules(metrics: Resource) -> float | None:
    kwh = _number(get_nested(metrics, "EnergykWh", "Reading"))
    return None if kwh is None else kwh * J_PER_KWH


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MAX_PLAUSIBLE:
        return None
    return float(value)
