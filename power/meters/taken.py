"""All meters read once, at the same time: who is silent holds up nobody."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from offpeak.errors import NoAnswer, OffpeakError
from power.meters.port import Meter, Reading


@dataclass(frozen=True)
class Taken:
    """What one meter said, or why it said nothing."""

    meter: str
    way: str
    readings: tuple[Reading, ...] = ()
    trouble: OffpeakError | None = None


async def take(meters: Iterable[Meter], *, timeout_s: float) -> tuple[Taken, ...]:
    """Return what every meter says, in their order, after `timeout_s` at the latest."""
    return tuple(await asyncio.gather(*(_taken(meter, timeout_s) for meter in meters)))


async def _taken(meter: Meter, timeout_s: float) -> Taken:
    try:
        async with asyncio.timeout(timeout_s):
            return Taken(meter.name, meter.way, await meter.read())
    except TimeoutError:
        hint = "look at its network and power; --device-timeout gives it longer"
        return Taken(meter.name, meter.way, trouble=NoAnswer(f"{meter.name}: silent for {timeout_s:g} s", hint=hint))
    except OffpeakError as problem:
        return Taken(meter.name, meter.way, trouble=problem)
