"""Holds in their table: at most one of a node is open, ended ones stay."""

from sqlalchemy import ColumnElement, Connection, and_, insert, or_, select, update

from offpeak.errors import BadInput
from offpeak.ledger.rows import Hold
from offpeak.ledger.tables import holds as table

COLUMNS = (table.c.node, table.c.owner, table.c.reason, table.c.since_unix_s, table.c.until_unix_s)


def add(connection: Connection, hold: Hold) -> None:
    """Begin a hold; the owner's own is replaced. BadInput where another owner holds the node."""
    for other in holds(connection, hold.since_unix_s):
        if other.node == hold.node and other.owner != hold.owner:
            hint = f"`offpeak node {hold.node} release` ends it; ask {other.owner} first"
            raise BadInput(f"{hold.node}: is held by {other.owner}: {other.reason}", hint=hint)
    release(connection, hold.node, by=hold.owner, at_unix_s=hold.since_unix_s)
    connection.execute(insert(table).values(vars(hold)))


def release(connection: Connection, node: str, *, by: str, at_unix_s: float) -> Hold | None:
    """End the hold of a node and return it."""
    found = next((hold for hold in holds(connection, at_unix_s) if hold.node == node), None)
    if found:
        ended = {"released_unix_s": at_unix_s, "released_by": by}
        connection.execute(update(table).where(table.c.node == node, _open(at_unix_s)).values(ended))
    return found


def holds(connection: Connection, at_unix_s: float) -> tuple[Hold, ...]:
    """Return the open holds, by node."""
    found = connection.execute(select(*COLUMNS).where(_open(at_unix_s)).order_by(table.c.node))
    return tuple(Hold(*row) for row in found)


def _open(at_unix_s: float) -> ColumnElement[bool]:
    over = or_(table.c.until_unix_s.is_(None), table.c.until_unix_s > at_unix_s)
    return and_(table.c.released_unix_s.is_(None), over)
