"""What sleeping nodes saved: of today as far as it is over, and of each day once it is."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo

from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import SavingRecord
from offpeak.model.local_time import TimeRange
from power.accounts.book_savings import book_savings
from power.agent.parts import Parts

EVERY_S = 900.0
CYCLES = 30
"""At least so often: what runs with short cycles is being looked at."""


def every_s(parts: Parts) -> float:
    """Return how often it is worked out: it reads the rests of a day."""
    return min(EVERY_S, CYCLES * parts.settings.agent.cycle_s)


class SavingsLoop:
    """Books. `today` is what was saved since midnight, None for nothing."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float]) -> None:
        self._ledger, self._clock = ledger, clock
        self.today: SavingRecord | None = None

    async def round(self, parts: Parts) -> None:
        """Work out today, and book yesterday; a later figure takes the place of an earlier one. BadLedger, BadInput."""
        if not parts.machines:
            return
        now_s = self._clock()
        yesterday_s, midnight_s = midnights(now_s, parts.zone)
        self.today = await self._saved(TimeRange(midnight_s, now_s), parts)
        whole = await self._saved(TimeRange(yesterday_s, midnight_s), parts)
        self._ledger.write_savings([whole] if whole else [])

    async def _saved(self, span: TimeRange, parts: Parts) -> SavingRecord | None:
        url = parts.settings.ledger.url
        return await asyncio.to_thread(book_savings, url, span, parts.machines, parts.node_class)


def midnights(unix_s: float, zone: tzinfo) -> tuple[float, float]:
    """Return the last two local midnights [Unix s]."""
    today = datetime.fromtimestamp(unix_s, zone).date()
    days = (today - timedelta(days=1), today)
    first, last = (datetime.combine(day, datetime.min.time(), zone).timestamp() for day in days)
    return first, last
