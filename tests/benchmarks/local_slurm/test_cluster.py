"""The cluster whose nodes have power does what it promises."""

import time

import pytest
from powered_fixtures import StartPowered

from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.plan import PoweredPlan

PLAN = PoweredPlan(nodes=3, shutdown_s=0.2, wakes_by_itself=True)


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    return start_powered(PLAN)


def tell(cluster: PoweredCluster, node: str, order: str) -> None:
    """Let its BMC hear an order."""
    with (cluster.nodes[node].bmc.folder / "orders").open("a") as orders:
        orders.write(f"{order}\n")


def what(cluster: PoweredCluster, node: str, since_s: float) -> list[str]:
    return [event.what for event in cluster.log.events(node=node, since_s=since_s)]


def test_a_node_goes_down_and_comes_up_for_a_job(cluster: PoweredCluster) -> None:
    begin_s = time.time()
    cluster.run("scontrol", "update", "nodename=node1", "state=drain", "reason=offpeak: a test")
    tell(cluster, "node1", "soft_off")
    cluster.wait(lambda: "off" in what(cluster, "node1", begin_s), what="the node to be off")
    assert cluster.nodes["node1"].bmc.lines("power") == ["off"]
    cluster.run("scontrol", "update", "nodename=node1", "state=power_down")
    cluster.run("scontrol", "update", "nodename=node1", "state=undrain")
    cluster.wait(lambda: cluster.state("node1").endswith("POWERED_DOWN"), what="powered down")
    (job,) = cluster.jobs.submit("--nodelist=node1")
    # The job itself begins up to 30 s later: Slurm looks that seldom whether its nodes are up.
    cluster.wait(lambda: cluster.state("node1") == "ALLOCATED", what="the node to be up for the job")
    assert what(cluster, "node1", begin_s) == ["soft_off", "off", "on", "booting", "up"]
    assert [nodes for _, nodes in cluster.calls("Resume")] == ["node1"]
    assert not cluster.log.violations
    cluster.jobs.cancel([job])


def test_power_that_goes_under_a_job_is_seen(cluster: PoweredCluster) -> None:
    begin_s = time.time()
    (job,) = cluster.jobs.submit("--nodelist=node2", "--no-requeue", seconds=60)
    cluster.wait(lambda: job in cluster.jobs.started(), what="the job to start")
    cluster.wait(lambda: cluster.nodes["node2"].watts > 150, what="the draw to rise", seconds=2)
    tell(cluster, "node2", "hard_off")
    cluster.wait(lambda: "off" in what(cluster, "node2", begin_s), what="the node to be off")
    assert [event.what for event in cluster.log.violations if job in event.jobs] == ["hard_off", "off"]
    assert [entry.what for entry in cluster.jobs.trace() if entry.job == job] == ["start"]
    assert cluster.jobs.lost() == []
    cluster.run("scontrol", "update", "nodename=node2", "state=down", "reason=a test")
    cluster.wait(lambda: cluster.jobs.lost() == [job], what="Slurm to give the job up")
    cluster.run("scontrol", "update", "nodename=node2", "state=resume")
    tell(cluster, "node2", "on")


def test_a_node_of_several_that_a_job_has_is_seen_too(cluster: PoweredCluster) -> None:
    (job,) = cluster.jobs.submit("--nodelist=node[2-3]", nodes=2, seconds=60)
    cluster.wait(lambda: job in cluster.jobs.started(), what="the job to start")
    cluster.wait(lambda: cluster.nodes["node3"].processes.jobs() == (job,), what="its part on the second node")
    cluster.jobs.cancel([job])


def test_a_bmc_and_the_controller_are_killed_and_come_back(cluster: PoweredCluster) -> None:
    node = cluster.nodes["node3"]
    cluster.kill_bmc("node3")
    cluster.kill9_server()
    cluster.restart_bmc("node3")
    cluster.start_server()
    node.bmc_lies_off = True
    cluster.wait(lambda: node.bmc.lines("power") == ["off"], what="the lie")
    assert node.state == "on"
    node.bmc_lies_off = False
    cluster.wait(lambda: node.bmc.lines("power") == ["on"], what="the truth")
    assert cluster.state("node3")


def test_what_hangs_or_will_not_go(cluster: PoweredCluster) -> None:
    node, begin_s = cluster.nodes["node3"], time.time()
    node.ignores_shutdown = node.hangs_in_boot = True
    for order in ("soft_off", "hard_off", "on"):
        tell(cluster, "node3", order)
    cluster.wait(lambda: "booting" in what(cluster, "node3", begin_s), what="its boot")
    assert what(cluster, "node3", begin_s) == ["soft_off", "hard_off", "off", "on", "booting"]
    node.hangs_in_boot = False
    cluster.wait(lambda: what(cluster, "node3", begin_s)[-1] == "up", what="the end of its boot")
    node.crash_slurmd()
    assert (node.slurmd, node.state) == (None, "on")
    node.start_slurmd()
    assert node.slurmd is not None
