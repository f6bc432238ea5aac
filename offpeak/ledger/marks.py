"""The tables that outlive a restart: marks of jobs, texts by name, and the drawn days of trials.

A mark records a change of a job, so that it can be undone.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, and_, bindparam, delete, select

from offpeak.ledger.backlog import dialect_insert, insert_if_new
from offpeak.ledger.rows import JobMark, TrialBlock
from offpeak.ledger.tables import marks as table
from offpeak.ledger.tables import memory, trial_days
from offpeak.model.time_range import TimeRange

MARK_KEY = ("job", "submitted_unix_s", "kind")


def write_marks(connection: Connection, changed: Sequence[JobMark]) -> None:
    """Write marks; if a mark exists, its `was` stays."""
    if changed:
        added = dialect_insert(connection, table)
        later = {name: added.excluded[name] for name in ("to", "at_unix_s")}
        statement = added.on_conflict_do_update(index_elements=MARK_KEY, set_=later)
        connection.execute(statement, [dict(vars(mark)) for mark in changed])


def delete_marks(connection: Connection, undone: Sequence[JobMark]) -> None:
    """Delete these marks, independent of their current values."""
    if undone:
        same = and_(*(table.c[name] == bindparam(f"its_{name}") for name in MARK_KEY))
        connection.execute(
            delete(table).where(same), [{f"its_{name}": getattr(mark, name) for name in MARK_KEY} for mark in undone]
        )


def read_marks(connection: Connection) -> tuple[JobMark, ...]:
    """Return all marks, in the order of their keys."""
    return tuple(JobMark(*row) for row in connection.execute(select(table).order_by(*table.primary_key)))


def read_memories(connection: Connection, beginning: str) -> dict[str, str]:
    """Return all texts whose names have that prefix, by name."""
    names = memory.c.name.startswith(beginning, autoescape=True)
    found = connection.execute(select(memory.c.name, memory.c.text).where(names))
    return {row.name: row.text for row in found}


def read_memory(connection: Connection, name: str) -> str | None:
    """Return the text of that name, None if there is none."""
    return connection.execute(select(memory.c.text).where(memory.c.name == name)).scalar()


def write_trial(connection: Connection, blocks: Sequence[TrialBlock]) -> None:
    """Write the blocks of a trial; those of a trial that was drawn before stay."""
    connection.execute(insert_if_new(connection, trial_days), [vars(each) | {"is_on": +each.is_on} for each in blocks])


def read_trial(connection: Connection, trial: str | None = None) -> tuple[TrialBlock, ...]:
    """Return the blocks of a trial, of the one that was drawn last if none is named, in order of time."""
    if trial is None:
        last = select(trial_days.c.trial).order_by(trial_days.c.drawn_unix_s.desc()).limit(1)
        trial = connection.execute(last).scalar() or ""
    order = (trial_days.c[name] for name in ("from_unix_s", "lever", "partition"))
    found = connection.execute(select(trial_days).where(trial_days.c.trial == trial).order_by(*order)).mappings()
    return tuple(TrialBlock(**{**row, "is_on": bool(row["is_on"])}) for row in found)


def read_off_blocks(connection: Connection, lever: str, span: TimeRange) -> tuple[TimeRange, ...]:
    """Return the times in which any trial has the lever off, of those that touch that time."""
    begin, end = edges = trial_days.c.from_unix_s, trial_days.c.until_unix_s
    off = trial_days.c.lever == lever, trial_days.c.is_on == 0, begin < span.until_unix_s, end > span.from_unix_s
    return tuple(TimeRange(*row) for row in connection.execute(select(*edges).where(*off).order_by(begin)))
