"""The interface of all meters, one reading, and one round over many meters at once.

A silent meter delays no other one.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from offpeak.errors import NoAnswer, OffpeakError


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


@dataclass(frozen=True)
class MeterResult:
    """What one meter said, or why it said nothing."""

    meter: str
    way: str
    readings: tuple[Reading, ...] = ()
    error: OffpeakError | None = None


async def read_meters(meters: Iterable[Meter], *, timeout_s: float) -> tuple[MeterResult, ...]:
    """Return what every meter says, in their order, after `timeout_s` at the latest."""
    return tuple(await asyncio.gather(*(_read_meter(meter, timeout_s) for meter in meters)))


async def _read_meter(meter: Meter, timeout_s: float) -> MeterResult:
    try:
        async with asyncio.timeout(timeout_s):
            return MeterResult(meter.name, meter.way, await meter.read())
    except TimeoutError:
        hint = "look at its network and power; --device-timeout gives it longer"
        return MeterResult(
            meter.name, meter.way, error=NoAnswer(f"{meter.name}: silent for {timeout_s:g} s", hint=hint)
        )
    except OffpeakError as problem:
        return MeterResult(meter.name, meter.way, error=problem)
