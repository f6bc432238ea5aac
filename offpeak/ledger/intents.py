"""The door's intents in their table."""

from typing import Any

from sqlalchemy import Connection, insert, select

from offpeak.door.effect import Effect
from offpeak.door.journal import Intent
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


def _intent(row: dict[str, Any]) -> Intent:
    inputs = tuple((name, value) for name, value in row["inputs"])
    effect = Effect(row["subject"], row["order"], row["by"], row["reason"], inputs)
    return Intent(row["number"], effect, row["at_unix_s"])
