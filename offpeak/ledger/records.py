"""The decisions, actions, refusals, node states and savings of a time, the oldest first, and counts of them.

The time of the last row shows since when the agent has been silent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, case, func, literal, null, select, union_all

from offpeak.door.effect import ADMIN
from offpeak.ledger.database import open_ledger
from offpeak.ledger.rows import NodeStateRecord
from offpeak.ledger.tables import decisions, intents, outcomes, refusals, savings, states
from offpeak.model.orders import NodeChange, NodeOrder, QueueChange
from offpeak.model.time_range import TimeRange

Record = dict[str, Any]


def decisions_in(connection: Connection, span: TimeRange, nodes: Sequence[str] = ()) -> list[Record]:
    """Return the decisions; of these nodes only, if any are named."""
    columns = [column for column in decisions.columns if column.name != "number"]
    found = select(*columns).where(_within(decisions, span), _of(decisions.c.subject, nodes))
    return _records(connection, found.order_by(decisions.c.at_unix_s, decisions.c.number))


def decisions_of(connection: Connection, subject: str, *, most: int) -> list[Record]:
    """Return the latest decisions of one node or job, the newest first."""
    columns = [column for column in decisions.columns if column.name != "number"]
    of_it = select(*columns).where(decisions.c.subject == subject)
    newest = of_it.order_by(decisions.c.at_unix_s.desc(), decisions.c.number.desc())
    return _records(connection, newest.limit(most))


def actions_in(connection: Connection, span: TimeRange, nodes: Sequence[str] = ()) -> list[Record]:
    """Return the effects with their outcomes ("open" without one), and the refusals with their rules."""
    done = _done().where(_within(intents, span), _of(intents.c.subject, nodes))
    refused = _refused().where(_within(refusals, span), _of(refusals.c.subject, nodes))
    both = union_all(done, refused)
    return _records(connection, both.order_by(*(both.selected_columns[name] for name in ("at_unix_s", "intent"))))


def latest_decisions(connection: Connection, *, most: int) -> list[Record]:
    """Return the latest decisions of all subjects, the newest first."""
    columns = [column for column in decisions.columns if column.name != "number"]
    return _records(connection, select(*columns).order_by(decisions.c.number.desc()).limit(most))


def latest_actions(connection: Connection, *, most: int) -> list[Record]:
    """Return the latest effects and refusals as `actions_in` does, the newest first."""
    done = _records(connection, _done().order_by(intents.c.number.desc()).limit(most))
    refused = _records(connection, _refused().order_by(refusals.c.number.desc()).limit(most))
    return sorted((*done, *refused), key=lambda each: float(each["at_unix_s"]), reverse=True)[:most]


def states_in(connection: Connection, span: TimeRange, nodes: Sequence[str] = ()) -> list[Record]:
    """Return the changes of node states, preceded by the state of each node at the begin."""
    latest = select(states.c.node, func.max(states.c.at_unix_s).label("at_unix_s"))
    latest = latest.where(states.c.at_unix_s <= span.from_unix_s, _of(states.c.node, nodes)).group_by(states.c.node)
    was = latest.subquery()
    at_start = select(states).join(was, and_(states.c.node == was.c.node, states.c.at_unix_s == was.c.at_unix_s))
    after = and_(states.c.at_unix_s > span.from_unix_s, states.c.at_unix_s < span.until_unix_s)
    since = select(states).where(after, _of(states.c.node, nodes))
    both = union_all(at_start, since)
    return _records(connection, both.order_by(*(both.selected_columns[name] for name in ("at_unix_s", "node"))))


def latest_states(connection: Connection) -> dict[str, NodeStateRecord]:
    """Return the last state of every node."""
    last = select(states.c.node, func.max(states.c.at_unix_s).label("at_unix_s")).group_by(states.c.node).subquery()
    same = and_(states.c.node == last.c.node, states.c.at_unix_s == last.c.at_unix_s)
    found = connection.execute(select(states).join(last, same).order_by(states.c.node))
    names = [field.name for field in fields(NodeStateRecord)]
    return {row.node: NodeStateRecord(*(getattr(row, name) for name in names)) for row in found}


def savings_in(connection: Connection, span: TimeRange) -> list[Record]:
    """Return the savings of the periods that begin in that time, against each baseline."""
    began = and_(savings.c.from_unix_s >= span.from_unix_s, savings.c.from_unix_s < span.until_unix_s)
    return _records(connection, select(savings).where(began).order_by(*savings.primary_key))


def _done() -> Select[Any]:
    result = case((outcomes.c.result.is_(None), "open"), else_=outcomes.c.result).label("result")
    what = [intents.c[name] for name in ("at_unix_s", "subject", "order", "by", "reason", "inputs")]
    return select(
        *what,
        result,
        func.coalesce(outcomes.c.said, "").label("said"),
        case((outcomes.c.result == "refused", outcomes.c.trouble), else_="").label("rule"),
        outcomes.c.at_unix_s.label("ended_unix_s"),
        intents.c.number.label("intent"),
    ).outerjoin(outcomes)


def _refused() -> Select[Any]:
    what = [refusals.c[name] for name in ("at_unix_s", "subject", "order", "by", "reason", "inputs")]
    result = literal("refused").label("result")
    return select(*what, result, refusals.c.said, refusals.c.rule, refusals.c.at_unix_s, null().label("intent"))


def _within(table: Table, span: TimeRange) -> ColumnElement[bool]:
    return and_(table.c.at_unix_s >= span.from_unix_s, table.c.at_unix_s < span.until_unix_s)


def _of(column: ColumnElement[str], nodes: Sequence[str]) -> ColumnElement[bool]:
    return column.in_(nodes) if nodes else literal(True)


def _records(connection: Connection, found: Any) -> list[Record]:
    return [row._asdict() for row in connection.execute(found)]


QUEUE_ORDERS = (str(QueueChange.RANK), str(QueueChange.DEFER))
NODE_ORDERS = tuple(map(str, (NodeOrder.STANDBY, NodeOrder.SOFT_OFF, NodeOrder.HARD_OFF, NodeChange.POWER_DOWN)))
"""The orders that put a node to sleep."""
KEPT_NODE_ORDERS = (*NODE_ORDERS, str(NodeChange.CLOSE), str(NodeChange.WITHDRAW))
"""The orders that show that a node would sleep, when they are refused: the first of them closes the node to jobs."""


def own_orders(connection: Connection, span: TimeRange, orders: Sequence[str], rule: str = "") -> list[float]:
    """Return the times [Unix s] of offpeak's own orders of these kinds, to queues or to nodes, that were done, or
    instead those that a rule of the door refused."""
    table = refusals if rule else intents
    at, own = table.c.at_unix_s, ~table.c.by.startswith(ADMIN, autoescape=True)
    found = select(at).where(_within(table, span), table.c.order.in_(orders), own).order_by(at)
    which = found.where(refusals.c.rule == rule) if rule else found.join(outcomes).where(outcomes.c.result == "done")
    return list(connection.execute(which).scalars())


def last_written_unix_s(connection: Connection) -> float | None:
    """Return the time of the latest decision, order, refusal or state; None if there is none."""
    tables = (decisions, intents, refusals, states)
    latest = [connection.execute(select(func.max(table.c.at_unix_s))).scalar() for table in tables]
    return max((each for each in latest if each is not None), default=None)


REFUSED = "refused"


@dataclass
class ActionCounts:
    """Counts orders by their outcome, without those from before the first count."""

    _before: tuple[int, int] | None = None

    def read(self, url: str) -> Mapping[tuple[str, str], int]:
        """Return the counts by order and result; errors as `opened`. It waits for the disk."""
        with open_ledger(url) as connection:
            if self._before is None:
                self._before = (_last_number(connection, intents.c.number), _last_number(connection, refusals.c.number))
            return _count_actions(connection, *self._before)


def _count_actions(connection: Connection, intent: int, refusal: int) -> dict[tuple[str, str], int]:
    done = select(intents.c.order, outcomes.c.result, func.count()).join(outcomes)
    done = done.where(intents.c.number > intent).group_by(intents.c.order, outcomes.c.result)
    refused = select(refusals.c.order, func.count()).where(refusals.c.number > refusal).group_by(refusals.c.order)
    counts = {(order, result): count for order, result, count in connection.execute(done)}
    return counts | {(order, REFUSED): count for order, count in connection.execute(refused)}


def _last_number(connection: Connection, number: Any) -> int:
    return int(connection.execute(select(func.coalesce(func.max(number), 0))).scalar_one())
