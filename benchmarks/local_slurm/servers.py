"""The servers of a private Slurm cluster: munged, MariaDB, slurmdbd, slurmctld and one slurmd a node."""

import secrets
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.local_slurm.processes import (
    ME,
    SEARCH_PATH,
    end_processes_with,
    listens,
    run_once,
    running,
    wait_until,
)
from offpeak.model.cluster import NodeType

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
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")
"""Stand for the device files of GPUs: slurmd ignores GPUs that have none."""
NODE = "NodeName=node{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory={memory}{gres}"


@dataclass(frozen=True)
class SlurmCluster:
    """Where a cluster lives: one folder, one port for slurmctld and one for each node.

    `settings` go to slurm.conf, in the place of what stands there by the same key. `node_types` is the equipment of
    each node, () for equal nodes without GPUs. A node has as many GPUs at most as DEVICES has files.
    """

    folder: Path
    munge: Path
    port: int
    node_ports: tuple[int, ...]
    settings: str = ""
    name: str = "test"
    priority: str = "priority/basic"
    cpus_per_node: int = 4
    memory_per_node_mib: int = 1000
    node_types: tuple[NodeType, ...] = ()

    @property
    def conf(self) -> Path:
        """The cluster's slurm.conf."""
        return self.folder / "slurm.conf"

    def write_conf(self) -> None:
        """Write slurm.conf and what belongs to it."""
        values = vars(self) | {"user": ME, "host": HOST}
        usual_type = NodeType(self.cpus_per_node, self.memory_per_node_mib)
        types = self.node_types or (usual_type,) * len(self.node_ports)
        nodes = [
            NODE.format(number=i, host=HOST, port=port, cpus=kind.cores, memory=kind.memory_mib, gres=_gres(kind))
            for i, (port, kind) in enumerate(zip(self.node_ports, types, strict=True), 1)
        ]
        gpus = [
            f"NodeName=node{i} Name=gpu Type={name} File={','.join(DEVICES[:count])}\n"
            for i, kind in enumerate(types, 1)
            for name, count in kind.gpus
        ]
        if gpus:
            nodes.insert(0, "GresTypes=gpu")
            self.conf.with_name("gres.conf").write_text("".join(["AutoDetect=off\n", *gpus]))
        own = {line.partition("=")[0] for line in self.settings.splitlines()}
        usual = [line for line in CONF.format_map(values).splitlines() if line.partition("=")[0] not in own]
        self.conf.write_text("\n".join([*usual, self.settings, *nodes, ""]))
        self.conf.with_name("cgroup.conf").write_text(CGROUP_CONF)

    @property
    def environment(self) -> dict[str, str]:
        """With it a command of Slurm finds this cluster."""
        return {"PATH": SEARCH_PATH, "LC_ALL": "C", "SLURM_CONF": str(self.conf)}

    def run(self, *command: str, stdin: str = "") -> str:
        """Return what a command of Slurm prints; CalledProcessError if it fails."""
        return subprocess.run(
            command,
            env=self.environment,
            cwd=self.folder,
            timeout=60,
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
        ).stdout


def _gres(kind: NodeType) -> str:
    names = ",".join(f"gpu:{name}:{count}" for name, count in kind.gpus)
    return f" Gres={names}" if names else ""


SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={munge}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
{settings}
"""

ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={munge}
AccountingStorageTRES=energy
"""
"""The lines of slurm.conf for accounting."""


@contextmanager
def munge(folder: Path) -> Iterator[Path]:
    """Run munged with a key of its own; gives its socket."""
    key, sock = folder / "munge.key", folder / "munge.socket"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    options = {
        "key-file": key,
        "socket": sock,
        "pid-file": folder / "munged.pid",
        "log-file": folder / "munged.log",
        "seed-file": folder / "munge.seed",
    }
    # --force: the folder is below one that everybody may write.
    command = ["munged", "--foreground", "--force", *(f"--{name}={value}" for name, value in options.items())]
    with running(*command, log=folder / "munged.out", ready=sock.is_socket):
        yield sock


@contextmanager
def mariadb(folder: Path) -> Iterator[Path]:
    """Run mariadbd on an empty database; gives its socket."""
    log, sock = folder / "mariadbd.log", folder / "mariadb.socket"
    place = ("--no-defaults", f"--datadir={folder / 'database'}", f"--user={ME}")
    # A MariaDB that starts removes the temporary tables of any other from the folder that they share.
    own = {"TMPDIR": str(folder)}
    # --force: also on a machine whose own host name cannot be resolved.
    run_once("mariadb-install-db", *place, "--skip-test-db", "--force", log=log, environment=own)
    options = ("--skip-networking", "--skip-grant-tables", f"--socket={sock}", "--innodb-flush-log-at-trx-commit=0")
    with running("mariadbd", *place, *options, log=log, ready=sock.is_socket, environment=own):
        wait_until(lambda: b"ready for connections" in log.read_bytes(), what="MariaDB", log=log)
        yield sock


@contextmanager
def slurmdbd(folder: Path, port: int, *, munge: Path, database: Path, settings: str = "") -> Iterator[None]:
    """Run slurmdbd at the port; `settings` are further lines of its slurmdbd.conf. The folder is its own."""
    conf = folder / "slurmdbd.conf"
    conf.touch(mode=0o600)
    conf.write_text(SLURMDBD_CONF.format(munge=munge, port=port, user=ME, folder=folder, settings=settings))
    # It looks for slurmdbd.conf beside SLURM_CONF, and its MariaDB client has no other way to name a socket.
    environment = {"SLURM_CONF": str(folder / "slurm.conf"), "MYSQL_UNIX_PORT": str(database)}
    log = folder / "slurmdbd.log"
    with running("slurmdbd", "-D", environment=environment, log=log, ready=lambda: listens(port)):
        yield


@contextmanager
def slurmctld(cluster: SlurmCluster, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the cluster's controller, with further options such as -c."""
    command: tuple[str | Path, ...] = ("slurmctld", "-D", *options, "-f", cluster.conf)
    environment = {"SLURM_CONF": str(cluster.conf)}
    log = cluster.folder / "slurmctld.log"
    with running(*command, environment=environment, log=log, ready=lambda: listens(cluster.port)) as process:
        yield process


@contextmanager
def slurmd(cluster: SlurmCluster, number: int) -> Iterator[None]:
    """Run node `number`, counted from 1, and end processes that its jobs leave behind."""
    command = ("slurmd", "-D", "-f", cluster.conf, "-N", f"node{number}")
    environment = {"SLURM_CONF": str(cluster.conf)}
    log, port = cluster.folder / f"node{number}.log", cluster.node_ports[number - 1]
    try:
        with running(*command, environment=environment, log=log, ready=lambda: listens(port)):
            yield
    finally:
        # A slurmd that ends leaves its jobs running.
        end_processes_with("SLURM_CONF", cluster.conf)


def wait_for_nodes(cluster: SlurmCluster) -> None:
    """Return when every node is idle."""
    count = len(cluster.node_ports)
    log = cluster.folder / "slurmctld.log"
    ask = ("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N")
    wait_until(lambda: len(set(cluster.run(*ask).split())) == count, what="the nodes to be idle", log=log)
