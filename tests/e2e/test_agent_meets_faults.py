"""What the agent makes of nodes and BMCs that fail or lie: no job loses its power, and the other nodes go on."""

import time
from collections.abc import Iterator

import pytest
from node_story import FLAT, by_hand, offpeak, orders, taken, wait_for_sleep
from powered_fixtures import StartStage
from powered_stage import PoweredStage
from zygote import Zygote

from benchmarks.local_slurm.agent import RunningAgent, run_offpeak, write_site
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.plugin.scheduler.node import SchedulerState

ONE_TRY = {"agent": {"tries": 1, "unknown_percent": 100}, "hardware": {"timeout": "1s"}, **FLAT}
RESUME_S = 6


@pytest.fixture(scope="module")
def cluster(start_stage: StartStage) -> PoweredStage:
    return start_stage(PoweredPlan(nodes=7, resume_timeout_s=RESUME_S))


@pytest.fixture
def running(cluster: PoweredStage, zygote: Zygote) -> Iterator[RunningAgent]:
    made = RunningAgent(cluster, ("agent", "--config", str(write_site(cluster, ONE_TRY))), zygote.start)
    yield made
    made.stop()


def why(cluster: PoweredStage, node: str) -> str:
    """Return what an admin is shown of the node."""
    return offpeak(cluster, "nodes", node, "show")


def test_bmcs_that_lie_die_and_hang_take_no_power_from_jobs(cluster: PoweredStage, running: RunningAgent) -> None:
    (job,) = cluster.jobs.submit(on="node[1-3]", nodes=3, seconds=30)
    cluster.wait(lambda: job in cluster.jobs.started(), what="the job to start")
    nodes = cluster.nodes
    nodes["node1"].bmc_lies_off = True
    for busy, idle in (("node2", "node4"), ("node3", "node5")):
        cluster.kill_bmc(busy)
        nodes[idle].bmc.freeze()
    running.start()
    wait_for_sleep(cluster, "node6", "node7")
    for node in ("node4", "node5"):
        assert "unknown" in why(cluster, node)
    cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="the job to end")
    assert taken(cluster, *(f"node{number}" for number in range(1, 6))) == []
    assert cluster.jobs.lost() == []
    nodes["node1"].bmc_lies_off = False
    for busy, idle in (("node2", "node4"), ("node3", "node5")):
        cluster.restart_bmc(busy)
        nodes[idle].bmc.thaw()
    wait_for_sleep(cluster, *nodes)
    assert cluster.log.violations == ()


def test_a_node_that_does_not_boot_is_handed_over(cluster: PoweredStage, running: RunningAgent) -> None:
    running.start()
    wait_for_sleep(cluster, *cluster.nodes)
    cluster.wait(lambda: run_offpeak(cluster, "status").returncode == 0, what="the agent to be there")
    for node in cluster.nodes.values():
        node.hangs_in_boot = True
    begin_s = time.time()
    (job,) = cluster.jobs.submit(seconds=1)
    cluster.wait(lambda: bool(woken(cluster, begin_s)), what="a node to be woken")
    broken = woken(cluster, begin_s)[-1]
    for node in cluster.nodes.values():
        node.hangs_in_boot = node.name == broken
    cluster.wait(lambda: "does not come up" in offpeak(cluster, "nodes"), what="the fault")
    assert f"offpeak nodes {broken} release" in why(cluster, broken)
    if cluster.gives_sleepers:
        cluster.wait(lambda: cluster.jobs.states()[job] == "PENDING", what="the job to be put back")
        cluster.admin.let_go(job)
    cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="it to run elsewhere")
    assert [entry.nodes for entry in cluster.jobs.trace() if entry.job == job] != [broken] * 2
    assert orders(cluster, broken, begin_s) == ["on"]
    mend(cluster, broken)
    (again,) = cluster.jobs.submit(on=broken, seconds=60)
    cluster.wait(lambda: cluster.admin.scheduler_state(broken) is SchedulerState.BUSY, what="the mended node to serve")
    cluster.jobs.cancel([again])
    assert cluster.jobs.lost() == ([job] if cluster.gives_sleepers else [])
    assert cluster.log.violations == ()


def woken(cluster: PoweredStage, since_s: float) -> list[str]:
    """Return the nodes that got an order to wake."""
    return [event.node for event in cluster.log.events(since_s=since_s) if event.what == "on"]


def mend(cluster: PoweredStage, node: str) -> None:
    """Act as an admin who repairs the node and returns it."""
    cluster.nodes[node].hangs_in_boot = False
    by_hand(cluster, node, "hard_off")
    offpeak(cluster, "nodes", node, "release")
    cluster.admin.mended(node)
    wait_for_sleep(cluster, node)
