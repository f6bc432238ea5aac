"""What is remembered over a restart, in its table."""

from sqlalchemy import Connection, select

from offpeak.ledger.tables import memory


def all_remembered(connection: Connection, beginning: str) -> dict[str, str]:
    """Return all texts whose names begin so, by name."""
    names = memory.c.name.startswith(beginning, autoescape=True)
    found = connection.execute(select(memory.c.name, memory.c.text).where(names))
    return {row.name: row.text for row in found}


def remembered(connection: Connection, name: str) -> str | None:
    """Return the text of that name, None if there is none."""
    return connection.execute(select(memory.c.text).where(memory.c.name == name)).scalar()
