"""Deletes expired rows a slice at a time, so that no writer waits long for its turn, or a month's partition as a whole.

`RETENTION_RULES` has every table that grows with time, `BOUNDED` the reason why each other table does not grow.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, and_, delete, exists, func, or_, select, text, true, tuple_
from sqlalchemy.dialects import sqlite

from offpeak.ledger.database import list_partitions
from offpeak.ledger.tables import (
    credits,
    decisions,
    holds,
    intents,
    job_gpus,
    jobs,
    minutes,
    outcomes,
    prices,
    quarters,
    readings,
    refusals,
    savings,
    sealed_settings,
    states,
    submissions,
)
from offpeak.model.constants import DAY_S, MINUTE_S, QUARTER_S
from offpeak.settings.ledger import LedgerSettings

SLICE_ROWS = 15_000
"""A slice: two minutes of 1,000 nodes that are read every 10 s, deleted in less than 100 ms."""
SLICE_PAGES = 2_000
"""Pages of a SQLite file that one slice frees, 8 MB."""
SPARE_SHARE = 0.2
"""Free pages that a SQLite file keeps for the next rows, as a share of all."""

LOG_S, RECORD_S, ACCOUNT_S = 90 * DAY_S, 400 * DAY_S, 1_100 * DAY_S
"""Retention of decisions; of actions, for a year's report; of energy and costs, for three years' accounts."""

PruneWork = Callable[[Connection], int | None]
"""Deletes one slice: how many rows that were, None if nothing is left."""


@dataclass(frozen=True)
class RetentionRule:
    """How long rows are kept, by which column, and which of them stay nevertheless.

    `keep_s` None: the settings decide. `bucket_s`: rows within one bucket of the coarser table are deleted together;
    `before(at, limit)` is then true for rows before the start of a bucket.
    """

    at: Column[float] | Column[int]
    keep_s: int | None
    bucket_s: int = 0
    before: Callable[[Any, Any], Any] = operator.lt
    may_go: Callable[[float], ColumnElement[bool]] = lambda _: true()
    indexed: bool = True

    @property
    def table_name(self) -> str:
        """The table's name."""
        return str(self.at.table.name)


def _is_followed(limit_unix_s: float) -> ColumnElement[bool]:
    """The last state of each node before the limit stays: it is the state at the limit."""
    later = states.alias()
    same_node = and_(later.c.node == states.c.node, later.c.at_unix_s > states.c.at_unix_s)
    return exists(select(1).where(same_node, later.c.at_unix_s < limit_unix_s))


def _is_finished(_limit_unix_s: float) -> ColumnElement[bool]:
    """Return whether an intent has its outcome: the next start of the agent settles the others."""
    return exists(select(1).where(outcomes.c.intent == intents.c.number))


def _has_ended(limit_unix_s: float) -> ColumnElement[bool]:
    """Return whether a hold was released or over by the limit."""
    return or_(holds.c.released_unix_s < limit_unix_s, holds.c.until_unix_s < limit_unix_s)


def _is_settled(_limit_unix_s: float) -> ColumnElement[bool]:
    """Return whether the result of a submission to a site is known."""
    return submissions.c.state.not_in(("waiting", "tried"))


# The time of a reading is its end, that of a minute its start.
RETENTION_RULES = (
    RetentionRule(readings.c.until_unix_s, None, MINUTE_S, operator.le),
    RetentionRule(minutes.c.at_unix_s, None, QUARTER_S),
    RetentionRule(quarters.c.at_unix_s, ACCOUNT_S, QUARTER_S),
    RetentionRule(decisions.c.at_unix_s, LOG_S),
    RetentionRule(refusals.c.at_unix_s, LOG_S),
    RetentionRule(states.c.at_unix_s, RECORD_S, may_go=_is_followed),
    # With its outcome.
    RetentionRule(intents.c.at_unix_s, RECORD_S, may_go=_is_finished),
    # Admins make holds by hand: there are few.
    RetentionRule(holds.c.since_unix_s, RECORD_S, may_go=_has_ended, indexed=False),
    RetentionRule(submissions.c.at_unix_s, RECORD_S, may_go=_is_settled),
    RetentionRule(jobs.c.ended_unix_s, ACCOUNT_S),
    RetentionRule(credits.c.ended_unix_s, ACCOUNT_S),
    RetentionRule(job_gpus.c.ended_unix_s, ACCOUNT_S),
    RetentionRule(prices.c.from_unix_s, ACCOUNT_S),
    RetentionRule(savings.c.from_unix_s, ACCOUNT_S),
    RetentionRule(sealed_settings.c.at_unix_s, ACCOUNT_S),
)

BOUNDED: Mapping[str, str] = {
    "series": "one row for each part of a meter",
    "outcomes": "one row for each intent, deleted with it",
    "marks": "rows of jobs that have not ended, or not long ago: the queue loop forgets the others",
    "memory": "one row a name, replaced by the next text of that name",
    "trial_days": "some rows for each day of a trial, which proves what was drawn beforehand",
    "lease": "one row",
    "seals": "one row for each day: without it, the chain could not be followed",
}


def keep_s(age: RetentionRule, settings: LedgerSettings) -> int:
    """Return how long rows of that table are kept."""
    kept = {readings.name: settings.keep_readings_s, minutes.name: settings.keep_minutes_s}
    return kept[age.table_name] if age.keep_s is None else age.keep_s


def prune_slice(age: RetentionRule, limit_unix_s: float) -> PruneWork:
    """Return a function that deletes the oldest slice before the limit."""
    return _buckets_slice(age, limit_unix_s) if age.bucket_s else _rows_slice(age, limit_unix_s)


def _buckets_slice(age: RetentionRule, limit_unix_s: float) -> PruneWork:
    limit_unix_s = limit_unix_s // age.bucket_s * age.bucket_s

    def work(connection: Connection) -> int | None:
        partitions = list_partitions(connection, age.table_name)
        for name in partitions:
            if name[-7:] < f"{datetime.fromtimestamp(limit_unix_s, UTC):%Y_%m}":
                # To count its rows would take minutes.
                rows = text(f"SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = '{name}'::regclass")
                dropped = int(connection.execute(rows).scalar_one())
                connection.execute(text(f"DROP TABLE {name}"))
                return dropped
        if partitions:
            return None
        oldest = connection.execute(select(func.min(age.at))).scalar()
        if oldest is None or not age.before(oldest, limit_unix_s):
            return None
        last = connection.execute(select(age.at).order_by(age.at).offset(SLICE_ROWS).limit(1)).scalar()
        # One bucket at least, however many rows it has.
        full = max(last // age.bucket_s, oldest // age.bucket_s + 1) * age.bucket_s if last else limit_unix_s
        return connection.execute(delete(age.at.table).where(age.before(age.at, min(limit_unix_s, full)))).rowcount

    return work


def _rows_slice(age: RetentionRule, limit_unix_s: float) -> PruneWork:
    keys = tuple(age.at.table.primary_key)
    oldest = select(*keys).where(age.at < limit_unix_s, age.may_go(limit_unix_s)).order_by(age.at).limit(SLICE_ROWS)

    def work(connection: Connection) -> int | None:
        found = [tuple(row) for row in connection.execute(oldest)]
        if not found:
            return None
        tables = {intents.name: ((outcomes, tuple(outcomes.primary_key)), (intents, keys))}
        for table, columns in tables.get(age.table_name, ((age.at.table, keys),)):
            for first in range(0, len(found), 500):
                connection.execute(delete(table).where(tuple_(*columns).in_(found[first : first + 500])))
        return len(found)

    return work


def give_pages_back(connection: Connection) -> int | None:
    """Shrink a SQLite file by a slice of its free pages; return their number, None if nothing is left to do.

    PostgreSQL's autovacuum takes care of its files, and so does reuse of those SQLite files that were made without
    auto_vacuum.
    """
    if connection.dialect.name != sqlite.dialect.name:
        return None

    def pragma(name: str) -> int:
        return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar() or 0)

    free, pages = pragma("freelist_count"), pragma("page_count")
    spare = int(pages * SPARE_SHARE)
    if pragma("auto_vacuum") != 2 or free <= max(spare, SLICE_PAGES):
        return None
    connection.exec_driver_sql(f"PRAGMA incremental_vacuum({min(SLICE_PAGES, free - spare)})")
    return (free - pragma("freelist_count")) or None
