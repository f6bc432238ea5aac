"""A broker of three sites that speak PBS, whose answers are given; run as a program it dies at a moment.

Arguments: folder, key and moment, "before" or "after" the site has taken the job; "slow" answers half a second late.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from offpeak.ledger.ledger import Ledger
from offpeak.plugin.federation.live_cycle import SiteReply
from offpeak.plugin.federation.site_report import SiteReport, WaitTable
from offpeak.plugin.federation.sites import Grid, Reach, Site
from offpeak.plugin.pbs.batch import PbsBatch
from offpeak.plugin.scheduler.batch import BatchResult
from offpeak.services.broker.federation import BrokerJob, Federation, JobPreferences, make_broker_job
from offpeak.services.broker.site_commands import SiteCommands, Submitter
from offpeak.services.broker.submission import Broker, make_broker
from offpeak.settings.broker import BrokerSettings
from offpeak.settings.ledger import LedgerSettings

sys.path.append(str(Path(__file__).parents[2] / "peers"))
from pbs_stand_in import PbsStandIn, pbs_stand_in

from offpeak.prices.tariff import parse_tariff

GRAMS = {"north": 50.0, "east": 300.0, "south": 300.0}
SCRIPT = "#!/bin/sh\n#PBS -l nodes=1:ppn=4 -l walltime=01:00:00\nhostname\n"
REACH = Reach("local", submit="qsub")
ANN = Submitter("ann", right="")


def site(name: str) -> Site:
    """Return a site of eight nodes of four cores."""
    tariff = parse_tariff("on=80EUR/MWh,off=80EUR/MWh,hours=08:00-20:00")
    grams = GRAMS[name]
    return Site(name, 8, 100.0, cores_per_unit=4, tariff=tariff, esc_g_per_kwh=grams, reach=REACH)


GRID = Grid(tuple(map(site, GRAMS)))
IDLE = SiteReport(
    0.0, "c", "pbs 23", cores=32, idle_cores=32, queued=0, running=0, waits=WaitTable((32,), (86_400,), ((0.0,),))
)


def site_replies(**problems: str) -> dict[str, SiteReply]:
    """Return replies of all sites that are new, except of those with a problem."""
    report = replace(IDLE, at_unix_s=time.time())
    return {name: SiteReply(problem=problems[name]) if name in problems else SiteReply(report) for name in GRID.names}


def broker_job(script: str = SCRIPT, **preferences: object) -> BrokerJob:
    """Return a job."""
    return make_broker_job(script, "job.sh", (), preferences=JobPreferences(**preferences), grid=GRID)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Dying:
    """A route whose program dies, or that answers late."""

    site: PbsStandIn
    moment: str

    async def run(self, command: Sequence[str], *, stdin: str | None = None, timeout_s: float) -> BatchResult:
        """Die before or after a job is submitted, or answer late."""
        if "qsub" not in command:
            return await self.site.run(command, stdin=stdin, timeout_s=timeout_s)
        if self.moment == "slow":
            result = await self.site.run(command, stdin=stdin, timeout_s=timeout_s)
            await asyncio.sleep(0.5)
            return result
        if self.moment == "after":
            await self.site.run(command, stdin=stdin, timeout_s=timeout_s)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def broker(folder: Path, ledger: Ledger, *, mode: str = "active", moment: str = "", **options: object) -> Broker:
    """Return a broker whose sites are below `folder`."""
    federation = Federation(GRID, options.pop("replies", None) or site_replies(), 60.0)  # type: ignore[arg-type]
    made = make_broker(BrokerSettings(mode=mode), federation, ledger, by="ann", agent_socket=folder / "agent.sock")
    ways = {name: pbs_stand_in(folder / name) for name in GRID.names}
    sites: Mapping[str, SiteCommands] = {
        name: SiteCommands(name, PbsBatch(), Dying(way, moment) if moment else way, ANN) for name, way in ways.items()
    }
    return replace(made, sites=sites, **{"settled_s": 0.3, **options})  # type: ignore[arg-type]


def ledger_in(folder: Path) -> Ledger:
    """Return the ledger of that folder."""
    made = Ledger(LedgerSettings(url=f"sqlite:///{folder / 'ledger.sqlite'}"))
    made.ready()
    return made


if __name__ == "__main__":
    made = broker(Path(sys.argv[1]), ledger_in(Path(sys.argv[1])), moment=sys.argv[3])
    asyncio.run(made.submit(broker_job(), sys.argv[2]))
