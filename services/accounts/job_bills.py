"""The bill of each ended job: its energy, its cost, and what it would have cost from its submission on.

The cost at the submission is that of the same energy at the mean price of as long a time from the submission on. The
difference is each job's own part of what waiting saved; savings of sleeping nodes belong to no job.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Connection, func, or_, select

from offpeak.errors import BadInput
from offpeak.ledger.backlog import QUARTER_S
from offpeak.ledger.database import open_ledger
from offpeak.ledger.prices import MeanPrice, mean_prices
from offpeak.ledger.tables import credits, jobs, quarters, series
from offpeak.machines.node_sets import expand
from offpeak.model.constants import J_PER_MWH
from offpeak.model.time_range import TimeRange
from power.meters.kernel import NVIDIA_GPU
from services.accounts.job_use import PRICED

MOST_JOBS = 1000
"""A reply has the latest so many jobs."""


@dataclass(frozen=True)
class JobBill:
    """The bill of an ended job; `at_submission_cost` and the submission are None where they are not known.

    The last fields are what its `tier` has moved from its start at `baseline_unix_s`, "" and None if it moved nothing,
    and the energy of its nodes' GPUs while no program used them, None if not metered or if many jobs are asked for.
    """

    job: str
    user: str
    account: str
    partition: str
    nodes: str
    submitted_unix_s: float | None
    started_unix_s: float
    ended_unix_s: float
    energy_j: float | None
    cost: float | None
    currency: str
    at_submission_cost: float | None
    basis: str
    tier: str = ""
    baseline_unix_s: float | None = None
    shifted_j: float | None = None
    tier_saved: float | None = None
    credit: float | None = None
    unused_gpu_j: float | None = None

    @property
    def saved(self) -> float | None:
        """How much less it cost than at its submission, negative if more; None if not known."""
        if self.cost is None or self.at_submission_cost is None:
            return None
        return self.at_submission_cost - self.cost


@dataclass(frozen=True)
class BillQuery:
    """The jobs that ended in a time, of one user or of all, and one job or its array or all."""

    span: TimeRange
    user: str | None = None
    job: str | None = None


def read_job_bills(url: str, query: BillQuery) -> tuple[JobBill, ...]:
    """Return the bills of the jobs, the latest first. It waits for the disk. Raises BadLedger, BadInput."""
    with open_ledger(url) as connection:
        return job_bills(connection, query)


def job_bills(connection: Connection, query: BillQuery) -> tuple[JobBill, ...]:
    """Return the bills of the jobs, the latest first. Raises BadInput if prices are in two currencies."""
    ended = (jobs.c.ended_unix_s >= query.span.from_unix_s) & (jobs.c.ended_unix_s < query.span.until_unix_s)
    same = (credits.c.job == jobs.c.job) & (credits.c.started_unix_s == jobs.c.started_unix_s)
    moved = (credits.c.tier, credits.c.baseline_unix_s, credits.c.shifted_j, credits.c.saved, credits.c.credit)
    found = select(jobs, *moved).outerjoin(credits, same).where(ended)
    if query.user is not None:
        found = found.where(jobs.c.user == query.user)
    if query.job is not None:
        # An array's tasks are 7_1 or 7[1].server, and a job of PBS has the name of its server.
        parts = (jobs.c.job.startswith(f"{query.job}{mark}", autoescape=True) for mark in "._[")
        found = found.where(or_(jobs.c.job == query.job, *parts))
    rows = connection.execute(found.order_by(jobs.c.ended_unix_s.desc(), jobs.c.job).limit(MOST_JOBS)).all()
    timed = [row for row in rows if row.submitted_unix_s is not None and row.ended_unix_s > row.started_unix_s]
    at_submission = mean_prices(
        connection,
        [
            TimeRange(row.submitted_unix_s, row.submitted_unix_s + row.ended_unix_s - row.started_unix_s)
            for row in timed
        ],
    )
    as_it_ran = mean_prices(connection, [TimeRange(row.started_unix_s, row.ended_unix_s) for row in timed])
    changes = {
        (row.job, row.started_unix_s): _difference(row.energy_j, before, after)
        for row, before, after in zip(timed, at_submission, as_it_ran, strict=True)
    }
    bills = (_bill(row, changes.get((row.job, row.started_unix_s))) for row in rows)
    if query.job is None:
        return tuple(bills)
    return tuple(replace(bill, unused_gpu_j=_unused_gpu_j(connection, bill)) for bill in bills)


UNUSED_GPUS = f"{NVIDIA_GPU}% unused"
"""The parts of meters that draw what a GPU draws while no program uses it."""


def _unused_gpu_j(connection: Connection, bill: JobBill) -> float | None:
    """Return that energy in the whole quarter-hours of the job on all its nodes, None if it was not metered."""
    try:
        nodes = expand(bill.nodes)
    except BadInput:
        return None
    at = quarters.c.at_unix_s
    inside = (at >= bill.started_unix_s) & (at + QUARTER_S <= bill.ended_unix_s) & (quarters.c.covered_s > 0)
    gpus = series.c.part.like(UNUSED_GPUS) & series.c.node.in_(nodes)
    query = select(func.sum(quarters.c.energy_j)).select_from(quarters.join(series)).where(inside & gpus)
    return connection.execute(query).scalar()


def _difference(energy_j: float | None, before: MeanPrice, after: MeanPrice) -> float | None:
    """Return how much more this energy costs at the price before; None unless both are known."""
    if energy_j is None or before.price_per_mwh is None or after.price_per_mwh is None:
        return None
    if min(before.known, after.known) < PRICED:
        return None
    return energy_j * (before.price_per_mwh - after.price_per_mwh) / J_PER_MWH


def _bill(row: Any, difference: float | None) -> JobBill:
    return JobBill(
        job=row.job,
        user=row.user,
        account=row.account,
        partition=row.partition,
        nodes=row.nodes,
        submitted_unix_s=row.submitted_unix_s,
        started_unix_s=row.started_unix_s,
        ended_unix_s=row.ended_unix_s,
        energy_j=row.energy_j,
        cost=row.cost,
        currency=row.currency,
        at_submission_cost=None if row.cost is None or difference is None else row.cost + difference,
        basis=row.basis,
        tier=row.tier or "",
        baseline_unix_s=row.baseline_unix_s,
        shifted_j=row.shifted_j,
        tier_saved=row.saved,
        credit=row.credit,
    )


def bills_json(bills: Sequence[JobBill]) -> list[dict[str, Any]]:
    """Return the bills as JSON objects."""
    return [asdict(bill) for bill in bills]


def parse_bills(reply: object) -> tuple[JobBill, ...]:
    """Return the bills of `bills_json`. Raises ValueError if it is something else."""
    try:
        return tuple(JobBill(**fields) for fields in reply)  # type: ignore[attr-defined]
    except TypeError as problem:
        raise ValueError(f"no bills: {problem}") from None
