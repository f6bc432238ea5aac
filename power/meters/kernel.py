"""Meters of the Linux kernel, here or through a node's offpeak-node by ssh: RAPL, hwmon, and the load of this machine.

RAPL counts the energy of processors and memory, without fans, network cards, graphics cards and losses of the power
supply. The layout of powercap is in the kernel's Documentation/power/powercap/powercap.rst.

hwmon shows power meters of boards (ACPI), power supplies and graphics cards. The layout is in the kernel's
Documentation/hwmon/sysfs-interface.rst; values are microwatts.

The load of the head node shows whether offpeak slows the cluster down.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from offpeak.errors import NotSupported
from offpeak.power.meters.port import Reading

MAX_PACKAGE_POWER_W = 1000.0
"""A counter that would wrap faster than at this power was reset, or wrapped more than once."""

UNREADABLE = "energy_uj cannot be read: the kernel shows it to root only"

HWMON_PATTERNS = ("hwmon*/power*_average", "hwmon*/power*_input")


def read_first_line(file: Path) -> str:
    """Return the file's first line, "" if it cannot be read."""
    try:
        with file.open(encoding="ascii", errors="replace") as lines:
            return lines.readline().strip()
    except OSError:
        return ""


def parse_counter(text: str) -> int | None:
    """Return a counter's value, None if the text is not a whole number of at least zero."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


@dataclass(frozen=True)
class RaplZone:
    """One counter [microjoule] at one instant, None if it cannot be read. It starts again at 0 after `range_uj`."""

    zone: str
    name: str
    energy_uj: int | None
    range_uj: int | None


@dataclass(frozen=True)
class RaplSample:
    """All zones of a node at one instant of its own clock, which must keep running while the node sleeps."""

    zones: tuple[RaplZone, ...]
    at_s: float
    boot_id: str = ""


def read_rapl_zones(sysfs: Path) -> tuple[RaplZone, ...]:
    """Return the zones below the sysfs folder, /sys on a live machine."""
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
    """Return the zones that may be added up: packages, and memory outside of them.

    This excludes core and uncore, which are part of a package, and psys, which contains packages.
    """
    packages = {zone.zone: zone for zone in zones if zone.name.startswith("package")}
    parts = {package.name: package for package in packages.values()}
    for zone in zones:
        parent = packages.get(zone.zone.rpartition(":")[0])
        if parent is not None and zone.name == "dram":
            parts[f"{parent.name} dram"] = zone
    return parts


def rapl_readings(node: str, now: RaplSample, before: RaplSample | None, *, at_unix_s: float) -> tuple[Reading, ...]:
    """Return a reading for each part, with its mean power since the previous sample if that is known."""
    readings = []
    for part, zone in additive_zones(now.zones).items():
        power, why = _power_since_sample(before, now, part)
        energy_j = None if zone.energy_uj is None else zone.energy_uj / 1e6
        readings.append(Reading(node, "rapl", part, power, at_unix_s, energy_j=energy_j, node=node, why=why))
    return tuple(readings)


def mean_power_between(before: RaplZone, now: RaplZone, since_s: float) -> tuple[float | None, str]:
    """Return the mean power between two values of a counter, or None and the reason."""
    if before.energy_uj is None or now.energy_uj is None:
        return None, UNREADABLE
    if since_s <= 0:
        return None, "no time has passed since the previous reading"
    range_uj = now.range_uj or 0
    if since_s >= range_uj / 1e6 / MAX_PACKAGE_POWER_W:
        return None, f"the previous reading was {since_s:.0f} s ago: the counter may have wrapped since"
    wrapped_uj = range_uj if now.energy_uj < before.energy_uj else 0
    power = (now.energy_uj + wrapped_uj - before.energy_uj) / 1e6 / since_s
    return (power, "") if power <= MAX_PACKAGE_POWER_W else (None, "the counter was reset")


def _power_since_sample(before: RaplSample | None, now: RaplSample, part: str) -> tuple[float | None, str]:
    zone = additive_zones(now.zones)[part]
    if zone.energy_uj is None:
        return None, UNREADABLE
    earlier = additive_zones(before.zones).get(part) if before is not None and before.boot_id == now.boot_id else None
    if before is None or earlier is None:
        return None, "first reading: power comes with the next one"
    return mean_power_between(earlier, zone, now.at_s - before.at_s)


class RaplMeter:
    """The processors of this machine, named `node`. Power is known from the second reading on."""

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
        """Return packages and memory. Raises NotSupported if the kernel has no such counters."""
        zones = await asyncio.to_thread(read_rapl_zones, self._sysfs)
        if not additive_zones(zones):
            hint = "if the processor supports it: modprobe intel_rapl_common; virtual machines have no RAPL"
            raise NotSupported(f"{self.name}: has no RAPL counters", hint=hint)
        before, self._before = self._before, RaplSample(zones, self._clock())
        return rapl_readings(self.name, self._before, before, at_unix_s=self._now())

    async def close(self) -> None:
        """Forget the previous reading."""
        self._before = None


@dataclass(frozen=True)
class HwmonSensor:
    """One sensor: `chip` is its folder ("hwmon1"), `file` one in it ("power1_average"), `power_uw` its value if any."""

    chip: str
    file: str
    name: str
    label: str
    power_uw: int | None

    @property
    def key(self) -> tuple[str, str]:
        """The sensor; it may have one file for its average and one for its last value."""
        return self.chip, self.file.rpartition("_")[0]


def read_hwmon_sensors(sysfs: Path) -> tuple[HwmonSensor, ...]:
    """Return the power sensors below the sysfs folder, /sys on a live machine."""
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
    """Return each sensor's reading, its average if it has one. Parts may contain each other: do not add them up."""
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
    """The sensors of this machine, named `node`."""

    way = "hwmon"

    def __init__(self, node: str, *, sysfs: Path = Path("/sys"), now: Callable[[], float] = time.time) -> None:
        self.name = node
        self._sysfs, self._now = sysfs, now

    async def read(self) -> tuple[Reading, ...]:
        """Return all sensors. Raises NotSupported if there are none."""
        # A board's power meter may block for its averaging interval.
        sensors = await asyncio.to_thread(read_hwmon_sensors, self._sysfs)
        if not sensors:
            hint = "for the power meter of a board: modprobe acpi_power_meter; few boards have one"
            raise NotSupported(f"{self.name}: has no power sensor", hint=hint)
        return hwmon_readings(self.name, sensors, at_unix_s=self._now())

    async def close(self) -> None:
        """Do nothing: there is no login."""


@dataclass(frozen=True)
class HeadNodeLoad:
    """The load of this machine's processors and memory, and its hottest sensor's temperature, None without one."""

    cpu_percent: float
    memory_percent: float
    temperature_c: float | None


async def read_head_node_load(*, over_s: float = 0.5) -> HeadNodeLoad:
    """Return the load; processors are measured over so many seconds."""
    return HeadNodeLoad(
        cpu_percent=await asyncio.to_thread(psutil.cpu_percent, over_s),
        memory_percent=psutil.virtual_memory().percent,
        temperature_c=_read_hottest_c(),
    )


def _read_hottest_c() -> float | None:
    sensors = psutil.sensors_temperatures()
    # Unconnected sensors show 0 or implausibly low values.
    plausible = (entry.current for chip in sensors.values() for entry in chip if 0 < entry.current < 150)
    return max(plausible, default=None)
