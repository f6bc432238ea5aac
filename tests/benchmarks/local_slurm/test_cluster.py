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


def test_power_that_goes_under_a_job_is_seen(cluster: PoweredCluster) -> None:
    begin_s = time.time()
    (job,) = cluster.jobs.submit("--nodelist=node2", "--no-requeue", seconds=60)
    cluster.wait(lambda: job in cluster.jobs.started(), what="the job to start")
    cluster.wait(lambda: cluster.nodes["node2"].watts > 150, what="the draw to rise")
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
