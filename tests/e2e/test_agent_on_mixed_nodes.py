"""On a Slurm with GPU nodes and others in overlapping partitions, only nodes wake that can run the job that waits."""

import time

import pytest
from node_story import FLAT, came_up_s, orders, wait_for_sleep
from powered_fixtures import StartPowered
from zygote import Zygote

from benchmarks.local_slurm.agent import agent, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.model.cluster import NodeType

THIN, GPU = ("node1", "node2", "node3"), ("node4", "node5")
TYPES = (*(NodeType(4, 1000),) * len(THIN), *(NodeType(4, 2000, (("a100", 2),)),) * len(GPU))
PARTITIONS = """\
PartitionName=batch Nodes=ALL Default=YES MaxTime=1-0 State=UP OverSubscribe=NO
PartitionName=gpu Nodes=node[4-5] MaxTime=1-0 State=UP OverSubscribe=NO"""
BEGIN_IN_S = 35

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    memory = "SelectTypeParameters=CR_CPU_Memory"
    return start_powered(PoweredPlan(nodes=len(TYPES), partitions=PARTITIONS, settings=memory, node_types=TYPES))


def test_only_gpu_nodes_wake_for_jobs_that_request_gpus(cluster: PoweredCluster, zygote: Zygote) -> None:
    with agent(cluster, write_site(cluster, FLAT), by=zygote.start):
        wait_for_sleep(cluster, *THIN, *GPU)
        submitted_s = time.time()
        (job,) = cluster.jobs.submit("--gres=gpu:1", "--mem=500", f"--begin=now+{BEGIN_IN_S}")
        cluster.wait(lambda: job in cluster.jobs.started(), what="the job to start")
        assert sum(orders(cluster, node, submitted_s).count("on") for node in GPU) == 1, cluster.describe_state()
        (start,) = [entry for entry in cluster.jobs.trace() if entry.what == "start"]
        assert came_up_s(cluster, start.nodes, submitted_s, start.at_s) < submitted_s + BEGIN_IN_S
        wait_for_sleep(cluster, *THIN, *GPU)
        again_s = time.time()
        cluster.jobs.submit("--gres=gpu:2", "--mem=500", "--array=1-4%2", f"--begin=now+{BEGIN_IN_S}")
        cluster.wait(lambda: len(cluster.jobs.started()) == 5, what="all tasks to start")
        assert [orders(cluster, node, again_s).count("on") for node in GPU] == [1, 1]
    assert [orders(cluster, node) for node in THIN] == [["soft_off"]] * len(THIN)
