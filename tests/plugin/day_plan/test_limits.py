"""Plans of a live queue under licences and limits of QOS."""

from collections import defaultdict
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from planned_site import HOUR_S, NOW_S, RULES, a_job, a_node, a_running, make_inputs
from queue_site import plain_cluster, plain_request

from offpeak.model.facility import PowerCap
from offpeak.model.limits import Allowance, Qos
from offpeak.plugin.day_plan.day_plan import DayPlan
from offpeak.plugin.day_plan.inputs import PlanInputs
from offpeak.plugin.day_plan.limits import limit_amounts
from offpeak.plugin.day_plan.make import plan_day
from offpeak.plugin.planner.orders import budget_of
from offpeak.plugin.scheduler.job import Job

IN_LINE = replace(RULES, window=1)
"""No job passes another."""


def site(*jobs: Job, licences=None, qos=(), partition_qos="", nodes: int = 8, **facts) -> PlanInputs:
    """Return the inputs of a plan for a cluster with these limits."""
    cluster = plain_cluster(jobs)
    partitions = {name: each._replace(qos=partition_qos) for name, each in cluster.partitions.items()}
    cluster = replace(cluster, licences=licences or {}, qos={each.name: each for each in qos}, partitions=partitions)
    return make_inputs(jobs, nodes=nodes, cluster=cluster, rules=IN_LINE, **facts)


def starts(inputs: PlanInputs) -> dict[str, float | None]:
    """Return the starts in hours from now."""
    return {job.job_id: None if job.start_s is None else (job.start_s - NOW_S) / HOUR_S for job in planned(inputs).jobs}


def planned(inputs: PlanInputs, previous: DayPlan | None = None) -> DayPlan:
    plan = plan_day(inputs, previous, budget_of(10.0))
    assert plan is not None
    assert plan.violations == ()
    return plan


def with_terms(job: Job, *, qos: str = "", **licences: int) -> Job:
    """Return the job with licences and a QOS."""
    assert job.request is not None
    request = job.request._replace(licences=tuple(licences.items()), qos=qos)
    return job._replace(request=request, qos=qos)


def test_jobs_wait_for_licences_that_others_have():
    jobs = [with_terms(a_job(number), matlab=2) for number in (1, 2, 3)]
    assert starts(site(*jobs, a_job(4), licences={"matlab": 4})) == {"1": 0, "2": 0, "3": 1, "4": 0}
    runs = with_terms(a_running(9, "n1"), matlab=3)
    assert starts(site(runs, *jobs, licences={"matlab": 4})) == {"1": 0.5, "2": 0.5, "3": 1.5}


def test_licences_that_no_one_counts_hold_no_job_back():
    jobs = [with_terms(a_job(number), matlab=2) for number in (1, 2, 3)]
    assert set(starts(site(*jobs)).values()) == {0}
    assert set(starts(site(*jobs, licences={"ansys": 1})).values()) == {0}


def test_the_limits_of_a_qos_are_kept():
    small = Qos("small", group=Allowance(nodes=3), per_user=Allowance(jobs=1))
    jobs = [
        with_terms(a_job(1, nodes=2), qos="small"),
        with_terms(a_job(2, user="bob", nodes=2), qos="small"),
        with_terms(a_job(3, nodes=1), qos="small"),
        a_job(4),
    ]
    assert starts(site(*jobs, qos=[small])) == {"1": 0, "2": 1, "3": 1, "4": 0}


def test_the_qos_of_a_partition_limits_all_its_jobs():
    inputs = site(a_job(1), a_job(2), a_job(3), qos=[Qos("part", group=Allowance(jobs=2))], partition_qos="part")
    assert sorted(starts(inputs).values()) == [0, 0, 1]


def test_a_limit_holds_across_pools():
    jobs = [with_terms(a_job(1), matlab=1), with_terms(a_job(2, partitions=("gpu",)), matlab=1)]
    inputs = site(*jobs, licences={"matlab": 1})
    inputs = replace(inputs, nodes=(a_node("n1"), a_node("g1", partitions=("gpu",))))
    assert sorted(starts(inputs).values()) == [0, 1]


def test_a_job_that_runs_with_a_request_that_is_not_understood_counts_for_its_qos():
    runs = a_running(9, "n1")._replace(request=None, request_problem="GPUs of several types", qos="small")
    waits = with_terms(a_job(1), qos="small")
    assert starts(site(runs, waits, qos=[Qos("small", group=Allowance(jobs=1))])) == {"1": 0.5}


def test_a_job_that_a_limit_never_admits_is_named():
    jobs = [with_terms(a_job(number), matlab=5) for number in range(1, 8)]
    closed = with_terms(a_job(8), qos="closed")
    plan = planned(site(*jobs, closed, a_job(9), licences={"matlab": 4}, qos=[Qos("closed", group=Allowance(jobs=0))]))
    assert [job.job_id for job in plan.jobs] == ["9"]
    never = "a limit never admits it: "
    assert plan.left_out["1"] == f"{never}the cluster has 4 of licence matlab, not 5"
    assert (
        f"7 jobs left unchanged: {never}the cluster has 4 of licence matlab, not 5 (1, 2, 3, 4, 5 and 2 more)"
        in plan.remarks
    )
    assert f"1 job left unchanged: {never}QOS closed allows all jobs 0 jobs at a time, not 1 (8)" in plan.remarks


def test_an_array_is_planned_with_the_tasks_that_its_licences_admit():
    array = with_terms(a_job(1, array_id="1", tasks=6), matlab=2)
    inputs = site(array, a_job(2, nodes=6), licences={"matlab": 5})
    plan = planned(inputs)
    # Two of its tasks run at a time, and leave six nodes.
    assert [(job.job_id, job.start_s) for job in plan.jobs] == [("1", NOW_S), ("2", NOW_S)]
    assert plan.power_profile.power_w[0] == 8 * 400 + 8 * 50
    cap = PowerCap(NOW_S, NOW_S + HOUR_S, 100_000, "the grid asks", "test")
    assert planned(replace(inputs, caps=(cap,))).by_id["1"].power_w == 2 * 400


def test_tasks_that_share_a_node_start_one_by_one_as_licences_come_free():
    request = plain_request(a_job(1, cpus=1))._replace(whole_nodes=False)
    array = with_terms(a_job(1, array_id="1", tasks=4, request=request, whole_nodes=False), matlab=1)
    runs = with_terms(a_running(9, "n1", limit_s=20 * HOUR_S, request=request, whole_nodes=False), matlab=3)
    inputs = replace(site(runs, array, licences={"matlab": 4}), shared_nodes=True)
    assert starts(inputs) == {"1": 0}


@given(st.data())
def test_no_limit_is_exceeded_at_any_time(data):
    terms = st.fixed_dictionaries({"nodes": st.integers(1, 3), "limit_s": st.integers(600, 9000),
                                   "user": st.sampled_from(["ann", "bob"])})  # fmt: skip
    takes = st.fixed_dictionaries({"a": st.integers(0, 3), "b@db": st.integers(0, 2), "c": st.integers(0, 1)})
    names = st.sampled_from(["", "x", "y", "unknown"])
    jobs = [
        with_terms(
            a_job(number, **data.draw(terms), **data.draw(arrays)(number)), qos=data.draw(names), **data.draw(takes)
        )
        for number in range(1, data.draw(st.integers(1, 10)))
    ]
    if data.draw(st.booleans()):
        jobs.append(with_terms(a_running(99, "n1", limit_s=9000), qos=data.draw(names), **data.draw(takes)))
    numbers = st.one_of(st.none(), st.integers(0, 5))
    allowances = st.builds(Allowance, jobs=numbers, nodes=numbers, cores=numbers)
    qos = [Qos(name, group=data.draw(allowances), per_user=data.draw(allowances)) for name in ("x", "y")]
    licences = {"a": data.draw(st.integers(0, 4)), "b@db": data.draw(st.integers(0, 3))}
    inputs = site(*jobs, licences=licences, qos=qos, partition_qos=data.draw(names))
    plan = planned(inputs)
    check_limits(inputs, plan)
    check_limits(inputs, planned(inputs, plan))


arrays = st.sampled_from([lambda _: {}, lambda number: {"array_id": str(number), "tasks": 3}])


def check_limits(inputs: PlanInputs, plan: DayPlan) -> None:
    """Add up at each start what jobs take that run then; of an array its first tasks."""
    cluster, by_id = inputs.queue.cluster, {job.job_id: job for job in inputs.queue.jobs}
    runs = [(NOW_S, load.until_s, load.job_id) for load in plan.loads]
    runs += [(job.start_s, job.start_s + job.run_s, job.job_id) for job in plan.jobs if job.start_s is not None]
    for at_s in {job.start_s for job in plan.jobs if job.start_s is not None}:
        used, by_plan = defaultdict(int), set()
        for from_s, until_s, job_id in runs:
            if from_s <= at_s < until_s:
                for limit, amount in limit_amounts(by_id[job_id], cluster).items():
                    used[limit] += amount
                    by_plan |= {limit} if job_id in plan.by_id else set()
        assert all(used[limit] <= limit.limit.most for limit in by_plan), at_s
