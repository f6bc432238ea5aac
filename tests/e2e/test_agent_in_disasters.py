"""Disasters of the head node: no name server, a lost or an older ledger, an upgrade, a full disk.

The agent goes on safely and says so: it cuts off no job, and strands no node.
"""

import os
import shutil
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
import tomlkit
from alembic import command
from alembic.config import Config
from needed_programs import need
from node_story import (
    FLAT,
    by_hand,
    for_a_while,
    is_up,
    offpeak,
    orders,
    taken,
    wait_for_line,
    wait_for_sleep,
)
from powered_fixtures import StartPowered
from zygote import Zygote

from benchmarks.local_slurm.agent import Process, RunningAgent, Start, agent, run_offpeak, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.plan import PoweredPlan
from benchmarks.local_slurm.processes import OFFPEAK, start_server
from offpeak.ledger.database import HEAD, MIGRATIONS, writing_engine

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts: needs root")
ALL = ("node1", "node2", "node3", "node4")
OPEN_ORDERS = "SELECT count(*) FROM intents WHERE number NOT IN (SELECT intent FROM outcomes)"


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    need(["unshare"], packages="util-linux")
    return start_powered(PoweredPlan(nodes=len(ALL), boot_s=4.0))


def after(script: str) -> Start:
    """Return what starts `offpeak` after a script, with mounts of its own."""

    def start(arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> Process:
        command = ("unshare", "--mount", "sh", "-ec", f'{script}\nexec "$@"', "sh", *OFFPEAK, *arguments)
        return start_server(command, log, environment)

    return start


@needs_root
def test_without_a_name_server_nodes_are_woken_and_those_with_names_are_left_alone(
    cluster: PoweredCluster, tmp_path: Path
) -> None:
    names = 100
    changes = {
        "agent": {"nodes": f"node[1-4],away[1-{names}]", "unknown_percent": 100},
        "feeds": {"zone": "DE-LU"},
    }
    settings, inventory = write_site(cluster, changes), cluster.folder / "inventory.toml"
    written = tomlkit.parse(inventory.read_text()).unwrap()
    (machines,) = written["machines"]
    machines["bmc"] = f"{machines['bmc'].rpartition(',')[0]},bmc4.site.example"
    away = {"nodes": f"away[1-{names}]", "hardware": "compute", "bmc": f"bmc[101-{100 + names}].site.example"}
    inventory.write_text(tomlkit.dumps({**written, "machines": [machines, away]}))
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.9\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.9", 53))
        begin = after(f"mount --bind {tmp_path}/resolv.conf /etc/resolv.conf")
        running = RunningAgent(cluster, ("agent", "--config", str(settings)), begin)
        running.start()
        try:
            wait_for_sleep(cluster, "node1", "node2", "node3")
            (job,) = cluster.jobs.submit(on="node1", seconds=1)
            cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="a job on a node that slept")
            wait_for_line(running, "WARNING prices: ")
            shown = offpeak(cluster, "status")
            assert "(assumed tariff)" in shown
            assert "prices: energy-charts: no network" in shown
            assert "unknown" in offpeak(cluster, "nodes", "node4", "show")
            assert orders(cluster, "node4") == []
        finally:
            running.stop()


def test_nodes_that_boot_by_hand_while_the_ledger_is_lost_are_not_left_drained(cluster: PoweredCluster) -> None:
    """slurmctld clears the reason of a drained node that registers although it counts as powered down."""
    settings = write_site(cluster, {"agent": {"capacity": "timeout:2s"}})
    with agent(cluster, settings):
        wait_for_sleep(cluster, *ALL)
    for file in cluster.folder.glob("ledger.sqlite*"):
        file.unlink()
    with agent(cluster, settings):
        cluster.wait(lambda: run_offpeak(cluster, "status").returncode == 0, what="the agent's first cycle")
        for node in ALL[:3]:
            by_hand(cluster, node, "on")
        cluster.wait(lambda: all(is_up(cluster, node) for node in ALL[:3]), what="the nodes to boot")
        wait_for_sleep(cluster, *ALL)
        reasons = cluster.run("sinfo", "--noheader", "--Node", "--format=%N %T %E").splitlines()
    assert [line for line in reasons if "drain" in line] == []


def runs_on(cluster: PoweredCluster, node: str, *, seconds: float = 1) -> None:
    """Run a job on the node to its end, which is woken if it sleeps."""
    (job,) = cluster.jobs.submit(on=node, seconds=seconds)
    cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what=f"a job on {node}")


def all_run(cluster: PoweredCluster) -> None:
    """Run one job on all nodes: none is stranded."""
    (job,) = cluster.jobs.submit(on="node[1-4]", nodes=len(ALL), seconds=1)
    cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="a job on all nodes")


def query(ledger: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(ledger, timeout=300)) as connection:
        return connection.execute(statement).fetchall()


def one_version_back(ledger: Path) -> None:
    """Give the ledger the tables of the version before HEAD."""
    engine, config = writing_engine(f"sqlite:///{ledger}"), Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "-1")
    engine.dispose()


def test_an_upgrade_in_the_middle_of_a_wake_strands_no_node_and_keeps_the_old_ledger(
    cluster: PoweredCluster, zygote: Zygote
) -> None:
    settings, ledger = write_site(cluster, FLAT), cluster.folder / "ledger.sqlite"
    with agent(cluster, settings, by=zygote.start) as running:
        (busy,) = cluster.jobs.submit(on="node1", seconds=25)
        wait_for_sleep(cluster, "node2", "node3", "node4")
        before_s = time.time()
        (wakes,) = cluster.jobs.submit(on="node2", seconds=1)
        cluster.wait(lambda: "on" in orders(cluster, "node2", before_s), what="a wake under way")
        running.stop()
        one_version_back(ledger)
        # An order that an agent of that version may have sent when it was killed.
        with closing(sqlite3.connect(ledger)) as connection, connection:
            columns, given = 'subject, "order", by, reason, inputs, at_unix_s', (time.time(),)
            values = "'node3', 'soft_off', 'offpeak', 'idle', '{}', ?"
            connection.execute(f"INSERT INTO intents ({columns}) VALUES ({values})", given)
        rows = query(ledger, "SELECT count(*) FROM intents")
        running.start()
        cluster.wait(lambda: query(ledger, "SELECT version_num FROM alembic_version") == [(HEAD,)], what="a migration")
        copy = ledger.with_name(f"{ledger.name}.before-{HEAD}")
        assert query(copy, "SELECT version_num FROM alembic_version") < [(HEAD,)]
        assert query(copy, "SELECT count(*) FROM intents") == rows
        for job in (busy, wakes):
            cluster.wait(lambda job=job: cluster.jobs.states()[job] == "COMPLETED", what="jobs of before")
        cluster.wait(lambda: query(ledger, OPEN_ORDERS) == [(0,)], what="the open order to be closed")
        all_run(cluster)
        copy.unlink()


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of 8 MB there until the block ends."""
    folder.mkdir(exist_ok=True)
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder), check=True)
    try:
        yield folder
    finally:
        subprocess.run(("umount", "--lazy", folder), check=True)


def fill(file: Path) -> None:
    """Write until there is no space left."""
    with file.open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(4096)):
            pass


@needs_root
def test_on_a_full_disk_nodes_are_woken_none_is_switched_off_and_it_recovers(
    cluster: PoweredCluster, zygote: Zygote
) -> None:
    with small_disk(cluster.folder / "agent") as disk:
        ledger, filler = disk / "ledger.sqlite", disk / "filler"
        changes = {"ledger": {"url": f"sqlite:///{ledger}"}}
        with agent(cluster, write_site(cluster, {**FLAT, **changes}), by=zygote.start) as running:
            wait_for_sleep(cluster, *ALL)
            fill(filler)
            full_s = time.time()
            runs_on(cluster, "node1")
            wait_for_line(running, "WARNING ledger: ")
            for_a_while()
            assert "on" in orders(cluster, "node1", full_s)
            assert taken(cluster, *ALL, since_s=full_s) == []
            assert running.runs
            filler.unlink()
            wait_for_line(running, "INFO ledger: well again")
            wait_for_sleep(cluster, *ALL)
            assert query(ledger, "PRAGMA integrity_check") == [("ok",)]
            assert [file.name for file in disk.iterdir() if file.suffix in {".part", ".tmp"}] == []
            running.stop()
            assert query(ledger, OPEN_ORDERS) == [(0,)]
        all_run(cluster)


def test_an_older_copy_of_the_ledger_strands_no_node_that_slept_since(cluster: PoweredCluster, zygote: Zygote) -> None:
    settings, ledger, copy = write_site(cluster, FLAT), cluster.folder / "ledger.sqlite", cluster.folder / "nightly"
    blocker = cluster.jobs.submit(on="node[1-4]", nodes=len(ALL), seconds=600)
    with agent(cluster, settings, by=zygote.start) as running:
        cluster.wait(lambda: {cluster.jobs.states()[job] for job in blocker} == {"RUNNING"}, what="all nodes busy")
        offpeak(cluster, "ledger", "backup", str(copy))
        cluster.jobs.cancel(blocker)
        wait_for_sleep(cluster, *ALL)
        running.stop()
        for part in cluster.folder.glob("ledger.sqlite*"):
            part.unlink()
        shutil.copy(copy, ledger)
        begin_s = time.time()
        running.start()
        for_a_while(5)
        all_run(cluster)
        assert [node for node in ALL if "on" not in orders(cluster, node, begin_s)] == []
        wait_for_sleep(cluster, *ALL)
