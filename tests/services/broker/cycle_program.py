"""A broker of three sites that speak PBS, whose daemon places stored jobs; run as a program it dies at a moment.

Arguments: folder, number of jobs, and moment: "stored" and "chosen" within the broker, "before" or "after" a site has
taken a job, or a time after which it is killed, such as 0.05.
"""

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from offpeak.ledger.ledger import Ledger
from offpeak.services.broker.federation import Federation
from offpeak.services.broker.placement_cycle import PlacementCycle
from offpeak.services.broker.submission import Broker
from offpeak.settings.broker import BrokerSettings

sys.path.append(str(Path(__file__).parent))
from three_sites import broker, broker_job, ledger_in, site_replies

MCMF = BrokerSettings(mode="active", policy="mcmf", cycle_s=1)


class KnownSites:
    """Polls nothing: its sites have answered; `rounds` counts the polls."""

    def __init__(self, federation: Federation) -> None:
        self.federation, self.rounds = federation, 0

    async def round(self) -> None:
        """Poll all sites once."""
        self.rounds += 1
        self.federation = replace(self.federation, replies={**self.federation.replies})


class Stage:
    """A daemon with a ledger, its broker and its cycle; `moment` is when it dies."""

    def __init__(
        self, folder: Path, ledger: Ledger, *, moment: str = "", settings: BrokerSettings = MCMF, **options: object
    ) -> None:
        dying = moment if moment in ("before", "after") else ""
        self.broker = broker(folder, ledger, moment=dying, cycle_s=settings.cycle_s, **options)  # type: ignore[arg-type]
        federation = replace(self.broker.federation, policy=settings.policy)
        self.broker = replace(self.broker, federation=federation)
        self.poller = KnownSites(federation)
        self._moment = moment
        self.cycle = PlacementCycle(settings, self.poller, ledger, self._broker_of)  # type: ignore[arg-type]

    def _broker_of(self, federation: Federation) -> Broker:
        # Killed between the decision and the first record of it.
        chosen = _Killed(**vars(federation)) if self._moment == "chosen" else federation
        return replace(self.broker, federation=chosen)

    def store(self, count: int, **preferences: object) -> None:
        """Store jobs with the keys k0, k1, ..."""
        for number in range(count):
            asyncio.run(self.broker.submit(broker_job(**preferences), f"k{number}"))

    def run(self) -> None:
        """Run one cycle."""
        asyncio.run(self.cycle.place_jobs())


class _Killed(Federation):
    def choose_together(self, requests: object, *, without: object) -> object:  # type: ignore[override]
        super().choose_together(requests, without=without)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


if __name__ == "__main__":
    folder, count, moment = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    stage = Stage(folder, ledger_in(folder), moment=moment, replies=site_replies())
    stage.store(count)
    if moment == "stored":
        os.kill(os.getpid(), signal.SIGKILL)
    if moment[0].isdecimal():
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, float(moment))
    stage.run()
