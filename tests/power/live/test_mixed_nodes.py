"""On a cluster of several node types a job wakes, and keeps awake, the nodes that can run it, and no others."""

import pytest
from scheduler_values import NOW_S, job_of, node_of, record_of, running
from small_site import changes_of, cluster_snapshot, planned, site_of, slept_long_ago

from offpeak.model.orders import NodeState, PowerState
from offpeak.model.request import Chunk, Request
from offpeak.plugin.scheduler.node import NodeUse, Reservation
from offpeak.power.live.node_room import NodeRoom

pytestmark = pytest.mark.quick

NAMES = tuple(f"n{number:02}" for number in range(1, 11))
CPU_NAMES, FAT_NAMES, GPU_NAMES = NAMES[:5], NAMES[5:7], NAMES[7:]
BOTH, BATCH = ("batch", "gpu"), ("batch",)
OTHER = {"cpus": 64, "memory_mib": 250_000, "partitions": BATCH}
FAT = {"cpus": 64, "memory_mib": 1_000_000, "partitions": BATCH}
GPU = {"cpus": 64, "memory_mib": 500_000, "partitions": BOTH, "gpus": (("a100", 4),)}
EQUIPMENT = {
    **dict.fromkeys(CPU_NAMES, OTHER), **dict.fromkeys(FAT_NAMES, FAT), **dict.fromkeys(GPU_NAMES, GPU)
}  # fmt: skip
SOON_S = NOW_S + 300


def request_of(*, partitions=BATCH, nodes=1, hosts=(), excluded=(), **chunk) -> Request:
    part = Chunk(nodes, **{"cores": 1, **chunk})
    return Request(partitions, (part,), hosts=frozenset(hosts), excluded=frozenset(excluded))


ANY, ON_GPU = request_of(), request_of(partitions=BOTH, gpus=1)
BIG = request_of(memory_mib=600_000)
UNKNOWN = {"request": None, "request_problem": "it requests GPUs of several types: a100, v100"}


def mixed_nodes(awake=(), *, used=()):
    """Return five nodes without GPUs, two with much memory and three with GPUs, asleep but for those named."""
    return [
        node_of(
            name,
            power=PowerState.ON if name in awake or name in used else PowerState.OFF,
            use=NodeUse.USED if name in used else NodeUse.FREE,
            **EQUIPMENT[name],
        )
        for name in NAMES
    ]


def changes(nodes, *jobs, reservations=(), **site) -> dict[str, list[str]]:
    """Return the nodes of each change."""
    asleep = [node.name for node in nodes if node.power is PowerState.OFF]
    records = {name: record_of(name, NodeState.OFF) for name in asleep}
    snapshot = cluster_snapshot(nodes, jobs=jobs, records=records, reservations=reservations)
    found: dict[str, list[str]] = {}
    for name, change in changes_of(planned(snapshot, site_of(len(NAMES), **site), slept_long_ago(asleep))).items():
        found.setdefault(change, []).append(name)
    return {change: sorted(names) for change, names in found.items()}


def deferred(request, **given):
    return job_of("9", request=request, begin_s=SOON_S, whole_nodes=False, **given)


@pytest.mark.parametrize(
    ("request_", "given", "woken"),
    [
        (ANY, {"nodes": 2}, CPU_NAMES[:2]),
        (ON_GPU, {"partitions": BOTH}, GPU_NAMES[:1]),
        (request_of(partitions=("gpu",)), {"partitions": ("gpu",), "nodes": 2}, GPU_NAMES[:2]),
        (BIG, {}, FAT_NAMES[:1]),
        (BIG, {"nodes": 9}, FAT_NAMES),
        (request_of(nodes=11), {"nodes": 11}, ()),
        (request_of(gpus=8), {}, ()),
        (request_of(features=(frozenset({"ib"}),)), {}, ()),
        (request_of(hosts=("n04",)), {}, ("n04",)),
        (request_of(hosts=("n04",), nodes=2), {"nodes": 2}, ("n01", "n04")),
        (request_of(nodes=6), {"nodes": 6}, (*CPU_NAMES, "n06")),
        (request_of(partitions=("gone",)), {"partitions": BATCH}, ()),
        (None, {"nodes": 2}, CPU_NAMES[:2]),
    ],
)
def test_a_deferred_job_wakes_nodes_that_can_run_it(request_, given, woken) -> None:
    assert changes(mixed_nodes(), deferred(request_, **given)).get("power_up", []) == list(woken)


def test_an_awake_node_that_cannot_run_the_job_is_not_there_for_it() -> None:
    nodes = mixed_nodes(awake=(*CPU_NAMES, "n08"))
    assert changes(nodes, deferred(BIG), capacity="always-on") == {"power_up": ["n06"]}
    assert changes(nodes, deferred(ON_GPU, partitions=BOTH), capacity="always-on") == {}


def test_an_array_of_gpu_tasks_wakes_no_other_nodes() -> None:
    array = deferred(ON_GPU, partitions=BOTH, array_id="9", tasks=50, cpus=1)
    assert changes(mixed_nodes(), array)["power_up"] == list(GPU_NAMES)
    assert changes(mixed_nodes(), array, shared_nodes=True)["power_up"] == list(GPU_NAMES)
    assert changes(mixed_nodes(), array._replace(tasks=8), shared_nodes=True)["power_up"] == list(GPU_NAMES[:2])
    assert changes(mixed_nodes(), array._replace(task_limit=2))["power_up"] == list(GPU_NAMES[:2])


def test_split_tasks_share_the_limit_of_their_array() -> None:
    tasks = [
        deferred(ANY, array_id="40", task_limit=2, plain=False)._replace(job_id=f"40_{number}") for number in range(5)
    ]
    assert changes(mixed_nodes(), *tasks)["power_up"] == ["n01", "n02"]
    beside = running("40_9", hosts="n05", array_id="40", plain=False)
    assert changes(mixed_nodes(used=["n05"]), *tasks, beside)["power_up"] == ["n01"]


def test_tasks_of_an_array_fill_used_nodes_that_have_room_for_them_first() -> None:
    nodes = [node._replace(cpus_used=8) if node.name == "n01" else node for node in mixed_nodes(used=["n01"])]
    array = deferred(request_of(cores=8), array_id="9", tasks=9, cpus=8)
    held = running("1", hosts="n01", request=request_of(cores=8, memory_mib=200_000), cpus=8, whole_nodes=False)
    # Seven tasks have room beside the running job, two more share a node.
    assert changes(nodes, array, held, shared_nodes=True)["power_up"] == ["n02"]
    memory = array._replace(request=request_of(cores=8, memory_mib=100_000))
    # The running job leaves too little memory, and a node with more memory costs less for each task.
    assert changes(nodes, memory, held, shared_nodes=True)["power_up"] == list(FAT_NAMES)
    gpus = array._replace(request=ON_GPU, partitions=BOTH)
    assert changes(nodes, gpus, held, shared_nodes=True)["power_up"] == list(GPU_NAMES)


def test_the_last_awake_node_that_a_waiting_job_could_use_stays_awake() -> None:
    nodes = mixed_nodes(awake=NAMES)
    job = job_of("9", request=ON_GPU, partitions=BOTH, whole_nodes=False)
    closed = changes(nodes, job)["close"]
    assert closed == [*CPU_NAMES, *FAT_NAMES, "n09", "n10"]
    assert changes(mixed_nodes(awake=[*CPU_NAMES, "n10"]), job)["close"] == list(CPU_NAMES)
    two = job._replace(job_id="8"), job
    assert changes(nodes, *two)["close"] == [*CPU_NAMES, *FAT_NAMES, "n10"]
    # A job that all nodes could run keeps none once the scheduler has looked at it.
    assert len(changes(nodes, job._replace(request=ANY, partitions=BATCH))["close"]) == len(NAMES)


def test_a_new_job_keeps_idle_nodes_that_can_run_it() -> None:
    nodes = mixed_nodes(awake=NAMES)
    job = job_of("9", request=BIG, submit_s=NOW_S - 5)
    assert changes(nodes, job)["close"] == [*CPU_NAMES, "n07", *GPU_NAMES]


def test_a_waiting_job_keeps_the_nodes_that_it_names() -> None:
    nodes = mixed_nodes(awake=NAMES)
    assert "n03" not in changes(nodes, job_of("9", request=request_of(hosts=("n03",))))["close"]


def test_while_a_request_is_not_understood_no_idle_node_of_its_partitions_sleeps() -> None:
    nodes = mixed_nodes(awake=NAMES)
    job = job_of("9", partitions=("gpu",), **UNKNOWN)
    assert changes(nodes, job)["close"] == [*CPU_NAMES, *FAT_NAMES]
    plan = planned(cluster_snapshot(nodes, jobs=[job, job._replace(job_id="10")]), site_of(len(NAMES)))
    assert plan.problems == (
        (
            "pool batch,gpu: the request of job 9 and of 1 more is not understood: "
            "it requests GPUs of several types: a100, v100",
            "the idle nodes of gpu stay awake while it waits",
        ),
    )
    assert changes(mixed_nodes(), job._replace(begin_s=SOON_S))["power_up"] == ["n08"]


def test_a_deferred_job_of_a_reservation_wakes_the_reserved_nodes_only() -> None:
    reserved = Reservation("course", SOON_S, SOON_S + 3600, ("n09",), maintenance=False)
    job = deferred(ANY, reservation="course")
    assert changes(mixed_nodes(), job, reservations=[reserved]) == {"power_up": ["n09"]}


def test_a_cluster_without_nodes_has_no_room() -> None:
    snapshot = cluster_snapshot([], jobs=[job_of("9", request=ON_GPU)])
    room = NodeRoom.of(snapshot, (), shared=True)
    assert (room.take(snapshot.view.jobs[0]), snapshot.candidate_pools(snapshot.view.jobs[0])) == ({}, ())
    assert planned(snapshot, site_of(1)).changes == ()


def test_nodes_that_vanish_between_two_cycles_are_not_woken() -> None:
    nodes, site = mixed_nodes(awake=NAMES[:1]), site_of(len(NAMES))
    records = {name: record_of(name, NodeState.OFF) for name in NAMES[1:]}
    job = deferred(ON_GPU, partitions=BOTH)
    first = planned(cluster_snapshot(nodes, jobs=[job], records=records), site, slept_long_ago(NAMES))
    assert changes_of(first) == {"n08": "power_up"}
    second = planned(cluster_snapshot(nodes[:7], jobs=[job], records=records), site, first.memory)
    assert "power_up" not in changes_of(second).values()
