"""What jobs used and cost. A job counts as a whole where it ended, as on a bill."""

from collections.abc import Sequence
from datetime import tzinfo

from sqlalchemy import Connection, case, func, select

from offpeak.ledger.scratch import scratch
from offpeak.ledger.tables import jobs
from offpeak.ledger.used import Used, periods
from offpeak.time_range import TimeRange


def job_costs(connection: Connection, span: TimeRange, by: Sequence[str], zone: tzinfo) -> list[Used]:
    """Return a row for each group of jobs that ended in that time, and each currency, in the order of the groups."""
    days = periods(span, by, zone)
    rows = [{"day": each.name, "start": each.from_unix_s, "end": each.until_unix_s} for each in days]
    with scratch(connection, rows) as day:
        keys = [day.c.day if name == "day" else jobs.c[name] for name in by]
        unpriced_j = case((jobs.c.cost.is_(None), jobs.c.energy_j), else_=0.0)
        sums = [func.sum(each) for each in (jobs.c.energy_j, jobs.c.cost, unpriced_j, jobs.c.carbon_g)]
        inside = (jobs.c.ended_unix_s >= day.c.start) & (jobs.c.ended_unix_s < day.c.end)
        found = select(*keys, jobs.c.currency, *sums, func.count()).join_from(day, jobs, inside)
        groups = (*keys, jobs.c.currency)
        return [_used(tuple(row), len(by)) for row in connection.execute(found.group_by(*groups).order_by(*groups))]


def _used(row: tuple[object, ...], groups: int) -> Used:
    currency, energy_j, cost, unpriced_j, carbon_g, count = row[groups:]
    of = tuple(str(each) for each in row[:groups])
    return Used(of, _known(energy_j), _maybe(cost), str(currency), _known(unpriced_j), _maybe(carbon_g), _count(count))


def _known(value: object) -> float:
    return value if isinstance(value, float) else 0.0


def _maybe(value: object) -> float | None:
    return value if isinstance(value, float) else None


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
