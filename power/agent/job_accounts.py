"""What is known and learned of jobs: what they will draw, how long they run, and what those that ended have used."""

import asyncio

from offpeak.errors import CannotWrite
from offpeak.ledger.ledger import Ledger
from plugin.scheduler.port import SchedulerView
from power.accounts import job_powers, run_times
from power.accounts.account_round import AccountRound, Accounts, account_round, first_round
from power.accounts.declared_draws import declared_by
from power.accounts.draw import Draw
from power.accounts.job_powers import JobPowers
from power.accounts.node_kinds import kinds_of
from power.accounts.run_times import RunTimes
from power.agent.meter_loop import period_s
from power.agent.parts import Parts
from power.agent.picture import ErrorSaid
from power.agent.voice import LOG, Voice


class JobAccounts:
    """Books jobs that have ended, and learns from them: one question or booking at a time."""

    def __init__(self, parts: Parts, ledger: Ledger, voice: Voice) -> None:
        self._voice = voice
        folder = parts.settings.agent.state_folder
        powers = JobPowers(declared_by(parts.settings.power), path=folder / job_powers.FILE)
        times = RunTimes(path=folder / run_times.FILE)
        self._accounts = Accounts(ledger, powers, times, settle_s=2 * period_s(parts))
        self._last: AccountRound | None = None
        self._turn = asyncio.Lock()
        voice.trouble("job power", powers.trouble or None)
        voice.trouble("run times", times.trouble or None)

    def take_up(self) -> None:
        """Take up where a run before has left off; CannotWrite or BadLedger. It waits."""
        self._last = self._last or first_round(self._accounts.ledger)

    async def draws(self, view: SchedulerView, parts: Parts) -> dict[str, Draw]:
        """Return what every job is taken to draw, by its number."""
        async with self._turn:
            kinds = kinds_of(view.nodes, parts.node_class)
            return await asyncio.to_thread(self._accounts.powers.of, view.jobs, kinds, at_s=view.at_s)

    async def run_s(self, view: SchedulerView) -> dict[str, int]:
        """Return how long every job is expected to run [s], by its number."""
        async with self._turn:
            return await asyncio.to_thread(self._accounts.times.of, view.jobs, at_s=view.at_s)

    async def book(self, view: SchedulerView, parts: Parts) -> None:
        """Book the jobs that have ended since the last look; BadLedger, and they are booked later."""
        async with self._turn:
            kinds = kinds_of(view.nodes, parts.node_class)
            self._last = await account_round(self._accounts, self._last, view, kinds)
        if self._last.line:
            LOG.warning("jobs: %s", self._last.line)

    @property
    def errors(self) -> tuple[ErrorSaid, ...]:
        """How wrong the forecasts of jobs were of late, those that have outcomes."""
        each = (("run time", "s", self._accounts.times.error), ("job power", "W/node", self._accounts.powers.error))
        return tuple(ErrorSaid(about, unit, own.mae, own.outcomes) for about, unit, own in each if own.mae is not None)

    def close(self) -> None:
        """Keep what was learned for the next start. It waits for the disk."""
        try:
            self._accounts.powers.keep()
            self._accounts.times.keep()
        except CannotWrite as problem:
            self._voice.trouble("predictors", f"{problem}; {problem.hint}")
