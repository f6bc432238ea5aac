"""Marks in their table: what is changed of jobs, so that it can be undone."""

from collections.abc import Sequence

from sqlalchemy import Connection, and_, bindparam, delete, select

from offpeak.ledger.rows import Mark
from offpeak.ledger.tables import marks as table
from offpeak.ledger.write import insert

KEY = ("job", "submitted_unix_s", "kind")


def remember(connection: Connection, changed: Sequence[Mark]) -> None:
    """Write marks; of one that is there already `was` stays."""
    if changed:
        added = insert(connection, table)
        later = {name: added.excluded[name] for name in ("to", "at_unix_s")}
        statement = added.on_conflict_do_update(index_elements=KEY, set_=later)
        connection.execute(statement, [dict(vars(mark)) for mark in changed])


def forget(connection: Connection, undone: Sequence[Mark]) -> None:
    """Delete these marks, whatever they say by now."""
    if undone:
        same = and_(*(table.c[name] == bindparam(f"its_{name}") for name in KEY))
        connection.execute(
            delete(table).where(same), [{f"its_{name}": getattr(mark, name) for name in KEY} for mark in undone]
        )


def marks(connection: Connection) -> tuple[Mark, ...]:
    """Return all marks, in the order of their keys."""
    return tuple(Mark(*row) for row in connection.execute(select(table).order_by(*table.primary_key)))
