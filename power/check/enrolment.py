"""Enrolment: reads the identity and the capabilities of each BMC before any order is sent to it."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from offpeak.errors import DeviceError, NotSupported, OffpeakError, WrongDevice
from offpeak.machines.inventory import Enrolment, InventoryNode, is_standby_proof
from power.drivers.registry import driver_of
from power.drivers.transport import Transport
from power.meters.registry import bmc_meter

METERED = "metered"
"""A capability of a node: its BMC measures power. The others are its orders and proven standby states."""


@dataclass(frozen=True)
class EnrolmentResult:
    """The enrolment of one node, or the error. `same` if the inventory already contains it."""

    node: str
    enrolled: Enrolment | None = None
    error: OffpeakError | None = None
    same: bool = False


async def probe_bmcs(
    machines: Iterable[InventoryNode], wire: Transport, *, date: str, replace: bool
) -> tuple[EnrolmentResult, ...]:
    """Query all BMCs at the same time and return the results; a changed identity is an error unless `replace`."""
    try:
        return tuple(await asyncio.gather(*(_probe_bmc(machine, wire, date, replace) for machine in machines)))
    finally:
        await wire.close()


async def _probe_bmc(machine: InventoryNode, wire: Transport, date: str, replace: bool) -> EnrolmentResult:
    try:
        driver = driver_of(machine, wire)
        seen = await driver.query()
        if seen.error is not None and not isinstance(seen.error, NotSupported):
            raise seen.error
        identity = await driver.identity()
        if identity is None:
            hint = "offpeak can measure such a node, but never switches it off"
            raise NotSupported(f"{machine.node}: its BMC reports no identity", hint=hint)
        can = [*sorted(map(str, driver.orders)), *([METERED] if await _has_power_meter(machine, wire) else [])]
    except OffpeakError as problem:
        return EnrolmentResult(machine.node, error=problem)
    known = machine.enrolled
    if known is not None and known.identity != identity and not replace:
        return EnrolmentResult(machine.node, error=_identity_error(machine, known, identity))
    kept = filter(is_standby_proof, known.capabilities) if known and known.identity == identity else ()
    capabilities = tuple(dict.fromkeys((*can, *kept)))
    if known is not None and (known.identity, known.capabilities) == (identity, capabilities):
        return EnrolmentResult(machine.node, known, same=True)
    return EnrolmentResult(machine.node, Enrolment(identity, capabilities, date))


def _identity_error(machine: InventoryNode, known: Enrolment, identity: str) -> WrongDevice:
    message = f"{machine.node}: its BMC is {identity}, but {known.identity} was enrolled on {known.date}"
    hint = f"does the address belong to this node? if its board was replaced: offpeak enroll --replace {machine.node}"
    return WrongDevice(message, hint=hint)


async def _has_power_meter(machine: InventoryNode, wire: Transport) -> bool:
    meter = bmc_meter(machine, wire)
    if meter is None:
        return False
    try:
        return any(reading.power_w is not None for reading in await meter.read())
    except DeviceError:
        return False
    finally:
        await meter.close()
