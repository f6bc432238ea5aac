"""The few IPMI requests that are made of a BMC, and what their answers mean.

Numbers are those of the IPMI v2.0 specification, revision 1.1, appendix G; layouts from the section named beside each.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from offpeak.door.door import Guard
from offpeak.errors import BadAnswer, NotSupported
from power.drivers.ipmi.guid import guid_text
from power.drivers.port import Order


@dataclass(frozen=True)
class Request:
    """Network function, command and data. `name` is how people call it."""

    name: str
    netfn: int
    command: int
    data: bytes = b""


Ask = Callable[[Request], Awaitable[bytes]]
"""Returns the data behind a completion code of 0; DeviceError for every other, and for no answer."""

Command = Callable[[Request, Guard], Awaitable[bytes]]
"""The same without a login, and with a guard that is called directly before the request goes out."""

CHASSIS_STATUS = Request("Get Chassis Status", 0x00, 0x01)
DEVICE_GUID = Request("Get Device GUID", 0x06, 0x08)
SYSTEM_GUID = Request("Get System GUID", 0x06, 0x37)
CONTROL = {
    # Section 28.3: down at once, up, and a soft shutdown through ACPI by emulating a fatal over-temperature.
    Order.HARD_OFF: Request("Chassis Control: power down", 0x00, 0x02, b"\x00"),
    Order.ON: Request("Chassis Control: power up", 0x00, 0x02, b"\x01"),
    Order.SOFT_OFF: Request("Chassis Control: soft shutdown", 0x00, 0x02, b"\x05"),
}

RESTORE_POLICIES = ("always-off", "previous", "always-on", "unknown")
"""What a chassis does when mains power returns (section 28.2, bits 6:5 of the current power state)."""


async def is_on(ask: Ask) -> bool:
    """Return whether the chassis has power (section 28.2, bit 0)."""
    return bool(await _power_state(ask) & 1)


async def restore_policy(ask: Ask) -> str:
    """Return the word of RESTORE_POLICIES: anything but "always-off" switches nodes on after a power failure."""
    return RESTORE_POLICIES[await _power_state(ask) >> 5 & 3]


async def system_guid(ask: Ask) -> str | None:
    """Return the GUID of the system, else that of the BMC, as `guid_text`; None where there is neither."""
    for request in (SYSTEM_GUID, DEVICE_GUID):
        try:
            answer = await ask(request)
        except NotSupported:
            continue
        if len(answer) != 16:
            raise BadAnswer(f"{request.name}: {len(answer)} bytes instead of 16", hint="update the BMC's firmware")
        if (text := guid_text(answer)) is not None:
            return text
    return None


async def _power_state(ask: Ask) -> int:
    answer = await ask(CHASSIS_STATUS)
    if len(answer) < 3:
        what = f"{CHASSIS_STATUS.name}: {len(answer)} bytes instead of 3"
        raise BadAnswer(what, hint="update the BMC's firmware")
    return answer[0]
