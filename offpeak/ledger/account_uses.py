"""What the jobs of each account used in a time, apart by how that is known: for bills and reports."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, case, func, select

from offpeak.ledger.tables import jobs
from offpeak.time_range import TimeRange


@dataclass(frozen=True)
class AccountUse:
    """The jobs of one account that ended in a time, in one currency, by what their rows say that they rest on.

    `measured_j` is of jobs whose nodes were measured all the time, `partly_j` of those measured for a part of it,
    `modelled_j` of the others; `unknown` jobs have no energy at all. `cost` is None where no job has one; `unpriced_j`
    is of jobs without a cost.
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

    @property
    def energy_j(self) -> float:
        """All of it."""
        return self.measured_j + self.partly_j + self.modelled_j


def account_uses(connection: Connection, span: TimeRange) -> list[AccountUse]:
    """Return a row an account and currency, by name. A job counts as a whole where it ended, as on a bill."""
    is_modelled = jobs.c.basis.contains("modelled", autoescape=True)
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
    ]
    ended = (jobs.c.ended_unix_s >= span.from_unix_s) & (jobs.c.ended_unix_s < span.until_unix_s)
    groups = (jobs.c.account, jobs.c.currency)
    found = connection.execute(select(*groups, *sums).where(ended).group_by(*groups).order_by(*groups))
    return [AccountUse(*tuple(row)) for row in found]


def _energy_where(condition: ColumnElement[bool]) -> ColumnElement[float]:
    return func.coalesce(func.sum(case((condition, jobs.c.energy_j), else_=0.0)), 0.0)
