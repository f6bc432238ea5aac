"""The meter task: every meter of the site is read each period into the ledger."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable

from offpeak.ledger.energy_use import WAYS
from offpeak.ledger.ledger import Ledger
from power.accounts.meter_round import Metering, Pace, meter_round
from power.agent.parts import Parts
from power.agent.voice import LOG
from power.lifecycle.node_record import Instant
from power.meters.port import Meter
from power.meters.registry import site_meters

PERIOD_S = 10.0
LEAST_S = 1.0
"""Of real time: a meter is not asked again sooner."""


def period_s(parts: Parts) -> float:
    """Return how often meters are read: at least once a cycle, but not faster than they answer."""
    return max(min(PERIOD_S, parts.settings.agent.cycle_s), LEAST_S * parts.clock.factor)


class MeterLoop:
    """Reads. `watts` is what the nodes drew together at the last round, None where nothing is measured."""

    def __init__(
        self, ledger: Ledger, clock: Callable[[], float], steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._ledger, self._clock, self._steady = ledger, clock, steady
        self._meters: tuple[Meter, ...] = ()
        self._of: Parts | None = None
        self._metering = Metering()

    async def round(self, parts: Parts) -> None:
        """Read all meters once."""
        if self._of is not parts:
            await self.close()
            self._of, self._meters = parts, site_meters(parts.settings, parts.inventory, None, parts.wire)
        pace = Pace(period_s(parts), max(period_s(parts), parts.wire.timeout_s))
        done = await meter_round(self._meters, self._metering, pace=pace, clock=self._now)
        self._metering = done.after
        self._ledger.write_readings(done.rows)
        for line in done.lines:
            LOG.warning("meters: %s", line)

    async def close(self) -> None:
        """Log out of all meters."""
        meters, self._meters, self._of = self._meters, (), None
        await asyncio.gather(*(meter.close() for meter in meters))

    @property
    def watts(self) -> float | None:
        """The sum over the nodes of their latest powers."""
        known = self.node_watts.values()
        return sum(known) if known else None

    @property
    def node_watts(self) -> dict[str, float]:
        """The latest power of each node that is measured; of two ways of measuring it the outermost."""
        sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for each in self._metering.last.values():
            if each.node and each.power_w is not None and each.way in WAYS:
                sums[each.node][each.way] += each.power_w
        return {node: by_way[min(by_way, key=WAYS.index)] for node, by_way in sums.items()}

    def _now(self) -> Instant:
        return Instant(self._steady(), self._clock())
