"""Nodes of three types, GPUs, features and two QOS on a real Slurm: queue and accounting tell requests that fit."""

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest
from needed_programs import need
from slurm_fixtures import ACCOUNTING_PACKAGES, ACCOUNTING_PROGRAMS, PACKAGES

from benchmarks.local_slurm.cluster import NEEDED, PoweredCluster, powered_cluster
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.files import LongText
from offpeak.model.cluster import Cluster, NodeType
from offpeak.plugin.scheduler.cluster_view import cluster_of
from offpeak.plugin.slurm.accounting import sacct_text
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.settings.agent import SlurmSettings
from offpeak.sim_backend.traces.slurm.read import sacct_trace

TYPES = (NodeType(4, 1000), NodeType(4, 1000), NodeType(8, 4000), NodeType(4, 2000, (("a100", 2),)))
PARTITIONS = """\
PartitionName=cpu Nodes=node[1-3] Default=YES MaxTime=1-0 State=UP
PartitionName=fat Nodes=node3 MaxTime=1-0 State=UP
PartitionName=gpu Nodes=node4 MaxTime=1-0 State=UP"""

SUBMISSIONS = {
    ("--ntasks=2", "--mem=500"): {"node1", "node2", "node3"},
    ("--ntasks=1", "--mem=3000"): {"node3"},
    ("--partition=gpu", "--gres=gpu:a100:1", "--mem=100"): {"node4"},
    ("--partition=gpu", "--gpus=1", "--mem=100"): {"node4"},
    ("--partition=cpu,fat", "--cpus-per-task=6", "--mem=100"): {"node3"},
    ("--constraint=ib", "--mem=100"): {"node2"},
    ("--qos=high", "--mem=100", "--array=0-2"): {"node1", "node2", "node3"},
}
"""Options of a job, and the nodes that it could use."""


@pytest.fixture(scope="module")
def cluster(bmc_commands: Path) -> Iterator[PoweredCluster]:
    need([*NEEDED, *ACCOUNTING_PROGRAMS], packages=f"{PACKAGES} {ACCOUNTING_PACKAGES}")
    plan = PoweredPlan(
        nodes=len(TYPES),
        node_types=TYPES,
        partitions=PARTITIONS,
        settings="SelectTypeParameters=CR_CPU_Memory",
        accounting=True,
    )
    with powered_cluster(plan, bmc_commands) as running:
        running.run("sacctmgr", "--immediate", "add", "qos", "high", "priority=100")
        shown = ("scontrol", "show", "assoc_mgr", "flags=qos")
        running.wait(lambda: "high" in running.run(*shown), what="the QOS")
        running.run("scontrol", "update", "NodeName=node2", "AvailableFeatures=ib")
        yield running


def names_of(cluster: Cluster, pools: tuple[int, ...]) -> set[str]:
    return {name for pool in pools for name in cluster.pools[pool].names}


def test_queue_and_log_show_requests_that_fit_where_the_jobs_run(
    cluster: PoweredCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    submitted = {cluster.jobs.submit(*options, seconds=0.5)[0]: nodes for options, nodes in SUBMISSIONS.items()}
    scheduler = SlurmScheduler(SlurmSettings())
    view = scheduler.view()
    model = cluster_of(view, scheduler.traits().partitions)
    assert sorted((pool.nodes, pool.node_type.cores, pool.node_type.gpus) for pool in model.pools) == [
        (1, 4, ()),
        (1, 4, ()),
        (1, 4, (("a100", 2),)),
        (1, 8, ()),
    ]
    queued = {job.job_id: job for job in view.jobs}
    for job, nodes in submitted.items():
        request = queued[job].request
        assert request is not None
        assert names_of(model, model.candidates(request)) == nodes
    count = len(submitted) + 2
    accounted = ("sacct", "-X", "--noheader", "--allusers", "--starttime=now-1hour", "--format=State")
    cluster.wait(lambda: cluster.run(*accounted).split() == ["COMPLETED"] * count, what="the jobs in the accounting")
    trace = sacct_trace(LongText(sacct_text(1)), "sacct", lenient=False, zone=UTC)
    jobs = trace.jobs
    assert jobs.node is not None
    assert jobs.request is not None
    assert len(jobs) == count
    for number, node, request in zip(jobs.job_id.tolist(), jobs.node.tolist(), jobs.request.tolist(), strict=True):
        usable = submitted[trace.names.job_text(number).partition("_")[0]]
        assert trace.names.node[node] in usable
        assert request >= 0
        assert trace.names.node[node] in names_of(model, model.candidates(trace.requests[request]))
