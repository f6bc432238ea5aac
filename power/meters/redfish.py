"""The power of a node by its BMC's Redfish service: the chassis that contain its system."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from offpeak.errors import NotSupported
from offpeak.machines.inventory import InventoryNode
from offpeak.model.constants import J_PER_KWH
from power.drivers.logins import Logins
from power.drivers.redfish import RedfishService, Resource, find_system, get_nested, parse_links
from power.meters.port import Reading

MAX_PLAUSIBLE = 1e15


@dataclass(frozen=True)
class Chassis:
    """The measuring resource of a chassis: EnvironmentMetrics in newer services, Power in older ones."""

    part: str
    metrics: str | None
    power: str | None


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

    async def read(self) -> tuple[Reading, ...]:
        """Return a reading for each chassis. Raises DeviceError if the service fails or measures nothing."""
        if self._chassis is None:
            self._chassis = await self._that_measure()
        return tuple([await self._reading(chassis) for chassis in self._chassis])

    async def close(self) -> None:
        """Close the connection."""
        self._chassis = None
        await self._service.close()

    async def _that_measure(self) -> tuple[Chassis, ...]:
        system = await self._service.get(await find_system(self._service, self._machine))
        found = [
            parse_chassis(await self._service.get(path)) for path in parse_links(get_nested(system, "Links", "Chassis"))
        ]
        measuring = tuple(chassis for chassis in found if chassis.metrics or chassis.power)
        if not measuring:
            hint = "measure it at its PDU, or by IPMI"
            raise NotSupported(f"{self._service.who}: measures no power by Redfish", hint=hint)
        return measuring

    async def _reading(self, chassis: Chassis) -> Reading:
        metrics = await self._get(chassis.metrics)
        power_w, why = _watts(get_nested(metrics, "PowerWatts", "Reading"), "PowerWatts.Reading")
        if power_w is None and chassis.power:
            controls = (await self._get(chassis.power)).get("PowerControl")
            first = controls[0] if isinstance(controls, list) and controls else None
            power_w, why = _watts(get_nested(first, "PowerConsumedWatts"), "PowerControl[0].PowerConsumedWatts")
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


def parse_chassis(resource: Resource) -> Chassis:
    """Return the links of a Chassis resource to its measurements."""
    metrics, power = (get_nested(resource, key, "@odata.id") for key in ("EnvironmentMetrics", "Power"))
    return Chassis(
        str(resource.get("Id") or "chassis"),
        metrics if isinstance(metrics, str) else None,
        power if isinstance(power, str) else None,
    )


def _watts(value: Any, where: str) -> tuple[float | None, str]:
    number = _number(value)
    if number is None:
        return None, f"{where} is {'missing' if value is None else f'{value!r:.40}'}"
    return number, ""


def _joules(metrics: Resource) -> float | None:
    kwh = _number(get_nested(metrics, "EnergykWh", "Reading"))
    return None if kwh is None else kwh * J_PER_KWH


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MAX_PLAUSIBLE:
        return None
    return float(value)
