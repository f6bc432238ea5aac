"""How many orders came to what since somebody began to count."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from offpeak.ledger.opened import opened
from offpeak.ledger.tables import intents, outcomes, refusals

REFUSED = "refused"


@dataclass
class ActionCounts:
    """Counts orders by what became of them; those that were in the ledger before the first count are left out."""

    _before: tuple[int, int] | None = None

    def read(self, url: str) -> Mapping[tuple[str, str], int]:
        """Return the counts by order and result; errors as `opened`. It waits for the disk."""
        with opened(url) as connection:
            if self._before is None:
                self._before = (_last(connection, intents.c.number), _last(connection, refusals.c.number))
            return _counts(connection, *self._before)


def _counts(connection: Connection, intent: int, refusal: int) -> dict[tuple[str, str], int]:
    done = select(intents.c.order, outcomes.c.result, func.count()).join(outcomes)
    done = done.where(intents.c.number > intent).group_by(intents.c.order, outcomes.c.result)
    refused = select(refusals.c.order, func.count()).where(refusals.c.number > refusal).group_by(refusals.c.order)
    counts = {(order, result): count for order, result, count in connection.execute(done)}
    return counts | {(order, REFUSED): count for order, count in connection.execute(refused)}


def _last(connection: Connection, number: Any) -> int:
    return int(connection.execute(select(func.coalesce(func.max(number), 0))).scalar_one())
