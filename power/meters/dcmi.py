"""The power of a node as its BMC measures it, by DCMI over the session that also switches the node."""

from collections.abc import Awaitable, Callable
from functools import partial

from offpeak.errors import BadAnswer
from offpeak.machines.inventory import InventoryNode
from power.drivers.ipmi.bmc import address_of
from power.drivers.ipmi.requests import IpmiRequest, SendRequest
from power.drivers.transport import Transport
from power.meters.port import Reading

GROUP = 0xDC
POWER_READING = IpmiRequest("DCMI Get Power Reading", 0x2C, 0x02, bytes([GROUP, 0x01, 0x00, 0x00]))
"""Mode 1, system power statistics (DCMI v1.5, section 6.6.1)."""
LENGTH = 18
STATE, ACTIVE = 17, 0x40
NOT_ACTIVE = "the BMC reports that its power measurement is not active"
NO_WATTS = "the BMC reports 0 W: it has no sensor, or measures only while the node is on"


class DcmiMeter:
    """Implements power.meters.port.Meter for one node."""

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
