"""What every meter is to the program, and one reading of it."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Reading:
    """What one part of one meter said at one instant. No value is None, never 0, and then `why` says why.

    `way` is how it was read ("snmp", "dcmi", "redfish", "rapl"), `part` what of the meter ("total", "phase 1",
    "outlet 7", "package-0"), `node` whose power it is where it is that of one node. `energy_j` is a counter: it may be
    reset at any time. `resolution_w` is the step of the power figure.
    """

    meter: str
    way: str
    part: str
    power_w: float | None
    at_unix_s: float
    energy_j: float | None = None
    node: str | None = None
    resolution_w: float = 1.0
    why: str = ""


class Meter(Protocol):
    """One device that measures. A call is bounded in time by the meter itself and may be cancelled."""

    name: str
    way: str

    async def read(self) -> tuple[Reading, ...]:
        """Return all its readings; DeviceError if it cannot be read at all."""

    async def close(self) -> None:
        """Log out. The meter may be used again afterwards."""
