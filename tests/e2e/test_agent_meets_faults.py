"""What the agent makes of nodes and BMCs that fail or lie: no job loses its power, and the other nodes go on."""

import time
from collections.abc import Iterator

import pytest
from agent_zygote import AgentZygote
from node_story import FLAT, by_hand, offpeak, orders, scontrol, taken, wait_for_sleep
from powered_cluster import PoweredCluster
from powered_fixtures import StartPowered
from powered_plan import PoweredPlan
from running_agent import RunningAgent, asked_offpeak
from site_files import write_site

ONE_TRY = {"agent": {"tries": 1, "unknown_percent": 100}, "hardware": {"timeout": "1s"}, **FLAT}
RESUME_S = 6


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    return start_powered(PoweredPlan(nodes=7, resume_timeout_s=RESUME_S))


@pytest.fixture
def running(cluster: PoweredCluster, zygote: AgentZygote) -> Iterator[RunningAgent]:
    made = RunningAgent(cluster, ("agent", "--config", str(write_site(cluster, ONE_TRY))), zygote.start)
    yield made
    made.stop()


def why(cluster: PoweredCluster, node: str) -> str:
    """Return what an admin is shown of the node."""
    return offpeak(cluster, "node", node, "show")


def test_bmcs_that_lie_die_and_hang_take_no_power_from_jobs(cluster: PoweredCluster, running: RunningAgent) -> None:
    (job,) = cluster.jobs.submit("--nodelist=node[1-3]", nodes=3, seconds=30)
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
    assert cluster.log.sins == ()


def test_a_node_that_does_not_boot_is_handed_over(cluster: PoweredCluster, running: RunningAgent) -> None:
    running.start()
    wait_for_sleep(cluster, *cluster.nodes)
    cluster.wait(lambda: asked_offpeak(cluster, "status").returncode == 0, what="the agent to be there")
    for node in cluster.nodes.values():
        node.hangs_in_boot = True
    begin_s = time.time()
    (job,) = cluster.jobs.submit(seconds=1)
    cluster.wait(lambda: len(cluster.calls("Resume")) > 0, what="a node to be woken")
    broken = cluster.calls("Resume")[-1][1]
    for node in cluster.nodes.values():
        node.hangs_in_boot = node.name == broken
    cluster.wait(lambda: "does not come up" in offpeak(cluster, "nodes"), what="the fault")
    assert f"offpeak node {broken} release" in why(cluster, broken)
    cluster.wait(lambda: cluster.jobs.states()[job] == "PENDING", what="the job to be put back")
    # Slurm lets it wait for two minutes.
    cluster.run("scontrol", "update", f"jobid={job}", "starttime=now")
    cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="it to run elsewhere", seconds=60)
    assert [each.nodes for each in cluster.jobs.trace() if each.job == job] != [broken] * 2
    assert orders(cluster, broken, begin_s) == ["on"]
    mend(cluster, broken)
    (again,) = cluster.jobs.submit(f"--nodelist={broken}", seconds=60)
    cluster.wait(lambda: cluster.state(broken) == "ALLOCATED", what="the mended node to serve")
    cluster.jobs.cancel([again])
    assert cluster.jobs.lost() == [job]
    assert cluster.log.sins == ()


def mend(cluster: PoweredCluster, node: str) -> None:
    """Let an admin find out what was wrong, and give the node back."""
    cluster.nodes[node].hangs_in_boot = False
    by_hand(cluster, node, "hard_off")
    offpeak(cluster, "node", node, "release")
    scontrol(cluster, node, "resume")
    wait_for_sleep(cluster, node)
