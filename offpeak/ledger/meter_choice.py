"""Which of a node's meters counts: one choice for each node and quarter-hour, from which every figure is made.

Of a node's ways of measuring, the outermost counts that covers a quarter-hour as well as the best of them. A way with
several parts, such as two outlets, covers the mean of what its parts cover; a silent part has a row without energy. So
a choice depends on the rows of its quarter-hour only, and is the same in a day, a month, a bill, and a bundle.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Float,
    FromClause,
    MetaData,
    Table,
    Text,
    case,
    func,
    insert,
    literal_column,
    select,
)

from offpeak.ledger.energy_use import GPU, GPU_BUSY, GPU_IDLE, WAYS
from offpeak.ledger.tables import quarters, series
from offpeak.model.constants import DAY_S, QUARTER_S
from offpeak.model.time_range import TimeRange

AS_GOOD_S = 9.0
"""A way covers a quarter-hour as well as another one if it misses at most this much more: one percent."""
COLUMN_TYPES: Mapping[type, BigInteger | Text] = {int: BigInteger(), str: Text()}


@dataclass(frozen=True)
class MeterChoice:
    """The series that count: the node of each, and its share of what covers the node's time, 0 if it does not count.

    A share is one over the number of parts that are measured together. `changed` are the quarter-hours in which it is
    another one: `at_unix_s`, `series` and `share`.
    """

    node_of: Mapping[int, str]
    share: Mapping[int, float]
    changed: Sequence[Mapping[str, object]] = ()

    @contextmanager
    def rows(
        self,
        connection: Connection,
        slot: Table | None = None,
        nodes: Sequence[Collection[str]] | None = None,
    ) -> Iterator["ChosenRows"]:
        """Join the quarter-hours with the series that count, and with slots of time if given.

        `nodes` are those that are wanted of each period of the slots, all if not given.
        """
        of = defaultdict[str, list[int]](list)
        for each, node in self.node_of.items():
            of[node].append(each)
        wanted: list[dict[str, object]] = [
            {"period": period, "series": each, "share": self.share[each]}
            for period, names in enumerate([of] if nodes is None else nodes)
            for node in names
            for each in of.get(node, ())
        ]
        nothing: dict[str, object] = {"at_unix_s": -1, "period": -1, "series": -1, "share": 0.0}
        with (
            temporary_table(connection, wanted or [nothing], name="offpeak_counted") as counted,
            temporary_table(connection, self.changed or [nothing], name="offpeak_changed") as changed,
        ):
            at, number = quarters.c.at_unix_s, quarters.c.series
            if slot is None:
                joined = quarters.join(counted, counted.c.series == number)
            elif nodes is None:
                joined = slot.join(quarters, at == slot.c.at_unix_s).join(counted, counted.c.series == number)
            else:
                # The order in which SQLite finds each row by its key.
                joined = slot.join(counted, counted.c.period == slot.c.period)
                joined = joined.join(quarters, (at == slot.c.at_unix_s) & (number == counted.c.series))
            joined = joined.outerjoin(changed, (changed.c.at_unix_s == at) & (changed.c.series == number))
            yield ChosenRows(joined, func.coalesce(changed.c.share, counted.c.share))


@dataclass(frozen=True)
class ChosenRows:
    """Rows of quarter-hours, and the share of each; those with a share of 0 do not count."""

    joined: FromClause
    share: ColumnElement[Any]


def choose_meters(connection: Connection, span: TimeRange, nodes: Collection[str] | None = None) -> MeterChoice:
    """Return the choice for the quarter-hours of a time, of these nodes or all."""
    known = select(series.c.number, series.c.node, series.c.way).where(series.c.node != "", series.c.way.in_(WAYS))
    of, rank = defaultdict[str, list[int]](list), dict[int, int]()
    for number, node, way in connection.execute(known):
        if nodes is None or node in nodes:
            of[node].append(number)
            rank[number] = WAYS.index(way)
    node_of = {number: node for node, its in of.items() for number in its}
    rivals = [number for its in of.values() if len(its) > 1 for number in its]
    share = {number: float(len(of[node]) == 1) for number, node in node_of.items()}
    if not rivals:
        return MeterChoice(node_of, share)
    first_s = int(span.from_unix_s // QUARTER_S * QUARTER_S)
    after_s = int(-(-span.until_unix_s // QUARTER_S) * QUARTER_S)
    at, number = quarters.c.at_unix_s, quarters.c.series
    day = at // literal_column(str(DAY_S), BigInteger)
    # After a clock was set back readings overlap.
    covered_s = case((quarters.c.covered_s > QUARTER_S, float(QUARTER_S)), else_=quarters.c.covered_s)
    with temporary_table(connection, [{"series": each} for each in rivals], name="offpeak_rivals") as rival:
        within = (at >= first_s) & (at < after_s) & number.in_(select(rival.c.series))
        sums = select(day, number, func.sum(covered_s)).where(within).group_by(day, number)
        covered = {(each_day, each): length_s for each_day, each, length_s in connection.execute(sums)}
    # On a day that the outermost meter covers, it counts in each quarter-hour. Most days need no closer look.
    present, days = {each for _, each in covered}, sorted({each_day for each_day, _ in covered})
    unsettled: list[dict[str, object]] = []
    for its in of.values():
        if len(its) == 1 or not (there := [each for each in its if each in present]):
            continue
        outermost = min(rank[each] for each in there)
        usual = [each for each in there if rank[each] == outermost]
        share |= dict.fromkeys(usual, 1 / len(usual))
        for each_day in days:
            length_s = min(after_s, (each_day + 1) * DAY_S) - max(first_s, each_day * DAY_S)
            if any(covered.get((each_day, each), 0.0) < length_s - AS_GOOD_S for each in usual):
                unsettled += [{"day": each_day, "series": each} for each in there if (each_day, each) in covered]
    if not unsettled:
        return MeterChoice(node_of, share)
    with temporary_table(connection, unsettled, name="offpeak_unsettled") as look:
        rows = select(at, number, covered_s).join(look, (look.c.day == day) & (look.c.series == number))
        found = connection.execute(rows.where((at >= first_s) & (at < after_s))).partitions(100_000)
        table = np.concatenate([np.empty((0, 3)), *(np.array([tuple(row) for row in part]) for part in found)])
    return MeterChoice(node_of, share, _find_changed(table, node_of, rank, share))


def _find_changed(
    rows: np.ndarray[Any, np.dtype[np.float64]],
    node_of: Mapping[int, str],
    rank: Mapping[int, int],
    share: Mapping[int, float],
) -> list[dict[str, object]]:
    """Return the rows, of begin, series and covered seconds, whose share is another one than usual."""
    numbers, place = np.unique(rows[:, 1].astype(np.int64), return_inverse=True)
    names, node = np.unique([node_of[each] for each in numbers.tolist()], return_inverse=True)
    ranks = np.array([rank[each] for each in numbers.tolist()], np.int64)
    quarter = (rows[:, 0].astype(np.int64) // QUARTER_S * len(names) + node[place]) * len(WAYS)
    # Sorted, the ways of a node in a quarter-hour are side by side, the outermost first.
    ways, way, parts = np.unique(quarter + ranks[place], return_inverse=True, return_counts=True)
    covered_s = np.bincount(way, rows[:, 2]) / parts
    begins = np.flatnonzero(np.diff(ways // len(WAYS), prepend=-1))
    best_s = np.repeat(np.maximum.reduceat(covered_s, begins), np.diff(np.append(begins, len(ways))))
    fits = np.flatnonzero(covered_s >= best_s - AS_GOOD_S)
    chosen = np.zeros(len(ways), np.bool_)
    chosen[fits[np.unique(ways[fits] // len(WAYS), return_index=True)[1]]] = True
    shares = np.where(chosen[way], 1 / parts[way], 0.0)
    usual = np.array([share[each] for each in numbers.tolist()])[place]
    columns = (rows[:, 0].astype(np.int64), numbers[place], shares)
    return [
        {"at_unix_s": at_s, "series": each, "share": its}
        for at_s, each, its in zip(*(column[shares != usual].tolist() for column in columns), strict=True)
    ]


def measured_parts(connection: Connection, since_unix_s: float) -> list[tuple[str, str, str, str]]:
    """Return meter, way, part and node of what was measured since then."""
    since = select(quarters.c.series).where(quarters.c.at_unix_s >= since_unix_s, quarters.c.covered_s > 0).distinct()
    names = select(series.c.meter, series.c.way, series.c.part, series.c.node).where(series.c.number.in_(since))
    return [(meter, way, part, node) for meter, way, part, node in connection.execute(names)]


def gpu_series(connection: Connection) -> tuple[MeterChoice, Mapping[int, tuple[str, str]]]:
    """Return the series of all GPUs, each of which counts, and of each its meter, and "idle" or "busy"."""
    known = select(series.c.number, series.c.node, series.c.meter, series.c.part).where(series.c.way == GPU)
    rows = [row for row in connection.execute(known) if row.part.endswith((GPU_IDLE, GPU_BUSY))]
    parts = {row.number: (row.meter, row.part.rpartition(" ")[2]) for row in rows}
    return MeterChoice({row.number: row.node for row in rows}, dict.fromkeys(parts, 1.0)), parts


@contextmanager
def temporary_table(
    connection: Connection, rows: Sequence[Mapping[str, object]], *, name: str = "offpeak_scratch"
) -> Iterator[Table]:
    """Create a temporary table of these rows, at least one; the first row decides the types: text, integer, else float.

    A question that fails takes its transaction with it, and so the table.
    """
    columns: list[Column[Any]] = [
        Column(key, COLUMN_TYPES.get(type(value), Float(53))) for key, value in rows[0].items()
    ]
    table = Table(name, MetaData(), *columns, prefixes=["TEMPORARY"])
    table.create(connection)
    connection.execute(insert(table), rows)
    yield table
    table.drop(connection)
