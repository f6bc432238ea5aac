"""What the tiers of jobs have really moved, and what the site pays for it.

A tier is worth what the agent has moved by it, not what its owner declares. The baseline is the start that the job
would have had: the time at which the agent first delayed or requeued it, and the wait that it expected then. A job that
starts no later than that, that ran in no cheaper hour, or that did not run, moved nothing. Energy and run time are
those of the run, whatever the time limit says. A mark in the ledger shows that the agent has delayed the job; shadow
mode and a begin time by the owner leave none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from offpeak.errors import BadInput
from offpeak.ledger.prices import mean_prices
from offpeak.ledger.rows import JobCredit, JobMark, JobUse
from offpeak.ledger.tables import credits, jobs
from offpeak.model.constants import J_PER_KWH, J_PER_MWH
from offpeak.model.time_range import TimeRange
from offpeak.plugin.queue_hook.positions import SHIFT
from offpeak.services.accounts.job_use import PRICED


@dataclass(frozen=True)
class CreditRates:
    """What a site pays: money per kWh that was moved into a cheaper hour, or a share of the money that it saved."""

    per_kwh: float | None = None
    share: float | None = None

    def credit(self, shifted_j: float, saved: float | None) -> float | None:
        """Return the credit; None if the site pays none, or if it is not known what was saved."""
        if saved is None or (self.per_kwh is None and self.share is None):
            return None
        if saved <= 0:
            return 0.0
        return shifted_j / J_PER_KWH * (self.per_kwh or 0.0) + saved * (self.share or 0.0)


def make_credits(
    connection: Connection,
    uses: Sequence[JobUse],
    marks: Iterable[JobMark],
    *,
    arrays: Mapping[str, str],
    rates: CreditRates,
) -> list[JobCredit]:
    """Return what was moved of these runs; `arrays` has the array of each task. A run that moved nothing has no row."""
    found: dict[tuple[str, float], list[JobMark]] = {}
    for mark in marks:
        if mark.kind.startswith(SHIFT):
            found.setdefault((mark.job, mark.submitted_unix_s), []).append(mark)
    moved = []
    for use in uses:
        names, submitted_s = (use.job, arrays.get(use.job, "")), use.submitted_unix_s or 0.0
        own = [mark for name in names for mark in found.get((name, submitted_s), ()) if mark.was < use.started_unix_s]
        # Of several the last: it belongs to this run, and an owner who raised the tier later gets no more than that.
        last = max(own, key=lambda mark: mark.was, default=None)
        if last is not None and use.energy_j and use.ended_unix_s > use.started_unix_s:
            moved.append((use, use.energy_j, last))
    spans = [
        TimeRange(begin_s, begin_s + use.ended_unix_s - use.started_unix_s)
        for use, _, mark in moved
        for begin_s in (float(mark.was), use.started_unix_s)
    ]
    try:
        prices = mean_prices(connection, spans)
    except BadInput:
        # In two currencies: what was saved has no amount.
        return []
    made = []
    for (use, energy_j, mark), before, after in zip(moved, prices[::2], prices[1::2], strict=True):
        saved = None
        if (
            before.price_per_mwh is not None
            and after.price_per_mwh is not None
            and min(before.known, after.known) >= PRICED
        ):
            saved = energy_j * (before.price_per_mwh - after.price_per_mwh) / J_PER_MWH
        shift_s, ran_s = use.started_unix_s - mark.was, use.ended_unix_s - use.started_unix_s
        shifted_j = energy_j * min(1.0, shift_s / ran_s)
        made.append(
            JobCredit(
                job=use.job,
                started_unix_s=use.started_unix_s,
                ended_unix_s=use.ended_unix_s,
                baseline_unix_s=float(mark.was),
                shifted_j=shifted_j,
                tier=mark.kind.removeprefix(SHIFT),
                saved=saved,
                currency=use.currency or before.currency,
                credit=rates.credit(shifted_j, saved),
            )
        )
    return made


def credits_by_account(connection: Connection, span: TimeRange) -> list[dict[str, Any]]:
    """Return what the tiers of each account moved, saved and earned by jobs that ended in that time."""
    sums = (
        func.count().label("jobs"),
        func.sum(credits.c.shifted_j).label("shifted_j"),
        func.sum(credits.c.saved).label("saved"),
        func.sum(credits.c.credit).label("credit"),
    )
    groups = (jobs.c.account, credits.c.tier, credits.c.currency)
    ended = (credits.c.ended_unix_s >= span.from_unix_s) & (credits.c.ended_unix_s < span.until_unix_s)
    same = (jobs.c.job == credits.c.job) & (jobs.c.started_unix_s == credits.c.started_unix_s)
    found = select(*groups, *sums).select_from(credits.join(jobs, same)).where(ended)
    return [row._asdict() for row in connection.execute(found.group_by(*groups).order_by(*groups))]
