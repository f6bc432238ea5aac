"""Holds in their table: at most one of a node is open, ended ones stay."""

from sqlalchemy import ColumnElement, Connection, and_, insert, or_, select, update

from offpeak.door.effect import ADMIN
from offpeak.door.hold import Hold
from offpeak.errors import BadInput
from offpeak.ledger.tables import holds as table

COLUMNS = (table.c.node, table.c.owner, table.c.reason, table.c.until_unix_s)


def add(connection: Connection, node: str, hold: Hold, at_unix_s: float) -> None:
    """Begin a hold; the owner's own is replaced. BadInput where another owner holds the node."""
    other = holds(connection, at_unix_s).get(node)
    if other is not None and other.owner != hold.owner:
        hint = f"ask {other.owner} first, then: offpeak node {node} release --take-over"
        raise BadInput(f"{node}: is held by {other.owner}: {other.reason}", hint=hint)
    release(connection, node, by=hold.owner, at_unix_s=at_unix_s)
    connection.execute(insert(table).values({"node": node, "since_unix_s": at_unix_s} | vars(hold)))


def release(connection: Connection, node: str, *, by: str, at_unix_s: float, take_over: bool = False) -> Hold | None:
    """End the hold of a node and return it; BadInput where it is another's and is not taken over."""
    found = holds(connection, at_unix_s).get(node)
    if found and not take_over and found.owner != by.removeprefix(ADMIN):
        hint = f"ask {found.owner} first, then: offpeak node {node} release --take-over"
        raise BadInput(f"{node}: is held by {found.owner}: {found.reason}", hint=hint)
    if found:
        ended = {"released_unix_s": at_unix_s, "released_by": by}
        connection.execute(update(table).where(table.c.node == node, _open(at_unix_s)).values(ended))
    return found


def holds(connection: Connection, at_unix_s: float) -> dict[str, Hold]:
    """Return the open holds, by node."""
    found = connection.execute(select(*COLUMNS).where(_open(at_unix_s)).order_by(table.c.node))
    return {node: Hold(*rest) for node, *rest in found}


def _open(at_unix_s: float) -> ColumnElement[bool]:
    over = or_(table.c.until_unix_s.is_(None), table.c.until_unix_s > at_unix_s)
    return and_(table.c.released_unix_s.is_(None), over)
