"""Sums over the ledger's tables of readings, each by itself: what a test compares."""

from contextlib import suppress
from pathlib import Path

from sqlalchemy import Table, func, select

from offpeak.errors import CannotWrite
from offpeak.ledger.database import reading_engine
from offpeak.ledger.ledger import Ledger

Sums = dict[tuple[int, int], tuple[float, float]]


def sums(ledger: Ledger, table: Table, length_s: int) -> Sums:
    """Return energy [J] and covered time [s] by bucket and series."""
    columns = table.c
    engine = reading_engine(ledger.settings.url)
    found: Sums = {}
    with engine.connect() as connection:
        if "from_unix_s" in columns:
            covered_s = columns.until_unix_s - columns.from_unix_s
            rows = select(columns.from_unix_s, columns.series, columns.energy_j, covered_s).where(
                columns.power_w.is_not(None)
            )
        else:
            rows = select(columns.at_unix_s, columns.series, columns.energy_j, columns.covered_s)
        for at_unix_s, series, energy_j, seconds in connection.execute(rows):
            key = (int(at_unix_s // length_s) * length_s, series)
            before = found.get(key, (0.0, 0.0))
            found[key] = (before[0] + (energy_j or 0.0), before[1] + seconds)
    engine.dispose()
    return {key: value for key, value in found.items() if value != (0.0, 0.0)}


def rows_of(ledger: Ledger, table: Table) -> list[tuple[object, ...]]:
    """Return all rows of a table, in order."""
    engine = reading_engine(ledger.settings.url)
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
    engine.dispose()
    return found


def count(url: str, table: Table) -> int:
    """Return how many rows a table has."""
    engine = reading_engine(url)
    with engine.connect() as connection:
        found = connection.execute(select(func.count()).select_from(table)).scalar_one()
    engine.dispose()
    return found


def answers(ledger: Ledger) -> bool:
    """Return whether the ledger can be asked: after a failed attempt it refuses calls for a while."""
    with suppress(CannotWrite):
        ledger.unfinished()
        return True
    return False


def file_of(ledger: Ledger) -> Path:
    """Return the file of a SQLite ledger."""
    return Path(ledger.settings.url.removeprefix("sqlite:///"))
