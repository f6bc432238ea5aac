"""However the agent ends, jobs go on without it: nodes are open or are woken, and the queue can be given back."""

import time
from pathlib import Path

import pytest
from agent_zygote import AgentZygote
from node_story import FLAT, offpeak, orders, wait_for_sleep
from powered_cluster import PoweredCluster
from powered_fixtures import StartPowered
from powered_plan import PoweredPlan
from running_agent import agent, asked_offpeak
from site_files import write_site

ALL = ("node1", "node2", "node3", "node4")
HOT, COOL = "--job-name=hot", "--job-name=cool"

pytestmark = pytest.mark.usefixtures("nobody_suffers")


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    return start_powered(PoweredPlan(nodes=len(ALL)))


@pytest.fixture
def settings(cluster: PoweredCluster) -> Path:
    return write_site(cluster, {**FLAT, "power": {"classes": ["hot=400W", "cool=150W"]}, "scheduling": {"window": 100}})


def order(cluster: PoweredCluster) -> list[str]:
    """Return the pending jobs, the first to start first."""
    return cluster.run("squeue", "--noheader", "--states=PD", "--sort=-p,i", "--format=%i").split()


def closed(cluster: PoweredCluster) -> list[str]:
    """Return the nodes that take no jobs."""
    return [node for node in ALL if "DRAIN" in cluster.state(node)]


def test_killed_its_nodes_are_woken_without_it_and_all_is_given_back(
    cluster: PoweredCluster, settings: Path, zygote: AgentZygote
) -> None:
    with agent(cluster, settings, by=zygote.start) as running:
        wait_for_sleep(cluster, "node3", "node4")
        second = asked_offpeak(cluster, "agent")
        assert (second.returncode, "another" in second.stderr) == (1, True), second.stderr
        running.kill9()
        # Nobody is there but Slurm's own program.
        (blocker,) = cluster.jobs.submit("--nodelist=node[1-4]", nodes=4, seconds=300)
        cluster.wait(lambda: all(cluster.state(node) == "ALLOCATED" for node in ALL), what="all nodes to be woken")
        assert [orders(cluster, node)[-2:] for node in ALL] == [["soft_off", "on"]] * 4
        (hot,) = cluster.jobs.submit(HOT, nodes=4)
        (cool,) = cluster.jobs.submit(COOL, nodes=4)
        running.start()
        cluster.wait(lambda: order(cluster) == [cool, hot], what="the frugal one to be first")
        running.kill9()
        assert order(cluster) == [cool, hot]
        offpeak(cluster, "agent", "--restore")
        assert order(cluster) == [hot, cool]
        running.start()
        cluster.wait(lambda: order(cluster) == [cool, hot], what="the frugal one to be first")
        running.stop()
        assert order(cluster) == [hot, cool]
        cluster.jobs.cancel([blocker, hot, cool])


def test_who_was_closed_and_not_told_to_go_is_opened(
    cluster: PoweredCluster, settings: Path, zygote: AgentZygote
) -> None:
    cluster.wait(lambda: all(cluster.state(node) == "IDLE" for node in ALL), what="idle nodes", seconds=60)
    for node in cluster.nodes.values():
        # Told to go down they may follow yet: they stay closed, however the agent ends.
        node.ignores_shutdown = True
    begin_s = time.time()
    with agent(cluster, settings, by=zygote.start) as running:
        cluster.wait(lambda: bool(closed(cluster)), what="nodes to be closed")
        running.kill9()
        answer = asked_offpeak(cluster, "agent", "--restore")
        assert closed(cluster) == told_to_go(cluster, begin_s)
        assert all(f"{node}: closed still" in answer.stderr for node in closed(cluster))
        running.start()
        # A node that was on its way and came back rests for half a minute.
        cluster.wait(lambda: bool(closed(cluster)), what="nodes to be closed", seconds=90)
        running.stop()
        assert closed(cluster) == told_to_go(cluster, begin_s)


def told_to_go(cluster: PoweredCluster, since_s: float) -> list[str]:
    """Return the nodes whose BMCs were told to switch them off."""
    return [node for node in ALL if "soft_off" in orders(cluster, node, since_s)]
