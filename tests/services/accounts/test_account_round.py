"""Rounds of the accounts: each job is booked once with its use, however the rounds are interrupted."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from account_jobs import job, view

from offpeak.errors import BadLedger
from offpeak.ledger.database import open_ledger
from offpeak.ledger.job_costs import job_costs
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import MeterReading
from offpeak.model.clock import Clock
from offpeak.model.time_range import TimeRange
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.power.drivers.transport import Transport
from offpeak.predictors import recent_errors
from offpeak.services.accounts import booking
from offpeak.services.accounts.booking import AccountRound, Accounts, account_round, first_round
from offpeak.services.accounts.job_draws import ASSUMED
from offpeak.services.accounts.job_forecasts import JobPowers, RunTimes
from offpeak.services.agent.accounting_loops import JobAccounts
from offpeak.services.agent.loop import ProblemLog
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings

STEP_S, LENGTH_S, JOBS = 30, 100, 20
Shown = Callable[[int], list[Job]]

DIES = """\
import asyncio, os, signal, sys
sys.path.append(sys.argv[2])
from test_account_round import rounds, queue
from offpeak.ledger.ledger import Ledger
from offpeak.settings.ledger import LedgerSettings

ledger = Ledger(LedgerSettings(url=sys.argv[1]))
ledger.ready()
rounds(ledger, queue, range(0, 1200, 30), settled=True)
rounds(ledger, queue, range(1200, 1230, 30))
os.kill(os.getpid(), signal.SIGKILL)
"""


def queue(at_s: int) -> list[Job]:
    """One job after the other on one node, each of which is shown for two minutes after its end."""
    jobs = [_at(number, at_s) for number in range(JOBS)]
    return [each for each in jobs if each is not None]


def _at(number: int, at_s: int) -> Job | None:
    start_s = number * LENGTH_S
    end_s = start_s + LENGTH_S
    if at_s < start_s or at_s > end_s + 120:
        return None
    if at_s < end_s:
        return job(str(number), start_s=start_s)
    return job(str(number), JobState.ENDED, start_s=start_s, end_s=end_s)


def rounds(ledger: Ledger, shown: Shown, times: range, *, settled: bool = False) -> list[str]:
    """Look so often, beginning where the ledger has what was kept; returns the lines for the log.

    `settled`: before the next look everything is written, as it is within a second where looks are half a minute apart.
    """
    accounts = Accounts(ledger, JobPowers(), RunTimes(), settle_s=60)

    async def run() -> list[str]:
        lines = []
        done: AccountRound | None = await asyncio.to_thread(first_round, ledger)
        for at_s in times:
            done = await account_round(accounts, done, view(at_s, shown(at_s)), {})
            lines += [done.line] if done.line else []
            assert not settled or ledger.settle()
        return lines

    return asyncio.run(run())


def in_the_book(ledger: Ledger) -> tuple[int, float]:
    """Return how many jobs are booked, and their energy [J]."""
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        used = job_costs(connection, TimeRange(0, 1e9), ["user"], UTC)
    return sum(use.jobs for use in used), sum(use.energy_j for use in used)


def measure(ledger: Ledger, power_w: float) -> None:
    at = range(0, JOBS * LENGTH_S + 600, 10)
    ledger.write_readings([MeterReading("n1", "dcmi", "total", value, value + 10, power_w, node="n1") for value in at])
    assert ledger.settle()


def test_a_queue_is_booked_whole(ledger: Ledger) -> None:
    measure(ledger, 300.0)
    assert rounds(ledger, queue, range(0, 2400, STEP_S)) == []
    count, energy_j = in_the_book(ledger)
    assert (count, energy_j) == (JOBS, pytest.approx(300.0 * JOBS * LENGTH_S))


def test_ended_jobs_that_are_still_listed_leave_the_first_forecasts_of_others(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_errors, "MOST_OPEN", 4)
    site: Any = SimpleNamespace(
        settings=Settings(agent=AgentSettings(state_folder=tmp_path)), node_class=lambda _: None
    )
    site.clock, site.transport = Clock(), Transport(timeout_s=1.0)
    accounts, end_s = JobAccounts(site, ledger, ProblemLog()), JOBS * LENGTH_S
    longer = job("long", JobState.PENDING, start_s=None, hosts="", limit_s=end_s)

    async def run() -> None:
        for at_s in range(0, end_s + 300, STEP_S):
            # Its time limit is changed later, but its first forecast counts.
            of_long = longer._replace(limit_s=end_s if at_s < 100 else 10 * end_s)
            if at_s > end_s:
                of_long = of_long._replace(state=JobState.ENDED, start_s=0, end_s=end_s, hosts="n2")
            shown = view(at_s, [of_long, *queue(at_s)])
            await accounts.draws(shown)
            await accounts.run_s(shown)
            await accounts.book(shown)

    asyncio.run(run())
    errors = accounts.forecasts[0]
    assert errors.outcomes == JOBS + 1
    assert errors.naive_mae == pytest.approx(JOBS * (86_400 - LENGTH_S) / (JOBS + 1))


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"], indirect=True)
def test_a_kill_in_the_middle_loses_nothing_and_counts_nothing_twice(ledger: Ledger) -> None:
    measure(ledger, 300.0)
    command = [sys.executable, "-c", DIES, ledger.settings.url, str(Path(__file__).parent)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert rounds(ledger, queue, range(1230, 2400, STEP_S)) == []
    count, energy_j = in_the_book(ledger)
    assert (count, energy_j) == (JOBS, pytest.approx(300.0 * JOBS * LENGTH_S))


def test_after_a_long_absence_what_cannot_be_known_is_logged(ledger: Ledger) -> None:
    rounds(ledger, queue, range(0, 300, STEP_S), settled=True)
    (line,) = rounds(ledger, queue, range(1500, 1800, STEP_S))
    assert line.startswith("the scheduler was not read for 2")
    # Of what ran or ended out of sight, only the job that ran at the last look is known.
    assert in_the_book(ledger)[0] < JOBS


def test_predictors_learn_from_ended_jobs(ledger: Ledger) -> None:
    measure(ledger, 300.0)
    accounts = Accounts(ledger, JobPowers(), RunTimes(), settle_s=60)

    async def run() -> None:
        done: AccountRound | None = None
        for at_s in range(0, 600, STEP_S):
            accounts.powers.of(queue(at_s), {}, at_s=at_s)
            accounts.times.of(queue(at_s), at_s=at_s)
            done = await account_round(accounts, done, view(at_s, queue(at_s)), {})

    asyncio.run(run())
    powers, times = accounts.powers.errors, accounts.times.errors
    assert min(powers.outcomes, times.outcomes) > 2
    assert powers.naive_mae == pytest.approx(300.0 - ASSUMED.node_w)
    assert times.naive_mae == 86_400 - LENGTH_S


def test_ended_jobs_wait_while_the_ledger_is_unreadable(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{file}"))
    ledger.ready()
    accounts = Accounts(ledger, JobPowers(), RunTimes(), settle_s=0)

    async def run() -> AccountRound:
        done = await account_round(accounts, None, view(50, queue(50)), {})
        file.rename(tmp_path / "away")
        with pytest.raises(BadLedger):
            await account_round(accounts, done, view(110, queue(110)), {})
        (tmp_path / "away").rename(file)
        return await account_round(accounts, done, view(140, queue(140)), {})

    assert asyncio.run(run()).ran.waiting == {}
    assert in_the_book(ledger)[0] == 1
    assert ledger.close() == 0


def test_accounting_does_not_block_the_event_loop(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The booking waits for what the loop does meanwhile."""
    measure(ledger, 300.0)
    accounts, goes_on, book_jobs = Accounts(ledger, JobPowers(), RunTimes(), settle_s=0), Event(), booking.book_jobs
    ended = [job(str(number), JobState.ENDED, start_s=0, end_s=1000) for number in range(50)]

    def book_late(*arguments: Any) -> object:
        assert goes_on.wait(300)
        return book_jobs(*arguments)

    async def run() -> None:
        asyncio.get_running_loop().call_later(0.01, goes_on.set)
        await account_round(accounts, None, view(2000, ended), {})

    monkeypatch.setattr(booking, "book_jobs", book_late)
    asyncio.run(run())
    assert in_the_book(ledger)[0] == 50
