"""What the kernel's hwmon sensors measure: power meters of boards (ACPI), power supplies, graphics cards.

Layout: the kernel's Documentation/hwmon/sysfs-interface.rst; values are microwatts.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from offpeak.errors import NotSupported
from power.meters.port import Reading
from power.meters.sysfs import line_of, number_of

PATTERNS = ("hwmon*/power*_average", "hwmon*/power*_input")


@dataclass(frozen=True)
class Sensor:
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


def sensors_of(sysfs: Path) -> tuple[Sensor, ...]:
    """Return the power sensors below the folder that is /sys on a live machine."""
    files = [file for pattern in PATTERNS for file in sorted((sysfs / "class/hwmon").glob(pattern))]
    return tuple(
        Sensor(
            file.parent.name,
            file.name,
            line_of(file.parent / "name"),
            line_of(file.with_name(f"{file.name.rpartition('_')[0]}_label")),
            number_of(line_of(file)),
        )
        for file in files
    )


def hwmon_readings(node: str, sensors: tuple[Sensor, ...], *, at_unix_s: float) -> tuple[Reading, ...]:
    """Return one reading for each sensor: its average where it has one. Parts may contain each other: do not add up."""
    last_first = sorted(sensors, key=lambda sensor: sensor.file.endswith("_average"))
    chosen = {sensor.key: sensor for sensor in last_first}.values()
    alike = Counter(_plain_part(sensor) for sensor in chosen)
    readings = [_reading(node, sensor, at_unix_s, alone=alike[_plain_part(sensor)] == 1) for sensor in chosen]
    return tuple(sorted(readings, key=lambda reading: reading.part))


def _reading(node: str, sensor: Sensor, at_unix_s: float, *, alone: bool) -> Reading:
    part = _plain_part(sensor) if alone else f"{sensor.chip} {_plain_part(sensor)}"
    microwatts = sensor.power_uw
    watts, why = (None, f"{sensor.file} cannot be read") if microwatts is None else (microwatts / 1e6, "")
    return Reading(node, "hwmon", part, watts, at_unix_s, node=node, resolution_w=1e-6, why=why)


def _plain_part(sensor: Sensor) -> str:
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
        sensors = await asyncio.to_thread(sensors_of, self._sysfs)
        if not sensors:
            hint = "for a board's own power meter: modprobe acpi_power_meter; few boards have one"
            raise NotSupported(f"{self.name}: has no power sensor", hint=hint)
        return hwmon_readings(self.name, sensors, at_unix_s=self._now())

    async def close(self) -> None:
        """Do nothing: nobody is logged in."""
