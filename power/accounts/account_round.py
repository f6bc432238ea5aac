"""One look at the scheduler into the accounts: who ended is booked and learned from, who runs is kept for a restart."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from offpeak.ledger.ledger import Ledger
from plugin.scheduler.port import SchedulerView
from power.accounts.book_jobs import book_jobs
from power.accounts.job_powers import JobPowers
from power.accounts.job_use import Booked
from power.accounts.kept import NAME, ran_json, ran_of, worth_keeping
from power.accounts.node_kinds import NodeKind
from power.accounts.ran_jobs import Ended, Ran, after_booking, after_view, away_line, due
from power.accounts.run_times import RunTimes


@dataclass(frozen=True)
class Accounts:
    """What is booked into, and by what. A job is booked `settle_s` after its end: two rounds of the meters."""

    ledger: Ledger
    powers: JobPowers
    times: RunTimes
    settle_s: float


@dataclass(frozen=True)
class AccountRound:
    """What is known after a round, what the ledger keeps of it, and a line for the log, "" for none."""

    ran: Ran
    kept: Ran | None
    line: str = ""


def first_round(ledger: Ledger) -> AccountRound | None:
    """Return where an earlier run left off, None where nothing is kept. It waits for the ledger: for a thread."""
    kept = ran_of(ledger.remembered(NAME))
    return None if kept is None else AccountRound(kept, kept)


async def account_round(
    accounts: Accounts, before: AccountRound | None, view: SchedulerView, kinds: Mapping[str, NodeKind]
) -> AccountRound:
    """Return what is known after a look; the ledger is read in a thread. BadLedger: the same jobs are tried again."""
    last = before.ran if before else None
    ran = after_view(last, view)
    now = due(ran, settle_s=accounts.settle_s)
    booked = await asyncio.to_thread(_book, accounts, now, view, kinds)
    # First the jobs, then that they are booked: the ledger writes in this order, so no kill in between loses one.
    accounts.ledger.write_jobs([each.use for each in booked])
    ran = after_booking(ran, now)
    kept = before.kept if before else None
    if worth_keeping(kept, ran):
        accounts.ledger.remember(NAME, ran_json(ran))
        kept = ran
    return AccountRound(ran, kept, away_line(last, view))


def _book(
    accounts: Accounts, now: tuple[Ended, ...], view: SchedulerView, kinds: Mapping[str, NodeKind]
) -> tuple[Booked, ...]:
    if not now:
        return ()
    expected = accounts.powers.of([each.job for each in now], kinds, at_s=view.at_s)
    cpus = {node.name: node.cpus for node in view.nodes}
    booked = book_jobs(accounts.ledger.settings.url, now, cpus, expected)
    accounts.powers.learn(booked, at_s=view.at_s)
    accounts.times.learn(now, at_s=view.at_s)
    return booked
