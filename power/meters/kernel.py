"""Meters of the Linux kernel: the energy counters of processors and memory (RAPL), hwmon sensors, and the load of this
machine.

RAPL counts neither fans nor network cards, graphics cards or losses of the power supply. Layout of powercap: the
kernel's Documentation/power/powercap/powercap.rst.

hwmon shows power meters of boards (ACPI), power supplies and graphics cards. Layout: the kernel's
Documentation/hwmon/sysfs-interface.rst; values are microwatts.

The load of the head node is shown because offpeak must not slow the cluster down.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from offpeak.errors import NotSupported
from power.meters.port import Reading


def read_first_line(file: Path) -> str:
    """Return the file's first line, "" if it cannot be read."""
    try:
        with file.open(encoding="ascii", errors="replace") as lines:
            return lines.readline().strip()
    except OSError:
        return ""


def parse_counter(text: str) -> int | None:
    """Return a counter's value, None for what is no whole number of zero or more."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


MAX_PACKAGE_POWER_W = 1000.0
"""What wraps faster than at this power cannot be told from a reset, nor one wrap from two."""

UNREADABLE = "energy_uj cannot be read: kernels show it to root only"


@dataclass(frozen=True)
class RaplZone:
    """One counter [microjoule] at one instant; it starts again at 0 after `range_uj`. None where it cannot be read."""

    zone: str
    name: str
    energy_uj: int | None
    range_uj: int | None


@dataclass(frozen=True)
class RaplSample:
    """All zones of a node at one instant of its own clock, which must go on while the node sleeps."""

    zones: tuple[RaplZone, ...]
    at_s: float
    boot_id: str = ""


def read_rapl_zones(sysfs: Path) -> tuple[RaplZone, ...]:
    """Return the zones below the folder that is /sys on a live machine."""
    # intel-rapl-mmio shows the same packages a second time.
    found = sorted((sysfs / "class/powercap").glob("intel-rapl:*"))
    return tuple(
        RaplZone(
            zone.name,
            read_first_line(zone / "name"),
            parse_counter(read_first_line(zone / "energy_uj")),
            parse_counter(read_first_line(zone / "max_energy_range_uj")),
        )
        for zone in found
    )


def additive_zones(zones: tuple[RaplZone, ...]) -> dict[str, RaplZone]:
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


def rapl_readings(node: str, now: RaplSample, before: RaplSample | None, *, at_unix_s: float) -> tuple[Reading, ...]:
    """Return a reading for each part: its power since the sample before, where that can be told."""
    readings = []
    for part, zone in additive_zones(now.zones).items():
        power, why = _power_since_sample(before, now, part)
        energy_j = None if zone.energy_uj is None else zone.energy_uj / 1e6
        readings.append(Reading(node, "rapl", part, power, at_unix_s, energy_j=energy_j, node=node, why=why))
    return tuple(readings)


def mean_power_between(before: RaplZone, now: RaplZone, since_s: float) -> tuple[float | None, str]:
    """Return the mean power between two values of a counter, or None and why it cannot be told."""
    if before.energy_uj is None or now.energy_uj is None:
        return None, UNREADABLE
    if since_s <= 0:
        return None, "no time has passed since the reading before"
    range_uj = now.range_uj or 0
    if since_s >= range_uj / 1e6 / MAX_PACKAGE_POWER_W:
        return None, f"the reading before was {since_s:.0f} s ago: its counter may have wrapped since"
    wrapped_uj = range_uj if now.energy_uj < before.energy_uj else 0
    power = (now.energy_uj + wrapped_uj - before.energy_uj) / 1e6 / since_s
    return (power, "") if power <= MAX_PACKAGE_POWER_W else (None, "its counter was reset")


def _power_since_sample(before: RaplSample | None, now: RaplSample, part: str) -> tuple[float | None, str]:
    zone = additive_zones(now.zones)[part]
    if zone.energy_uj is None:
        return None, UNREADABLE
    earlier = additive_zones(before.zones).get(part) if before is not None and before.boot_id == now.boot_id else None
    if before is None or earlier is None:
        return None, "the first reading: power comes with the next"
    return mean_power_between(earlier, zone, now.at_s - before.at_s)


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
        self._before: RaplSample | None = None

    async def read(self) -> tuple[Reading, ...]:
        """Return packages and memory; NotSupported where the kernel has no such counters."""
        zones = await asyncio.to_thread(read_rapl_zones, self._sysfs)
        if not additive_zones(zones):
            hint = "on processors that have it: modprobe intel_rapl_common; virtual machines have none"
            raise NotSupported(f"{self.name}: has no RAPL counters", hint=hint)
        before, self._before = self._before, RaplSample(zones, self._clock())
        return rapl_readings(self.name, self._before, before, at_unix_s=self._now())

    async def close(self) -> None:
        """Forget the reading before."""
        self._before = None


HWMON_PATTERNS = ("hwmon*/power*_average", "hwmon*/power*_input")


@dataclass(frozen=True)
class HwmonSensor:
    """One value: `chip` is the folder ("hwmon1"), `file` in it ("power1_average"), `power_uw` None if it has none."""

    chip: str
    file: str
    name: str
    label: str
    power_uw: int | None

    @property
    def key(self) -> tuple[str, str]:
        """The sensor, which may show an average and its last value."""
        return self.chip, self.file.rpartition("_")[0]


def read_hwmon_sensors(sysfs: Path) -> tuple[HwmonSensor, ...]:
    """Return the power sensors below the folder that is /sys on a live machine."""
    files = [file for pattern in HWMON_PATTERNS for file in sorted((sysfs / "class/hwmon").glob(pattern))]
    return tuple(
        HwmonSensor(
            file.parent.name,
            file.name,
            read_first_line(file.parent / "name"),
            read_first_line(file.with_name(f"{file.name.rpartition('_')[0]}_label")),
            parse_counter(read_first_line(file)),
        )
        for file in files
    )


def hwmon_readings(node: str, sensors: tuple[HwmonSensor, ...], *, at_unix_s: float) -> tuple[Reading, ...]:
    """Return one reading for each sensor: its average where it has one. Parts may contain each other: do not add up."""
    last_first = sorted(sensors, key=lambda sensor: sensor.file.endswith("_average"))
    chosen = {sensor.key: sensor for sensor in last_first}.values()
    alike = Counter(_sensor_part(sensor) for sensor in chosen)
    readings = [_sensor_reading(node, sensor, at_unix_s, alone=alike[_sensor_part(sensor)] == 1) for sensor in chosen]
    return tuple(sorted(readings, key=lambda reading: reading.part))


def _sensor_reading(node: str, sensor: HwmonSensor, at_unix_s: float, *, alone: bool) -> Reading:
    part = _sensor_part(sensor) if alone else f"{sensor.chip} {_sensor_part(sensor)}"
    microwatts = sensor.power_uw
    watts, why = (None, f"{sensor.file} cannot be read") if microwatts is None else (microwatts / 1e6, "")
    return Reading(node, "hwmon", part, watts, at_unix_s, node=node, resolution_w=1e-6, why=why)


def _sensor_part(sensor: HwmonSensor) -> str:
    return f"{sensor.name or sensor.chip} {sensor.label or sensor.key[1]}"


class HwmonMeter:
    """The sensors of this machine; `node` is its name."""

    way = "hwmon"

    def __init__(self, node: str, *, sysfs: Path = Path("/sys"), now: Callable[[], float] = time.time) -> None:
        self.name = node
        self._sysfs, self._now = sysfs, now

    async def read(self) -> tuple[Reading, ...]:
        """Return all sensors; NotSupported where there are none."""
        # A board's power meter may take its averaging interval to answer.
        sensors = await asyncio.to_thread(read_hwmon_sensors, self._sysfs)
        if not sensors:
            hint = "for a board's own power meter: modprobe acpi_power_meter; few boards have one"
            raise NotSupported(f"{self.name}: has no power sensor", hint=hint)
        return hwmon_readings(self.name, sensors, at_unix_s=self._now())

    async def close(self) -> None:
        """Do nothing: nobody is logged in."""


@dataclass(frozen=True)
class HeadNodeLoad:
    """The load of this machine: of all its processors and its memory, and its hottest sensor, None if it has none."""

    cpu_percent: float
    memory_percent: float
    temperature_c: float | None


async def read_head_node_load(*, over_s: float = 0.5) -> HeadNodeLoad:
    """Return the load, that of the processors over so many seconds."""
    return HeadNodeLoad(
        cpu_percent=await asyncio.to_thread(psutil.cpu_percent, over_s),
        memory_percent=psutil.virtual_memory().percent,
        temperature_c=_read_hottest_c(),
    )


def _read_hottest_c() -> float | None:
    sensors = psutil.sensors_temperatures()
    # Sensors that are not connected show 0, or less than any machine room.
    plausible = (entry.current for chip in sensors.values() for entry in chip if 0 < entry.current < 150)
    return max(plausible, default=None)
