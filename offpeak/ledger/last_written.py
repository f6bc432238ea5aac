"""When something was written last: since then the agent, or whoever wrote, has been silent."""

from sqlalchemy import Connection, func, select

from offpeak.ledger.tables import decisions, intents, refusals, states


def last_written_unix_s(connection: Connection) -> float | None:
    """Return the time of the latest decision, order, refusal or state; None where there is none."""
    tables = (decisions, intents, refusals, states)
    latest = [connection.execute(select(func.max(table.c.at_unix_s))).scalar() for table in tables]
    return max((each for each in latest if each is not None), default=None)
