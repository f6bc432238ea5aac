"""A cycle of the broker with 200 jobs over two real Slurms and a stand-in of Torque.

`python -m benchmarks.placement_cycle` prints how long it takes from the decision to the last submission, and
`python -m benchmarks.placement_cycle KILLS` what becomes of jobs whose broker is killed so many times. The reports of
the sites are given, all commands are real.
"""

import asyncio
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.peers import peer
from offpeak.ledger.ledger import Ledger
from offpeak.plugin.federation.live_cycle import SiteReply
from offpeak.plugin.federation.site_report import SiteReport, WaitTable
from offpeak.plugin.federation.sites import Grid, Reach, Site
from offpeak.plugin.pbs.batch import PbsBatch
from offpeak.plugin.scheduler.batch import BatchResult
from offpeak.plugin.slurm.batch import SlurmBatch
from offpeak.prices.tariff import parse_tariff
from offpeak.services.broker.federation import Federation, JobPreferences, make_broker_job, make_federation
from offpeak.services.broker.placement_cycle import PlacementCycle
from offpeak.services.broker.site_commands import LocalRoute, SiteCommands, Submitter
from offpeak.services.broker.submission import Broker, make_broker
from offpeak.settings.broker import BrokerSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.sim_backend.pbs_standin.pbs import TORQUE

JOBS, MOST = 200, 80
JOBS_PER_KILL = 4
LATEST_KILL_S = 0.8
SETTLED_S = 300.0
"""A broker that was killed while it submitted a job knows after 30 s whether a site has taken it."""
SCRIPT = "#!/bin/bash\n#SBATCH --ntasks=1 --time=10 --output=/dev/null --chdir=/\nsleep {seconds}\n"
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


@dataclass(frozen=True)
class Stage:
    """Two Slurms and a stand-in of Torque, and the brokers of one ledger that submit jobs to them."""

    folder: Path
    sites: Mapping[str, SiteCommands]
    federation: Federation

    def ledger(self) -> Ledger:
        """Return the ledger, for one process."""
        return Ledger(LedgerSettings(url=f"sqlite:///{self.folder / 'ledger.sqlite'}"))

    def broker(self, ledger: Ledger, known: Federation) -> Broker:
        """Return a broker that knows the sites."""
        made = make_broker(SETTINGS, known, ledger, by="portal", agent_socket=self.folder / "none")
        return Broker(made.federation, self.sites, made.ledger, made.door, made.by, cycle_s=made.cycle_s)

    def store(self, ledger: Ledger, keys: Iterable[str], script: str) -> None:
        """Submit jobs to the broker, which stores them."""
        broker = self.broker(ledger, self.federation)
        for key in keys:
            preferences = JobPreferences(goal="")
            job = make_broker_job(script, "job.sh", (), preferences=preferences, grid=self.federation.grid)
            asyncio.run(broker.submit(job, key))

    def place(self, ledger: Ledger) -> None:
        """Run one cycle of the broker."""
        made = partial(self.broker, ledger)
        cycle = PlacementCycle(SETTINGS, KnownSites(self.federation), ledger, made)  # type: ignore[arg-type]
        asyncio.run(cycle.place_jobs())

    def submitted(self) -> Counter[str]:
        """Return how often each key is at the sites."""
        squeue = ("squeue", "--noheader", "--states=all", "--format=%k")
        queries: dict[str, Sequence[str]] = {"a": squeue, "b": squeue, "barn": ("qstat", "-fx")}
        shown = [asyncio.run(self.sites[name].route.run(query, timeout_s=30)).output for name, query in queries.items()]
        return Counter(re.findall("(?:offpeak:key|OFFPEAK_KEY)=([a-z0-9-]+)", "\n".join(shown)))


@contextmanager
def stage() -> Iterator[Stage]:
    """Start the sites."""
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
        yield Stage(folder, sites, make_federation(SETTINGS, grid, {each: SiteReply(report) for each in grid.names}))


def measure() -> None:
    """Print the time of the cycle, the processor time, and the load of the machine."""
    with stage() as sites, closing(sites.ledger()) as ledger:
        ledger.ready()
        sites.store(ledger, (f"k{number}" for number in range(JOBS)), SCRIPT.format(seconds=1))
        began_s, before = time.perf_counter(), os.times()
        sites.place(ledger)
        took_s, after = time.perf_counter() - began_s, os.times()
        rows = [ledger.submission(f"k{number}") for number in range(JOBS)]
    own_s = after.user + after.system - before.user - before.system
    commands_s = after.children_user + after.children_system - before.children_user - before.children_system
    print(Counter((row.site, row.state) for row in rows if row))
    print(f"{took_s:.1f} s; processor time {own_s:.1f} s, commands {commands_s:.1f} s; load {os.getloadavg()[0]:.1f}")


def kill(times: int) -> None:
    """Kill the broker so many times in its cycles, then let it finish; print what became of the jobs."""
    random_s = random.Random(times)
    interrupted: set[str] = set()
    with stage() as sites:
        with closing(sites.ledger()) as ledger:
            ledger.ready()
        keys: list[str] = []
        for number in range(times):
            more = [f"k{number}-{each}" for each in range(JOBS_PER_KILL)]
            keys += more
            with closing(sites.ledger()) as ledger:
                sites.store(ledger, more, SCRIPT.format(seconds=3600))
            _place_and_die(sites, random_s.uniform(0.0, LATEST_KILL_S))
            with closing(sites.ledger()) as ledger:
                interrupted |= {key for key in keys if _state(ledger, key) == "tried"}
        with closing(sites.ledger()) as ledger:
            until_s = time.monotonic() + SETTLED_S
            while time.monotonic() < until_s and any(_state(ledger, key) != "taken" for key in keys):
                sites.place(ledger)
                time.sleep(1.0)
            states = Counter(_state(ledger, key) for key in keys)
        found = sites.submitted()
    lost, doubled = set(keys) - found.keys(), [key for key, count in found.items() if count > 1]
    print(f"{times} kills, {len(interrupted)} jobs in a submission; {len(keys)} jobs: {dict(states)}")
    print(f"lost {len(lost)}, doubled {len(doubled)}; load {os.getloadavg()[0]:.1f}")


def _place_and_die(sites: Stage, after_s: float) -> None:
    """Place jobs in a process that is killed after that time."""
    process = os.fork()
    if not process:
        try:
            while True:
                sites.place(sites.ledger())
        finally:
            os._exit(1)
    time.sleep(after_s)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def _state(ledger: Ledger, key: str) -> str:
    row = ledger.submission(key)
    return row.state if row else "unknown"


if __name__ == "__main__":
    kill(int(sys.argv[1])) if sys.argv[1:] else measure()
