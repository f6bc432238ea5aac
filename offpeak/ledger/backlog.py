"""Rows that wait to be written, within a bound, and the statements that write each kind into its table.

Of too many rows the least valuable are dropped first, and counted. A row that is there already is not written twice.

Each reading is written, cut at full minutes, and in the same transaction added to the means of its minute and its
quarter-hour. So the means are always correct, even with late or repeated readings, and pruning only deletes. Where
readings are not kept, the writer sums them in memory and writes each minute once it is over, with the same arithmetic.
Each part of a meter is a series, which gets its number with its first reading.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import uuid4

from sqlalchemy import Connection, Table, case, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from offpeak.ledger import tables
from offpeak.ledger.database import add_partitions
from offpeak.ledger.energy_use import WAYS
from offpeak.ledger.rows import MemoryRecord, MeterReading
from offpeak.ledger.tables import minutes, quarters, readings, series
from offpeak.model.constants import MINUTE_S, QUARTER_S


@dataclass(frozen=True)
class LedgerProblem:
    """Why nothing can be written, since when; how many rows wait and how many were given up.

    `message` is empty where writing works again but rows were lost before.
    """

    message: str
    hint: str
    since_unix_s: float
    waiting: int
    dropped_readings: int
    dropped_others: int


class RowKind(IntEnum):
    """The kinds of waiting rows. Lower kinds are dropped first, higher kinds are written first.

    So a remembered state is never newer than the rows that it describes.
    """

    READINGS = 0
    MEMORY = 1
    STATES = 2
    PRICES = 3
    JOBS = 4
    CREDITS = 5
    GPUS = 6
    SAVINGS = 7
    DECISIONS = 8
    REFUSALS = 9
    OUTCOMES = 10


class Backlog:
    """Queues of rows, one for each kind. A row that the writer has taken counts too."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.dropped: Counter[RowKind] = Counter()
        self._queues: dict[RowKind, deque[Any]] = {kind: deque() for kind in RowKind}
        self._taken = 0

    def __len__(self) -> int:
        return self._taken + sum(map(len, self._queues.values()))

    def add(self, kind: RowKind, rows: Iterable[Any]) -> None:
        """Queue rows; beyond the bound, drop the oldest rows of the lowest kinds."""
        self._queues[kind].extend(rows)
        self._forget_former(kind)
        self._drop()

    def take(self, most: int) -> tuple[RowKind, Sequence[Any]] | None:
        """Remove and return the oldest rows of the highest kind; None if no row waits."""
        for kind in reversed(RowKind):
            queue = self._queues[kind]
            if queue:
                rows = list(islice(queue, most))
                for _ in rows:
                    queue.popleft()
                self._taken += len(rows)
                return kind, rows
        return None

    def written(self, rows: Sequence[Any]) -> None:
        """Forget rows that the writer has written."""
        self._taken -= len(rows)

    def put_back(self, kind: RowKind, rows: Sequence[Any]) -> None:
        """Put taken rows back, before the others of their kind."""
        self._taken -= len(rows)
        self._queues[kind].extendleft(reversed(rows))
        self._forget_former(kind)
        self._drop()

    def _forget_former(self, kind: RowKind) -> None:
        """Keep only the last waiting state of each name: there is one per cycle, and none is small."""
        if kind is RowKind.MEMORY:
            self._queues[kind] = deque({row.name: row for row in self._queues[kind]}.values())

    def _drop(self) -> None:
        over = len(self) - self.most
        for kind in RowKind:
            dropped = min(max(over, 0), len(self._queues[kind]))
            for _ in range(dropped):
                self._queues[kind].popleft()
            if dropped:
                self.dropped[kind] += dropped
                over -= dropped


@dataclass(frozen=True)
class ReadingPiece:
    """The part of a reading that lies within one minute."""

    series: int
    from_unix_s: float
    until_unix_s: float
    power_w: float | None
    energy_j: float | None
    why: str | None

    def start_of(self, length_s: int) -> int:
        """Return the begin of the bucket of that length that holds the piece [Unix s]."""
        return math.floor(self.from_unix_s / length_s) * length_s


@dataclass
class BucketMean:
    """The sum of the readings of one bucket."""

    covered_s: float = 0.0
    energy_j: float = 0.0
    min_w: float | None = None
    max_w: float | None = None
    without_value: int = 0

    def add(self, piece: ReadingPiece) -> None:
        """Add a piece."""
        if piece.power_w is None:
            self.without_value += 1
            return
        self.covered_s += piece.until_unix_s - piece.from_unix_s
        self.energy_j += piece.energy_j or 0.0
        self.min_w = piece.power_w if self.min_w is None else min(self.min_w, piece.power_w)
        self.max_w = piece.power_w if self.max_w is None else max(self.max_w, piece.power_w)


def cut_reading(reading: MeterReading, series: int) -> Iterator[ReadingPiece]:
    """Cut a reading at full minutes; the energy is shared by the time. One without a value, or time, is one piece."""
    length_s = reading.until_unix_s - reading.from_unix_s
    if reading.power_w is None or length_s <= 0:
        at_unix_s = reading.until_unix_s
        yield ReadingPiece(series, at_unix_s, at_unix_s, reading.power_w, None, reading.why or None)
        return
    energy_j = reading.power_w * length_s if reading.energy_j is None else reading.energy_j
    for from_unix_s, until_unix_s in _within_minutes(reading.from_unix_s, reading.until_unix_s):
        share_j = energy_j * ((until_unix_s - from_unix_s) / length_s)
        yield ReadingPiece(series, from_unix_s, until_unix_s, reading.power_w, share_j, reading.why or None)


def _within_minutes(from_unix_s: float, until_unix_s: float) -> Iterator[tuple[float, float]]:
    while from_unix_s < until_unix_s:
        edge_unix_s = min(until_unix_s, (math.floor(from_unix_s / MINUTE_S) + 1.0) * MINUTE_S)
        yield from_unix_s, edge_unix_s
        from_unix_s = edge_unix_s


def bucket_means(cut: Iterable[ReadingPiece], length_s: int) -> dict[tuple[int, int], BucketMean]:
    """Return the sums of the pieces by the start of their bucket [Unix s] and series."""
    found: dict[tuple[int, int], BucketMean] = {}
    for piece in cut:
        key = (piece.start_of(length_s), piece.series)
        found.setdefault(key, BucketMean()).add(piece)
    return found


SeriesName = tuple[str, str, str, str]


def series_name(reading: MeterReading) -> SeriesName:
    """Return the key of a series."""
    return reading.meter, reading.way, reading.part, reading.node or ""


class MinuteRow(NamedTuple):
    """The sums of a series over (a part of) a minute. `run` and `number` identify the row: it is added once.

    An `inner` row is only added to its quarter-hour.
    """

    name: SeriesName
    at_unix_s: int
    sums: BucketMean
    run: str
    number: int
    inner: bool


class MinuteSums:
    """Sums readings by minute in memory, for a ledger that does not keep single readings.

    Where the outermost meters of a node cover all of a minute, the accounts need no minute of its inner ones.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[int, SeriesName], BucketMean] = {}
        self._parts = Counter[tuple[str, str]]()
        self._run, self._number = uuid4().hex, 0

    def add(self, readings: Sequence[MeterReading]) -> list[MinuteRow]:
        """Add readings; return the minutes that are over, except that before the newest reading's: some come late."""
        if not readings:
            return []
        for reading in readings:
            name = series_name(reading)
            for piece in cut_reading(reading, 0):
                self._sums.setdefault((piece.start_of(MINUTE_S), name), BucketMean()).add(piece)
        newest_s = max(reading.until_unix_s for reading in readings) // MINUTE_S * MINUTE_S
        # After a clock was set back the open minutes are later than the newest reading.
        return self.take(lambda at_unix_s: not newest_s - MINUTE_S <= at_unix_s <= newest_s)

    def take(self, wanted: Callable[[int], bool] = lambda _: True) -> list[MinuteRow]:
        """Remove and return the sums of these minutes so far."""
        keys = sorted(key for key in self._sums if wanted(key[0]))
        inner, before = self._find_inner(keys), self._number
        self._number += len(keys)
        return [
            MinuteRow(key[1], key[0], self._sums.pop(key), run=self._run, number=number, inner=key in inner)
            for number, key in enumerate(keys, before + 1)
        ]

    def _find_inner(self, keys: Sequence[tuple[int, SeriesName]]) -> set[tuple[int, SeriesName]]:
        """Return those of series within a node whose outer way of measuring covers the minute with all its parts."""
        parts, complete = Counter[tuple[int, str, str]](), Counter[tuple[int, str, str]]()
        for at_unix_s, name in keys:
            of = (at_unix_s, name[3], name[1])
            parts[of] += 1
            complete[of] += self._sums[at_unix_s, name].covered_s > MINUTE_S - 1
        for (_, node, way), count in parts.items():
            self._parts[node, way] = max(self._parts[node, way], count)
        return {
            (at_unix_s, name)
            for at_unix_s, name in keys
            if name[3] and name[1] in WAYS
            for outer in WAYS[: WAYS.index(name[1])]
            if complete[at_unix_s, name[3], outer] >= max(self._parts[name[3], outer], 1)
        }


class SeriesNumbers:
    """A cache of the table. Forget it when a transaction fails that added numbers."""

    def __init__(self) -> None:
        self._numbers: dict[SeriesName, int] = {}

    def of(self, connection: Connection, names: Iterable[SeriesName]) -> dict[SeriesName, int]:
        """Return the numbers of at least these series; add the missing ones."""
        if missing := set(names) - self._numbers.keys():
            self._read(connection)
            missing -= self._numbers.keys()
        if missing:
            columns = ("meter", "way", "part", "node")
            connection.execute(insert(series), [dict(zip(columns, name, strict=True)) for name in sorted(missing)])
            self._read(connection)
        return self._numbers

    def forget(self) -> None:
        """Read the numbers again at the next call."""
        self._numbers = {}

    def _read(self, connection: Connection) -> None:
        found = connection.execute(select(series.c.meter, series.c.way, series.c.part, series.c.node, series.c.number))
        self._numbers = {(meter, way, part, node): number for meter, way, part, node, number in found}


def write_readings(connection: Connection, rows: Sequence[MeterReading], known: SeriesNumbers) -> None:
    """Write readings. A reading with the series, start and end of another is a duplicate and is left out."""
    numbers = known.of(connection, map(series_name, rows))
    every = (piece for row in rows for piece in cut_reading(row, numbers[series_name(row)]))
    cut: dict[tuple[object, ...], ReadingPiece] = {
        (piece.until_unix_s, piece.series, piece.from_unix_s): piece for piece in every
    }
    statement = insert_if_new(connection, readings).returning(*readings.primary_key)
    added = connection.execute(statement, [vars(piece) for piece in cut.values()])
    new = [cut[tuple(key)] for key in added]
    if new:
        _add_to_means(connection, minutes, bucket_means(new, MINUTE_S).items())
        _add_to_means(connection, quarters, bucket_means(new, QUARTER_S).items())


WRITTEN_MINUTES = "written minutes"


def _write_minutes(connection: Connection, rows: Sequence[MinuteRow], known: SeriesNumbers) -> None:
    """Add minutes, each once: if a connection broke during a commit, the ledger tells which were written."""
    mark = select(tables.memory.c.text).where(tables.memory.c.name == WRITTEN_MINUTES)
    run, _, last = (connection.execute(mark).scalar() or "").rpartition(" ")
    rows = [row for row in rows if row.run != run or row.number > int(last)]
    if not rows:
        return
    numbers = known.of(connection, (row.name for row in rows))
    own = [((row.at_unix_s, numbers[row.name]), row.sums) for row in rows if not row.inner]
    if own:
        _add_to_means(connection, minutes, own)
    quarter_sums = (((row.at_unix_s // QUARTER_S * QUARTER_S, numbers[row.name]), row.sums) for row in rows)
    _add_to_means(connection, quarters, quarter_sums)
    written = MemoryRecord(WRITTEN_MINUTES, f"{rows[-1].run} {rows[-1].number}", float(rows[-1].at_unix_s))
    WRITES[RowKind.MEMORY](connection, [written], known)


def _write_meters(connection: Connection, rows: Sequence[Any], known: SeriesNumbers) -> None:
    write = _write_minutes if isinstance(rows[0], MinuteRow) else write_readings
    write(connection, rows, known)


def _add_to_means(connection: Connection, table: Table, means: Iterable[tuple[tuple[int, int], BucketMean]]) -> None:
    statement, there = dialect_insert(connection, table), table.c
    new = statement.excluded
    sums = {name: there[name] + new[name] for name in ("covered_s", "energy_j", "without_value")}
    lowest = case((new.min_w < there.min_w, new.min_w), else_=there.min_w)
    highest = case((new.max_w > there.max_w, new.max_w), else_=there.max_w)
    # A comparison with NULL gives NULL: keep the existing value, and use the new one if there is none.
    ends = {"min_w": func.coalesce(lowest, new.min_w), "max_w": func.coalesce(highest, new.max_w)}
    upsert = statement.on_conflict_do_update(index_elements=["at_unix_s", "series"], set_=sums | ends)
    # In order of the key: two writers never wait for each other in a circle.
    in_order = sorted(means, key=itemgetter(0))
    rows = [{"at_unix_s": at, "series": series} | vars(sums) for (at, series), sums in in_order]
    add_partitions(connection, table.name, {at for (at, _), _ in in_order})
    connection.execute(upsert, rows)


RowWriter = Callable[[Connection, Sequence[Any], SeriesNumbers], None]


def insert_if_new(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an insert that skips rows whose key exists."""
    return dialect_insert(connection, table).on_conflict_do_nothing()


def dialect_insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return the insert of the database's dialect, which supports conflicts."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def _write_new(table: Table) -> RowWriter:
    def write(connection: Connection, rows: Sequence[Any], _: SeriesNumbers) -> None:
        connection.execute(insert_if_new(connection, table), [_columns(row) for row in rows])

    return write


def _write_latest(table: Table) -> RowWriter:
    """Return a function that replaces rows, such as a corrected price or a job whose energy was unknown.

    A price that is written again stays known since the first time.
    """

    def write(connection: Connection, rows: Sequence[Any], _: SeriesNumbers) -> None:
        added = dialect_insert(connection, table)
        keys = [column.name for column in table.primary_key]
        others: dict[str, Any] = {
            column.name: added.excluded[column.name] for column in table.columns if column.name not in keys
        }
        if table is tables.prices:
            is_same = (table.c.price_per_mwh == others["price_per_mwh"]) & (table.c.currency == others["currency"])
            others["known_unix_s"] = case((is_same, table.c.known_unix_s), else_=others["known_unix_s"])
        statement = added.on_conflict_do_update(index_elements=keys, set_=others)
        connection.execute(statement, [_columns(row) for row in rows])

    return write


def _columns(row: Any) -> Mapping[str, Any]:
    return row if isinstance(row, dict) else dict(vars(row))


WRITES: dict[RowKind, RowWriter] = {
    RowKind.READINGS: _write_meters,
    RowKind.STATES: _write_new(tables.states),
    RowKind.PRICES: _write_latest(tables.prices),
    RowKind.JOBS: _write_latest(tables.jobs),
    RowKind.CREDITS: _write_latest(tables.credits),
    RowKind.GPUS: _write_latest(tables.job_gpus),
    RowKind.SAVINGS: _write_latest(tables.savings),
    RowKind.DECISIONS: _write_new(tables.decisions),
    RowKind.REFUSALS: _write_new(tables.refusals),
    RowKind.MEMORY: _write_latest(tables.memory),
    RowKind.OUTCOMES: _write_new(tables.outcomes),
}
