"""Jobs of a log on a cluster: requests that are derived, names that the cluster lacks, and jobs that fit nowhere."""

from dataclasses import replace
from datetime import UTC
from pathlib import Path

import numpy as np
import pytest
from random_logs import log_of

from offpeak.errors import BadInput, BadTrace
from offpeak.model.cluster import Cluster, NodeType, Partition, Pool, SchedulerTiming
from offpeak.model.jobs import LogNames, Trace
from offpeak.model.limits import PreemptMode, Qos
from offpeak.model.request import Chunk, Request
from offpeak.settings.replay import MachineSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import prepare
from offpeak.sim_backend.case.site_jobs import cluster_note, round_memory, site_jobs, site_units
from offpeak.sim_backend.comparison.compare import compare
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.traces.read import read_log
from offpeak_studies.workloads.generate import lublin_jobs

CLUSTER = Cluster(
    (
        Pool(NodeType(8, 1024), frozenset({"cpu"}), 4, frozenset({"n1", "n2", "n3", "n4"})),
        Pool(NodeType(16, 2048, (("a", 2),)), frozenset({"gpu"}), 2, frozenset({"g1", "g2"})),
    ),
    {"cpu": Partition("cpu", shared=True), "gpu": Partition("gpu", shared=True)},
    qos={"normal": Qos("normal")},
)


def trace_of(queue: list[int], request: list[int] | None = None, *requests: Request, **columns: object) -> Trace:
    jobs = log_of([(number, 60, 60, 2, 100) for number in range(len(queue))], machine_size=8).jobs
    numbers = None if request is None else np.array(request)
    jobs = replace(jobs, queue=np.array(queue), request=numbers, **columns)
    names = LogNames(queue=("cpu", "gpu", "old"))
    return Trace("a log", jobs, None, None, 0, "UTC", names=names, units_per_node=8, requests=requests)


def test_what_the_log_does_not_tell_is_derived_from_the_size() -> None:
    site = site_jobs(trace_of([0, 1, -1]), CLUSTER)
    chunk = Chunk(2)
    assert set(site.requests) == {Request(each, (chunk,), apart=False) for each in (("cpu",), ("gpu",), ())}
    assert (
        "3 jobs without a logged request: taken for processors on any nodes, with any memory and no GPUs" in site.notes
    )
    nodes = site_jobs(replace(trace_of([0]), units_per_node=1), CLUSTER)
    assert nodes.requests == (Request(("cpu",), (chunk,), apart=True, whole_nodes=True),)


def test_rounded_memory_leaves_few_requests_that_all_fit() -> None:
    amounts = (0, 1, 7, 9, 1000, 1023, 1024, 1500, 2048)
    requests = tuple(Request((), (Chunk(2, memory_mib=each),)) for each in amounts)
    narrow = tuple(Request(("cpu",), (Chunk(1, memory_mib=each),)) for each in (1000, 1024))
    given = trace_of([-1] * 11, list(range(11)), *requests, *narrow)
    jobs, rounded, classes = round_memory(given.jobs, given.requests, CLUSTER)
    memory_mib = [rounded[number].chunks[0].memory_mib for number in jobs.request.tolist()]
    assert memory_mib == [0, 1, 7, 10, 1024, 1024, 1024, 1536, 2048, 1024, 1024]
    assert classes.assign(jobs.request, jobs.estimate_s, jobs.job_id)[1] == ()
    small = replace(CLUSTER, pools=(Pool(NodeType(8, 1000), frozenset({"cpu"}), 4),))
    jobs, rounded, _ = round_memory(given.jobs.take(np.array([4])), given.requests, small)
    assert [each.chunks[0].memory_mib for each in rounded] == [896]  # no node has 1024 MiB


def test_names_that_the_cluster_does_not_have_are_one_line_each() -> None:
    odd = Request(("old",), (Chunk(1),), qos="ghost", reservation="maint", hosts=frozenset({"n1", "x1", "x2"}))
    odd = odd._replace(licences=(("ansys", 1),))
    site = site_jobs(trace_of([2, 2, 2], [0, 0, -1], odd), CLUSTER)
    assert [site.requests[number] for number in site.jobs.request.tolist()] == [
        Request((), (Chunk(1),), hosts=frozenset({"n1"})),
        Request((), (Chunk(1),), hosts=frozenset({"n1"})),
        Request((), (Chunk(2),), apart=False),
    ]
    assert site.notes[2:-1] == (
        "the cluster has no QOS ghost: 2 jobs of it count without it",
        "the cluster has no licence ansys: 2 jobs of it count without it",
        "the cluster has no partition old: 3 jobs of it may run on all of its nodes",
        "the cluster has no reservation maint: 2 jobs of it count without it",
        "the cluster has no nodes x1, x2: 2 jobs for them may run on other nodes",
    )


def test_many_names_that_the_cluster_does_not_have_share_a_line() -> None:
    odd = [
        Request((f"p{number}",), (Chunk(1),), qos=f"q{number % 2}", hosts=frozenset({f"x{number}"}))
        for number in range(1, 13)
    ]
    notes = site_jobs(trace_of([2] * 24, [*range(12)] * 2, *odd), CLUSTER).notes
    assert "the cluster has no partitions p[1-12]: 24 jobs of them may run on all of its nodes" in notes
    assert "the cluster has no QOS q0: 12 jobs of it count without it" in notes
    assert "the cluster has no nodes x[1-12]: 24 jobs for them may run on other nodes" in notes
    names = [f"q{number:02}-{'x' * number}" for number in range(1, 13)]
    many = [Request(("cpu",), (Chunk(1),), qos=name) for name in names]
    (line,) = [note for note in site_jobs(trace_of([0] * 12, [*range(12)], *many), CLUSTER).notes if "QOS" in note]
    text = f"the cluster has no QOS {', '.join(names[:5])}, ... (12 in all): 12 jobs of them count without them"
    assert line == text


def test_a_job_of_an_unknown_partition_counts_where_it_ran() -> None:
    trace = trace_of([2, 2, 2, 0], [0, 0, -1, 0], Request(("old",), (Chunk(1),)), node=np.array([0, 1, 2, -1]))
    trace = replace(trace, names=replace(trace.names, node=("g2", "n4", "x7")))
    site = site_jobs(trace, CLUSTER)
    assert [site.requests[number].partitions for number in site.jobs.request.tolist()] == [("gpu",), ("cpu",), (), ()]
    assert site.notes[2:-1] == (
        "the cluster has no partition old: 4 jobs of it count in the partitions of the nodes on which they ran",
        "the cluster has no nodes x7: 1 job ran there and may run on others",
    )
    unnamed = Cluster(tuple(pool._replace(names=frozenset()) for pool in CLUSTER.pools), CLUSTER.partitions)
    notes = site_jobs(trace, unnamed).notes
    assert "the cluster has no partition old: 4 jobs of it may run on all of its nodes" in notes


def test_a_part_for_a_node_that_is_gone_may_run_elsewhere() -> None:
    gone = Request(("cpu",), (Chunk(1, host="n9"), Chunk(1, host="n1")))
    site = site_jobs(trace_of([0], [0], gone), CLUSTER)
    assert site.requests == (Request(("cpu",), (Chunk(1), Chunk(1, host="n1"))),)
    assert "the cluster has no nodes n9: 1 job for them may run on other nodes" in site.notes


def test_a_cluster_without_partitions_takes_jobs_of_all() -> None:
    plain = Cluster((Pool(NodeType(8), frozenset(), 4),))
    site = site_jobs(trace_of([0, 2]), plain)
    assert site.requests == (Request((), (Chunk(2),), apart=False),)
    assert not [note for note in site.notes if "has no" in note]


def test_a_job_that_fits_nowhere_is_named() -> None:
    wide, gpus = Request(("cpu",), (Chunk(5, 8),)), Request(("cpu",), (Chunk(1, gpus=1),))
    site = site_jobs(trace_of([0, 0, 0], [0, 1, -1], wide, gpus), CLUSTER)
    assert [(each.reason, each.job_ids) for each in site.rejected] == [
        ("partition cpu has 4 of 5 nodes with 8 cores", (1,)),
        ("no node of partition cpu has 1 core, 1 GPU", (2,)),
    ]
    assert site.jobs.job_id.tolist() == [3]
    with pytest.raises(BadTrace, match="a log: no job fits the cluster: 1 job: partition cpu has 4 of 5") as caught:
        site_jobs(trace_of([0], [0], wide), CLUSTER)
    assert "node types" in caught.value.hint


def test_arrays_are_noted_as_unlimited() -> None:
    assert any("tasks of an array" in note for note in site_jobs(trace_of([0], array=np.array([7])), CLUSTER).notes)
    assert not any("tasks of an array" in note for note in site_jobs(trace_of([0]), CLUSTER).notes)


def test_the_units_of_a_cluster() -> None:
    units = site_units(trace_of([0]), CLUSTER)
    assert (units.size, units.nodes, units.per_node) == (64, 6, 11)
    whole = site_units(replace(trace_of([0]), units_per_node=1), CLUSTER)
    assert (whole.size, whole.nodes, whole.per_node) == (6, 6, 1)
    unknown = Cluster((Pool(NodeType(0), frozenset(), 3),))
    with pytest.raises(BadInput, match="a log counts processors") as caught:
        site_units(trace_of([0]), unknown)
    assert "cores = N" in caught.value.hint


def test_the_note_names_equipment() -> None:
    assert cluster_note(CLUSTER) == "cluster: 4 nodes of 8 cores, 1 GiB; 2 nodes of 16 cores, 2 GiB, 2 a GPUs"
    many = Cluster(tuple(Pool(NodeType(cores), frozenset({"cpu"}), cores) for cores in range(1, 9)))
    most, *_, last = cluster_note(many).split("; ")
    assert (most, last) == ("cluster: 8 nodes of 8 cores", "3 nodes of 2 other types")


@pytest.mark.parametrize(("policy", "pools"), [("fcfs", 2), ("fcfs", 1), ("easy", 1), ("greedy", 1), ("knapsack", 1)])
def test_equal_whole_nodes_are_replayed_as_one_machine(policy: str, pools: int) -> None:
    jobs = lublin_jobs(300, machine_size=16, seed=3, load=0.9)
    trace = Trace("a log", jobs, None, 16, 0, "UTC", units_per_node=1)
    kinds = [NodeType(8, features=frozenset({each})) for each in "ab"[:pools]]
    cluster = Cluster(tuple(Pool(kind, frozenset(), 16 // pools) for kind in kinds))
    policies = (parse_policy(policy, SchedulingSettings()),)
    plain, on_cluster = (
        prepare(trace, Settings(machine=MachineSettings(nodes=nodes)), start=None, cluster=each).case
        for nodes, each in ((16, None), (None, cluster))
    )
    assert on_cluster.is_mixed == (pools > 1)
    starts = [compare(case, policies).runs[0].schedule.start_s for case in (plain, on_cluster)]
    assert (starts[0] == starts[1]).all()


def test_equal_whole_nodes_with_a_limit_are_replayed_as_pools() -> None:
    one = Request(("cpu",), (Chunk(1),), whole_nodes=True, licences=(("ansys", 1),))
    pools = (Pool(NodeType(8), frozenset({"cpu"}), 8),)
    starts = []
    for licences in ({}, {"ansys": 1}):
        trace = replace(trace_of([0, 0], [0, 0], one), units_per_node=1)
        case = prepare(trace, Settings(), start=None, cluster=Cluster(pools, licences=licences)).case
        starts.append(compare(case, (parse_policy("easy", SchedulingSettings()),)).runs[0].schedule.start_s.tolist())
    assert starts == [[0, 1], [0, 60]]


def test_the_timing_of_the_scheduler_is_replayed_and_named() -> None:
    timed = replace(CLUSTER, timing=SchedulerTiming(sched_interval_s=50, text="passes every 50 s"))
    prepared = prepare(trace_of([0, 1]), Settings(), start=None, cluster=timed)
    assert any(note.startswith("timing, as the scheduler is configured: passes every 50 s;") for note in prepared.notes)
    start_s = compare(prepared.case, (parse_policy("easy", SchedulingSettings()),)).runs[0].schedule.start_s
    assert (start_s % 50 == 0).all()
    untimed = prepare(trace_of([0, 1]), Settings(), start=None, cluster=CLUSTER)
    assert not any(note.startswith("timing") for note in untimed.notes)


def test_a_log_of_processors_with_a_preemptible_queue(shared: Path) -> None:
    trace = read_log(str(shared / "data/modern/gaia/UniLu-Gaia-2014-2.swf.gz"), lenient=False, zone=UTC)
    queues = {str(number): Partition(str(number), shared=True, priority_tier=int(number != 2)) for number in range(3)}
    cluster = Cluster((Pool(NodeType(14), frozenset(queues), 151),), queues)
    site = site_jobs(trace, cluster)
    assert len(site.jobs) == len(trace.jobs) == 51_959
    assert site_units(trace, cluster).size == 151 * 14
    assert {name for request in site.requests for name in request.partitions} == set(queues)
    assert not [note for note in site.notes if "has no" in note]
    without = Cluster((Pool(NodeType(14), frozenset({"1"}), 151),), {"1": queues["1"]})
    unknown = [note for note in site_jobs(trace, without).notes if "has no" in note]
    assert unknown == [
        "the cluster has no partition 0: 1,850 jobs of it may run on all of its nodes",
        "the cluster has no partition 2: 14,904 jobs of it may run on all of its nodes",
    ]


@pytest.mark.parametrize("mode", [PreemptMode.SUSPEND, PreemptMode.OFF])
def test_jobs_that_the_scheduler_would_suspend_run_on_with_a_note(mode: PreemptMode) -> None:
    partitions = {
        "low": Partition("low", preempt_mode=mode),
        "high": Partition("high", priority_tier=2, preempts=True),
    }
    cluster = Cluster((Pool(NodeType(4), frozenset(partitions), 1),), partitions)
    log = trace_of([0, 1], [0, 1], *(Request((name,), (Chunk(1, 2),)) for name in partitions))
    prepared = prepare(log, Settings(), start=None, cluster=cluster)
    note = "jobs of partition low run on where the scheduler would suspend them for others"
    assert (note in prepared.notes) == (mode is PreemptMode.SUSPEND)
    assert not cluster.preempts


def test_a_case_without_requests_is_refused_with_a_hint() -> None:
    case = prepare(trace_of([0, 1]), Settings(), start=None, cluster=CLUSTER).case
    without = replace(case, jobs=replace(case.jobs, request=None))
    with pytest.raises(BadInput, match="the jobs have no requests") as refused:
        compare(without, (parse_policy("easy", SchedulingSettings()),))
    assert "`prepare`" in str(refused.value.hint)


def test_generic_resources_that_the_cluster_does_not_list_are_left_out_with_a_note() -> None:
    with_nic = (frozenset({"gres/nic"}),)
    site = site_jobs(trace_of([0], [0], Request(("cpu",), (Chunk(1, 2, features=with_nic),))), CLUSTER)
    assert site.requests == (Request(("cpu",), (Chunk(1, 2),)),)
    assert "the cluster has no generic resource gres/nic: 1 job of it count without it" in site.notes
    pools = tuple(pool._replace(node_type=pool.node_type._replace(features=with_nic[0])) for pool in CLUSTER.pools)
    has_nic = replace(CLUSTER, pools=pools)
    asks = Request(("cpu",), (Chunk(1, 2, features=with_nic),))
    assert site_jobs(trace_of([0], [0], asks), has_nic).requests == (asks,)
