"""However the agent ends, jobs go on without it: nodes are open or are woken, and the queue can be given back."""

import time
from pathlib import Path

import pytest
from node_story import FLAT, offpeak, orders, wait_for_sleep
from powered_fixtures import StartStage
from powered_stage import PoweredStage
from zygote import Zygote

from benchmarks.local_slurm.agent import agent, run_offpeak, write_site
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.model.orders import NodeState
from offpeak.plugin.scheduler.node import SchedulerState

ALL = ("node1", "node2", "node3", "node4")
HOT, COOL = "hot", "cool"

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]


@pytest.fixture(scope="module")
def cluster(start_stage: StartStage) -> PoweredStage:
    return start_stage(PoweredPlan(nodes=len(ALL)))


@pytest.fixture
def settings(cluster: PoweredStage) -> Path:
    return write_site(cluster, {**FLAT, "power": {"classes": ["hot=400W", "cool=150W"]}, "scheduling": {"window": 100}})


def all_busy(cluster: PoweredStage) -> bool:
    """Whether a job has all nodes, after what the site itself does for that."""
    cluster.without_agent()
    return scheduler_states(cluster) == {SchedulerState.BUSY}


def scheduler_states(cluster: PoweredStage) -> set[SchedulerState | None]:
    """Return the scheduler's states of the nodes."""
    return {cluster.admin.scheduler_state(node) for node in ALL}


def closed(cluster: PoweredStage) -> list[str]:
    """Return the nodes that take no jobs."""
    return [node for node in ALL if cluster.admin.is_shut(node)]


def test_killed_its_nodes_are_woken_without_it_and_all_is_given_back(
    cluster: PoweredStage, settings: Path, zygote: Zygote
) -> None:
    with agent(cluster, settings, by=zygote.start) as running:
        # All four: a node that the server does not know as asleep is not woken without the agent.
        wait_for_sleep(cluster, *ALL)
        second = run_offpeak(cluster, "agent")
        assert (second.returncode, "another" in second.stderr) == (1, True), second.stderr
        running.kill9()
        # Nobody is there but the site's own programs.
        (blocker,) = cluster.jobs.submit(on="node[1-4]", nodes=4, seconds=300)
        cluster.wait(lambda: all_busy(cluster), what="all nodes to be woken")
        assert [orders(cluster, node)[-2:] for node in ALL] == [["soft_off", "on"]] * 4
        (hot,) = cluster.jobs.submit(name=HOT, nodes=4)
        (cool,) = cluster.jobs.submit(name=COOL, nodes=4)
        running.start()
        cluster.wait(lambda: cluster.jobs.order() == [cool, hot], what="the frugal one to be first")
        running.kill9()
        assert cluster.jobs.order() == [cool, hot]
        offpeak(cluster, "agent", "--restore")
        assert cluster.jobs.order() == [hot, cool]
        running.start()
        cluster.wait(lambda: cluster.jobs.order() == [cool, hot], what="the frugal one to be first")
        running.stop()
        assert cluster.jobs.order() == [hot, cool]
        cluster.jobs.cancel([blocker, hot, cool])


def test_a_node_closed_without_an_order_is_opened(cluster: PoweredStage, settings: Path, zygote: Zygote) -> None:
    cluster.wait(lambda: scheduler_states(cluster) == {SchedulerState.UP}, what="idle nodes")
    for node in cluster.nodes.values():
        # Told to go down they may follow yet: they stay closed, however the agent ends.
        node.ignores_shutdown = True
    begin_s = time.time()
    with agent(cluster, settings, by=zygote.start) as running:
        cluster.wait(lambda: bool(closed(cluster)), what="nodes to be closed")
        running.kill9()
        answer = run_offpeak(cluster, "agent", "--restore")
        assert closed(cluster) == ordered_to_go(cluster, begin_s)
        assert all(f"{node}: closed still" in answer.stderr for node in closed(cluster))
        running.start()
        # A node that was on its way and came back rests for half a minute.
        cluster.wait(lambda: bool(closed(cluster)), what="nodes to be closed")
        running.stop()
        assert closed(cluster) == ordered_to_go(cluster, begin_s)


def test_ordered_down_just_before_it_was_killed(cluster: PoweredStage, settings: Path, zygote: Zygote) -> None:
    for node in cluster.nodes.values():
        node.ignores_shutdown = False
    offpeak_until_open(cluster)
    begin_s = time.time()
    with agent(cluster, settings, by=zygote.start) as running:
        cluster.wait(lambda: bool(ordered_to_go(cluster, begin_s)), what="a node to be ordered down")
        # In the middle: of this node the scheduler knows only that it is closed.
        running.kill9()
    gone = ordered_to_go(cluster, begin_s)
    for node in set(closed(cluster)) - set(gone):
        # Killed between the closing and the order: it would stay closed for ten minutes, since it may have been sent.
        cluster.admin.open(node)
    cluster.wait(lambda: all(cluster.nodes[node].state is NodeState.OFF for node in gone), what="these to be off")
    assert closed(cluster)
    (job,) = cluster.jobs.submit(nodes=len(ALL), seconds=300)
    cluster.wait(
        lambda: restored_and_busy(cluster), what="a job on all nodes, though no agent runs any more", seconds=90
    )
    assert [orders(cluster, node, begin_s) for node in gone] == [["soft_off", "on"]] * len(gone)
    cluster.jobs.cancel([job])


def offpeak_until_open(cluster: PoweredStage) -> None:
    """Give back what the scene before has left closed: nodes that do not follow an order any more."""
    for node in closed(cluster):
        cluster.admin.open(node)
    cluster.wait(lambda: scheduler_states(cluster) == {SchedulerState.UP}, what="idle nodes")


def restored_and_busy(cluster: PoweredStage) -> bool:
    """Whether a job has all nodes, after an admin gives back what the agent has left."""
    run_offpeak(cluster, "agent", "--restore")
    return all_busy(cluster)


def ordered_to_go(cluster: PoweredStage, since_s: float) -> list[str]:
    """Return the nodes whose BMCs got an order to switch them off."""
    return [node for node in ALL if "soft_off" in orders(cluster, node, since_s)]
