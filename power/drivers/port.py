"""The interface of all drivers: orders, the power state (on, off, unknown), and the identity of the device."""

from dataclasses import dataclass
from typing import Protocol

from offpeak.door.door import Confirm, Guard
from offpeak.errors import DeviceError, WrongDevice
from offpeak.machines.inventory import Enrolment
from offpeak.model.orders import NodeOrder, PowerState

BY_PACKET = "wol"
"""The kind of a driver that wakes by a network packet and needs no login."""


@dataclass(frozen=True)
class NeededLogins:
    """The names of the logins that an order needs: to send it, and to identify the BMC. None if it needs none."""

    to_act: str | None = None
    to_identify: str | None = None


@dataclass(frozen=True)
class PowerObservation:
    """The observed power state of a node, and when; `error` is the reason why the state is unknown."""

    state: PowerState
    at_unix_s: float
    error: DeviceError | None = None


async def confirm_at_once() -> Guard:
    """Confirm unconditionally, for tests of devices. The door passes a confirmation of its own."""
    return lambda: None


def confirm_by(guard: Guard) -> Confirm:
    """Return a confirmation that has been given already, with its guard."""

    async def confirm() -> Guard:
        return guard

    return confirm


class PowerDriver(Protocol):
    """Controls one node. The driver bounds the time of every call; calls may be cancelled."""

    name: str
    orders: frozenset[NodeOrder]

    async def query(self) -> PowerObservation:
        """Return the node's state, or UNKNOWN with the reason. Never raises a DeviceError."""

    async def send(self, order: NodeOrder, confirm: Confirm = confirm_at_once) -> None:
        """Send the order without waiting for its effect, unless the node is known to be in that state already.

        The driver logs in, reads the state and awaits `confirm`. After that it sends only the one command, and calls
        the guard that `confirm` returned directly before. It raises what these two raise, DeviceError if the device
        rejects the order, and NotSupported for an order that is not in `orders`.
        """

    async def identity(self) -> str | None:
        """Return the identity of the device (the BMC's GUID, the system's UUID), None if it has none."""

    async def close(self) -> None:
        """Log out. The next call logs in again."""


async def check_identity(driver: PowerDriver, enrolled: Enrolment) -> None:
    """Raise WrongDevice if the device is not the enrolled one or reports no identity, NoAnswer if it is silent.

    Call this before every order that removes power: after a repair an address may belong to another node.
    """
    identity = await driver.identity()
    if identity != enrolled.identity:
        is_now = f"says it is {identity}" if identity else "reports no identity"
        what = f"{driver.name}: {is_now}, but {enrolled.identity} was enrolled on {enrolled.date}"
        raise WrongDevice(
            what, hint="check which node has this address; enrol the node again if its board was replaced"
        )
