"""Waits by pool on a cluster of CPU and GPU nodes, shared and whole: each job waits for the nodes that it can use."""

import math
import time

import pytest
from test_whole_cluster import NOW_S, job, node

from offpeak.model.cluster import Partition
from offpeak.model.limits import SiteLimits
from offpeak.model.request import Chunk, Request
from offpeak.plugin.federation.site_report import ExpectedWaits, NodePart
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.power import expected_waits
from offpeak.power.expected_waits import POOL_LIMITS_S, simulate_waits
from offpeak.sim_backend.engine import start_forecast

HOUR_S = 3600
SHARED = (Partition("batch", shared=True, is_default=True), Partition("gpu", shared=True))
GPUS = (("a100", 4),)


def gpu_node(name: str, *, used: int = 0) -> Node:
    use = NodeUse.USED if used else NodeUse.FREE
    return node(name, use, used=used)._replace(partitions=("gpu",), gpus=GPUS, memory_mib=4000)


def running(number: int, hosts: str, *, hours: float, request: Request, cpus: int) -> Job:
    return job(number, JobState.RUNNING, 1)._replace(
        hosts=hosts,
        cpus=cpus,
        request=request,
        partitions=request.partitions,
        limit_s=int(hours * HOUR_S),
        whole_nodes=request.whole_nodes,
    )


def pending(number: int, request: Request, *, hours: float = 1, tasks: int = 1, **given: object) -> Job:
    made = job(number, JobState.PENDING, request.least_nodes)
    return made._replace(
        request=request, partitions=request.partitions, limit_s=int(hours * HOUR_S), tasks=tasks, whole_nodes=False
    )._replace(**given)


def waits_of(jobs: tuple[Job, ...], nodes: tuple[Node, ...], limits: SiteLimits | None = None) -> ExpectedWaits:
    view = SchedulerView(NOW_S, jobs, nodes, ())
    return simulate_waits(view, {}, shared=True, partitions=SHARED, limits=limits)


def wait_s(waits: ExpectedWaits, partition: str, part: NodePart, nodes: int = 1, limit_s: int = HOUR_S) -> float | None:
    (pool,) = (pool for pool in waits.pools if partition in pool.partitions)
    (table,) = (each for each in pool.parts if each.part == part)
    return table.wait_s[table.nodes.index(nodes)][POOL_LIMITS_S.index(limit_s)]


CPU_NODE, ONE_CORE = NodePart(8, 1000, 0), NodePart(1, 125, 0)
GPU_NODE, ONE_GPU = NodePart(8, 4000, 4), NodePart(2, 1000, 1)
FOUR_GPUS = Request(("gpu",), (Chunk(1, 8, 4000, 4),))


def test_a_gpu_job_waits_five_hours_and_a_cpu_job_does_not() -> None:
    nodes = (node("n1"), node("n2"), gpu_node("g1", used=8))
    waits = waits_of((running(1, "g1", hours=5, request=FOUR_GPUS, cpus=8),), nodes)
    assert wait_s(waits, "batch", CPU_NODE, 2) == wait_s(waits, "batch", ONE_CORE, 2) == 0
    assert wait_s(waits, "gpu", ONE_GPU) == wait_s(waits, "gpu", GPU_NODE) == 5 * HOUR_S
    assert [pool.gpus for pool in waits.pools] == [{}, {"a100": 4}]


def test_waits_that_are_not_found_in_time_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_forecast, "PATIENCE_S", -1.0)
    nodes = (node("n1"), node("n2"), gpu_node("g1", used=8))
    waits = waits_of((running(1, "g1", hours=5, request=FOUR_GPUS, cpus=8),), nodes)
    assert wait_s(waits, "batch", CPU_NODE, 2) == 0
    assert wait_s(waits, "gpu", GPU_NODE) is None
    assert waits.total.wait_s[0][0] == 0
    assert math.isnan(waits.total.of(waits.total.cores[-1], HOUR_S))


def test_jobs_share_nodes_by_what_is_left_of_them() -> None:
    """Three GPUs of one node are taken for two hours, and all memory of the other for four."""
    three = Request(("gpu",), (Chunk(1, 3, 100, 3),))
    all_memory = Request(("gpu",), (Chunk(1, 1, 4000, 0),))
    jobs = (
        running(1, "g1", hours=2, request=three, cpus=3),
        running(2, "g2", hours=4, request=all_memory, cpus=1),
    )
    waits = waits_of(jobs, (gpu_node("g1", used=3), gpu_node("g2", used=1)))
    assert wait_s(waits, "gpu", ONE_GPU) == 0
    assert wait_s(waits, "gpu", NodePart(4, 2000, 2)) == 2 * HOUR_S
    assert wait_s(waits, "gpu", ONE_GPU, 2) == 4 * HOUR_S
    assert wait_s(waits, "gpu", GPU_NODE, 2) == 4 * HOUR_S


def test_pending_jobs_come_first_and_short_jobs_go_beside_their_reservation() -> None:
    """Two nodes: one job runs for 3 h, one of both nodes waits for it. A short job goes beside, a long one behind."""
    both = Request(("batch",), (Chunk(2, 8),))
    one = Request(("batch",), (Chunk(1, 8),))
    jobs = (running(1, "n1", hours=3, request=one, cpus=8), pending(2, both, hours=2))
    waits = waits_of(jobs, (node("n1", NodeUse.USED, used=8), node("n2")))
    assert wait_s(waits, "batch", CPU_NODE) == wait_s(waits, "batch", ONE_CORE) == 0
    assert wait_s(waits, "batch", CPU_NODE, limit_s=4 * HOUR_S) == 5 * HOUR_S
    assert wait_s(waits, "batch", CPU_NODE, 2) == 5 * HOUR_S


def test_arrays_count_with_each_task_and_their_throttle() -> None:
    one = Request(("batch",), (Chunk(1, 8),))
    array = pending(7, one, tasks=4, array_id="7")
    nodes = (node("n1"), node("n2"))
    assert wait_s(waits_of((array,), nodes), "batch", CPU_NODE) == 2 * HOUR_S
    assert wait_s(waits_of((array._replace(task_limit=1),), nodes), "batch", CPU_NODE) == 0
    assert wait_s(waits_of((array._replace(task_limit=1),), nodes), "batch", CPU_NODE, 2) == 4 * HOUR_S


@pytest.mark.parametrize("change", [{"request": None, "request_problem": "two types of GPUs"}, {"partitions": ("x",)}])
def test_jobs_that_fit_nothing_or_are_not_understood_lose_nothing(change: dict[str, object]) -> None:
    odd = pending(3, Request(("batch",), (Chunk(9, 8),)))._replace(**change)
    waits = waits_of((odd, job(4, JobState.RUNNING, 1)._replace(hosts="n[")), (node("n1"), gpu_node("g1")))
    assert {pool.partitions for pool in waits.pools} == {("batch",), ("gpu",)}
    assert wait_s(waits, "gpu", GPU_NODE) == 0


def test_nodes_that_report_slightly_different_memory_are_one_pool() -> None:
    nodes = tuple(node(f"n{number}")._replace(memory_mib=1000 + number) for number in range(20))
    (pool,) = waits_of((), nodes).pools
    assert (pool.nodes, pool.memory_mib) == (20, 1000)


def test_more_pools_than_a_report_holds_leave_the_table_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = tuple(node(f"n{number}")._replace(cpus=8 + number % 20) for number in range(100))
    assert len(waits_of((), nodes).pools) == 20
    monkeypatch.setattr(expected_waits, "MOST_FIGURES", 500)
    waits = waits_of((), nodes)
    assert waits.pools == ()
    assert waits.total.cores[-1] == sum(each.cpus for each in nodes)


def test_a_busy_cluster_of_200_nodes_is_answered_within_seconds() -> None:
    one = Request(("batch",), (Chunk(1, 8),))
    nodes = tuple(node(f"n{number}", NodeUse.USED, used=8) for number in range(200))
    jobs = tuple(running(number, f"n{number}", hours=1 + number % 50, request=one, cpus=8) for number in range(200))
    queue = tuple(pending(1000 + number, one, hours=1 + number % 7) for number in range(2000))
    waits_of(jobs, nodes)
    began = time.process_time()
    found = wait_s(waits_of((*jobs, *queue), nodes), "batch", CPU_NODE)
    assert 10 * HOUR_S < found < 100 * HOUR_S
    assert time.process_time() - began < 20
