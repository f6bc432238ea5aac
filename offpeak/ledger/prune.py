"""Deletes old readings, a slice at a time, so that nobody waits long for his turn to write."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, delete, func, select

from offpeak.ledger.buckets import MINUTE_S, QUARTER_S
from offpeak.ledger.tables import minutes, readings

ROWS = 15_000
"""A slice: two minutes of 1,000 nodes that are read every 10 s, deleted in less than 100 ms."""


@dataclass(frozen=True)
class Old:
    """Rows that are deleted when they are old: what lies in one bucket of the coarser table goes as a whole.

    `before(at, limit)` is true of what lies before the start of a bucket.
    """

    at: Column[float] | Column[int]
    bucket_s: int
    before: Callable[[Any, Any], Any]


# A reading stands at its end, a minute at its start.
OLD_READINGS = Old(readings.c.until_unix_s, MINUTE_S, operator.le)
OLD_MINUTES = Old(minutes.c.at_unix_s, QUARTER_S, operator.lt)


def prune_slice(old: Old, limit_unix_s: float) -> Callable[[Connection], int | None]:
    """Return what deletes the oldest slice before the limit: how many rows that were, None where nothing is left."""
    limit_unix_s = limit_unix_s // old.bucket_s * old.bucket_s

    def work(connection: Connection) -> int | None:
        oldest = connection.execute(select(func.min(old.at))).scalar()
        if oldest is None or not old.before(oldest, limit_unix_s):
            return None
        last = connection.execute(select(old.at).order_by(old.at).offset(ROWS).limit(1)).scalar()
        # One bucket at least, however many rows it has.
        full = max(last // old.bucket_s, oldest // old.bucket_s + 1) * old.bucket_s if last else limit_unix_s
        return connection.execute(delete(old.at.table).where(old.before(old.at, min(limit_unix_s, full)))).rowcount

    return work
