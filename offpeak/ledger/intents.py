"""The door's intents in their table."""

from typing import Any

from sqlalchemy import Connection, and_, func, insert, not_, or_, select

from offpeak.door.effect import DONE, ON, REFUSED, SCHEDULER, TO_NODES, Effect, Outcome
from offpeak.door.journal import Done, Intent
from offpeak.ledger.tables import intents, outcomes


def effect_columns(effect: Effect, at_unix_s: float) -> dict[str, Any]:
    """Return an effect as columns."""
    return {"at_unix_s": at_unix_s} | vars(effect)


def add(connection: Connection, effect: Effect, at_unix_s: float) -> int:
    """Write an intent and return its number."""
    key = connection.execute(insert(intents).values(effect_columns(effect, at_unix_s))).inserted_primary_key
    assert key is not None
    return int(key[0])


def unfinished(connection: Connection) -> tuple[Intent, ...]:
    """Return the intents without an outcome, the oldest first."""
    without = select(intents).outerjoin(outcomes).where(outcomes.c.intent.is_(None)).order_by(intents.c.number)
    return tuple(_intent(row._asdict()) for row in connection.execute(without))


def last_orders(connection: Connection) -> tuple[Intent, ...]:
    """Return the last order to each node that may have worked, but for wakes for the scheduler."""
    counts = and_(intents.c.order.in_(sorted(TO_NODES)), not_(and_(intents.c.order == ON, intents.c.by == SCHEDULER)))
    not_sent = select(outcomes.c.intent).where(outcomes.c.result == REFUSED)
    accepted = select(outcomes.c.intent).where(outcomes.c.result == DONE)
    worked = or_(
        and_(intents.c.order != ON, intents.c.number.not_in(not_sent)),
        and_(intents.c.order == ON, intents.c.number.in_(accepted)),
    )
    last = select(func.max(intents.c.number)).where(counts, worked).group_by(intents.c.subject)
    return tuple(
        _intent(row._asdict()) for row in connection.execute(select(intents).where(intents.c.number.in_(last)))
    )


def recent(connection: Connection, since_unix_s: float) -> tuple[Done, ...]:
    """Return the intents since then, those of a clock that went back too, with what became of them."""
    ended = [outcomes.c[name].label(f"ended_{name}") for name in ("at_unix_s", "result", "said", "trouble")]
    both = select(intents, *ended).outerjoin(outcomes).where(intents.c.at_unix_s >= since_unix_s)
    return tuple(_done(row._asdict()) for row in connection.execute(both.order_by(intents.c.number)))


def _done(row: dict[str, Any]) -> Done:
    if row["ended_result"] is None:
        return Done(_intent(row))
    outcome = Outcome(row["ended_result"], row["ended_said"], row["ended_trouble"])
    return Done(_intent(row), outcome, row["ended_at_unix_s"])


def _intent(row: dict[str, Any]) -> Intent:
    inputs = tuple((name, value) for name, value in row["inputs"])
    effect = Effect(row["subject"], row["order"], row["by"], row["reason"], inputs)
    return Intent(row["number"], effect, row["at_unix_s"])
