"""A real Slurm with accounting for the tests that ask for it."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from needed_programs import need

from benchmarks.local_slurm.processes import reserved_ports
from benchmarks.local_slurm.servers import (
    ACCOUNTING,
    SlurmCluster,
    mariadb,
    munge,
    slurmctld,
    slurmd,
    slurmdbd,
    wait_for_nodes,
)

PACKAGES = "slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins"
PROGRAMS = ("slurmctld", "slurmd", "sinfo", "munged", "setpriv")
ACCOUNTING_PACKAGES = "slurmdbd slurm-wlm-mysql-plugin mariadb-server-core mariadb-client-core"
ACCOUNTING_PROGRAMS = ("slurmdbd", "/usr/lib/*/slurm-wlm/accounting_storage_mysql.so", "mariadbd", "mariadb-install-db")
NODES = 4

# Slurm itself suspends nothing; its programs do nothing. SuspendTimeout and ResumeTimeout are those of no real node.
POWER_SAVING = """\
SuspendTime=31536000
SuspendProgram=/bin/true
ResumeProgram=/bin/true
ResumeFailProgram=/bin/true
SuspendTimeout=1
ResumeTimeout=4
SuspendRate=0
ResumeRate=0
"""


@dataclass(frozen=True)
class SlurmAccounting:
    """A running cluster whose jobs are accounted for: `settings` are the lines of slurm.conf that say so."""

    cluster: SlurmCluster
    database: Path
    settings: str


@contextmanager
def accounting_slurm(more_settings: str = "") -> Iterator[SlurmAccounting]:
    """Run a cluster of four nodes with slurmdbd and MariaDB, with more lines of slurm.conf."""
    need([*PROGRAMS, *ACCOUNTING_PROGRAMS], packages=f"{PACKAGES} {ACCOUNTING_PACKAGES}")
    # Not below pytest's folder, which is closed to the other users that some tests run Slurm's commands as. What cannot
    # be removed must not hide why a start failed.
    with (
        tempfile.TemporaryDirectory(prefix="offpeak-slurm-", ignore_cleanup_errors=True) as name,
        ExitStack() as servers,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        munge_socket = servers.enter_context(munge(folder))
        database = servers.enter_context(mariadb(folder))
        accounting_port, port, *node_ports = servers.enter_context(reserved_ports(2 + NODES))
        settings = ACCOUNTING.format(port=accounting_port, munge=munge_socket) + more_settings
        cluster = SlurmCluster(folder, munge_socket, port, tuple(node_ports), settings)
        cluster.write_conf()
        servers.enter_context(slurmdbd(folder, accounting_port, munge=munge_socket, database=database))
        cluster.run("sacctmgr", "--immediate", "add", "cluster", cluster.name)
        servers.enter_context(slurmctld(cluster))
        for number in range(1, NODES + 1):
            servers.enter_context(slurmd(cluster, number))
        wait_for_nodes(cluster)
        yield SlurmAccounting(cluster, database, settings)


@pytest.fixture(scope="session")
def slurm_accounting() -> Iterator[SlurmAccounting]:
    """The cluster with accounting that the tests of a process share."""
    with accounting_slurm() as accounting:
        yield accounting


@contextmanager
def sleeping_slurm(
    priority: str,
    *,
    nodes: int = 3,
    memory_mib: int = 1000,
    settings_for: Callable[[Path], str] = lambda _: "",
) -> Iterator[SlurmCluster]:
    """Run a cluster without accounting whose nodes Slurm may count as powered down.

    `settings_for` returns more lines of slurm.conf, given the cluster's folder.
    """
    need(PROGRAMS, packages=PACKAGES)
    with (
        tempfile.TemporaryDirectory(prefix="offpeak-slurm-", ignore_cleanup_errors=True) as name,
        ExitStack() as servers,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        munge_socket = servers.enter_context(munge(folder))
        port, *node_ports = servers.enter_context(reserved_ports(1 + nodes))
        settings = POWER_SAVING + settings_for(folder)
        cluster = SlurmCluster(
            folder,
            munge_socket,
            port,
            tuple(node_ports),
            settings,
            priority=priority,
            memory_per_node_mib=memory_mib,
        )
        cluster.write_conf()
        servers.enter_context(slurmctld(cluster))
        for number in range(1, nodes + 1):
            servers.enter_context(slurmd(cluster, number))
        wait_for_nodes(cluster)
        yield cluster


@pytest.fixture(scope="session")
def basic_slurm() -> Iterator[SlurmCluster]:
    """Three nodes under priority/basic."""
    with sleeping_slurm("priority/basic") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def multifactor_slurm() -> Iterator[SlurmCluster]:
    """Three nodes under priority/multifactor."""
    with sleeping_slurm("priority/multifactor") as cluster:
        yield cluster
