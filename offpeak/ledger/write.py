"""Rows into tables, in the transaction that is given. What is there already is not written twice."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

from offpeak.ledger import tables
from offpeak.ledger.backlog import Kind
from offpeak.ledger.readings import write_readings
from offpeak.ledger.series import SeriesNumbers

Write = Callable[[Connection, Sequence[Any], SeriesNumbers], None]


def new_only(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return the statement that inserts what is not there yet."""
    return insert(connection, table).on_conflict_do_nothing()


def insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return the database's own insert, which knows what to do with what is there."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def _once(table: Table) -> Write:
    def write(connection: Connection, rows: Sequence[Any], _: SeriesNumbers) -> None:
        connection.execute(new_only(connection, table), [_columns(row) for row in rows])

    return write


def _latest(table: Table) -> Write:
    """Return what writes rows of which the last one holds: a corrected price, a job whose energy came later."""

    def write(connection: Connection, rows: Sequence[Any], _: SeriesNumbers) -> None:
        added = insert(connection, table)
        keys = [column.name for column in table.primary_key]
        others = {column.name: added.excluded[column.name] for column in table.columns if column.name not in keys}
        statement = added.on_conflict_do_update(index_elements=keys, set_=others)
        connection.execute(statement, [_columns(row) for row in rows])

    return write


def _columns(row: Any) -> Mapping[str, Any]:
    return row if isinstance(row, dict) else dict(vars(row))


WRITES: dict[Kind, Write] = {
    Kind.READINGS: write_readings,
    Kind.STATES: _once(tables.states),
    Kind.PRICES: _latest(tables.prices),
    Kind.JOBS: _latest(tables.jobs),
    Kind.SAVINGS: _latest(tables.savings),
    Kind.DECISIONS: _once(tables.decisions),
    Kind.REFUSALS: _once(tables.refusals),
    Kind.MEMORY: _latest(tables.memory),
    Kind.OUTCOMES: _once(tables.outcomes),
}
