"""How busy the head node itself is: what offpeak runs on must not be what slows the cluster down."""

import asyncio
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class HeadNode:
    """The load of this machine: of all its processors and its memory, and its hottest sensor, None if it has none."""

    cpu_percent: float
    memory_percent: float
    temperature_c: float | None


async def head_node(*, over_s: float = 0.5) -> HeadNode:
    """Return the load, that of the processors over so many seconds."""
    return HeadNode(
        cpu_percent=await asyncio.to_thread(psutil.cpu_percent, over_s),
        memory_percent=psutil.virtual_memory().percent,
        temperature_c=_hottest_c(),
    )


def _hottest_c() -> float | None:
    sensors = psutil.sensors_temperatures()
    # Sensors that are not connected show 0, or less than any machine room.
    plausible = (entry.current for chip in sensors.values() for entry in chip if 0 < entry.current < 150)
    return max(plausible, default=None)
