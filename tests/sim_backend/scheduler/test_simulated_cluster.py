"""The simulated scheduler on a mixed cluster: partitions, memory, GPUs, arrays, and what it reports of them."""

import pytest

from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.request import Chunk
from offpeak.plugin.scheduler.cluster_view import cluster_of
from offpeak.plugin.scheduler.job import JobState, join_array_tasks
from offpeak.sim_backend.scheduler.cluster import NodeResources, SimJob, SimNode, SimulatedCluster, nodes_of
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler

pytestmark = pytest.mark.quick

THIN = Pool(NodeType(16, 64_000), frozenset({"batch"}), 2, frozenset({"n1", "n2"}))
FAT = Pool(NodeType(16, 256_000, features=frozenset({"fat"})), frozenset({"batch"}), 1, frozenset({"f1"}))
GPU = Pool(NodeType(32, 128_000, (("a100", 4),)), frozenset({"gpu", "batch"}), 1, frozenset({"g1"}))
PARTITIONS = {"batch": Partition("batch", shared=True), "gpu": Partition("gpu", shared=True, priority_tier=2)}
MIXED = Cluster((THIN, FAT, GPU), PARTITIONS)


def mixed(partitions: dict[str, Partition] | None = None) -> SimulatedCluster:
    return SimulatedCluster(nodes_of(MIXED, 0), queues=("batch", "gpu"), partitions=partitions or PARTITIONS)


def job(number: int, *chunks: Chunk, queue: str = "batch", index: int | None = None, task_limit: int = 0) -> SimJob:
    return SimJob(number, "job", "ann", queue, chunks, 600, 0, 1200, index=index, task_limit=task_limit)


def submit(cluster: SimulatedCluster, *jobs: SimJob) -> None:
    for each in jobs:
        cluster.submit(each)
    cluster.step(0)


def test_a_job_gets_a_node_with_its_memory() -> None:
    cluster = mixed()
    jobs = [job(1, Chunk(1, 1, 100_000)), job(2, Chunk(1, 1, 200_000)), job(3, Chunk(1, 1, 300_000))]
    submit(cluster, *jobs)
    assert [list(each.placed) for each in jobs] == [["f1"], [], []]
    assert cluster.nodes["f1"].free == NodeResources(15, 156_000, 0)
    cluster.step(600)
    assert list(jobs[1].placed) == ["f1"]


def test_jobs_share_a_node_until_its_memory_is_used() -> None:
    cluster = mixed()
    jobs = [job(number, Chunk(1, 1, 40_000, features=(frozenset({"fat"}),))) for number in range(1, 9)]
    submit(cluster, *jobs)
    assert [len(each.placed) for each in jobs] == [1] * 6 + [0] * 2


def test_jobs_share_the_gpus_of_a_node() -> None:
    cluster = mixed()
    jobs = [job(number, Chunk(1, 2, gpus=2, gpu_type="a100"), queue="gpu") for number in (1, 2, 3)]
    other = job(4, Chunk(1, 1, gpus=1, gpu_type="v100"), queue="gpu")
    submit(cluster, *jobs, other)
    assert [list(each.placed) for each in (*jobs, other)] == [["g1"], ["g1"], [], []]


def test_jobs_without_gpus_leave_the_nodes_with_gpus_to_others() -> None:
    cluster = mixed()
    small = job(1, Chunk(3, 16))
    submit(cluster, small)
    assert list(small.placed) == ["n1", "n2", "f1"]


def test_jobs_run_on_the_nodes_of_their_partition_only() -> None:
    cluster = mixed()
    elsewhere = job(1, Chunk(2, 1), queue="gpu")
    unknown = job(2, Chunk(1, 1), queue="none")
    submit(cluster, elsewhere, unknown)
    assert (elsewhere.placed, unknown.placed) == ({}, {})


def test_the_partition_of_a_higher_tier_goes_first() -> None:
    cluster = mixed()
    first, second = job(1, Chunk(1, 32)), job(2, Chunk(1, 32), queue="gpu")
    submit(cluster, first, second)
    assert (list(first.placed), list(second.placed)) == ([], ["g1"])


def test_a_partition_of_whole_nodes_gives_whole_nodes() -> None:
    cluster = mixed(PARTITIONS | {"batch": Partition("batch")})
    jobs = [job(number, Chunk(1, 1)) for number in (1, 2)]
    submit(cluster, *jobs)
    assert [list(each.placed.items()) for each in jobs] == [
        [("n1", NodeResources(16, 64_000, 0))],
        [("n2", NodeResources(16, 64_000, 0))],
    ]
    shown = SimulatedScheduler(cluster, clock=lambda: 1.0).view().jobs[0]
    assert (shown.whole_nodes, shown.request and shown.request.whole_nodes) == (True, True)


def test_an_array_runs_as_many_tasks_at_once_as_it_may() -> None:
    cluster = mixed()
    tasks = [job(1, Chunk(1, 1), index=index, task_limit=2) for index in range(5)]
    submit(cluster, *tasks)
    assert [each.state for each in tasks] == [JobState.RUNNING] * 2 + [JobState.PENDING] * 3
    cluster.step(600)
    assert [each.state for each in tasks[2:]] == [JobState.RUNNING] * 2 + [JobState.PENDING]


def test_the_scheduler_reports_the_cluster_that_it_was_given() -> None:
    scheduler = SimulatedScheduler(mixed(), clock=lambda: 1.0)
    wants_fat = job(1, Chunk(1, 1, features=(frozenset({"fat"}),)))
    scheduler.cluster.submit(wants_fat)
    assert cluster_of(scheduler.view(), scheduler.traits().partitions) == MIXED


def test_waiting_tasks_of_an_array_join_to_one_record() -> None:
    scheduler = SimulatedScheduler(mixed(), clock=lambda: 1.0)
    tasks = [job(7, Chunk(1, 1), index=index, task_limit=1) for index in range(1, 5)]
    submit(scheduler.cluster, *tasks)
    found = {each.job_id: each for each in join_array_tasks(scheduler.view().jobs)}
    assert list(found) == ["7[1]", "7[]"]
    assert (found["7[1]"].state, found["7[1]"].plain, found["7[1]"].tasks) == (JobState.RUNNING, False, 1)
    assert (found["7[]"].state, found["7[]"].plain, found["7[]"].is_array) == (JobState.PENDING, True, True)
    assert (found["7[]"].tasks, found["7[]"].task_limit, found["7[]"].nodes) == (3, 1, 1)


def test_nodes_without_partitions_run_the_jobs_of_queues_without_nodes() -> None:
    nodes = {"n1": SimNode("n1", 8), "d1": SimNode("d1", 8, partitions=frozenset({"debug"}))}
    cluster = SimulatedCluster(nodes, queues=("batch", "debug"))
    jobs = [job(1, Chunk(1, 1)), job(2, Chunk(1, 1), queue="debug")]
    submit(cluster, *jobs)
    assert [list(each.placed) for each in jobs] == [["n1"], ["d1"]]
    shown = {node.name: node.partitions for node in SimulatedScheduler(cluster, clock=lambda: 1.0).view().nodes}
    assert shown == {"n1": ("batch",), "d1": ("debug",)}
