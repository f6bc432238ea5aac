"""Jobs with different requests compete where they could use the same nodes, and only there."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_site import HOUR_S, NOW_S, RULES, Site, a_job, prices

from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.limits import Qos
from offpeak.model.request import Chunk, Request
from offpeak.plugin.queue_hook.facts import QueueFacts
from offpeak.plugin.queue_hook.queue_plan import QueuePlan
from offpeak.plugin.scheduler.cluster_view import cluster_of, free_nodes
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import Ranking, SchedulerView
from offpeak.prices.peak import Peak

pytestmark = pytest.mark.quick

CPU_NODES = Pool(NodeType(64, 256_000), frozenset({"batch"}), 100)
GPU_NODES = Pool(NodeType(64, 512_000, (("a100", 4),)), frozenset({"gpu"}), 10)
BOTH = Pool(NodeType(64, 512_000), frozenset({"batch", "gpu"}), 5)
SHARED = {name: Partition(name, shared=True) for name in ("batch", "gpu", "long")}
CLUSTER = Cluster((CPU_NODES, GPU_NODES), SHARED)


def asks(number: int, chunk: Chunk, partition: str = "batch", **fields: Any) -> Job:
    """Return a job that shares its nodes."""
    request = Request((partition,), (chunk,), reservation=fields.get("reservation", ""), qos=fields.get("qos", ""))
    cores = chunk.copies * chunk.cores
    return a_job(
        number,
        **{"partitions": (partition,), "whole_nodes": False, "request": request, "nodes": chunk.copies, "cpus": cores}
        | fields,
    )


def plan(jobs: list[Job], watts: list[float], cluster: Cluster = CLUSTER, **others: Any) -> QueuePlan:
    draws = {job.job_id: watt for job, watt in zip(jobs, watts, strict=True)}
    return Site(tuple(jobs)).plan(**{"node_power_w": draws, "cluster": cluster, **others})


def order_after(jobs: list[Job], watts: list[float], cluster: Cluster = CLUSTER, **others: Any) -> list[str]:
    return Site(tuple(jobs)).apply(plan(jobs, watts, cluster, **others)).order()


def test_jobs_with_different_memory_compete_on_nodes_that_have_more() -> None:
    jobs = [asks(number, Chunk(1, 64, 1024 * gib)) for number, gib in ((1, 8), (2, 9), (3, 10))]
    assert order_after(jobs, [300.0, 200.0, 100.0]) == ["3", "2", "1"]
    reasons = [each.reason for each in plan(jobs, [300.0, 200.0, 100.0]).decisions]
    assert reasons[0].startswith("before 2: on-peak, 100 W/node against 200 W/node")


def test_jobs_of_nodes_that_no_job_connects_do_not_compete() -> None:
    jobs = [asks(1, Chunk(1, 64)), asks(2, Chunk(1, 64, gpus=1), "gpu")]
    assert order_after(jobs, [300.0, 200.0]) == ["1", "2"]
    connected = Cluster((CPU_NODES, GPU_NODES, BOTH), SHARED)
    assert order_after([jobs[0], asks(2, Chunk(1, 64), "gpu")], [300.0, 200.0], connected) == ["2", "1"]


def test_partitions_of_another_tier_and_reservations_are_apart() -> None:
    tiers = Cluster((BOTH,), {**SHARED, "gpu": Partition("gpu", shared=True, priority_tier=2)})
    assert order_after([asks(1, Chunk(1, 64)), asks(2, Chunk(1, 64), "gpu")], [300.0, 200.0], tiers) == ["1", "2"]
    named = Pool(NodeType(64), frozenset({"batch"}), 2, frozenset({"n1", "n2"}))
    reserved = Cluster((named,), SHARED, {"maint": frozenset({"n1"})})
    jobs = [asks(1, Chunk(1, 64)), asks(2, Chunk(1, 64), reservation="maint")]
    assert order_after(jobs, [300.0, 200.0], reserved) == ["1", "2"]


@pytest.mark.parametrize("preempted", [frozenset(), frozenset({"idle"})])
def test_jobs_of_a_qos_that_preempts_others_are_apart_from_these(preempted: frozenset[str]) -> None:
    cluster = replace(CLUSTER, qos={"idle": Qos("idle"), "normal": Qos("normal", preempts=preempted)})
    jobs = [asks(1, Chunk(1, 64), qos="normal"), asks(2, Chunk(1, 64), qos="idle")]
    assert order_after(jobs, [300.0, 200.0], cluster) == (["1", "2"] if preempted else ["2", "1"])


def test_a_share_of_a_node_counts_as_a_full_node_of_such_jobs() -> None:
    # 4 of 64 cores that draw 25 W are 400 W a node: more than the whole node of job 2.
    jobs, watts = [asks(1, Chunk(1, 4)), asks(2, Chunk(1, 64))], [25.0, 300.0]
    full_w = {"full_node_w": {"1": 400.0, "2": 300.0}}
    assert order_after(jobs, watts, **full_w) == ["2", "1"]
    (first, _) = plan(jobs, watts, **full_w).decisions
    assert first.reason.startswith("before 1: on-peak, 300 W/node against 400 W/node")


@pytest.mark.parametrize(
    ("request_of", "why"),
    [
        (Request(("batch",), (Chunk(1, 1, gpus=1),)), "no node of partition batch has 1 core, 1 GPU"),
        (Request(("nowhere",), (Chunk(1),)), "there is no partition nowhere"),
        (None, "its request is not understood: 'a&&b' is not a constraint on features"),
    ],
)
def test_a_job_that_fits_no_nodes_keeps_its_place_and_says_why(request_of: Request | None, why: str) -> None:
    problem = "" if request_of else "'a&&b' is not a constraint on features"
    odd = a_job(2, request=request_of, request_problem=problem)
    jobs = [asks(1, Chunk(1, 64)), odd, asks(3, Chunk(1, 64))]
    made = plan(jobs, [300.0, 200.0, 100.0])
    assert made.rank.keys() == {"1", "3"}
    (decision,) = (each for each in made.decisions if each.subject == "job 2")
    assert decision.decided == "keeps its place"
    assert decision.reason.endswith(why)


def test_a_knapsack_fills_the_free_nodes_that_its_jobs_could_use() -> None:
    rules = replace(RULES, policy="knapsack")
    jobs = [asks(1, Chunk(3, 64)), asks(2, Chunk(2, 64)), asks(3, Chunk(2, 64))]
    assert order_after(jobs, [100.0] * 3, rules=rules, free_nodes=(4, 9)) == ["2", "3", "1"]
    # Of four free nodes three are for job 1 alone: jobs that need GPUs do not count them.
    connected = Cluster((CPU_NODES, GPU_NODES, BOTH), SHARED)
    mixed = [asks(1, Chunk(3, 64)), asks(2, Chunk(1, 64), "gpu"), asks(3, Chunk(1, 64, gpus=4), "gpu")]
    assert order_after(mixed, [100.0] * 3, connected, rules=rules, free_nodes=(3, 0, 0)) == ["1", "2", "3"]
    assert order_after(mixed, [100.0] * 3, connected, rules=rules, free_nodes=(2, 0, 0)) == ["1", "2", "3"]


def test_shares_of_nodes_fill_a_knapsack() -> None:
    rules = replace(RULES, policy="knapsack")
    jobs = [asks(1, Chunk(1, 48)), asks(2, Chunk(1, 32)), asks(3, Chunk(1, 32))]
    assert order_after(jobs, [100.0] * 3, rules=rules, free_nodes=(1, 0)) == ["2", "3", "1"]


def test_a_knapsack_fills_the_nodes_that_are_expected_to_be_free_until_the_next_decision() -> None:
    rules = replace(RULES, policy="knapsack")
    ending = {"state": JobState.RUNNING, "start_s": NOW_S - 1000}
    jobs = [asks(1, Chunk(3, 64)), asks(2, Chunk(2, 64)), asks(3, Chunk(2, 64))]
    busy = [*jobs, asks(8, Chunk(1, 64), **ending), asks(9, Chunk(3, 64), **ending)]
    watts = [100.0] * 5

    def after(*run_s: int, free: float = 0.0) -> list[str]:
        expected_run_s = {"8": run_s[0], "9": run_s[1]}
        plan_rules = {"rules": rules, "cycle_s": 30.0, "free_nodes": (free, 0), "expected_run_s": expected_run_s}
        return [job for job in order_after(busy, watts, **plan_rules) if job in "123"]

    assert after(1020, 1030) == ["2", "3", "1"], "four nodes within 30 s"
    assert after(10, 1030) == ["2", "3", "1"], "an overdue job is expected to end now"
    assert after(1020, 9000, free=2.0) == ["1", "2", "3"], "three nodes"
    assert after(8000, 9000) == ["2", "3", "1"], "no job fits the free nodes: the next ends count until one fits"


def test_later_submissions_of_the_group_count_whatever_they_requested() -> None:
    starved = replace(RULES, max_postponement_s=HOUR_S)
    jobs = [asks(1, Chunk(1, 64, 8192), submit_s=NOW_S - 9 * HOUR_S), asks(2, Chunk(1, 64, 9216))]
    started = {"state": JobState.RUNNING, "start_s": NOW_S - 2 * HOUR_S, "hosts": "n1", "submit_s": NOW_S - 8 * HOUR_S}
    passing = asks(3, Chunk(1, 64, 10_240), **started)
    elsewhere = asks(3, Chunk(1, 64, gpus=1), "gpu", **started)
    watts = [300.0, 200.0, 100.0]
    assert order_after([*jobs, elsewhere], watts, rules=starved) == ["2", "1"]
    assert order_after([*jobs, passing], watts, rules=starved) == ["1", "2"]


def test_a_job_of_two_tiers_is_passed_by_later_ones_that_run_in_one_of_them() -> None:
    starved = replace(RULES, max_postponement_s=HOUR_S)
    tiers = Cluster((BOTH,), {**SHARED, "gpu": Partition("gpu", shared=True, priority_tier=2)})
    either = {"request": Request(("batch", "gpu"), (Chunk(1, 64),)), "partitions": ("batch", "gpu")}
    jobs = [a_job(1, submit_s=NOW_S - 9 * HOUR_S, **either), a_job(2, **either)]
    # Slurm lists a started job with the partition in which it runs.
    started = {"start_s": NOW_S - 2 * HOUR_S, "submit_s": NOW_S - 8 * HOUR_S, "hosts": "n1"}
    passing = asks(3, Chunk(1, 64), "gpu", state=JobState.RUNNING, **started)
    watts = [300.0, 200.0, 100.0]
    assert order_after(jobs, watts[:2], tiers, rules=starved) == ["2", "1"]
    assert order_after([*jobs, passing], watts, tiers, rules=starved) == ["1", "2"]


@pytest.mark.parametrize("request_of", [None, Request(("batch",), (Chunk(1, 96),))])
def test_a_started_job_that_fits_no_nodes_passes_those_who_could_use_its_node(request_of: Request | None) -> None:
    starved = replace(RULES, max_postponement_s=HOUR_S)
    cluster = Cluster((CPU_NODES._replace(names=frozenset({"n1"}), nodes=1), GPU_NODES), SHARED)
    jobs = [asks(1, Chunk(1, 64), submit_s=NOW_S - 9 * HOUR_S), asks(2, Chunk(1, 64))]
    started = {"start_s": NOW_S - 2 * HOUR_S, "submit_s": NOW_S - 8 * HOUR_S, "request": request_of}
    watts = [300.0, 200.0, 100.0]
    for hosts, order in (("n1", ["1", "2"]), ("n9", ["2", "1"])):
        passing = a_job(3, state=JobState.RUNNING, hosts=hosts, **started)
        assert order_after([*jobs, passing], watts, cluster, rules=starved) == order


CHUNKS = st.builds(
    Chunk, st.integers(1, 3), st.sampled_from([1, 8, 64]), st.sampled_from([0, 8192, 300_000]), st.sampled_from([0, 1])
)


@given(st.lists(st.tuples(CHUNKS, st.sampled_from(["batch", "gpu", "long"])), max_size=12), st.data())
def test_mixed_requests_change_places_within_their_group_only(requests: list[tuple[Chunk, str]], data: Any) -> None:
    jobs = [asks(number, chunk, partition) for number, (chunk, partition) in enumerate(requests, 1)]
    pools = (CPU_NODES, GPU_NODES, *([BOTH] if data.draw(st.booleans()) else []))
    cluster = Cluster(pools, SHARED)
    watts = [data.draw(st.sampled_from([100.0, 200.0, 400.0])) for _ in jobs]
    policy, window = data.draw(st.sampled_from(["greedy", "knapsack"])), data.draw(st.sampled_from([1, 3, 20]))
    free = tuple(data.draw(st.integers(0, 4)) for _ in pools)
    rules = replace(RULES, policy=policy, window=window)
    after = order_after(jobs, watts, cluster, rules=rules, free_nodes=free)
    competition = QueueFacts(NOW_S, tuple(jobs), Site(()).ranking, cluster=cluster).competition
    group = {job.job_id: competition.group(job) for job in jobs}
    members = [job.job_id for job in jobs]
    assert [group[job] for job in after] == [group[job] for job in members]
    for each in set(group.values()):
        was, now = ([job for job in order if group[job] == each] for order in (members, after))
        assert now[window:] == was[window:]
        assert each.pool >= 0 or now == was


NODE = Node(
    "n1", "IDLE", NodeUse.FREE, *[None] * 1, False, False, True, False, False, "", "", None, ("batch",), (), 8, 0,  # type: ignore[arg-type]
    1000, None, None,
)  # fmt: skip


def test_a_scheduler_that_shows_no_nodes_keeps_the_order_and_says_so() -> None:
    jobs = [asks(number, Chunk(1, 64)) for number in (1, 2, 3)]
    watts = [300.0, 200.0, 100.0]
    ordered = Site(tuple(jobs)).apply(plan(jobs, watts))
    assert ordered.order() == ["3", "2", "1"]
    hidden = ordered.plan(cluster=Cluster(()))
    assert hidden.changes_nothing
    assert (hidden.remember, hidden.forget, hidden.decisions) == ((), (), ())
    assert hidden.problem.startswith("the scheduler shows no nodes")
    assert ordered.plan(replace(RULES, policy="off"), cluster=Cluster(())).rank, "what is switched off is undone"
    assert Site(()).plan(cluster=Cluster(())).problem == "", "an empty queue needs no nodes"


def test_the_cluster_of_a_view_has_a_pool_for_each_kind_of_node() -> None:
    nodes = (
        NODE,
        NODE._replace(name="n2", features=("rack1",)),
        NODE._replace(name="n3", features=("rack2", "fast"), use=NodeUse.USED),
        NODE._replace(name="n4", gpus=(("a100", 2),), closed=True),
    )
    job = a_job(1, request=Request(("batch",), (Chunk(1, features=(frozenset({"fast"}),)),)))
    cluster = cluster_of(SchedulerView(NOW_S, (job,), nodes, ()), (Partition("long", priority_tier=3),))
    # No job requests a rack: nodes that differ in nothing else are alike.
    assert [sorted(pool.names) for pool in cluster.pools] == [["n1", "n2"], ["n3"], ["n4"]]
    assert cluster.partitions["batch"].shared
    assert cluster.partitions["long"].priority_tier == 3
    assert free_nodes(cluster, nodes) == (2, 0, 0)
    half_used = nodes[0]._replace(use=NodeUse.USED, cpus=64, cpus_used=48)
    assert free_nodes(cluster, (half_used, *nodes[1:])) == (1.25, 0, 0)
    assert job.request is not None
    assert cluster.candidates(job.request) == (1,)


def test_a_queue_without_jobs_or_nodes_is_planned() -> None:
    assert plan([], []).changes_nothing
    assert plan([asks(1, Chunk(1)), asks(2, Chunk(1))], [300.0, 200.0], Cluster(())).changes_nothing
    assert Peak.ON_PEAK


def an_array(number: int, tasks: int = 8, limit: int = 0, **fields: Any) -> Job:
    return asks(number, Chunk(1, 64), array_id=str(number), tasks=tasks, task_limit=limit, **fields)


def a_task(number: int, array: int, **fields: Any) -> Job:
    return asks(number, Chunk(1, 64), array_id=str(array), plain=False, **fields)


RUNS = {"state": JobState.RUNNING, "start_s": NOW_S - 60, "hosts": "n1"}


def test_an_array_is_moved_as_one_record() -> None:
    jobs = [an_array(1), asks(2, Chunk(1, 64)), a_task(9, 1, **RUNS)]
    made = plan(jobs, [300.0, 200.0, 300.0])
    assert made.rank.keys() == {"1", "2"}
    assert order_after(jobs, [300.0, 200.0, 300.0]) == ["2", "1"]


def test_an_array_fills_free_nodes_with_the_tasks_that_could_start() -> None:
    rules = replace(RULES, policy="knapsack")
    single = asks(2, Chunk(4, 64))
    # Three of five tasks at once, one of which runs: two nodes, which leave three of five nodes empty.
    throttled = [an_array(1, tasks=4, limit=3), single, a_task(9, 1, **RUNS)]
    assert order_after(throttled, [100.0] * 3, rules=rules, free_nodes=(5, 0)) == ["2", "1"]
    # All eight tasks: the array fills all nodes.
    assert order_after([an_array(1), single], [100.0] * 2, rules=rules, free_nodes=(5, 0)) == ["1", "2"]


def test_an_array_that_has_reached_its_limit_keeps_its_place() -> None:
    jobs = [an_array(1, limit=1), asks(2, Chunk(1, 64)), asks(3, Chunk(1, 64)), a_task(9, 1, **RUNS)]
    assert plan(jobs, [300.0, 200.0, 100.0, 300.0]).rank.keys() == {"2", "3"}


def test_an_array_with_tasks_that_were_changed_alone_is_not_written_to() -> None:
    jobs = [an_array(1), asks(2, Chunk(1, 64)), asks(3, Chunk(1, 64)), a_task(9, 1)]
    made = plan(jobs, [300.0, 200.0, 100.0, 300.0])
    assert made.rank.keys() == {"2", "3"}
    assert "some of its tasks were changed alone" in [each.reason for each in made.decisions]


def test_a_task_does_not_pass_its_own_array() -> None:
    starved = replace(RULES, max_postponement_s=HOUR_S)
    array = an_array(1, submit_s=NOW_S - 9 * HOUR_S)
    task = a_task(9, 1, **RUNS | {"start_s": NOW_S - 2 * HOUR_S, "submit_s": NOW_S - 9 * HOUR_S})
    jobs, watts = [array, asks(2, Chunk(1, 64))], [300.0, 200.0, 300.0]
    assert order_after([*jobs, task], watts, rules=starved) == ["2", "1"]
    later = asks(9, Chunk(1, 64), **RUNS | {"start_s": NOW_S - 2 * HOUR_S, "submit_s": NOW_S - 8 * HOUR_S})
    assert order_after([*jobs, later], watts, rules=starved) == ["1", "2"]


def test_the_saving_of_a_delayed_array_is_that_of_all_its_tasks() -> None:
    cheap_later = {"prices": prices(*[100.0] * 20, *[10.0] * 20)}
    single, array = (
        plan([job._replace(comment="offpeak:delay=12h")], [300.0], **cheap_later).decisions[0]
        for job in (asks(1, Chunk(1, 64)), an_array(1, tasks=8))
    )
    assert (single.decided, array.decided) == ("delayed", "delayed")
    assert dict(array.inputs)["expected_saving"] == pytest.approx(8 * float(dict(single.inputs)["expected_saving"]))
    assert "tasks" not in dict(single.inputs)
    assert dict(array.inputs)["tasks"] == 8


def test_jobs_of_equal_priority_do_not_pass_one_outside_their_window() -> None:
    """As under priority/multifactor without weights, the default: all priorities are equal."""
    het = asks(2, Chunk(1, 64), priority=5, plain=False)
    jobs = [asks(number, Chunk(1, 64), priority=5) for number in (1, 3, 4)]
    site = Site((jobs[0], het, *jobs[1:]), Ranking.OFFSET, facts={"cluster": CLUSTER})
    watts = {"1": 300.0, "2": 10.0, "3": 200.0, "4": 100.0}
    assert site.apply(site.plan(node_power_w=watts)).order() == ["1", "2", "3", "4"]
    waits = replace(site, jobs=(jobs[0], het._replace(reason="Dependency"), *jobs[1:]))
    assert waits.apply(waits.plan(node_power_w=watts)).order() == ["4", "3", "1", "2"]
    for request, order in ((None, ["1", "2", "3", "4"]), (Request(("batch",), (Chunk(1, 65),)), ["4", "3", "1", "2"])):
        other = replace(site, jobs=(jobs[0], het._replace(request=request), *jobs[1:]))
        assert other.apply(other.plan(node_power_w=watts)).order() == order
    throttled = het._replace(plain=True, array_id="2", tasks=4, task_limit=1)
    task = asks(5, Chunk(1, 64), state=JobState.RUNNING, array_id="2", hosts="n1", plain=False)
    busy = replace(site, jobs=(jobs[0], throttled, *jobs[1:], task))
    assert busy.apply(busy.plan(node_power_w=watts)).order()[:3] == ["4", "3", "1"]
    late = replace(site, jobs=(*jobs, asks(9, Chunk(1, 64), priority=5, plain=False)))
    assert late.apply(late.plan(node_power_w=watts)).order() == ["4", "3", "1", "9"]


def test_reasons_that_free_nodes_do_not_resolve() -> None:
    """Reasons of Slurm 22.05 and 25.11, and comments of OpenPBS 23.06."""
    limits = ("QOSMaxJobsPerUserLimit", "AssocGrpNodeLimit", "Licenses", "JobArrayTaskLimit", "PartitionTimeLimit")
    others = ("Dependency", "JobHeldUser", "Not Running: User has reached server running job limit.")
    closed = ("Queue not started.", "Insufficient amount of server resource: lic (R: 1 A: 0 T: 1)", "Dedicated Time")
    closed = tuple(f"Not Running: {reason}" for reason in (*closed, "Job only runs in nonprimetime"))
    assert not any(asks(1, Chunk(1, 1), reason=reason).lacks_only_nodes for reason in (*limits, *others, *closed))
    reserved = "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions"
    scarce = "Not Running: Insufficient amount of resource: ncpus (R: 4 A: 0 T: 8)"
    named = "ReqNodeNotAvail, UnavailableNodes:threshold[1-4],qos1"
    for reason in (named, "", "None", "Priority", "Resources", "BeginTime", reserved, scarce):
        assert asks(1, Chunk(1, 1), reason=reason).lacks_only_nodes


def test_a_job_that_waits_for_a_limit_is_no_part_of_the_window() -> None:
    limited = asks(2, Chunk(1, 64), reason="QOSGrpNodeLimit")
    jobs = [asks(1, Chunk(1, 64)), limited, asks(3, Chunk(1, 64))]
    rules, watts = replace(RULES, window=2), {"1": 300.0, "2": 10.0, "3": 200.0}
    site = Site(tuple(jobs), facts={"cluster": CLUSTER, "node_power_w": watts})
    assert site.apply(site.plan(rules)).order() == ["3", "2", "1"]
    free = replace(site, jobs=(jobs[0], limited._replace(reason="Priority"), jobs[2]))
    assert free.apply(free.plan(rules)).order() == ["2", "1", "3"]


TIERS = Cluster((CPU_NODES, BOTH), {**SHARED, "gpu": Partition("gpu", shared=True, priority_tier=2)})


@given(
    st.lists(
        st.tuples(st.sampled_from([("batch",), ("gpu",), ("batch", "gpu")]), st.sampled_from([1, 5, 9]), st.booleans()),
        min_size=2,
        max_size=12,
    ),
    st.sampled_from(["greedy", "knapsack"]),
    st.sampled_from([2, 3, 20]),
    st.data(),
)
def test_no_job_loses_a_rank_to_a_group_that_uses_its_nodes(
    drawn: list[tuple[tuple[str, ...], int, bool]], policy: str, window: int, data: st.DataObject
) -> None:
    jobs = [
        asks(number, Chunk(1, 64), partitions[0], partitions=partitions, priority=priority, plain=plain)._replace(
            request=Request(partitions, (Chunk(1, 64),))
        )
        for number, (partitions, priority, plain) in enumerate(drawn, 1)
    ]
    watts = {job.job_id: data.draw(st.sampled_from([100.0, 200.0, 300.0])) for job in jobs}
    site = Site(tuple(jobs), Ranking.OFFSET)
    after = site.apply(
        site.plan(replace(RULES, policy=policy, window=window), node_power_w=watts, cluster=TIERS, free_nodes=(2, 1))
    )
    competition = QueueFacts(NOW_S, site.jobs, site.ranking, cluster=TIERS).competition
    group = {job.job_id: competition.group(job) if job.plain else job.job_id for job in jobs}
    now = {job.job_id: job for job in after.jobs}

    def others_ahead(order: list[str], name: str) -> int:
        return sum(group[other] != group[name] for other in order[: order.index(name)])

    for job in jobs:
        if now[job.job_id].priority == job.priority:
            assert others_ahead(after.order(), job.job_id) <= others_ahead(site.order(), job.job_id)
