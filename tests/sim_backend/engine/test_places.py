"""Where jobs go, what they use, and what a replay on several pools refuses."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from random_clusters import cases
from random_logs import PLAIN, policy_of

from benchmarks.mixed_usage import usage_of
from offpeak.errors import BadInput
from offpeak.model.cluster import Cluster, NodeType, Partition, Pool, SchedulerTiming
from offpeak.model.limits import Allowance, PreemptionRules, PreemptMode, Qos
from offpeak.model.request import Chunk, Request
from offpeak.model.step_integrals import integrate_constant
from offpeak.sim_backend.engine.case import RequestedJobs, engine_case
from offpeak.sim_backend.engine.cells import new_picks
from offpeak.sim_backend.engine.rules import CONSERVATIVE, FCFS
from offpeak.sim_backend.engine.state import new_state
from offpeak.sim_backend.replay.replay import replay_case, rules_of

MIB = 2**20
THIN, FAT = NodeType(4, 8), NodeType(4, 64)
CLUSTER = Cluster((Pool(FAT, frozenset({"p"}), 1), Pool(THIN, frozenset({"p"}), 2)), {"p": Partition("p", shared=True)})


def schedule(requests, *, submit_s=None, runtime_s=10, cluster=CLUSTER, timing=None, **columns):
    count = len(requests)
    jobs = RequestedJobs(
        job_id=np.arange(count),
        submit_s=np.zeros(count, dtype=np.int64) if submit_s is None else np.array(submit_s),
        runtime_s=np.full(count, runtime_s),
        estimate_s=np.full(count, runtime_s),
        request=np.arange(count),
        part_power_w=np.full(count, 100.0),
        **columns,
    )
    case = engine_case(cluster, requests, jobs)
    policy = policy_of(PLAIN)
    return case, replay_case(case, policy, rules_of(policy, timing or SchedulerTiming()))


def pools_of(found):
    return list(zip(found.places.job.tolist(), found.places.pool.tolist(), found.places.nodes.tolist(), strict=True))


def test_jobs_fill_the_pool_with_the_least_surplus_first():
    small, large = Request(("p",), (Chunk(1, 2, 2),)), Request(("p",), (Chunk(1, 2, 32),))
    _, found = schedule([small, large, small, small, small, small])
    assert found.start_s.tolist() == [0, 0, 0, 0, 0, 0]
    assert pools_of(found) == [(0, 1, 0.5), (1, 0, 0.5), (2, 1, 0.5), (3, 1, 0.5), (4, 1, 0.5), (5, 0, 0.5)]


def test_a_job_may_take_nodes_of_several_pools():
    _, found = schedule([Request(("p",), (Chunk(3, 4),))])
    assert pools_of(found) == [(0, 1, 2.0), (0, 0, 1.0)]


def test_nodes_stay_taken_while_they_complete():
    wide = Request(("p",), (Chunk(3, 4),))
    _, found = schedule([wide, wide], timing=SchedulerTiming(completing_s=7))
    assert found.start_s.tolist() == [0, 17]


def test_each_pass_takes_the_ends_of_the_jobs_that_were_started_into_its_window():
    one, wide = Request(("p",), (Chunk(1, 4),)), Request(("p",), (Chunk(3, 3),))
    small = Request(("p",), (Chunk(1, 1),))
    timing, runtime_s = SchedulerTiming(end_window_s=6), [10, 10, 12, 10]
    _, found = schedule([one, wide, small, one], submit_s=[0, 1, 2, 3], runtime_s=runtime_s, timing=timing)
    # The reservation at second 10 is one at second 14 when the last job is looked at, which ends in second 13.
    assert found.start_s.tolist() == [0, 13, 2, 3]


def test_each_pass_reserves_the_nodes_that_are_fullest_then():
    cluster = Cluster((Pool(NodeType(8), frozenset({"p"}), 3),), {"p": Partition("p", shared=True)})
    small, wide = Request(("p",), (Chunk(1, 3),)), Request(("p",), (Chunk(3, 4),), apart=False)
    requests, runtime_s = [small, wide, wide, small, small], [10, 10, 10, 20, 20]
    _, found = schedule(requests, submit_s=[0, 0, 0, 0, 1], runtime_s=runtime_s, cluster=cluster)
    # The fourth job makes the third node the fullest, so that the fifth may not start beside it.
    assert found.start_s.tolist() == [0, 0, 10, 0, 10]


def test_a_job_of_several_chunks_may_fit_where_less_is_free():
    cluster = Cluster((Pool(NodeType(8, 16), frozenset({"p"}), 2),), {"p": Partition("p", shared=True)})
    several = Request(("p",), (Chunk(1, 4), Chunk(1, 2, 8)), apart=False)
    chunks = (Chunk(1, 2, 14), Chunk(1, 4, 4), Chunk(1, 2), Chunk(1, 1))
    first, second, third, fourth = (Request(("p",), (chunk,)) for chunk in chunks)
    requests, runtime_s = [first, second, several, third, fourth], [10, 10, 10, 5, 10]
    _, found = schedule(requests, submit_s=[0, 0, 0, 1, 2], runtime_s=runtime_s, cluster=cluster)
    # Beside the second job only the second part fits; the first part goes elsewhere once the third job is there too.
    assert found.start_s.tolist() == [0, 0, 2, 1, 2]


def test_an_array_runs_no_more_tasks_than_its_throttle():
    one = Request(("p",), (Chunk(1),))
    _, found = schedule([one] * 5, array=np.array([3, 3, 3, -1, 3]), throttle=np.array([2, 2, 2, 0, 2]))
    assert found.start_s.tolist() == [0, 0, 10, 0, 10]


def test_a_job_without_a_free_licence_blocks_no_other_and_gets_no_reservation():
    cluster = replace(CLUSTER, licences={"matlab": 1})
    one, matlab = Request(("p",), (Chunk(1, 4),)), (("matlab", 1),)
    wide = Request(("p",), (Chunk(3, 4),), licences=matlab)
    _, found = schedule([one._replace(licences=matlab), wide, one], submit_s=[0, 5, 6], cluster=cluster)
    assert found.start_s.tolist() == [0, 16, 6]


def test_the_limits_of_a_user_hold_for_each_user_and_the_qos_of_a_partition_precedes_that_of_a_job():
    qos = {"one": Qos("one", per_user=Allowance(jobs=1)), "two": Qos("two", Allowance(nodes=9), Allowance(jobs=2))}
    one = Request(("p",), (Chunk(1),), qos="one")
    users = np.array([1, 1, 1, 2, -1, -1])
    _, found = schedule([one] * 6, cluster=replace(CLUSTER, qos=qos), user=users)
    assert found.start_s.tolist() == [0, 10, 20, 0, 0, 0]
    of_partition = replace(CLUSTER, qos=qos, partitions={"p": Partition("p", shared=True, qos="two")})
    _, found = schedule([one] * 6, cluster=of_partition, user=users)
    assert found.start_s.tolist() == [0, 0, 10, 0, 0, 0]


@pytest.mark.parametrize("per_user", [False, True])
def test_limits_on_cores_count_all_cores_of_whole_nodes(per_user):
    allowed = Allowance(cores=7)
    qos = {"q": Qos("q", per_user=allowed) if per_user else Qos("q", group=allowed)}
    one = Request(("p",), (Chunk(1),), qos="q")
    _, found = schedule([one] * 3, cluster=replace(CLUSTER, qos=qos), user=np.zeros(3, dtype=np.int64))
    assert found.start_s.tolist() == [0, 0, 0]
    whole = one._replace(whole_nodes=True)
    _, found = schedule([whole] * 3, cluster=replace(CLUSTER, qos=qos), user=np.zeros(3, dtype=np.int64))
    assert found.start_s.tolist() == [0, 10, 20]
    small = {"q": Qos("q", group=Allowance(cores=3))}
    case, _ = schedule([one, whole], cluster=replace(CLUSTER, qos=small))
    assert [each.reason for each in case.rejected] == ["QOS q allows all jobs 3 cores at a time, not 4"]


LOW, HIGH = (
    Partition(name, shared=True, priority_tier=tier, preempts=True) for tier, name in ((1, "low"), (2, "high"))
)
PREEMPTED = Cluster((Pool(THIN, frozenset({"low", "high"}), 2),), {"low": LOW, "high": HIGH})
LOW_JOB, HIGH_JOB = (Request((name,), (Chunk(1, 4),)) for name in ("low", "high"))


def test_a_job_of_a_higher_tier_stops_the_first_of_a_lower_one_which_starts_anew():
    case, found = schedule([LOW_JOB, LOW_JOB, HIGH_JOB], submit_s=[0, 1, 5], cluster=PREEMPTED)
    assert found.start_s.tolist() == [11, 1, 5]
    assert [column.tolist() for column in found.lost] == [[0], [0], [5]]
    usage = usage_of(case, found, integrate_constant(2.0), np.array([10.0]), (0, 100))
    assert usage.job_j.tolist() == [1500, 1000, 1000]
    assert usage.job_charge.tolist() == [3000, 2000, 2000]
    assert usage.busy_node_s.tolist() == [35]
    later = SchedulerTiming(requeue_s=20)
    _, found = schedule([LOW_JOB, LOW_JOB, HIGH_JOB], submit_s=[0, 1, 5], cluster=PREEMPTED, timing=later)
    assert found.start_s.tolist() == [25, 1, 5]


def test_the_site_says_which_jobs_are_stopped_and_which_have_not_run_for_long_enough():
    jobs = [LOW_JOB, LOW_JOB, HIGH_JOB]
    youngest = replace(PREEMPTED, preemption=PreemptionRules(youngest_first=True))
    _, found = schedule(jobs, submit_s=[0, 1, 5], cluster=youngest)
    assert found.start_s.tolist() == [0, 10, 5]
    exempt = replace(PREEMPTED, preemption=PreemptionRules(exempt_s=7))
    _, found = schedule(jobs, submit_s=[0, 1, 5], cluster=exempt)
    assert found.start_s.tolist() == [11, 1, 7]
    _, found = schedule(jobs, submit_s=[0, 1, 5], cluster=exempt, timing=SchedulerTiming(bf_interval_s=9))
    assert found.start_s.tolist() == [11, 1, 9]


def test_a_job_that_has_ended_is_not_stopped_while_it_completes():
    jobs, completing = [LOW_JOB, LOW_JOB, HIGH_JOB], SchedulerTiming(completing_s=5)
    _, found = schedule(jobs, submit_s=[0, 0, 12], cluster=PREEMPTED, timing=completing)
    assert (found.start_s.tolist(), len(found.lost.job)) == ([0, 0, 15], 0)


def test_narrow_jobs_are_stopped_before_wide_ones():
    wide = LOW_JOB._replace(chunks=(Chunk(2, 4),))
    cluster = replace(PREEMPTED, pools=(Pool(THIN, frozenset({"low", "high"}), 3),))
    _, found = schedule([wide, LOW_JOB, HIGH_JOB], submit_s=[0, 1, 5], cluster=cluster)
    assert found.start_s.tolist() == [0, 10, 5]


def test_a_cancelled_job_ends_and_jobs_that_need_not_be_stopped_go_on():
    modes = {"low": LOW._replace(preempt_mode=PreemptMode.CANCEL), "high": HIGH}
    wide = HIGH_JOB._replace(chunks=(Chunk(2, 1),))
    half = LOW_JOB._replace(chunks=(Chunk(1, 2),))
    _, found = schedule(
        [LOW_JOB, half, half, wide, LOW_JOB], submit_s=[0, 1, 2, 5, 6], cluster=replace(PREEMPTED, partitions=modes)
    )
    assert found.start_s.tolist() == [0, 1, 2, 5, 15]
    assert found.end_s.tolist() == [5, 5, 12, 15, 25]
    assert sorted(found.cancelled.tolist()) == [0, 1]
    assert not len(found.lost.job)


def test_no_job_is_stopped_in_vain_nor_where_partitions_do_not_preempt():
    off = {"low": LOW._replace(preempt_mode=PreemptMode.OFF), "high": HIGH}
    _, found = schedule([LOW_JOB, LOW_JOB, HIGH_JOB], cluster=replace(PREEMPTED, partitions=off), submit_s=[0, 0, 5])
    assert (found.start_s.tolist(), len(found.lost.job)) == ([0, 0, 10], 0)
    keep = HIGH_JOB._replace(chunks=(Chunk(2, 4),))
    _, found = schedule([HIGH_JOB, LOW_JOB, keep], submit_s=[0, 0, 5], cluster=PREEMPTED)
    assert (found.start_s.tolist(), len(found.lost.job)) == ([0, 0, 10], 0)


def test_a_qos_stops_jobs_of_those_that_it_preempts():
    qos = {"idle": Qos("idle"), "normal": Qos("normal", preempts=frozenset({"idle"}))}
    cluster = replace(CLUSTER, qos=qos)
    idle, normal = (Request(("p",), (Chunk(3, 4),), qos=name) for name in ("idle", "normal"))
    _, found = schedule([idle, normal, idle], submit_s=[0, 5, 6], cluster=cluster)
    assert found.start_s.tolist() == [15, 5, 25]
    circle = {"idle": Qos("idle", preempts=frozenset({"normal"})), "normal": qos["normal"]}
    with pytest.raises(BadInput, match="jobs of the QOS idle, normal may stop each other"):
        schedule([idle, normal], cluster=replace(CLUSTER, qos=circle))


def test_idle_power_is_charged_by_pool_and_a_share_of_a_node_leaves_the_rest_idle():
    case, found = schedule([Request(("p",), (Chunk(1, 2, 2),)), Request(("p",), (Chunk(1, 2, 32),))])
    usage = usage_of(case, found, integrate_constant(2.0), np.array([50.0, 10.0]), (0, 100))
    assert usage.busy_node_s.tolist() == [5, 5]
    assert usage.job_j.tolist() == [1000, 1000]
    assert usage.job_charge.tolist() == [2000, 2000]
    assert usage.idle_j.tolist() == [50 * 95, 10 * 195]
    assert usage.idle_charge.tolist() == [2 * 50 * 95, 2 * 10 * 195]


@given(cases())
def test_each_started_job_has_its_nodes_for_its_time(random):
    policy = policy_of(PLAIN)
    found = replay_case(random.case, policy, rules_of(policy))
    idle_w = np.zeros(len(random.cluster.pools))
    usage = usage_of(random.case, found, integrate_constant(1.0), idle_w, (0, 10_000))
    assert set(found.places.job.tolist()) == set(range(len(random.jobs)))
    assert usage.busy_node_s.sum() == pytest.approx(
        (np.bincount(found.places.job, found.places.nodes) * random.case.workload.runtime_s).sum()
    )


def test_disciplines_reserve_for_so_many_jobs():
    policies = [replace(policy_of(PLAIN._replace(discipline=each))) for each in (FCFS, CONSERVATIVE)]
    assert [rules_of(policy).reservations for policy in policies] == [0, 100]
    timing = SchedulerTiming(bf_most_jobs=7)
    assert [rules_of(policy, timing).reservations for policy in policies] == [0, 7]


def test_twenty_thousand_nodes_in_forty_pools_need_little_memory():
    names = [f"p{number}" for number in range(30)]
    pools = [Pool(NodeType(128, 8 * MIB, (("x", 4),)), frozenset({names[each % 30]}), 500) for each in range(40)]
    cluster = Cluster(tuple(pools), {name: Partition(name, shared=True) for name in names})
    requests = [Request((name,), (Chunk(copies, 1),)) for name in names for copies in (1, 4, 64)]
    case, _ = schedule(requests, cluster=cluster)
    policy = policy_of(PLAIN._replace(discipline=CONSERVATIVE))
    state = new_state(case.tables, case.workload, rules_of(policy), new_picks(case.tables))
    assert len(case.tables.cell_pool) == 20_000
    assert _bytes(state) + _bytes(case.tables) < 100 * MIB


def _bytes(value) -> int:
    return value.nbytes if isinstance(value, np.ndarray) else sum(map(_bytes, value or ()))
