"""Books one reading of the scheduler: learns from jobs that ended, and remembers running ones for a restart."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from offpeak.errors import BadInput, BadLedger
from offpeak.ledger.database import open_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.marks import read_marks
from offpeak.ledger.rows import JobCredit, JobGpus
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.services.accounts import ended_jobs
from offpeak.services.accounts.credits import CreditRates, make_credits
from offpeak.services.accounts.job_draws import JobDraw, NodeKind
from offpeak.services.accounts.job_forecasts import JobPowers, RunTimes
from offpeak.services.accounts.job_use import BookedJob, measure_job_gpus, measure_jobs, model_job


def book_jobs(
    url: str, ended: Sequence[ended_jobs.EndedJob], cpus: Mapping[str, int], expected: Mapping[str, JobDraw]
) -> tuple[BookedJob, ...]:
    """Return the use of each job; `cpus` are those of the nodes, `expected` the powers by job number.

    It reads the ledger of that URL, all jobs at once, which may take tenths of a second: an event loop calls it in a
    thread. Raises BadLedger if it cannot be read: then the jobs stay unbooked.
    """
    if not ended:
        return ()
    with open_ledger(url) as connection:
        try:
            return tuple(measure_jobs(connection, ended, cpus, expected))
        except BadLedger:
            raise
        except BadInput:
            return tuple(_measure_job(connection, job, cpus, expected) for job in ended)


def _measure_job(
    connection: Connection, ended: ended_jobs.EndedJob, cpus: Mapping[str, int], expected: Mapping[str, JobDraw]
) -> BookedJob:
    """Return the job, modelled if prices in two currencies or an unknown node set leave the ledger without figures."""
    try:
        return measure_jobs(connection, [ended], cpus, expected)[0]
    except BadLedger:
        raise
    except BadInput as problem:
        return model_job(ended, expected[ended.job.job_id], str(problem))


NO_CREDITS = CreditRates()


@dataclass(frozen=True)
class Accounts:
    """The ledger and the forecasts. A job is booked `settle_s` after its end: two rounds of the meters."""

    ledger: Ledger
    powers: JobPowers
    times: RunTimes
    settle_s: float
    rates: CreditRates = NO_CREDITS


@dataclass(frozen=True)
class AccountRound:
    """The watch after a round, the one that the ledger has, and a line for the log, "" for none."""

    ran: ended_jobs.JobWatch
    kept: ended_jobs.JobWatch | None
    line: str = ""


def first_round(ledger: Ledger) -> AccountRound | None:
    """Return the saved round of an earlier run, None if there is none. It waits for the ledger: call it in a thread."""
    kept = ended_jobs.parse_job_watch(ledger.remembered(ended_jobs.MEMORY_NAME))
    return None if kept is None else AccountRound(kept, kept)


async def account_round(
    accounts: Accounts, before: AccountRound | None, view: SchedulerView, kinds: Mapping[str, NodeKind]
) -> AccountRound:
    """Book the jobs of a view; the ledger is read in a thread. BadLedger: the next round tries the same jobs."""
    last = before.ran if before else None
    ran = ended_jobs.after_view(last, view)
    now = ended_jobs.jobs_to_book(ran, settle_s=accounts.settle_s)
    booked, credits, gpus = await asyncio.to_thread(_book, accounts, now, view, kinds)
    # First the jobs, then that they are booked: the ledger writes in this order, so no kill in between loses one.
    accounts.ledger.write_jobs([job.use for job in booked])
    accounts.ledger.write_credits(credits)
    accounts.ledger.write_job_gpus(gpus)
    ran = ended_jobs.after_booking(ran, now)
    kept = before.kept if before else None
    if ended_jobs.is_worth_saving(kept, ran):
        accounts.ledger.remember(ended_jobs.MEMORY_NAME, ended_jobs.job_watch_json(ran))
        kept = ran
    return AccountRound(ran, kept, ended_jobs.away_line(last, view))


def _book(
    accounts: Accounts, now: tuple[ended_jobs.EndedJob, ...], view: SchedulerView, kinds: Mapping[str, NodeKind]
) -> tuple[tuple[BookedJob, ...], list[JobCredit], list[JobGpus]]:
    if not now:
        return (), [], []
    expected = accounts.powers.of([job.job for job in now], kinds, at_s=view.at_s)
    cpus = {node.name: node.cpus for node in view.nodes}
    booked = book_jobs(accounts.ledger.settings.url, now, cpus, expected)
    accounts.powers.learn(booked, at_s=view.at_s)
    accounts.times.learn(now, at_s=view.at_s)
    arrays = {ended.job.job_id: ended.job.array_id for ended in now}
    with open_ledger(accounts.ledger.settings.url) as connection:
        uses, marks = [job.use for job in booked], read_marks(connection)
        credits = make_credits(connection, uses, marks, arrays=arrays, rates=accounts.rates)
        node_gpus = {node.name: sum(count for _, count in node.gpus) for node in view.nodes if node.gpus}
        return booked, credits, measure_job_gpus(connection, now, node_gpus)
