"""The driver over any kind of IPMI access: it reads the state first and sends an order only if it is needed."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from offpeak.door.door import Confirm, Guard
from offpeak.errors import BadInventory, DeviceError, NotSupported
from offpeak.machines.inventory import InventoryNode
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.power.drivers.ipmi.bmc import address_of
from offpeak.power.drivers.ipmi.requests import CONTROL, SendCommand, SendRequest, read_is_on, read_system_guid
from offpeak.power.drivers.port import PowerObservation, confirm_at_once
from offpeak.power.drivers.transport import Transport


class Bmc(Protocol):
    """The requests to a BMC. Every call raises DeviceError and is bounded in time."""

    async def is_on(self) -> bool:
        """Return whether the chassis has power."""

    async def control(self, order: NodeOrder, guard: Guard) -> None:
        """Send the order, one of CONTROL, without reading the state; `guard` is called directly before."""

    async def guid(self) -> str | None:
        """Return the GUID, as `read_system_guid` does."""

    def close(self) -> Awaitable[None]:
        """Log out."""


class BmcDriver:
    """Implements offpeak.power.drivers.port.PowerDriver over a BMC."""

    orders = frozenset(CONTROL)

    def __init__(self, name: str, bmc: Bmc, clock: Callable[[], float]) -> None:
        self.name = name
        self._bmc, self._clock = bmc, clock

    async def query(self) -> PowerObservation:
        """Return the state of the chassis, or UNKNOWN with the reason."""
        try:
            on = await self._bmc.is_on()
        except DeviceError as error:
            return PowerObservation(PowerState.UNKNOWN, self._clock(), error)
        return PowerObservation(PowerState.ON if on else PowerState.OFF, self._clock())

    async def send(self, order: NodeOrder, confirm: Confirm = confirm_at_once) -> None:
        """Send the order unless the chassis is already in that state. Raises DeviceError, and sends nothing, if the
        state is unknown.
        """
        if order not in self.orders:
            raise NotSupported(f"{self.name}: IPMI has no order {order}")
        if await self._bmc.is_on() is not (order is NodeOrder.ON):
            await self._bmc.control(order, await confirm())

    async def identity(self) -> str | None:
        """Return the system's GUID, else the BMC's, as `ipmitool mc guid` prints it; None if it has none."""
        return await self._bmc.guid()

    async def close(self) -> None:
        """Log out."""
        await self._bmc.close()


@dataclass(frozen=True)
class RawRequestBmc:
    """A BMC that takes raw requests; `command` calls a guard directly before its request."""

    ask: SendRequest
    command: SendCommand
    close: Callable[[], Awaitable[None]]

    async def is_on(self) -> bool:
        """Return whether the chassis has power."""
        return await read_is_on(self.ask)

    async def control(self, order: NodeOrder, guard: Guard) -> None:
        """Give the order."""
        await self.command(CONTROL[order], guard)

    async def guid(self) -> str | None:
        """Return the GUID."""
        return await read_system_guid(self.ask)


def ipmi_driver(machine: InventoryNode, wire: Transport) -> BmcDriver:
    """Return the driver over a pyghmi session that stays open and is shared with the meter of that BMC.

    It uses privilege and cipher_suite of the inventory: 17 proposes SHA-256 and falls back to SHA-1 if the BMC refuses
    that; 3 proposes SHA-1 only; others raise BadInventory. It has no workarounds: a BMC that needs one is controlled by
    ipmipower.
    """
    bmc = address_of(machine)
    if bmc.cipher_suite not in (3, 17):
        what = f"hardware.{machine.hardware.name}.cipher_suite: driver ipmi supports 3 and 17, not {bmc.cipher_suite}"
        raise BadInventory(what, hint='set driver = "ipmitool"')
    sessions = wire.sessions
    requests = RawRequestBmc(partial(sessions.ask, bmc), partial(sessions.command, bmc), partial(sessions.close, bmc))
    return BmcDriver(f"{bmc} by ipmi", requests, wire.clock)
