"""The tables that outlive a restart: marks of jobs, and texts by name.

A mark records a change of a job, so that it can be undone.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, and_, bindparam, delete, select

from offpeak.ledger.backlog import dialect_insert
from offpeak.ledger.rows import JobMark
from offpeak.ledger.tables import marks as table
from offpeak.ledger.tables import memory

MARK_KEY = ("job", "submitted_unix_s", "kind")


def write_marks(connection: Connection, changed: Sequence[JobMark]) -> None:
    """Write marks; if a mark exists, its `was` stays."""
    if changed:
        added = dialect_insert(connection, table)
        later = {name: added.excluded[name] for name in ("to", "at_unix_s")}
        statement = added.on_conflict_do_update(index_elements=MARK_KEY, set_=later)
        connection.execute(statement, [dict(vars(mark)) for mark in changed])


def delete_marks(connection: Connection, undone: Sequence[JobMark]) -> None:
    """Delete these marks, independent of their current values."""
    if undone:
        same = and_(*(table.c[name] == bindparam(f"its_{name}") for name in MARK_KEY))
        connection.execute(
            delete(table).where(same), [{f"its_{name}": getattr(mark, name) for name in MARK_KEY} for mark in undone]
        )


def read_marks(connection: Connection) -> tuple[JobMark, ...]:
    """Return all marks, in the order of their keys."""
    return tuple(JobMark(*row) for row in connection.execute(select(table).order_by(*table.primary_key)))


def read_memories(connection: Connection, beginning: str) -> dict[str, str]:
    """Return all texts whose names have that prefix, by name."""
    names = memory.c.name.startswith(beginning, autoescape=True)
    found = connection.execute(select(memory.c.name, memory.c.text).where(names))
    return {row.name: row.text for row in found}


def read_memory(connection: Connection, name: str) -> str | None:
    """Return the text of that name, None if there is none."""
    return connection.execute(select(memory.c.text).where(memory.c.name == name)).scalar()
