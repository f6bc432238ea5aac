"""The door's intents and the admins' holds in their tables. At most one hold of a node is open; ended ones stay."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, insert, not_, or_, select, update

from offpeak.door.effect import ADMIN, DONE, REFUSED, SCHEDULER, Effect, Hold, Outcome
from offpeak.door.journal import Intent, IntentResult
from offpeak.errors import BadInput
from offpeak.ledger.tables import holds as table
from offpeak.ledger.tables import intents, outcomes
from offpeak.model.orders import NodeOrder, parse_order


def effect_columns(effect: Effect, at_unix_s: float) -> dict[str, Any]:
    """Return an effect as columns."""
    return {"at_unix_s": at_unix_s} | vars(effect) | {"order": str(effect.order)}


def add_intents(connection: Connection, rows: Sequence[dict[str, Any]]) -> list[int]:
    """Write intents and return their numbers in the same order."""
    statement = insert(intents).returning(intents.c.number, sort_by_parameter_order=True)
    return list(connection.execute(statement, rows).scalars())


def unfinished_intents(connection: Connection) -> tuple[Intent, ...]:
    """Return the intents without an outcome, the oldest first."""
    without = select(intents).outerjoin(outcomes).where(outcomes.c.intent.is_(None)).order_by(intents.c.number)
    return tuple(_intent(row._asdict()) for row in connection.execute(without))


def last_orders(connection: Connection) -> tuple[Intent, ...]:
    """Return the last order to each node that may have had an effect, except wakes for the scheduler."""
    on = NodeOrder.ON.value
    to_nodes = intents.c.order.in_([order.value for order in NodeOrder])
    counts = and_(to_nodes, not_(and_(intents.c.order == on, intents.c.by == SCHEDULER)))
    not_sent = select(outcomes.c.intent).where(outcomes.c.result == REFUSED)
    accepted = select(outcomes.c.intent).where(outcomes.c.result == DONE)
    worked = or_(
        and_(intents.c.order != on, intents.c.number.not_in(not_sent)),
        and_(intents.c.order == on, intents.c.number.in_(accepted)),
    )
    last = select(func.max(intents.c.number)).where(counts, worked).group_by(intents.c.subject)
    return tuple(
        _intent(row._asdict()) for row in connection.execute(select(intents).where(intents.c.number.in_(last)))
    )


def recent_intents(connection: Connection, since_unix_s: float) -> tuple[IntentResult, ...]:
    """Return the intents since then with their outcomes, including intents with times in the future."""
    ended = [outcomes.c[name].label(f"ended_{name}") for name in ("at_unix_s", "result", "said", "trouble")]
    both = select(intents, *ended).outerjoin(outcomes).where(intents.c.at_unix_s >= since_unix_s)
    return tuple(_intent_result(row._asdict()) for row in connection.execute(both.order_by(intents.c.number)))


def _intent_result(row: dict[str, Any]) -> IntentResult:
    if row["ended_result"] is None:
        return IntentResult(_intent(row))
    outcome = Outcome(row["ended_result"], row["ended_said"], row["ended_trouble"])
    return IntentResult(_intent(row), outcome, row["ended_at_unix_s"])


def _intent(row: dict[str, Any]) -> Intent:
    inputs = tuple((name, value) for name, value in row["inputs"])
    effect = Effect(row["subject"], parse_order(row["order"]), row["by"], row["reason"], inputs)
    return Intent(row["number"], effect, row["at_unix_s"])


HOLD_COLUMNS = (table.c.node, table.c.owner, table.c.reason, table.c.until_unix_s)


def add_hold(connection: Connection, node: str, hold: Hold, at_unix_s: float) -> None:
    """Begin a hold; the owner's own is replaced. Raises BadInput if another owner holds the node."""
    release_hold(connection, node, by=hold.owner, at_unix_s=at_unix_s)
    connection.execute(insert(table).values({"node": node, "since_unix_s": at_unix_s} | vars(hold)))


def release_hold(
    connection: Connection, node: str, *, by: str, at_unix_s: float, take_over: bool = False
) -> Hold | None:
    """End the hold of a node and return it. Raises BadInput if it is another's and is not taken over."""
    found = open_holds(connection, at_unix_s).get(node)
    if found and not take_over and found.owner != by.removeprefix(ADMIN):
        hint = f"ask {found.owner} first, then: offpeak nodes {node} release --take-over"
        raise BadInput(f"{node}: is held by {found.owner}: {found.reason}", hint=hint)
    if found:
        ended = {"released_unix_s": at_unix_s, "released_by": by}
        connection.execute(update(table).where(table.c.node == node, _is_open(at_unix_s)).values(ended))
    return found


def open_holds(connection: Connection, at_unix_s: float) -> dict[str, Hold]:
    """Return the open holds, by node."""
    found = connection.execute(select(*HOLD_COLUMNS).where(_is_open(at_unix_s)).order_by(table.c.node))
    return {node: Hold(*rest) for node, *rest in found}


def _is_open(at_unix_s: float) -> ColumnElement[bool]:
    over = or_(table.c.until_unix_s.is_(None), table.c.until_unix_s > at_unix_s)
    return and_(table.c.released_unix_s.is_(None), over)
