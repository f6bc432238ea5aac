"""What processors and their memory draw, from the energy counters of the kernel's powercap (RAPL).

Neither fans nor network cards, graphics cards or losses of the power supply are in it. Layout: the kernel's
Documentation/power/powercap/powercap.rst.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from offpeak.errors import NotSupported
from power.meters.port import Reading
from power.meters.sysfs import line_of, number_of

NO_PACKAGE_DRAWS_W = 1000.0
"""What wraps faster than at this power cannot be told from a reset, nor one wrap from two."""

UNREADABLE = "energy_uj cannot be read: kernels show it to root only"


@dataclass(frozen=True)
class Zone:
    """One counter [microjoule] at one instant; it starts again at 0 after `range_uj`. None where it cannot be read."""

    zone: str
    name: str
    energy_uj: int | None
    range_uj: int | None


@dataclass(frozen=True)
class Sample:
    """All zones of a node at one instant of its own clock, which must go on while the node sleeps."""

    zones: tuple[Zone, ...]
    at_s: float
    boot_id: str = ""


def zones_of(sysfs: Path) -> tuple[Zone, ...]:
    """Return the zones below the folder that is /sys on a live machine."""
    # intel-rapl-mmio shows the same packages a second time.
    found = sorted((sysfs / "class/powercap").glob("intel-rapl:*"))
    return tuple(
        Zone(
            zone.name,
            line_of(zone / "name"),
            number_of(line_of(zone / "energy_uj")),
            number_of(line_of(zone / "max_energy_range_uj")),
        )
        for zone in found
    )


def parts_of(zones: tuple[Zone, ...]) -> dict[str, Zone]:
    """Return the zones that may be added up: packages, and the memory that is not in them.

    Left out are core and uncore, which are in their package, and psys, in which packages are.
    """
    packages = {zone.zone: zone for zone in zones if zone.name.startswith("package")}
    parts = {package.name: package for package in packages.values()}
    for zone in zones:
        parent = packages.get(zone.zone.rpartition(":")[0])
        if parent is not None and zone.name == "dram":
            parts[f"{parent.name} dram"] = zone
    return parts


def rapl_readings(node: str, now: Sample, before: Sample | None, *, at_unix_s: float) -> tuple[Reading, ...]:
    """Return a reading for each part: its power since the sample before, where that can be told."""
    readings = []
    for part, zone in parts_of(now.zones).items():
        power, why = _power_since(before, now, part)
        energy_j = None if zone.energy_uj is None else zone.energy_uj / 1e6
        readings.append(Reading(node, "rapl", part, power, at_unix_s, energy_j=energy_j, node=node, why=why))
    return tuple(readings)


def power_w(before: Zone, now: Zone, since_s: float) -> tuple[float | None, str]:
    """Return the mean power between two values of a counter, or None and why it cannot be told."""
    if before.energy_uj is None or now.energy_uj is None:
        return None, UNREADABLE
    if since_s <= 0:
        return None, "no time has passed since the reading before"
    range_uj = now.range_uj or 0
    if since_s >= range_uj / 1e6 / NO_PACKAGE_DRAWS_W:
        return None, f"the reading before was {since_s:.0f} s ago: its counter may have wrapped since"
    wrapped_uj = range_uj if now.energy_uj < before.energy_uj else 0
    power = (now.energy_uj + wrapped_uj - before.energy_uj) / 1e6 / since_s
    return (power, "") if power <= NO_PACKAGE_DRAWS_W else (None, "its counter was reset")


def _power_since(before: Sample | None, now: Sample, part: str) -> tuple[float | None, str]:
    zone = parts_of(now.zones)[part]
    if zone.energy_uj is None:
        return None, UNREADABLE
    earlier = parts_of(before.zones).get(part) if before is not None and before.boot_id == now.boot_id else None
    if before is None or earlier is None:
        return None, "the first reading: power comes with the next"
    return power_w(earlier, zone, now.at_s - before.at_s)


class RaplMeter:
    """The processors of this machine; `node` is its name. Power comes from the second reading on."""

    way = "rapl"

    def __init__(
        self,
        node: str,
        *,
        sysfs: Path = Path("/sys"),
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        self.name = node
        self._sysfs, self._now, self._clock = sysfs, now, clock
        self._before: Sample | None = None

    async def read(self) -> tuple[Reading, ...]:
        """Return packages and memory; NotSupported where the kernel has no such counters."""
        zones = await asyncio.to_thread(zones_of, self._sysfs)
        if not parts_of(zones):
            hint = "on processors that have it: modprobe intel_rapl_common; virtual machines have none"
            raise NotSupported(f"{self.name}: has no RAPL counters", hint=hint)
        before, self._before = self._before, Sample(zones, self._clock())
        return rapl_readings(self.name, self._before, before, at_unix_s=self._now())

    async def close(self) -> None:
        """Forget the reading before."""
        self._before = None
