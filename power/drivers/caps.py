"""Drivers that cap the power of a running node: by its BMC (DCMI, Redfish, a power-control service), its processors
(RAPL) or its GPUs.

`cap_by` of the hardware in the inventory names the device: "bmc", "cpu" or "gpu". A cap is the most that the device may
draw, in watts: the whole node by its BMC, all processors together, all GPUs together. A BMC keeps a cap until it is
removed: neither DCMI nor Redfish has a timer for it. Processors and GPUs are capped by the node's offpeak-node, which
removes the cap by itself after some time.
"""

import json
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from offpeak.door.door import Guard
from offpeak.errors import BadAnswer, BadInventory, DeviceError, NotSupported
from offpeak.machines.inventory import InventoryNode
from offpeak.power.drivers.ipmi.bmc import BmcRefusal, address_of
from offpeak.power.drivers.ipmi.requests import IpmiRequest, SendRequest
from offpeak.power.drivers.power_control import find_node_control, service_of
from offpeak.power.drivers.redfish import RedfishService, find_system, get_nested, parse_links
from offpeak.power.drivers.transport import Transport
from offpeak.power.meters.bmc import GROUP, POWER_READING, controls_of_node, parse_chassis, watts

GET_LIMIT = IpmiRequest("DCMI Get Power Limit", 0x2C, 0x03, bytes([GROUP, 0, 0]))
ACTIVATE, DEACTIVATE = (
    IpmiRequest(f"DCMI {verb} Power Limit", 0x2C, 0x05, bytes([GROUP, on, 0, 0]))
    for verb, on in (("Activate", 1), ("Deactivate", 0))
)
"""DCMI v1.5, sections 6.6.2 to 6.6.4."""
NO_LIMIT, OUT_OF_RANGE = 0x80, 0x84
LIMIT_LENGTH = 14
NO_ACTION = 0
"""What the BMC does if it cannot keep the limit: nothing. 1 would power the node off."""
CORRECTION_MS, SAMPLING_S = 1000, 1


@dataclass(frozen=True)
class CapState:
    """A device that can be capped: the limit in force and its draw, None for no limit and for an unknown draw.

    It accepts limits from `least_w` to `most_w`, None where it does not say. `settings` is what `restore_cap` needs to
    bring back this limit.
    """

    limit_w: float | None
    draw_w: float | None = None
    least_w: float | None = None
    most_w: float | None = None
    settings: str = ""

    @property
    def range_text(self) -> str:
        """The limits that the device accepts, in words."""
        if self.least_w is None and self.most_w is None:
            return "the device does not say which limits it accepts"
        least = "any" if self.least_w is None else f"{self.least_w:.0f} W"
        return f"the device accepts {least} to {'any' if self.most_w is None else f'{self.most_w:.0f} W'}"


class CapDriver(Protocol):
    """Caps one device of a node. Each call is bounded in time and raises DeviceError.

    `guard` is called directly before each command that changes the device; what it raises keeps the command back. No
    such command is repeated.
    """

    has_timer: bool

    async def read_cap(self, *, with_draw: bool = True) -> CapState:
        """Return the limit in force and the draw, which may be left out if that saves time."""

    async def set_cap(self, cap_w: int, was: CapState, for_s: int, guard: Guard) -> None:
        """Limit the device, which was in the state `was`; a device with a timer ends the cap itself after `for_s`."""

    async def restore_cap(self, was: CapState, guard: Guard) -> None:
        """Bring back the limit of that state, or none."""


class DcmiCap:
    """Caps a node by the power limit of its BMC."""

    has_timer = False

    def __init__(self, machine: InventoryNode, wire: Transport) -> None:
        bmc, sessions = address_of(machine), wire.sessions
        self._who, self._ask, self._command = str(bmc), partial(sessions.ask, bmc), partial(sessions.command, bmc)

    async def read_cap(self, *, with_draw: bool = True) -> CapState:
        """Return the limit, and the power that the BMC measures. Raises NotSupported without DCMI."""
        limit_w, settings = None, ""
        try:
            answer = await self._ask(GET_LIMIT)
        except BmcRefusal as refusal:
            if refusal.code != NO_LIMIT:
                raise
        else:
            if len(answer) < LIMIT_LENGTH or answer[0] != GROUP:
                raise BadAnswer(f"{self._who}: {GET_LIMIT.name}: {len(answer)} bytes that are not a power limit")
            limit_w, settings = float(int.from_bytes(answer[4:6], "little")), answer[3:LIMIT_LENGTH].hex()
        return CapState(limit_w, await read_draw(self._ask) if with_draw else None, settings=settings)

    async def set_cap(self, cap_w: int, was: CapState, for_s: int, guard: Guard) -> None:  # noqa: ARG002
        """Set and activate the limit; the BMC keeps it until it is restored."""
        times = CORRECTION_MS.to_bytes(4, "little"), bytes(2), SAMPLING_S.to_bytes(2, "little")
        await self._set(b"".join((bytes([NO_ACTION]), cap_w.to_bytes(2, "little"), *times)), guard)

    async def restore_cap(self, was: CapState, guard: Guard) -> None:
        """Set the limit of before with all that belonged to it, or deactivate it."""
        if was.settings:
            await self._set(bytes.fromhex(was.settings), guard)
        else:
            await self._command(DEACTIVATE, guard)

    async def _set(self, settings: bytes, guard: Guard) -> None:
        data = bytes([GROUP, 0, 0, 0]) + settings
        try:
            await self._command(IpmiRequest("DCMI Set Power Limit", 0x2C, 0x04, data), guard)
        except BmcRefusal as refusal:
            if refusal.code != OUT_OF_RANGE:
                raise
            cap_w = int.from_bytes(settings[1:3], "little")
            hint = "DCMI has no way to query the range; the BMC's web page or manual shows it"
            raise BadAnswer(f"{self._who}: does not accept a limit of {cap_w} W", hint=hint) from None
        await self._command(ACTIVATE, guard)


async def read_draw(ask: SendRequest) -> float | None:
    """Return the power that a BMC measures [W], None if it measures none."""
    try:
        return watts(await ask(POWER_READING))[0]
    except DeviceError:
        return None


class RedfishCap:
    """Caps a node by EnvironmentMetrics.PowerLimitWatts of its chassis, or by the older PowerControl.PowerLimit."""

    has_timer = False

    def __init__(self, machine: InventoryNode, wire: Transport) -> None:
        self._machine = machine
        self._service = RedfishService(machine, logins=wire.logins, timeout_s=wire.timeout_s)
        # The transport logs out.
        wire.services[self] = self._service
        self._path: str | None = None
        self._of_node: frozenset[str] = frozenset()

    async def read_cap(self, *, with_draw: bool = True) -> CapState:  # noqa: ARG002
        """Return the limit and the draw. Raises NotSupported if no chassis of the system alone has a limit."""
        if self._path is None:
            self._path = await self._find_path()
        resource = await self._service.get(self._path)
        if "PowerLimitWatts" in resource:
            limit = resource["PowerLimitWatts"]
            kept = {key: limit[key] for key in ("SetPoint", "ControlMode") if isinstance(limit, dict) and key in limit}
            is_off = kept.get("ControlMode") == "Disabled" or not kept.get("SetPoint")
            return CapState(
                limit_w=None if is_off else _number(limit, "SetPoint"),
                draw_w=_number(resource.get("PowerWatts"), "Reading"),
                least_w=_number(limit, "AllowableMin"),
                most_w=_number(limit, "AllowableMax"),
                settings=json.dumps({"PowerLimitWatts": kept}),
            )
        state = _parse_power_control(resource, self._of_node)
        if state is None:
            raise self._no_limit()
        return state

    async def set_cap(self, cap_w: int, was: CapState, for_s: int, guard: Guard) -> None:  # noqa: ARG002
        """Set the limit; the BMC keeps it until it is restored."""
        found = json.loads(was.settings)
        body: dict[str, Any]
        if "PowerLimitWatts" in found:
            mode = {"ControlMode": "Automatic"} if "ControlMode" in found["PowerLimitWatts"] else {}
            body = {"PowerLimitWatts": {"SetPoint": cap_w, **mode}}
        else:
            limit = {"LimitInWatts": cap_w, "LimitException": "NoAction"}
            body = {"PowerControl": [{"PowerLimit": limit} if entry else {} for entry in found["PowerControl"]]}
        await self._change(body, guard)

    async def restore_cap(self, was: CapState, guard: Guard) -> None:
        """Write back what was there."""
        await self._change(json.loads(was.settings), guard)

    async def _change(self, body: dict[str, Any], guard: Guard) -> None:
        if self._path is None:
            self._path = await self._find_path()
        await self._service.patch(self._path, body, guard)

    async def _find_path(self) -> str:
        of_system = await find_system(self._service, self._machine)
        system = await self._service.get(of_system)
        for path in parse_links(get_nested(system, "Links", "Chassis")):
            chassis = parse_chassis(path, await self._service.get(path))
            if chassis.is_shared:
                # Its limit would be that of other nodes, too.
                continue
            if chassis.metrics and "PowerLimitWatts" in await self._service.get(chassis.metrics):
                return chassis.metrics
            self._of_node = frozenset({of_system, path})
            if chassis.power and _parse_power_control(await self._service.get(chassis.power), self._of_node):
                return chassis.power
        raise self._no_limit()

    def _no_limit(self) -> NotSupported:
        return NotSupported(f"{self._service.who}: has no power limit", hint='cap its processors: cap_by = "cpu"')


def _parse_power_control(resource: Mapping[str, Any], of_node: Set[str]) -> CapState | None:
    """Return the limit of the whole node, None without one: of the entry with the largest draw, as it is measured.

    The kept settings are for PATCH, which changes entries by their place, and leaves those that are empty as they are.
    """
    limited = {
        place: control
        for place, control in controls_of_node(resource.get("PowerControl"), of_node).items()
        if isinstance(control.get("PowerLimit"), dict)
    }
    if not limited:
        return None
    places = range(len(resource["PowerControl"]))
    place = max(limited, key=lambda place: _number(limited[place], "PowerConsumedWatts") or 0)
    control, limit = limited[place], limited[place]["PowerLimit"]
    kept = {key: limit[key] for key in ("LimitInWatts", "LimitException") if key in limit}
    kept.setdefault("LimitInWatts", None)
    return CapState(
        limit_w=_number(limit, "LimitInWatts"),
        draw_w=_number(control, "PowerConsumedWatts"),
        most_w=_number(control, "PowerCapacityWatts"),
        settings=json.dumps({"PowerControl": [{"PowerLimit": kept} if at == place else {} for at in places]}),
    )


def _number(resource: Any, key: str) -> float | None:
    number = get_nested(resource, key)
    return float(number) if isinstance(number, int | float) and not isinstance(number, bool) and number > 0 else None


class PowerControlCap:
    """Caps a node through a power-control service, together with all nodes that are capped at the same moment."""

    has_timer = False

    def __init__(self, machine: InventoryNode, wire: Transport) -> None:
        self._service, self._xname = service_of(machine, wire)
        self._node = f"{machine.node} ({self._xname})"

    async def read_cap(self, *, with_draw: bool = True) -> CapState:  # noqa: ARG002
        """Return the limit; the service measures no power. Raises NotSupported without a control of the whole node."""
        component = await self._service.limits.call(self._xname, None)
        control = find_node_control(component.get("powerCapLimits"))
        if control is None:
            raise NotSupported(f"{self._node}: has no power limit", hint='cap its processors: cap_by = "cpu"')
        limit_w, limits = _number(control, "currentValue"), component.get("limits")
        least_w, most_w = _number(control, "minimumValue"), _number(control, "maximumValue")
        settings = json.dumps({"name": control.get("name"), "value": int(limit_w or 0)})
        least_w, most_w = least_w or _number(limits, "hostLimitMin"), most_w or _number(limits, "hostLimitMax")
        return CapState(limit_w, least_w=least_w, most_w=most_w, settings=settings)

    async def set_cap(self, cap_w: int, was: CapState, for_s: int, guard: Guard) -> None:  # noqa: ARG002
        """Set the limit; the BMC keeps it until it is restored."""
        await self._service.new_limits.call(self._xname, (json.loads(was.settings) | {"value": cap_w}, guard))

    async def restore_cap(self, was: CapState, guard: Guard) -> None:
        """Write back the limit of before; 0 is none."""
        await self._service.new_limits.call(self._xname, (json.loads(was.settings), guard))


class NodeDeviceCap:
    """Caps the processors or the GPUs of a node through its offpeak-node, which ends the cap by its own timer."""

    has_timer = True

    def __init__(self, machine: InventoryNode, wire: Transport, *, device: str) -> None:
        # asyncssh takes a while to import.
        from offpeak.power.drivers.ssh import NodeSsh

        self._node, self._device = NodeSsh(machine, logins=wire.logins, timeout_s=wire.timeout_s), device

    async def read_cap(self, *, with_draw: bool = True) -> CapState:  # noqa: ARG002
        """Return limit, draw and range of all devices together. Raises NotSupported if the node has none."""
        rows = [line.split("\t") for line in (await self._node.caps()).splitlines()]
        found = [[_parse_watts(text) for text in row[2:]] for row in rows if row[0] == self._device and len(row) == 6]
        if not found:
            hint = "is powercap in its kernel?" if self._device == "cpu" else "does nvidia-smi or amdgpu show limits?"
            raise NotSupported(f"{self._node.node}: has no {self._device} that can be capped", hint=hint)
        limit_w, least_w, most_w, draw_w = (_sum(column) for column in zip(*found, strict=True))
        return CapState(limit_w, draw_w, least_w, most_w)

    async def set_cap(self, cap_w: int, was: CapState, for_s: int, guard: Guard) -> None:  # noqa: ARG002
        """Divide the cap among the devices; the node remembers their limits of before."""
        await self._node.cap(self._device, cap_w, for_s, guard)

    async def restore_cap(self, was: CapState, guard: Guard) -> None:  # noqa: ARG002
        """Bring back the limits that the node remembers; a node without any is left as it is."""
        await self._node.uncap(self._device, guard)


def _parse_watts(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _sum(column: tuple[float | None, ...]) -> float | None:
    known = [value for value in column if value is not None]
    return sum(known) if len(known) == len(column) else None


BY_BMC: Mapping[str, Callable[[InventoryNode, Transport], CapDriver]] = {
    "ipmi": DcmiCap,
    "redfish": RedfishCap,
    "pcs": PowerControlCap,
}


def cap_driver_of(machine: InventoryNode, wire: Transport) -> CapDriver:
    """Return the driver that caps the machine. Raises BadInventory if its hardware names none, or lacks a setting."""
    device, place = machine.hardware.cap_by, f"[hardware.{machine.hardware.name}]"
    if device is None:
        raise BadInventory(f"{machine.node}: nothing caps it", hint=f'add cap_by = "bmc", "cpu" or "gpu" below {place}')
    if device != "bmc":
        return NodeDeviceCap(machine, wire, device=device)
    if machine.hardware.bmc_power == "enclosure":
        hint = f'set cap_by = "cpu" or "gpu" below {place}'
        raise BadInventory(f"{machine.node}: its BMC would cap the whole enclosure", hint=hint)
    driver = machine.hardware.driver or ""
    if driver not in BY_BMC:
        hint = f'a BMC is capped by driver = "ipmi", "redfish" or "pcs"; or set cap_by = "cpu" below {place}'
        raise BadInventory(f"{machine.node}: no driver {driver!r} caps its BMC", hint=hint)
    return BY_BMC[driver](machine, wire)
