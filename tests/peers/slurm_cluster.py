"""A private Slurm cluster whose nodes all are this machine: slurm.conf, slurmctld and one slurmd a node."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local_server import ME, end_processes_with, listens, running, wait_until
from needed_programs import SEARCH_PATH

HOST = socket.gethostname().partition(".")[0]

CONF = """\
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={munge}
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir={folder}/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0
PriorityType={priority}
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=1
PartitionName=batch Nodes=ALL Default=YES MaxTime=1-0 State=UP
PartitionName=again Nodes=ALL State=UP
"""
# As root of a container without systemd too; no job is put into a control group.
CGROUP_CONF = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"
NODE = "NodeName=node{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory=1000"


@dataclass(frozen=True)
class Cluster:
    """Where a cluster lives: one folder, one port for slurmctld and one for each node.

    `settings` go to slurm.conf, in the place of what stands there by the same key.
    """

    folder: Path
    munge: Path
    port: int
    node_ports: tuple[int, ...]
    settings: str = ""
    name: str = "test"
    priority: str = "priority/basic"
    cpus_per_node: int = 4

    @property
    def conf(self) -> Path:
        """The cluster's slurm.conf."""
        return self.folder / "slurm.conf"

    def write_conf(self) -> None:
        """Write slurm.conf and what belongs to it."""
        words = vars(self) | {"user": ME, "host": HOST}
        nodes = [
            NODE.format(number=i, host=HOST, port=port, cpus=self.cpus_per_node)
            for i, port in enumerate(self.node_ports, 1)
        ]
        own = {line.partition("=")[0] for line in self.settings.splitlines()}
        usual = [line for line in CONF.format_map(words).splitlines() if line.partition("=")[0] not in own]
        self.conf.write_text("\n".join([*usual, self.settings, *nodes, ""]))
        self.conf.with_name("cgroup.conf").write_text(CGROUP_CONF)

    @property
    def environment(self) -> dict[str, str]:
        """With it a command of Slurm finds this cluster."""
        return {"PATH": SEARCH_PATH, "LC_ALL": "C", "SLURM_CONF": str(self.conf)}

    def run(self, *command: str, stdin: str = "") -> str:
        """Return what a command of Slurm prints; CalledProcessError if it fails."""
        words = {"env": self.environment, "cwd": self.folder, "timeout": 60, "input": stdin}
        return subprocess.run(command, **words, capture_output=True, text=True, check=True).stdout


@contextmanager
def slurmctld(cluster: Cluster) -> Iterator[subprocess.Popen[bytes]]:
    """Run the cluster's controller."""
    command = ("slurmctld", "-D", "-f", cluster.conf)
    environment = {"SLURM_CONF": str(cluster.conf)}
    log = cluster.folder / "slurmctld.log"
    with running(*command, environment=environment, log=log, ready=lambda: listens(cluster.port)) as process:
        yield process


@contextmanager
def slurmd(cluster: Cluster, number: int) -> Iterator[None]:
    """Run node `number`, counted from 1, and end what its jobs leave behind."""
    command = ("slurmd", "-D", "-f", cluster.conf, "-N", f"node{number}")
    environment = {"SLURM_CONF": str(cluster.conf)}
    log, port = cluster.folder / f"node{number}.log", cluster.node_ports[number - 1]
    try:
        with running(*command, environment=environment, log=log, ready=lambda: listens(port)):
            yield
    finally:
        # A slurmd that ends leaves its jobs running.
        end_processes_with("SLURM_CONF", cluster.conf)


def wait_for_nodes(cluster: Cluster) -> None:
    """Return when every node is idle."""
    idle = str(len(cluster.node_ports))
    log = cluster.folder / "slurmctld.log"
    ask = ("sinfo", "--noheader", "--partition=batch", "--states=idle", "--format=%D")
    wait_until(lambda: cluster.run(*ask).strip() == idle, what="the nodes to be idle", log=log)
