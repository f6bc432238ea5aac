"""What the ledger knows while no agent answers."""

from collections import Counter
from typing import Any

from offpeak.ledger.database import open_ledger
from offpeak.ledger.records import decisions_of, last_written_unix_s, latest_states
from offpeak.settings.ledger import LedgerSettings

MOST = 20


def node_counts(settings: LedgerSettings) -> list[tuple[str, int]]:
    """Return how many nodes were in which state when each was written last; errors as `opened`."""
    with open_ledger(settings.url) as connection:
        return sorted(Counter(each.observed for each in latest_states(connection).values()).items())


def decided_of(settings: LedgerSettings, subject: str) -> list[dict[str, Any]]:
    """Return the latest decisions about it, newest first; errors as `opened`."""
    with open_ledger(settings.url) as connection:
        return decisions_of(connection, subject, most=MOST)


def silent_since(settings: LedgerSettings) -> float | None:
    """Return when something was written last [Unix s]; errors as `opened`."""
    with open_ledger(settings.url) as connection:
        return last_written_unix_s(connection)
