"""Readings into the ledger: each as it is, and in the same transaction added to its minute and its quarter-hour.

So the coarse rows are right at every moment, whatever comes late or twice, and pruning only deletes.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, Table, case, func
from sqlalchemy.dialects import postgresql, sqlite

from offpeak.ledger.buckets import MINUTE_S, QUARTER_S, Mean, Piece, means, pieces
from offpeak.ledger.rows import Metered
from offpeak.ledger.series import SeriesNumbers, series_name
from offpeak.ledger.tables import minutes, quarters, readings


def write_readings(connection: Connection, rows: Sequence[Metered], known: SeriesNumbers) -> None:
    """Write readings; one of the same series, start and end as another is that one again, and is left out."""
    numbers = known.of(connection, rows)
    every = (piece for row in rows for piece in pieces(row, numbers[series_name(row)]))
    cut: dict[tuple[object, ...], Piece] = {(each.until_unix_s, each.series, each.from_unix_s): each for each in every}
    own = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = own(readings).on_conflict_do_nothing().returning(*readings.primary_key)
    added = connection.execute(statement, [vars(piece) for piece in cut.values()])
    new = [cut[tuple(key)] for key in added]
    if new:
        _add(connection, minutes, means(new, MINUTE_S))
        _add(connection, quarters, means(new, QUARTER_S))


def _add(connection: Connection, table: Table, found: Mapping[tuple[int, int], Mean]) -> None:
    own = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement, there = own(table), table.c
    new = statement.excluded
    sums = {name: there[name] + new[name] for name in ("covered_s", "energy_j", "without_value")}
    lowest = case((new.min_w < there.min_w, new.min_w), else_=there.min_w)
    highest = case((new.max_w > there.max_w, new.max_w), else_=there.max_w)
    # No value compares with nothing: what is there stays, and where nothing is, the new one is taken.
    ends = {"min_w": func.coalesce(lowest, new.min_w), "max_w": func.coalesce(highest, new.max_w)}
    upsert = statement.on_conflict_do_update(index_elements=["at_unix_s", "series"], set_=sums | ends)
    # In order of the key: two writers never wait for each other in a circle.
    rows = [{"at_unix_s": at, "series": series} | vars(found[at, series]) for at, series in sorted(found)]
    connection.execute(upsert, rows)
