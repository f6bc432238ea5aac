"""A cycle of the broker with 200 jobs over two real Slurms and a stand-in of Torque.

`python -m benchmarks.placement_cycle` prints how long it takes from the decision to the last submission. The reports of
the sites are given, all commands are real.
"""

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import peer
from offpeak.ledger.ledger import Ledger
from offpeak.prices.tariff import parse_tariff
from offpeak.settings.broker import BrokerSettings
from offpeak.settings.ledger import LedgerSettings
from plugin.federation.live_cycle import SiteReply
from plugin.federation.site_report import SiteReport, WaitTable
from plugin.federation.sites import Grid, Reach, Site
from plugin.pbs.batch import PbsBatch
from plugin.scheduler.batch import BatchResult
from plugin.slurm.batch import SlurmBatch
from services.broker.federation import Federation, JobPreferences, make_broker_job, make_federation
from services.broker.placement_cycle import PlacementCycle
from services.broker.site_commands import LocalRoute, SiteCommands, Submitter
from services.broker.submission import Broker, make_broker
from sim_backend.pbs_standin.pbs import TORQUE

JOBS, MOST = 200, 80
SCRIPT = "#!/bin/bash\n#SBATCH --ntasks=1 --time=10 --output=/dev/null --chdir=/\nsleep 1\n"
SETTINGS = BrokerSettings(mode="active", policy="mcmf", stale_s=3600)


@dataclass(frozen=True)
class RouteWith:
    """A route to the commands of one cluster on this machine."""

    variables: Mapping[str, str]

    async def run(self, command: Sequence[str], *, stdin: str | None = None, timeout_s: float) -> BatchResult:
        """Return the result of the command."""
        assigned = (f"{name}={value}" for name, value in self.variables.items())
        return await LocalRoute().run(("env", *assigned, *command), stdin=stdin, timeout_s=timeout_s)


@dataclass
class KnownSites:
    """Stands for the poller of the daemon."""

    federation: Federation

    async def round(self) -> None:
        """Poll nothing."""


def site(name: str, submit: str, price: int) -> Site:
    """Return a site of 50 nodes that takes 80 jobs in a cycle."""
    tariff = parse_tariff(f"on={price}EUR/MWh,off={price}EUR/MWh,hours=08:00-20:00")
    reach = Reach("local", submit=submit)
    return Site(name, 50, 100.0, cores_per_unit=4, tariff=tariff, esc_g_per_kwh=100.0, max_per_cycle=MOST, reach=reach)


def measure() -> None:
    """Print the time of the cycle, the processor time, and the load of the machine."""
    user = Submitter("nobody", right="")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as parts:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "barn").mkdir()
        clusters = [parts.enter_context(peer("two_sites").plain_cluster(folder / each, each)) for each in ("a", "b")]
        barn = parts.enter_context(peer("pbs_standin").standin(TORQUE, folder / "barn"))
        sites = {
            cluster.name: SiteCommands(cluster.name, SlurmBatch(""), RouteWith(cluster.environment), user)
            for cluster in clusters
        }
        sites["barn"] = SiteCommands("barn", PbsBatch(), RouteWith({"PATH": barn.path}), user)
        grid = Grid((site("a", "sbatch", 80), site("b", "sbatch", 90), site("barn", "qsub", 100)))
        waits = WaitTable((200,), (86_400,), ((0.0,),))
        report = SiteReport(time.time(), "c", "slurm", 200, 200, 0, 0, waits)
        federation = make_federation(SETTINGS, grid, {each: SiteReply(report) for each in grid.names})
        ledger = Ledger(LedgerSettings(url=f"sqlite:///{folder / 'ledger.sqlite'}"))
        parts.callback(ledger.close)
        ledger.ready()

        def broker_of(known: Federation) -> Broker:
            made = make_broker(SETTINGS, known, ledger, by="portal", agent_socket=folder / "none")
            return Broker(made.federation, sites, made.ledger, made.door, made.by, cycle_s=made.cycle_s)

        broker = broker_of(federation)
        for number in range(JOBS):
            job = make_broker_job(SCRIPT, "job.sh", (), preferences=JobPreferences(goal=""), grid=grid)
            asyncio.run(broker.submit(job, f"k{number}"))
        cycle = PlacementCycle(SETTINGS, KnownSites(federation), ledger, broker_of)  # type: ignore[arg-type]
        began_s, before = time.perf_counter(), os.times()
        asyncio.run(cycle.place_jobs())
        took_s, after = time.perf_counter() - began_s, os.times()
        rows = [ledger.submission(f"k{number}") for number in range(JOBS)]
    own_s = after.user + after.system - before.user - before.system
    commands_s = after.children_user + after.children_system - before.children_user - before.children_system
    print(Counter((row.site, row.state) for row in rows if row))
    print(f"{took_s:.1f} s; processor time {own_s:.1f} s, commands {commands_s:.1f} s; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    measure()
