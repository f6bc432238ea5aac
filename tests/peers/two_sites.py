"""Two real clusters of Slurm, here and by ssh, and a stand-in of Torque by ssh, as a federation: each has an agent."""

import asyncio
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from head_node import HeadNode, head_node
from needed_programs import need
from pbs_standin import StandIn, standin
from slurm_fixtures import PACKAGES, PROGRAMS

from benchmarks.local_slurm.plan import REPOSITORY
from benchmarks.local_slurm.processes import reserved_ports, running, wait_until
from benchmarks.local_slurm.servers import SlurmCluster, munge, slurmctld, slurmd, wait_for_nodes
from offpeak.errors import NoAnswer
from offpeak.services.broker.client import read_agent_snapshot
from offpeak.sim_backend.pbs_standin.pbs import TORQUE

SITES = """\
[sites.here]
nodes = 2
cores_per_node = 4
core_power = "10W"
gflops_per_core = 20
pue = 1.5
time_zone = "UTC"
tariff = "on=60EUR/MWh,off=60EUR/MWh,hours=07:00-21:00"
esc = "400g/kWh"
reach = "local"

[sites.there]
nodes = 2
cores_per_node = 4
core_power = "10W"
gflops_per_core = 20
pue = 1.1
time_zone = "UTC"
tariff = "on=120EUR/MWh,off=120EUR/MWh,hours=07:00-21:00"
esc = "50g/kWh"
{there}

[sites.barn]
nodes = 3
cores_per_node = 8
core_power = "10W"
gflops_per_core = 20
pue = 1.3
time_zone = "UTC"
tariff = "on=90EUR/MWh,off=90EUR/MWh,hours=07:00-21:00"
esc = "200g/kWh"
features = ["barn"]
submit = "qsub"
{barn}
"""
SETTINGS = """\
[agent]
scheduler = "{scheduler}"
mode = "shadow"
queue = "off"
capacity = "always-on"
cycle = "2s"
socket = "{folder}/run/agent.sock"
state_folder = "{folder}"

[ledger]
url = "sqlite:///{folder}/ledger.sqlite"

[broker]
sites = "{folder}/sites.toml"
mode = "active"
timeout = "2min"
"""
COMPILES_S = 900.0


@dataclass(frozen=True)
class TwoSites:
    """The clusters `here` and `there`, the head node of the latter, the stand-in `barn`, and what `offpeak` runs."""

    here: SlurmCluster
    there: SlurmCluster
    head: HeadNode
    barn: StandIn
    offpeak: Path

    @property
    def settings(self) -> Path:
        """The broker's settings."""
        return self.here.folder / "offpeak.toml"

    @property
    def environment(self) -> dict[str, str]:
        """That of who submits on the head node of `here`."""
        return {**self.here.environment, "PYTHONPATH": str(REPOSITORY), "OFFPEAK_CONFIG": str(self.settings)}


@contextmanager
def plain_cluster(folder: Path, name: str, *, nodes: int = 2) -> Iterator[SlurmCluster]:
    """Run a cluster with munge of its own, without accounting."""
    folder.mkdir()
    folder.chmod(0o755)
    with ExitStack() as servers:
        socket = servers.enter_context(munge(folder))
        port, *node_ports = servers.enter_context(reserved_ports(1 + nodes))
        cluster = SlurmCluster(folder, socket, port, tuple(node_ports), name=name)
        cluster.write_conf()
        servers.enter_context(slurmctld(cluster))
        for number in range(1, nodes + 1):
            servers.enter_context(slurmd(cluster, number))
        wait_for_nodes(cluster)
        yield cluster


@contextmanager
def agent_of(
    offpeak: Path, folder: Path, environment: Mapping[str, str], *, scheduler: str = "slurm"
) -> Iterator[None]:
    """Run the agent of a cluster; its settings are those of a broker too."""
    settings, socket = folder / "offpeak.toml", folder / "run" / "agent.sock"
    settings.write_text(SETTINGS.format(folder=folder, scheduler=scheduler))
    command = (offpeak, "agent", "--config", str(settings))
    log = folder / "agent.log"
    with running(*command, environment=environment, log=log, ready=lambda: report_of(socket) is not None):
        # The first simulation compiles its kernels, which are then cached for the other agents.
        wait_until(lambda: knows_waits(socket), what="the agent to know waits", log=log, seconds=COMPILES_S)
        yield


def report_of(socket: Path) -> Any:
    """Return the report of the agent there, None if it does not answer or has not looked at its cluster."""
    try:
        return json.loads(asyncio.run(read_agent_snapshot(socket)))
    except (OSError, NoAnswer):
        return None


def knows_waits(socket: Path) -> bool:
    """Whether the report of the agent there has waits."""
    report = report_of(socket)
    return report is not None and bool(report["waits"]["cores"])


@contextmanager
def two_sites(offpeak: Path) -> Iterator[TwoSites]:
    """Run the clusters, their agents and the ways to the second and the third."""
    need(PROGRAMS, packages=PACKAGES)
    with tempfile.TemporaryDirectory(prefix="offpeak-sites-", ignore_cleanup_errors=True) as name, ExitStack() as parts:
        folder = Path(name)
        folder.chmod(0o755)
        here = parts.enter_context(plain_cluster(folder / "here", "here"))
        there = parts.enter_context(plain_cluster(folder / "there", "there"))
        (folder / "barn").mkdir()
        barn = parts.enter_context(standin(TORQUE, folder / "barn"))
        of_barn = {"PATH": barn.path, "LC_ALL": "C"}
        for cluster in (here, there):
            parts.enter_context(agent_of(offpeak, cluster.folder, cluster.environment))
        parts.enter_context(agent_of(offpeak, folder / "barn", of_barn, scheduler=TORQUE))
        head = parts.enter_context(_head(offpeak, there.folder, there.environment))
        door = parts.enter_context(_head(offpeak, folder / "barn", of_barn))
        (here.folder / "sites.toml").write_text(SITES.format(there=head.reach, barn=door.reach))
        yield TwoSites(here, there, head, barn, offpeak)


@contextmanager
def _head(offpeak: Path, folder: Path, environment: Mapping[str, str]) -> Iterator[HeadNode]:
    path = f"{_commands(offpeak, folder)}:{environment['PATH']}"
    with head_node(folder / "ssh", {**environment, "PATH": path}) as head:
        yield head


def _commands(offpeak: Path, site: Path) -> Path:
    """Return a folder with the command `offpeak` as an installed one is found at that site."""
    folder = site / "bin"
    folder.mkdir(exist_ok=True)
    command = folder / "offpeak"
    command.write_text(f'#!/bin/sh\nOFFPEAK_CONFIG={site}/offpeak.toml {offpeak} "$@"\n')
    command.chmod(0o755)
    return folder
