"""What `offpeak power watch` prints: a line a round, then what the meters say of each other."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import datetime

import typer

from offpeak.errors import BadInput
from offpeak.model.units import parse_duration_s
from offpeak.settings.table import Settings
from power.drivers.said_once import Said, worth_saying
from power.drivers.wire import Wire
from power.meters.counter import Counted
from power.meters.integrate import Energy
from power.meters.port import Meter
from power.meters.site_energy import OUTSIDE_IN, Part, between, contradictions, with_counted, with_taken
from power.meters.taken import Taken, take
from ui.hardware.power_answer import only_of, some_meters
from ui.hardware.power_text import print_between
from ui.watts_text import power_text

HELD = 3
"""A reading counts until the next one, for so many rounds at most: after that there is a gap."""


def print_watch(settings: Settings, nodes: str | None, *, every: str, times: int | None) -> None:
    """Print a line every so often, until Ctrl-C or so many times; then the comparison of the meters."""
    every_s = parse_duration_s(every)
    if every_s < 1:
        raise BadInput(f"--every {every}: is less than a second", hint="BMCs need some time of their own: --every 10s")
    watch = _Watch(settings, nodes, every_s)
    try:
        asyncio.run(watch.run(times))
    except KeyboardInterrupt:
        typer.echo("")
    print_between(between(watch.sums))
    for (meter, _, part, _), said in contradictions(watch.sums, watch.counts).items():
        typer.echo(f"- {meter} {part}: {said}")


class _Watch:
    """The rounds so far: the energy of every part, and which troubles were said."""

    def __init__(self, settings: Settings, nodes: str | None, every_s: int) -> None:
        self._wire = Wire(timeout_s=settings.hardware.timeout_s)
        self._nodes, self._every_s = nodes, every_s
        self._meters = some_meters(settings, nodes, self._wire)
        self._said: dict[tuple[str, str], Said | None] = {}
        self.sums: dict[Part, Energy] = {}
        self.counts: dict[Part, Counted] = {}

    async def run(self, times: int | None) -> None:
        """Read round after round; a round that takes longer than the time between two delays the next."""
        left = times
        try:
            while left is None or left > 0:
                until = time.monotonic() + self._every_s
                await self._round(self._meters)
                left = None if left is None else left - 1
                if left != 0:
                    await asyncio.sleep(until - time.monotonic())
        finally:
            await asyncio.gather(*(meter.close() for meter in self._meters))
            await self._wire.close()

    async def _round(self, meters: Sequence[Meter]) -> None:
        taken = only_of(await take(meters, timeout_s=max(self._every_s, self._wire.timeout_s)), self._nodes)
        self.sums = with_taken(self.sums, taken, longest_hold_s=HELD * self._every_s)
        self.counts = with_counted(self.counts, taken)
        typer.echo(round_line(taken, self.sums, datetime.now().astimezone()))
        for line in self._new_troubles(taken):
            typer.echo(f"  - {line}")

    def _new_troubles(self, taken: Sequence[Taken]) -> list[str]:
        lines = []
        for each in taken:
            trouble = None if each.trouble is None else str(each.trouble)
            key = (each.meter, each.way)
            self._said[key], line = worth_saying(self._said.get(key), trouble, at_unix_s=time.time())
            if line:
                lines.append(f"{each.meter} ({each.way}): {line}")
        return lines


def round_line(taken: Sequence[Taken], sums: Mapping[Part, Energy], at: datetime) -> str:
    """Return the round in a line: for each place where nodes are measured how many answer, power, energy and gaps."""
    said = [f"{at:%H:%M:%S}"]
    readings = [reading for each in taken for reading in each.readings if reading.node is not None]
    for place, ways in OUTSIDE_IN:
        energies = [energy for (_, way, _, node), energy in sums.items() if node is not None and way in ways]
        if not energies:
            continue
        known = [each for each in readings if each.way in ways and each.power_w is not None]
        energy_kwh = sum(energy.energy_j for energy in energies) / 3.6e6
        gap_s = max(energy.gap_s for energy in energies)
        gaps = f", gaps up to {gap_s:.0f} s" if gap_s else ""
        nodes = len({each.node for each in known})
        power = power_text(sum(each.power_w or 0.0 for each in known))
        said.append(f"{place}: {power} of {nodes} nodes, {energy_kwh:.3f} kWh{gaps}")
    return "  ".join(said)
