"""What was decided, done and refused, what nodes were, and what that saved: rows of a time, the oldest first."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, case, func, literal, null, select, union_all

from offpeak.ledger.rows import Recorded
from offpeak.ledger.tables import decisions, intents, outcomes, refusals, savings, states
from offpeak.time_range import TimeRange

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
    """Return what was let through, with its outcome, "open" without one, and what was refused, with the rule."""
    done = _done().where(_within(intents, span), _of(intents.c.subject, nodes))
    refused = _refused().where(_within(refusals, span), _of(refusals.c.subject, nodes))
    both = union_all(done, refused)
    return _records(connection, both.order_by(*(both.selected_columns[name] for name in ("at_unix_s", "intent"))))


def latest_decisions(connection: Connection, *, most: int) -> list[Record]:
    """Return the latest decisions of all, the newest first."""
    columns = [column for column in decisions.columns if column.name != "number"]
    return _records(connection, select(*columns).order_by(decisions.c.number.desc()).limit(most))


def latest_actions(connection: Connection, *, most: int) -> list[Record]:
    """Return what was let through or refused last, as `actions_in`, the newest first."""
    done = _records(connection, _done().order_by(intents.c.number.desc()).limit(most))
    refused = _records(connection, _refused().order_by(refusals.c.number.desc()).limit(most))
    return sorted((*done, *refused), key=lambda each: float(each["at_unix_s"]), reverse=True)[:most]


def states_in(connection: Connection, span: TimeRange, nodes: Sequence[str] = ()) -> list[Record]:
    """Return what nodes came to be, and before that what each was when the time began."""
    latest = select(states.c.node, func.max(states.c.at_unix_s).label("at_unix_s"))
    latest = latest.where(states.c.at_unix_s <= span.from_unix_s, _of(states.c.node, nodes)).group_by(states.c.node)
    was = latest.subquery()
    at_start = select(states).join(was, and_(states.c.node == was.c.node, states.c.at_unix_s == was.c.at_unix_s))
    after = and_(states.c.at_unix_s > span.from_unix_s, states.c.at_unix_s < span.until_unix_s)
    since = select(states).where(after, _of(states.c.node, nodes))
    both = union_all(at_start, since)
    return _records(connection, both.order_by(*(both.selected_columns[name] for name in ("at_unix_s", "node"))))


def latest_states(connection: Connection) -> dict[str, Recorded]:
    """Return what was written last of every node."""
    last = select(states.c.node, func.max(states.c.at_unix_s).label("at_unix_s")).group_by(states.c.node).subquery()
    same = and_(states.c.node == last.c.node, states.c.at_unix_s == last.c.at_unix_s)
    found = connection.execute(select(states).join(last, same).order_by(states.c.node))
    names = [field.name for field in fields(Recorded)]
    return {row.node: Recorded(*(getattr(row, name) for name in names)) for row in found}


def savings_in(connection: Connection, span: TimeRange) -> list[Record]:
    """Return what was saved in the periods that begin in that time, against each baseline."""
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
