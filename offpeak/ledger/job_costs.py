"""The energy and cost of jobs: by group, by account for bills and reports, and job by job for replays at another hour.

A job counts as a whole where it ended, as on a bill.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, func, select

from offpeak.ledger.energy_use import EnergyUse, periods
from offpeak.ledger.meter_choice import temporary_table
from offpeak.ledger.tables import job_gpus, jobs
from offpeak.model.time_range import TimeRange


@dataclass(frozen=True)
class AccountUse:
    """The jobs of one account that ended in a time, in one currency, by the basis of their energy.

    `measured_j` is the energy of jobs whose nodes were measured all the time, `partly_j` of those measured for a part
    of it, `modelled_j` of the others; `unknown` jobs have no energy at all. `cost` is None if no job has one;
    `unpriced_j` is of jobs without a cost, `without_carbon_j` of those without CO2. `node_s` are the node-seconds,
    None if the nodes of a job are not known.
    """

    account: str
    currency: str
    jobs: int
    unknown: int
    measured_j: float
    partly_j: float
    modelled_j: float
    cost: float | None
    unpriced_j: float
    carbon_g: float | None
    without_carbon_j: float = 0.0
    node_s: float | None = None

    @property
    def energy_j(self) -> float:
        """All of it."""
        return self.measured_j + self.partly_j + self.modelled_j


def account_uses(connection: Connection, span: TimeRange) -> list[AccountUse]:
    """Return a row an account and currency, by name. A job counts as a whole where it ended, as on a bill."""
    is_modelled = jobs.c.basis.contains("modelled", autoescape=True)
    node_s = jobs.c.node_count * (jobs.c.ended_unix_s - jobs.c.started_unix_s)
    is_partly = is_modelled & jobs.c.basis.startswith("measured", autoescape=True)
    sums = [
        func.count(),
        func.count() - func.count(jobs.c.energy_j),
        _energy_where(~is_modelled),
        _energy_where(is_partly),
        _energy_where(is_modelled & ~is_partly),
        func.sum(jobs.c.cost),
        _energy_where(jobs.c.cost.is_(None)),
        func.sum(jobs.c.carbon_g),
        _energy_where(jobs.c.carbon_g.is_(None)),
        case((func.count(jobs.c.node_count) == func.count(), func.sum(node_s))),
    ]
    ended = (jobs.c.ended_unix_s >= span.from_unix_s) & (jobs.c.ended_unix_s < span.until_unix_s)
    groups = (jobs.c.account, jobs.c.currency)
    found = connection.execute(select(*groups, *sums).where(ended).group_by(*groups).order_by(*groups))
    return [AccountUse(*tuple(row)) for row in found]


def sum_uses(account: str, currency: str, uses: Sequence[AccountUse]) -> AccountUse:
    """Return the sum of the rows under that name; cost and CO2 are those of the rows that have one."""
    node_s = [use.node_s for use in uses if use.node_s is not None]
    return AccountUse(
        account=account,
        currency=currency,
        jobs=sum(use.jobs for use in uses),
        unknown=sum(use.unknown for use in uses),
        measured_j=sum(use.measured_j for use in uses),
        partly_j=sum(use.partly_j for use in uses),
        modelled_j=sum(use.modelled_j for use in uses),
        cost=known_sum(use.cost for use in uses),
        unpriced_j=sum(use.unpriced_j for use in uses),
        carbon_g=known_sum(use.carbon_g for use in uses),
        without_carbon_j=sum(use.without_carbon_j for use in uses),
        node_s=sum(node_s) if len(node_s) == len(uses) else None,
    )


@dataclass(frozen=True)
class GpuUse:
    """The GPU-seconds of the jobs of one user and account that ended in a time, in one currency.

    What is neither idle nor busy is not known. `idle_j` and `idle_cost` are of the idle ones, None without any cost.
    """

    account: str
    user: str
    currency: str
    jobs: int
    allocated_s: float
    idle_s: float
    busy_s: float
    idle_j: float
    idle_cost: float | None


def gpu_uses(connection: Connection, span: TimeRange) -> list[GpuUse]:
    """Return a row for each account, user and currency, the one that left most GPUs idle first.

    Jobs whose idle GPUs have no cost have a row of their own: that of the others is of all their energy.
    """
    of = job_gpus.c
    lacks_cost = of.idle_cost.is_(None) & (of.idle_j > 0)
    groups = (jobs.c.account, jobs.c.user, case((lacks_cost, ""), else_=of.currency))
    values = (of.allocated_s, of.idle_s, of.busy_s, of.idle_j, of.idle_cost)
    sums = [func.count(), *map(func.sum, values)]
    same = and_(of.job == jobs.c.job, of.started_unix_s == jobs.c.started_unix_s)
    ended = (of.ended_unix_s >= span.from_unix_s) & (of.ended_unix_s < span.until_unix_s)
    query = select(*groups, *sums).join_from(job_gpus, jobs, same).where(ended).group_by(*groups)
    found = [GpuUse(*tuple(row)) for row in connection.execute(query)]
    return sorted(found, key=lambda use: (-use.idle_s, use.account, use.user))


def known_sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values, None if none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _energy_where(condition: ColumnElement[bool]) -> ColumnElement[float]:
    return func.coalesce(func.sum(case((condition, jobs.c.energy_j), else_=0.0)), 0.0)


def job_costs(connection: Connection, span: TimeRange, by: Sequence[str], zone: tzinfo) -> list[EnergyUse]:
    """Return a row for each group of jobs that ended in that time, and each currency, in the order of the groups."""
    days = periods(span, by, zone)
    rows = [{"day": each.name, "start": each.from_unix_s, "end": each.until_unix_s} for each in days]
    with temporary_table(connection, rows) as day:
        keys = [day.c.day if name == "day" else jobs.c[name] for name in by]
        unpriced_j, without_carbon_j = (
            case((known.is_(None), jobs.c.energy_j), else_=0.0) for known in (jobs.c.cost, jobs.c.carbon_g)
        )
        values = (jobs.c.energy_j, jobs.c.cost, unpriced_j, jobs.c.carbon_g, without_carbon_j)
        sums = [func.sum(each) for each in values]
        inside = (jobs.c.ended_unix_s >= day.c.start) & (jobs.c.ended_unix_s < day.c.end)
        found = select(*keys, jobs.c.currency, *sums, func.count()).join_from(day, jobs, inside)
        groups = (*keys, jobs.c.currency)
        return [
            _energy_use(tuple(row), len(by)) for row in connection.execute(found.group_by(*groups).order_by(*groups))
        ]


def _energy_use(row: tuple[Any, ...], groups: int) -> EnergyUse:
    currency, energy_j, cost, unpriced_j, carbon_g, without_carbon_j, count = row[groups:]
    return EnergyUse(
        *(tuple(map(str, row[:groups])), energy_j or 0.0, cost, currency, unpriced_j or 0.0, carbon_g),
        jobs=count,
        without_carbon_j=without_carbon_j or 0.0,
    )
