"""The ladder of tables that a time is measured by: quarter-hours, at their ragged ends minutes, at theirs readings."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import CTE, ColumnElement, FromClause, Table, case, select, tuple_

from offpeak.ledger.buckets import MINUTE_S, QUARTER_S
from offpeak.ledger.tables import minutes, quarters, readings

Number = ColumnElement[Any]


@dataclass(frozen=True)
class Inside:
    """Slots joined with rows of energy, and what of such a row lies in the slot's part of the period."""

    joined: FromClause
    series: Number
    energy_j: Number
    covered_s: Number


@dataclass(frozen=True)
class Rung:
    """How long the slots are, and what joins a table of slots with what is known of them.

    It takes the table of the series that are wanted of each period, too, None for all.
    """

    length_s: int
    inside: Callable[[Table, Table | None], Inside]


def minutes_of(quarter_unix_s: Number) -> ColumnElement[bool]:
    """Return what is true of the minutes of the quarter-hour that begins then."""
    at = minutes.c.at_unix_s
    return (at >= quarter_unix_s) & (at < quarter_unix_s + QUARTER_S)


def readings_of(minute_unix_s: Number) -> ColumnElement[bool]:
    """Return what is true of the readings of the minute that begins then; all are cut at full minutes."""
    until = readings.c.until_unix_s
    return (until > minute_unix_s) & (until <= minute_unix_s + MINUTE_S)


def _of_means(table: Table, slot: Table, wanted: Table | None) -> Inside:
    joined = _join(slot, wanted, table, table.c.at_unix_s == slot.c.at_unix_s)
    return Inside(joined, table.c.series, table.c.energy_j * slot.c.share, table.c.covered_s * slot.c.share)


def _of_readings(slot: Table, wanted: Table | None) -> Inside:
    rows = _near(slot, wanted)
    start, end = rows.c.from_unix_s, rows.c.until_unix_s
    first = case((start > slot.c.from_unix_s, start), else_=slot.c.from_unix_s)
    last = case((end < slot.c.until_unix_s, end), else_=slot.c.until_unix_s)
    joined = _join(slot, wanted, rows, (rows.c.at_unix_s == slot.c.at_unix_s) & (last > first))
    return Inside(joined, rows.c.series, rows.c.energy_j * (last - first) / (end - start), last - first)


def _near(slot: Table, wanted: Table | None) -> CTE:
    """Return the readings of the slots' minutes, each minute's read once: they stand by time, not by series."""
    minute = select(slot.c.at_unix_s).distinct().subquery()
    known = readings_of(minute.c.at_unix_s) & readings.c.energy_j.is_not(None)
    found = select(minute.c.at_unix_s, readings).join_from(minute, readings, known)
    if wanted is not None:
        pairs = select(slot.c.at_unix_s, wanted.c.series).join(wanted, wanted.c.period == slot.c.period)
        found = found.where(tuple_(minute.c.at_unix_s, readings.c.series).in_(pairs))
    # Else SQLite looks through all readings.
    return found.cte().prefix_with("MATERIALIZED")


def _join(slot: Table, wanted: Table | None, rows: FromClause, same: ColumnElement[bool]) -> FromClause:
    if wanted is None:
        return slot.join(rows, same)
    its = slot.join(wanted, wanted.c.period == slot.c.period)
    return its.join(rows, same & (rows.c.series == wanted.c.series))


QUARTERS, MINUTES = Rung(QUARTER_S, partial(_of_means, quarters)), Rung(MINUTE_S, partial(_of_means, minutes))
READINGS = Rung(MINUTE_S, _of_readings)
