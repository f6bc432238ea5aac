"""Capacity is decided by node type: each type has the jobs that use its nodes, and a share of the settings' counts."""

from collections import Counter
from dataclasses import replace

import pytest
from scheduler_values import NOW_S, job_of, node_of, running
from small_site import changes_of, cluster_snapshot, planned, rows_of, site_of
from test_mixed_nodes import ANY, BOTH, CPU_NAMES, GPU_NAMES, NAMES, ON_GPU, mixed_nodes, request_of

from offpeak.plugin.capacity.port import TypeShare
from offpeak.plugin.scheduler.node import NodeUse
from offpeak.plugin.scheduler.node_types import find_types
from offpeak.power.live.pools import TypeSplit, find_pools
from offpeak.settings.capacity import CapacitySettings

pytestmark = pytest.mark.quick


def split(nodes, *jobs, shared=False):
    """Return the jobs of each type as id and nodes, by the type's name."""
    snapshot = cluster_snapshot(nodes, jobs=jobs)
    (group,) = find_pools(rows_of(snapshot, site_of(10)).values(), jobs)
    pools = TypeSplit.of(group, snapshot, shared=shared).pools()
    return {pool.name: [(job.job_id, job.nodes) for job in pool.jobs] for pool in pools}


CPU, GPU, FAT = (
    f"batch,gpu: 64 cores, {equipment}" for equipment in ("244 GiB", "488 GiB, 4 a100 GPUs", "977 GiB")
)  # fmt: skip


def test_nodes_of_one_type_are_one_pool_though_their_memory_differs_a_little() -> None:
    nodes = [node_of(f"n{number:02}", memory_mib=250_000 + 900 * number) for number in range(9)]
    assert len(find_types(nodes)) == 1
    assert split(nodes, job_of("1")) == {"batch": [("1", 1)]}
    assert list(split(mixed_nodes(NAMES))) == [CPU, GPU, FAT]


def test_jobs_count_for_the_types_whose_nodes_they_have_or_would_get() -> None:
    nodes = mixed_nodes(NAMES, used=["n01", "n08"])
    jobs = [
        running("1", hosts="n01,n08", nodes=2, cpus=8),
        running("2", hosts="", request=ON_GPU, partitions=BOTH),
        job_of("3", request=ON_GPU, partitions=BOTH),
        job_of("4", request=ANY, nodes=3),
        job_of("5", request=ANY, start_s=NOW_S + 900, hosts="n06"),
        job_of("6", request=request_of(gpus=9)),
        job_of("7", request=request_of(hosts=("n09",))),
    ]
    assert split(nodes, *jobs) == {
        CPU: [("1", 1), ("4", 3)],
        GPU: [("1", 1), ("2", 1), ("3", 1), ("7", 1)],
        FAT: [("5", 1)],
    }


def test_a_job_that_no_free_nodes_can_run_waits_for_the_type_with_the_shortest_queue() -> None:
    nodes = [node._replace(use=NodeUse.USED) for node in mixed_nodes(NAMES)]
    jobs = [job_of(str(number), request=ANY, priority=-number) for number in range(10)]
    counted = {name: len(parts) for name, parts in split(nodes, *jobs).items()}
    assert counted == {CPU: 5, GPU: 3, FAT: 2}
    wide = job_of("1", request=request_of(nodes=8), nodes=8)
    assert split(nodes, wide) == {CPU: [("1", 5)], GPU: [("1", 3)], FAT: []}


def test_each_type_gets_its_part_of_an_array() -> None:
    array = job_of("9", request=ANY, array_id="9", tasks=40)
    assert split(mixed_nodes(NAMES), array) == {CPU: [("9", 1)], GPU: [("9", 1)], FAT: [("9", 1)]}


def test_a_job_that_is_not_understood_counts_for_all_types_of_its_partitions() -> None:
    job = job_of("9", request=None, request_problem="?", partitions=("gpu",))
    assert split(mixed_nodes(NAMES), job) == {CPU: [], GPU: [("9", 1)], FAT: []}
    assert all(split(mixed_nodes(NAMES), job._replace(partitions=("batch",))).values())


def test_the_shares_of_a_count_add_up() -> None:
    shares = [TypeShare(0, 100, 107), TypeShare(100, 104, 107), TypeShare(104, 107, 107)]
    for count in range(108):
        assert sum(share.of(count) for share in shares) == count
    assert [share.of(1) for share in shares] == [1, 0, 0]


def closed(nodes, *jobs, bounds=None, **agent):
    bounds = replace(CapacitySettings(), **(bounds or {}))
    return Counter(
        "gpu" if name in GPU_NAMES else "cpu" if name in CPU_NAMES else "fat"
        for name, change in changes_of(planned(cluster_snapshot(nodes, jobs=jobs), site_of(10, bounds=bounds, **agent)))
        .items() if change == "close"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("agent", "bounds", "expected"),
    [
        ({}, {"keep_hot": 4}, {"cpu": 3, "gpu": 1, "fat": 2}),
        ({"capacity": "green-pool:4"}, {}, {"cpu": 3, "gpu": 1, "fat": 2}),
        ({"capacity": "green-pool:50%"}, {}, {"cpu": 2, "gpu": 1, "fat": 1}),
        ({"capacity": "two-level:4"}, {}, {"cpu": 3, "gpu": 1, "fat": 1}),
        ({"min_on": 7}, {}, {"cpu": 3}),
        ({"nodes_per_sweep": 6}, {}, {"cpu": 5, "gpu": 1}),
    ],
)
def test_counts_of_the_settings_are_those_of_all_types(agent, bounds, expected) -> None:
    assert closed(mixed_nodes(NAMES), bounds=bounds, **agent) == expected


def test_a_what_if_keeps_nodes_of_the_type_that_the_jobs_need() -> None:
    nodes = mixed_nodes(NAMES, used=["n08", "n09"])
    jobs = [running("1", hosts="n08", request=ON_GPU), running("2", hosts="n09", request=ON_GPU)]
    jobs.append(job_of("3", request=ON_GPU, partitions=BOTH, start_s=NOW_S + 9000))
    assert closed(nodes, *jobs, capacity="ols:1h") == {"cpu": 5, "fat": 2}


def test_types_that_must_not_be_switched_are_left_alone_without_a_complaint() -> None:
    snapshot = cluster_snapshot(mixed_nodes(NAMES))
    site = site_of(10)
    plan = planned(snapshot, replace(site, agent=replace(site.agent, nodes="n[01-05]")))
    assert (sorted(changes_of(plan)), plan.problems) == (list(CPU_NAMES), ())
