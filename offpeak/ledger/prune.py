"""Deletes old readings, a slice at a time, so that nobody waits long for his turn to write."""

from collections.abc import Callable

from sqlalchemy import Connection, delete, func, select

from offpeak.ledger.tables import minutes, readings

SLICE_S = (120, 900)
"""How much time of readings and of minutes goes at once: some 15,000 rows each of 1,000 nodes read every 10 s."""

TIMES = {"readings": readings.c.until_unix_s, "minutes": minutes.c.at_unix_s}


def prune_slice(table: str, slice_s: int, limit_unix_s: float) -> Callable[[Connection], int | None]:
    """Return what deletes the oldest slice before the limit: how many rows that were, None where nothing is left.

    A minute, and the readings of a minute, go as a whole.
    """
    at, limit_unix_s = TIMES[table], limit_unix_s // 60 * 60

    def work(connection: Connection) -> int | None:
        oldest = connection.execute(select(func.min(at))).scalar()
        if oldest is None or oldest >= limit_unix_s:
            return None
        until = min(limit_unix_s, oldest + slice_s)
        return connection.execute(delete(at.table).where(at < until)).rowcount

    return work
