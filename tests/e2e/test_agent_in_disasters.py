"""Disasters of the head node: no name server, a lost ledger. The agent goes on safely, says so, and loses nothing."""

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import tomlkit
from needed_programs import need
from node_story import by_hand, is_up, offpeak, orders, wait_for_line, wait_for_sleep
from powered_fixtures import StartPowered

from benchmarks.local_slurm.agent import Process, RunningAgent, Start, agent, run_offpeak, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.plan import PoweredPlan
from benchmarks.local_slurm.processes import OFFPEAK, start_server

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("nobody_suffers")]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts: needs root")
ALL = ("node1", "node2", "node3", "node4")


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
