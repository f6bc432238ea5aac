"""How far the agent may go: by partition, by mode, around maintenance, and after its settings are read again."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from agent_zygote import AgentZygote
from node_story import FLAT, local, orders, wait_for_line, wait_for_sleep
from powered_cluster import PoweredCluster
from powered_fixtures import StartPowered
from powered_plan import PoweredPlan
from running_agent import RunningAgent
from site_files import write_site

PARTITIONS = """\
PartitionName=batch Nodes=ALL Default=YES MaxTime=1-0 State=UP OverSubscribe=EXCLUSIVE
PartitionName=debug Nodes=node[5-6] MaxTime=1-0 State=UP OverSubscribe=EXCLUSIVE
"""
HOT, COOL = "--job-name=hot", "--job-name=cool"

pytestmark = pytest.mark.usefixtures("nobody_suffers")


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    return start_powered(PoweredPlan(nodes=6, partitions=PARTITIONS))


def site(cluster: PoweredCluster, **agent: Any) -> str:
    changes = {**FLAT, "power": {"classes": ["hot=400W", "cool=150W"]}, "scheduling": {"window": 100}}
    return str(write_site(cluster, {"agent": agent, **changes}))


@pytest.fixture(scope="module")
def running(cluster: PoweredCluster, zygote: AgentZygote) -> Iterator[RunningAgent]:
    made = RunningAgent(cluster, ("agent", "--config", site(cluster, mode="advise")), zygote.start)
    made.start()
    wait_for_line(made, "started in mode advise")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def jobs(cluster: PoweredCluster) -> Iterator[list[str]]:
    """A hot and a cool job that wait for all nodes, behind one that has half of them."""
    (blocker,) = cluster.jobs.submit("--nodelist=node[1-3]", "--time=30", nodes=3, seconds=300)
    waiting = [*cluster.jobs.submit(HOT, nodes=6), *cluster.jobs.submit(COOL, nodes=6)]
    yield waiting
    cluster.jobs.cancel([blocker, *waiting])


def order(cluster: PoweredCluster) -> list[str]:
    """Return the pending jobs, the first to start first."""
    return cluster.run("squeue", "--noheader", "--states=PD", "--sort=-p,i", "--format=%i").split()


def comment(cluster: PoweredCluster, job: str) -> str:
    """Return what the job's owner is told."""
    shown = cluster.run("scontrol", "--oneliner", "show", "job", job)
    return shown.partition("AdminComment=")[2].partition(" Partition=")[0]


def reread(cluster: PoweredCluster, running: RunningAgent, line: str, **agent: Any) -> None:
    """Have the agent read other settings, and wait for what it says to them."""
    before = running.log.read_text().count(line)
    site(cluster, **agent)
    running.reread()
    cluster.wait(lambda: running.log.read_text().count(line) > before, what=f"the line {line!r}")


def test_advise_and_maintenance(cluster: PoweredCluster, running: RunningAgent, jobs: list[str]) -> None:
    """In mode advise owners are told, and nothing else changes; nodes in maintenance stay as they are."""
    hot, cool = jobs
    words = ("reservationname=repair", "nodes=node6", f"starttime={local(time.time() + 1)}", "duration=60")
    cluster.run("scontrol", "create", "reservation", *words, "users=root", "flags=maint,ignore_jobs")
    cluster.wait(lambda: "would be moved back" in comment(cluster, hot), what="the owner to be told")
    assert f"before {hot}" in comment(cluster, cool)
    cluster.wait(lambda: "MAINT" in cluster.state("node6"), what="the maintenance")
    assert order(cluster) == [hot, cool]
    assert all(orders(cluster, node) == [] for node in cluster.nodes)
    assert running.runs


def test_modes_of_partitions_hold(cluster: PoweredCluster, running: RunningAgent, jobs: list[str]) -> None:
    hot, cool = jobs
    reread(cluster, running, "mode active", partition_modes=["debug=shadow"])
    cluster.wait(lambda: order(cluster) == [cool, hot], what="the frugal one to be first")
    wait_for_sleep(cluster, "node4")
    assert [orders(cluster, node) for node in ("node4", "node5", "node6")] == [["soft_off"], [], []]


def test_settings_are_read_again(cluster: PoweredCluster, running: RunningAgent, jobs: list[str]) -> None:
    """What is wrong is said and changes nothing; mode shadow gives queue and nodes back."""
    hot, cool = jobs
    reread(cluster, running, "the old ones stay", capacity="perpetuum")
    reread(cluster, running, "mode active")
    wait_for_sleep(cluster, "node5")
    assert (order(cluster), orders(cluster, "node6")) == ([cool, hot], [])
    reread(cluster, running, "mode shadow", mode="shadow")
    cluster.wait(lambda: order(cluster) == [hot, cool], what="the site's own order")
    assert all("DRAIN" not in cluster.state(node) for node in cluster.nodes)
