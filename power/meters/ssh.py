"""A node's own RAPL counters, hwmon sensors and GPUs, read through its offpeak-node by ssh."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from offpeak.errors import NotSupported
from offpeak.machines.inventory import InventoryNode
from offpeak.power.drivers.logins import Logins
from offpeak.power.drivers.ssh import NodeSsh, unexpected_answer
from offpeak.power.meters.gpu import MOST_PERCENT, MOST_W, GpuSample, gpu_readings, parse_gpu_number
from offpeak.power.meters.kernel import (
    HwmonSensor,
    RaplSample,
    RaplZone,
    additive_zones,
    hwmon_readings,
    parse_counter,
    rapl_readings,
)
from offpeak.power.meters.port import Reading


@dataclass(frozen=True)
class NodeMeters:
    """The values of a node's meters at one instant of its own clock."""

    rapl: RaplSample
    sensors: tuple[HwmonSensor, ...]
    gpus: tuple[GpuSample, ...] = ()


def parse_meters(text: str, node: str) -> NodeMeters:
    """Parse the answer to `meters`, lines of tab-separated columns. Raises BadAnswer."""
    rows = [line.split("\t") for line in text.splitlines()]
    try:
        (clock,) = [row for row in rows if row[0] == "clock"]
        _, boot_id, uptime_s = clock
        zones = tuple(_parse_zone(row) for row in rows if row[0] == "rapl")
        return NodeMeters(
            RaplSample(zones, float(uptime_s), boot_id),
            tuple(_parse_sensor(row) for row in rows if row[0] == "hwmon"),
            tuple(
                GpuSample(index, parse_gpu_number(draw, MOST_W), parse_gpu_number(use, MOST_PERCENT))
                for _, index, draw, use in (row for row in rows if row[0] == "gpu")
            ),
        )
    except ValueError:
        raise unexpected_answer(node, text) from None


def _parse_zone(row: list[str]) -> RaplZone:
    _, zone, name, energy, wraps_at = row
    return RaplZone(zone, name, parse_counter(energy), parse_counter(wraps_at))


def _parse_sensor(row: list[str]) -> HwmonSensor:
    _, chip, file, name, label, value = row
    return HwmonSensor(chip, file, name, label, parse_counter(value))


class SshMeter:
    """Reads one node by ssh, with one login for each reading. RAPL's power is known from the second reading on."""

    way = "ssh"

    def __init__(
        self, machine: InventoryNode, *, logins: Logins, timeout_s: float = 10.0, now: Callable[[], float] = time.time
    ) -> None:
        self.name = machine.node
        self._node = NodeSsh(machine, logins=logins, timeout_s=timeout_s)
        self._now = now
        self._before: RaplSample | None = None

    async def read(self) -> tuple[Reading, ...]:
        """Return the readings by "rapl", "hwmon" and "gpu". Raises NotSupported if there are none."""
        meters, at_unix_s = parse_meters(await self._node.meters(), self.name), self._now()
        if not additive_zones(meters.rapl.zones) and not meters.sensors and not meters.gpus:
            hint = "measure it at its BMC or its PDU"
            raise NotSupported(f"{self.name}: has neither RAPL counters nor power sensors nor GPUs", hint=hint)
        before, self._before = self._before, meters.rapl
        return (
            *rapl_readings(self.name, meters.rapl, before, at_unix_s=at_unix_s),
            *hwmon_readings(self.name, meters.sensors, at_unix_s=at_unix_s),
            *(
                reading
                for gpu in meters.gpus
                for reading in gpu_readings(self.name, gpu, meter=self.name, at_unix_s=at_unix_s)
            ),
        )

    async def close(self) -> None:
        """Forget the previous reading."""
        self._before = None
