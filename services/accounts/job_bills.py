"""The bill of each ended job: its energy, its cost, and what it would have cost from its submission on.

The cost at the submission is that of the same energy at the mean price of as long a time from the submission on. The
difference is each job's own part of what waiting saved; savings of sleeping nodes belong to no job.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from sqlalchemy import Connection, or_, select

from offpeak.errors import BadInput
from offpeak.ledger.database import query_ledger
from offpeak.ledger.prices import MeanPrice, mean_prices, slot_intensities
from offpeak.ledger.records import decisions_of
from offpeak.ledger.tables import credits, job_gpus, jobs
from offpeak.model.constants import J_PER_MWH
from offpeak.model.time_range import TimeRange
from offpeak.plugin.queue_hook.positions import EXPECTED_SAVING, TASKS, expected_saving
from offpeak.plugin.scheduler.job import array_of
from offpeak.services.accounts.job_use import PRICED

MOST_JOBS = 1000
"""A reply has the latest so many jobs."""
MOST_DECISIONS = 100


@dataclass(frozen=True)
class JobBill:
    """The bill of an ended job; `at_submission_cost`, CO2 and the submission are None where they are not known.

    Then follows what its `tier` has moved from its start at `baseline_unix_s`, "" and None if it moved nothing:
    `expected_saving` is what the last decision before its start expected, `tier_saved` what came of it. The other
    fields are the GPU-seconds of its allocation, those that were idle and those that were busy for certain, and
    the energy and cost of the idle ones; None if it had no GPU, or if that is not known.
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
    gpu_s: float | None = None
    gpu_idle_s: float | None = None
    gpu_busy_s: float | None = None
    gpu_idle_j: float | None = None
    gpu_idle_cost: float | None = None
    carbon_g: float | None = None
    carbon_why: str = ""
    """Why its CO2 is not known."""
    expected_saving: float | None = None

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
    return query_ledger(url, job_bills, query)


def job_bills(connection: Connection, query: BillQuery) -> tuple[JobBill, ...]:
    """Return the bills of the jobs, the latest first. If prices are in two currencies, no difference is known."""
    ended = (jobs.c.ended_unix_s >= query.span.from_unix_s) & (jobs.c.ended_unix_s < query.span.until_unix_s)
    same = (credits.c.job == jobs.c.job) & (credits.c.started_unix_s == jobs.c.started_unix_s)
    saved = credits.c.saved.label("tier_saved")
    moved = (credits.c.tier, credits.c.baseline_unix_s, credits.c.shifted_j, saved, credits.c.credit)
    of_job = (job_gpus.c.job == jobs.c.job) & (job_gpus.c.started_unix_s == jobs.c.started_unix_s)
    named = {"gpu_s": "allocated_s"} | {f"gpu_{name}": name for name in ("idle_s", "busy_s", "idle_j", "idle_cost")}
    gpus = (job_gpus.c[column].label(name) for name, column in named.items())
    found = select(jobs, *moved, *gpus).outerjoin(credits, same).outerjoin(job_gpus, of_job).where(ended)
    if query.user is not None:
        found = found.where(jobs.c.user == query.user)
    if query.job is not None:
        # An array's tasks are 7_1 or 7[1].server, and a job of PBS has the name of its server.
        parts = (jobs.c.job.startswith(f"{query.job}{mark}", autoescape=True) for mark in "._[")
        found = found.where(or_(jobs.c.job == query.job, *parts))
    rows = connection.execute(found.order_by(jobs.c.ended_unix_s.desc(), jobs.c.job).limit(MOST_JOBS)).all()
    ran = [row for row in rows if row.ended_unix_s > row.started_unix_s]
    as_it_ran = _mean_prices(connection, [TimeRange(row.started_unix_s, row.ended_unix_s) for row in ran])
    during = dict(zip(map(_run, ran), as_it_ran, strict=True))
    timed = [row for row in ran if row.submitted_unix_s is not None]
    spans = [
        TimeRange(row.submitted_unix_s, row.submitted_unix_s + row.ended_unix_s - row.started_unix_s) for row in timed
    ]
    changes = {
        _run(row): _difference(row.energy_j, before, during[_run(row)])
        for row, before in zip(timed, _mean_prices(connection, spans), strict=True)
    }
    bills = (_bill(row, changes.get(_run(row)), during.get(_run(row))) for row in rows)
    return tuple(
        replace(bill, expected_saving=_expected_saving(connection, bill)) if bill.tier else bill for bill in bills
    )


def _expected_saving(connection: Connection, bill: JobBill) -> float | None:
    """Return what the last decision before the start of the job expected of it, a task's part of that of its array."""
    for name in filter(None, (bill.job, array_of(bill.job))):
        decided = decisions_of(connection, f"job {name}", most=MOST_DECISIONS)
        inputs = [dict(each["inputs"]) for each in decided if each["at_unix_s"] <= bill.started_unix_s]
        # Decisions of older programs do not say of how many tasks they are.
        known = [each for each in inputs if EXPECTED_SAVING in each and (name == bill.job or TASKS in each)]
        if known:
            return expected_saving(known[0], tasks=1)
    return None


def _run(row: Any) -> tuple[str, float]:
    return row.job, row.started_unix_s


def _mean_prices(connection: Connection, spans: Sequence[TimeRange]) -> list[MeanPrice]:
    try:
        return mean_prices(connection, spans)
    except BadInput:
        return mean_prices(connection, spans, read_prices=slot_intensities)


def _difference(energy_j: float | None, before: MeanPrice, after: MeanPrice) -> float | None:
    """Return how much more this energy costs at the price before; None unless both are known, in one currency."""
    if energy_j is None or before.price_per_mwh is None or after.price_per_mwh is None:
        return None
    if min(before.known, after.known) < PRICED or before.currency != after.currency:
        return None
    return energy_j * (before.price_per_mwh - after.price_per_mwh) / J_PER_MWH


FIELDS = frozenset(field.name for field in fields(JobBill))


def _bill(row: Any, difference: float | None, during: MeanPrice | None) -> JobBill:
    known = {name: value for name, value in row._mapping.items() if name in FIELDS}
    before = None if row.cost is None or difference is None else row.cost + difference
    why = "" if row.carbon_g is not None else _why_no_carbon(row, during)
    return JobBill(**{**known, "tier": row.tier or "", "at_submission_cost": before, "carbon_why": why})


def _why_no_carbon(row: Any, during: MeanPrice | None) -> str:
    if row.energy_j is None or during is None:
        return "no energy is known" if row.energy_j is None else "it did not run for a second"
    if during.carbon_known >= PRICED:
        return "the carbon intensity was not known at the booking"
    return f"the ledger has a carbon intensity for less than {100 * PRICED:.0f} % of the time"


def bills_json(bills: Sequence[JobBill]) -> list[dict[str, Any]]:
    """Return the bills as JSON objects."""
    return [asdict(bill) for bill in bills]


def parse_bills(reply: object) -> tuple[JobBill, ...]:
    """Return the bills of `bills_json`. Raises ValueError if it is something else."""
    try:
        return tuple(JobBill(**fields) for fields in reply)  # type: ignore[attr-defined]
    except TypeError as problem:
        raise ValueError(f"no bills: {problem}") from None
