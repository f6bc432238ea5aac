"""The jobs that a broker submits to sites: one row a key, changed only by a writer that knows its last state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, false, func, or_, select, update

from offpeak.ledger.backlog import insert_if_new
from offpeak.ledger.rows import SubmissionRecord, columns_of
from offpeak.ledger.tables import submissions as table


@dataclass(frozen=True)
class SiteSubmissions:
    """Jobs that were sent to sites: the `recent` ones, and the requested `core_s` of older ones by site and project."""

    recent: tuple[SubmissionRecord, ...]
    core_s: Mapping[tuple[str, str], float]


def find_submission(connection: Connection, key: str) -> SubmissionRecord | None:
    """Return the row of the key, None if there is none."""
    row = connection.execute(select(table).where(table.c.key == key)).one_or_none()
    return None if row is None else SubmissionRecord(*row)


def first_submissions(connection: Connection, state: str, most: int) -> tuple[SubmissionRecord, ...]:
    """Return the rows in that state, those tried first, as many at most."""
    found = select(table).where(table.c.state == state).order_by(table.c.tried_unix_s, table.c.key).limit(most)
    return tuple(SubmissionRecord(*row) for row in connection.execute(found))


def list_submissions(
    connection: Connection, states: Sequence[str], recent_unix_s: float, since_unix_s: Mapping[str, float]
) -> SiteSubmissions:
    """Return the rows in one of these states that were tried since `recent_unix_s`, in that order, and sums of others.

    Those are of the jobs before it, at each site that is named since its time.
    """
    found = select(table).where(table.c.tried_unix_s >= recent_unix_s, table.c.state.in_(states))
    rows = connection.execute(found.order_by(table.c.tried_unix_s, table.c.key))
    recent = tuple(SubmissionRecord(*row) for row in rows)
    tried = table.c.tried_unix_s
    in_time = or_(*(and_(table.c.site == site, tried >= since) for site, since in since_unix_s.items()), false())
    return SiteSubmissions(recent, _sums(connection, and_(in_time, tried < recent_unix_s, table.c.state.in_(states))))


def _sums(connection: Connection, which: ColumnElement[bool]) -> dict[tuple[str, str], float]:
    answer = table.c.answer
    held_s = func.coalesce(answer["held_s"].as_float(), answer["expected", "run_s"].as_float(), 0.0)
    core_s = func.coalesce(answer["expected", "cores"].as_float(), 0.0) * held_s
    columns = (table.c.site, answer["project"].as_string().label("project"), core_s.label("core_s"))
    each = select(*columns).where(which).subquery()
    keys = (each.c.site, each.c.project)
    rows = connection.execute(select(*keys, func.sum(each.c.core_s)).where(each.c.project.is_not(None)).group_by(*keys))
    return {(site, project): float(total) for site, project, total in rows}


def change_submission(connection: Connection, was: SubmissionRecord | None, now: SubmissionRecord) -> bool:
    """Update or insert a row; return False if another process has changed it since it was read."""
    # What was written comes back: PostgreSQL's driver does not always count it.
    if was is None:
        begun = insert_if_new(connection, table).values(columns_of(now)).returning(table.c.key)
        return connection.execute(begun).first() is not None
    same = and_(table.c.key == was.key, table.c.state == was.state, table.c.tried_unix_s == was.tried_unix_s)
    changed = update(table).where(same).values(columns_of(now)).returning(table.c.key)
    return connection.execute(changed).first() is not None
