"""The stage: a real Slurm whose nodes have power, and its agent, which is started in a tenth of a second."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from benchmarks.local_slurm.agent import RunningAgent, Tables, write_site
from benchmarks.local_slurm.cluster import PoweredCluster, powered_cluster
from benchmarks.local_slurm.plan import PoweredPlan
from benchmarks.local_slurm.processes import missing_files
from benchmarks.peers import peer
from benchmarks.soak_agent.plan import KillsPlan
from offpeak.ledger.ledger import Ledger
from offpeak.settings.ledger import LedgerSettings

NEEDED = ("slurmctld", "slurmd", "sinfo", "munged", "setpriv", "ipmi_sim", "gcc", "ipmitool")
EXPENSIVE, CHEAP = "90EUR/MWh", "30EUR/MWh"
LEVEL = f"on={CHEAP},off={CHEAP},hours=09:00-23:00"
"""A tariff by which no job waits for anything."""
ANY_NUMBER = 100_000
LEAST_S = 10.0
"""A price that changes sooner is not worth a delay."""
RESTORE_S = 60.0


@dataclass(frozen=True)
class Limits:
    """What the agent may do during one run: nodes put to sleep within an hour, and so many that stay on."""

    per_hour: int = ANY_NUMBER
    min_on: int = 2


@dataclass
class Stage:
    """The cluster, its agent, and the dice of the run."""

    cluster: PoweredCluster
    agent: RunningAgent
    chance: random.Random

    def write_site(self, limits: Limits, tariff: str) -> None:
        """Write the settings that the agent reads when it is started next."""
        agent = {
            "nodes_per_hour": limits.per_hour,
            "min_on": limits.min_on,
            "hands_off": "30min",
            "capacity": self.chance.choice(("timeout:1s", "timeout:3s", "green-pool:25%")),
        }
        changes: Tables = {
            "agent": agent,
            "prices": {"tariff": tariff},
            "power": {"classes": ["hot=400W", "cool=150W"]},
            "scheduling": {"window": 20},
        }
        write_site(self.cluster, changes)

    def falling(self) -> str:
        """Return a tariff whose price falls with the next minute, or the one after."""
        now = datetime.fromtimestamp(time.time() + LEAST_S, UTC)
        edge = now.replace(second=0) + timedelta(minutes=self.chance.choice((0, 1)))
        return f"on={EXPENSIVE},off={CHEAP},hours={edge - timedelta(hours=1):%H:%M}-{edge:%H:%M},zone=UTC"

    def second_agent(self) -> RunningAgent:
        """Return a second agent of the same site, which is not started."""
        return self._offpeak()

    def restore(self) -> str:
        """Give the site its own queue back, while no agent runs; return what is said."""
        log = self.agent.log
        before = len(log.read_text())
        self._offpeak("--restore").start().wait(RESTORE_S)
        return log.read_text()[before:]

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """Open the ledger, while no agent runs."""
        ledger = Ledger(LedgerSettings(url=f"sqlite:///{self.cluster.folder / 'ledger.sqlite'}"))
        try:
            yield ledger
        finally:
            ledger.close()

    def _offpeak(self, *arguments: str) -> RunningAgent:
        return RunningAgent(self.cluster, (*self.agent.arguments, *arguments), self.agent.start_process)


def lacking_programs() -> list[str]:
    """Return what must be installed first."""
    return missing_files(NEEDED)


@contextmanager
def stage(plan: KillsPlan) -> Iterator[Stage]:
    """Set it up, the agent not started yet."""
    powered = PoweredPlan(nodes=plan.nodes, priority=plan.priority, resume_timeout_s=60, slurmd_timeout_s=20)
    with (
        powered_cluster(powered) as cluster,
        peer("zygote").zygote_in(cluster.folder) as zygote,
    ):
        arguments = ("agent", "--config", str(cluster.folder / "offpeak.toml"))
        agent = RunningAgent(cluster, arguments, zygote.start)
        try:
            yield Stage(cluster, agent, random.Random(plan.seed))
        finally:
            agent.kill9()
