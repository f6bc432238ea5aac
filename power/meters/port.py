"""The interface of all meters, a reading, and a function that reads many meters at once.

A silent meter delays no other meter.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from offpeak.errors import NoAnswer, OffpeakError, unexpected_error


@dataclass(frozen=True)
class Reading:
    """The value of one part of a meter at one instant. A missing value is None, never 0, and `why` holds the reason.

    `way` is the method of reading ("snmp", "dcmi", "redfish", "rapl"), `part` the part of the meter ("total", "phase
    1", "outlet 7", "package-0"), `node` the node that the part feeds, if it is one. `energy_j` is a counter and may be
    reset at any time. `resolution_w` is the step of the power figure. The power holds for `holds_s` where
    the meter knows that better than its reader.
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
    holds_s: float = 0.0


class Meter(Protocol):
    """One measuring device. The meter bounds the time of every call; calls may be cancelled."""

    name: str
    way: str

    async def read(self) -> tuple[Reading, ...]:
        """Return all readings. Raises DeviceError if the meter cannot be read at all."""

    async def close(self) -> None:
        """Log out. The meter may be used again afterwards."""


@dataclass(frozen=True)
class MeterResult:
    """The readings of one meter, or the error."""

    meter: str
    way: str
    readings: tuple[Reading, ...] = ()
    error: OffpeakError | None = None


async def read_meters(meters: Iterable[Meter], *, timeout_s: float) -> tuple[MeterResult, ...]:
    """Read all meters, in their order, within `timeout_s`."""
    return tuple(await asyncio.gather(*(_read_meter(meter, timeout_s) for meter in meters)))


async def _read_meter(meter: Meter, timeout_s: float) -> MeterResult:
    try:
        async with asyncio.timeout(timeout_s):
            return MeterResult(meter.name, meter.way, await meter.read())
    except TimeoutError:
        hint = "check its network and power; --device-timeout sets a longer time"
        return MeterResult(
            meter.name, meter.way, error=NoAnswer(f"{meter.name}: silent for {timeout_s:g} s", hint=hint)
        )
    except OffpeakError as problem:
        return MeterResult(meter.name, meter.way, error=problem)
    except Exception as problem:
        # The answer of one device, whatever it is, keeps no other meter from being read.
        return MeterResult(meter.name, meter.way, error=unexpected_error(meter.name, problem))


class RemoteWriteCounts(NamedTuple):
    """Samples since the start: sent, waiting, dropped because the store was away too long, refused by the store."""

    waiting: int
    sent: int = 0
    dropped: int = 0
    refused: int = 0
