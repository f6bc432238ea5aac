"""The Slurm of a powered cluster up to its slurm.conf: munged, and accounting where the plan has it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from local_server import reserved_ports
from mariadb_server import mariadb
from munge_server import munge
from powered_plan import PoweredPlan
from slurm_cluster import Cluster
from slurmdbd_server import ACCOUNTING, slurmdbd


@contextmanager
def configured_slurm(plan: PoweredPlan, folder: Path) -> Iterator[Cluster]:
    """Give a cluster of which nothing runs but what its daemons need; all is written into the folder."""
    with ExitStack() as servers:
        port, book_port, *node_ports = servers.enter_context(reserved_ports(2 + plan.nodes))
        socket = servers.enter_context(munge(folder))
        settings = plan.conf(folder)
        if plan.accounting:
            settings += ACCOUNTING.format(port=book_port, munge=socket)
        slurm = Cluster(folder, socket, port, tuple(node_ports), settings, "powered", plan.cpus)
        slurm.write_conf()
        plan.write_files(folder)
        if plan.accounting:
            database = servers.enter_context(mariadb(folder))
            servers.enter_context(slurmdbd(folder, book_port, munge=socket, database=database))
            slurm.run("sacctmgr", "--immediate", "add", "cluster", slurm.name)
        yield slurm
