"""The buckets of means that make up a time: quarter-hours, and at ragged ends the minutes, as far as they are kept."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from offpeak.ledger.buckets import MINUTE_S, QUARTER_S
from offpeak.ledger.tables import minutes
from offpeak.ledger.used import Period


@dataclass(frozen=True)
class Slot:
    """A bucket, the number of the period that it lies in, and how much of it does."""

    at_unix_s: int
    period: int
    share: float


def slots_of(connection: Connection, periods: Sequence[Period]) -> tuple[list[Slot], list[Slot]]:
    """Return the quarter-hours and the minutes of the periods.

    A quarter-hour that lies partly in a period is taken by its minutes, or where they were pruned in that part.
    """
    quarters = [slot for number, period in enumerate(periods) for slot in _slots(number, period, QUARTER_S)]
    by_minutes = [slot for slot in quarters if slot.share < 1 and _has_minutes(connection, slot.at_unix_s)]
    whole = set(quarters) - set(by_minutes)
    return [slot for slot in quarters if slot in whole], list(_minutes(by_minutes, periods))


def _slots(number: int, period: Period, length_s: int) -> Iterator[Slot]:
    first = math.floor(period.from_unix_s / length_s) * length_s
    for at_unix_s in range(first, math.ceil(period.until_unix_s), length_s):
        inside_s = min(period.until_unix_s, at_unix_s + length_s) - max(period.from_unix_s, at_unix_s)
        yield Slot(at_unix_s, number, inside_s / length_s)


def _minutes(quarters: Iterable[Slot], periods: Sequence[Period]) -> Iterator[Slot]:
    for quarter in quarters:
        period = periods[quarter.period]
        from_unix_s = max(period.from_unix_s, quarter.at_unix_s)
        until_unix_s = min(period.until_unix_s, quarter.at_unix_s + QUARTER_S)
        yield from _slots(quarter.period, Period(period.name, from_unix_s, until_unix_s), MINUTE_S)


def _has_minutes(connection: Connection, quarter_unix_s: int) -> bool:
    at = minutes.c.at_unix_s
    found = select(at).where(at >= quarter_unix_s, at < quarter_unix_s + QUARTER_S).limit(1)
    return connection.execute(found).first() is not None
