"""The interface of all drivers: orders, a power state of three values, and the identity of the device."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from offpeak.door.door import Confirm, Guard
from offpeak.errors import DeviceError, WrongDevice
from offpeak.machines.inventory import Enrolment
from offpeak.model.orders import NodeOrder

BY_PACKET = "wol"
"""The kind of a driver that wakes by a network packet and needs no login."""


@dataclass(frozen=True)
class NeededLogins:
    """The names of the logins that an order needs: to send it, and to identify the BMC. None if it needs none."""

    to_act: str | None = None
    to_identify: str | None = None


class PowerState(StrEnum):
    """Whether a node has power. UNKNOWN means hands off: it is neither of the others."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class PowerObservation:
    """What was seen of a node, and when; `trouble` says why the state is unknown."""

    state: PowerState
    at_unix_s: float
    trouble: DeviceError | None = None


async def confirm_at_once() -> Guard:
    """Confirm without a question: for the tests of devices. The door has its own."""
    return lambda: None


class PowerDriver(Protocol):
    """One way to one node. All calls are bounded in time by the driver itself and may be cancelled."""

    name: str
    orders: frozenset[NodeOrder]

    async def query(self) -> PowerObservation:
        """Return the node's state, UNKNOWN with the trouble where it cannot be told; never raises a DeviceError."""

    async def send(self, order: NodeOrder, confirm: Confirm = confirm_at_once) -> None:
        """Give the order, without waiting for its effect, unless the node is known to be there already.

        The driver logs in and reads the state first, then awaits `confirm`, and sends only the one command after it;
        directly before, it calls the guard that `confirm` has returned. It raises what these raise.
        Raises DeviceError where it was not accepted, NotSupported for an order that is not in `orders`.
        """

    async def identity(self) -> str | None:
        """Return who answers (the BMC's GUID, the system's UUID), None where there is no such thing."""

    async def close(self) -> None:
        """Log out. The driver may be used again afterwards; it then logs in anew."""


async def check_identity(driver: PowerDriver, enrolled: Enrolment) -> None:
    """Return if the device is the one that was enrolled; WrongDevice if it is another or does not say, or NoAnswer.

    To be asked before every order that takes power away: an address may lead to another node since a repair.
    """
    identity = await driver.identity()
    if identity != enrolled.identity:
        is_now = f"says it is {identity}" if identity else "does not say who it is"
        what = f"{driver.name}: {is_now}, but {enrolled.identity} was enrolled on {enrolled.date}"
        raise WrongDevice(what, hint="look where the address leads; enrol the node again if its board was replaced")
