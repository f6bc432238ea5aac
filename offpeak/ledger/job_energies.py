"""What each job drew, by its number and its start: for replays that charge jobs at another hour."""

from collections.abc import Mapping

from sqlalchemy import Connection, select

from offpeak.ledger.tables import jobs
from offpeak.time_range import TimeRange


def job_energies(connection: Connection, span: TimeRange) -> Mapping[tuple[str, int], float]:
    """Return the energy [J] of the jobs that ran in that time, by number and start [Unix s]; unknown ones lack."""
    ran = (jobs.c.ended_unix_s > span.from_unix_s) & (jobs.c.started_unix_s < span.until_unix_s)
    found = connection.execute(select(jobs.c.job, jobs.c.started_unix_s, jobs.c.energy_j).where(ran))
    return {(row.job, round(row.started_unix_s)): row.energy_j for row in found if row.energy_j is not None}
