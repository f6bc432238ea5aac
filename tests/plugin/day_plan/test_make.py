"""Plans of a live queue: what is planned, what is left out, what a cap and a cheap hour do, and what stays."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planned_site import HOUR_S, NOW_S, RULES, a_job, a_node, a_running, make_inputs, prices

from offpeak.errors import OffpeakError
from offpeak.model.facility import PowerCap
from offpeak.model.request import Chunk, Request
from offpeak.model.step_series import Series
from offpeak.plugin.day_plan.day_plan import DayPlan, constraints_of
from offpeak.plugin.day_plan.inputs import PlanInputs
from offpeak.plugin.day_plan.join import NEGATIVE_PRICES, NOTHING_EARNS, find_queue_order
from offpeak.plugin.day_plan.make import plan_day
from offpeak.plugin.planner.orders import budget_of
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node
from offpeak.settings.plan import Revenue


def planned(inputs: PlanInputs, previous: DayPlan | None = None, *, search_s: float = 10.0) -> DayPlan:
    plan = plan_day(inputs, previous, budget_of(search_s))
    assert plan is not None
    assert plan.violations == ()
    return plan


def starts(plan: DayPlan) -> dict[str, float | None]:
    """Return the starts in hours from now."""
    return {job.job_id: None if job.start_s is None else (job.start_s - NOW_S) / HOUR_S for job in plan.jobs}


def test_jobs_start_as_nodes_come_free():
    jobs = (a_running(1, "n1,n2", nodes=2), a_job(2, nodes=2), a_job(3, nodes=4), a_job(4, limit_s=HOUR_S // 2))
    plan = planned(make_inputs(jobs))
    assert starts(plan) == {"2": 0, "3": 1, "4": 0.5}
    assert plan.by_id["2"].hosts == ("n3", "n4")
    assert [load.job_id for load in plan.loads] == ["1"]


def test_without_prices_there_is_no_plan():
    assert plan_day(make_inputs((a_job(1),), prices=None), None, budget_of(1)) is None


def test_jobs_that_cannot_be_planned_are_left_out_with_a_reason():
    jobs = (
        a_job(1),
        a_job(2, plain=False),
        a_job(3, reservation="tests"),
        a_job(4, partitions=("elsewhere",)),
        a_job(5, limit_s=None),
        a_job(6, state=JobState.HELD),
        a_job(7, nodes=5),
    )
    plan = planned(make_inputs(jobs))
    assert starts(plan) == {"1": 0}
    assert set(plan.left_out) == {"2", "3", "4", "5", "7"}
    assert plan.left_out["7"] == "it requests more than the 4 usable nodes of its partition"
    assert "1 job left unchanged: it is a part of another job, or depends on other jobs" in plan.remarks


def test_partitions_that_share_some_nodes_are_planned_together():
    inputs = make_inputs((a_job(1), a_job(2), a_job(3, partitions=("debug",))))
    nodes = (a_node("n1", partitions=("batch", "debug")), a_node("n2"))
    plan = planned(replace(inputs, nodes=nodes))
    assert set(starts(plan)) == {"1", "2", "3"}
    assert plan.by_id["3"].hosts == ("n1",)
    assert plan.violations == ()


def test_nodes_that_are_not_ours_to_count_on_are_not_counted_on():
    inputs = make_inputs((a_job(1), a_job(2)))
    nodes = (a_node("n1"), a_node("n2", closed=True, reason="broken fan"), a_node("n3", failed=True))
    assert starts(planned(replace(inputs, nodes=nodes))) == {"1": 0, "2": 1}
    ours = (*nodes[:1], a_node("n2", closed=True, reason="offpeak: sleeps"))
    assert starts(planned(replace(inputs, nodes=ours))) == {"1": 0, "2": 0}


def test_deferrable_job_waits_for_the_cheap_hour_within_its_limit():
    jobs = (a_job(1, comment="offpeak:delay=12h"), a_job(2), a_job(3, comment="offpeak:delay=2h"))
    plan = planned(make_inputs(jobs))
    assert starts(plan) == {"1": 4, "2": 0, "3": 0}
    waits = plan.by_id["1"]
    assert (waits.begin_s, waits.latest_start_s) == (NOW_S + 4 * HOUR_S, NOW_S + 11 * HOUR_S)
    assert waits.waits_for_price


def test_job_past_its_latest_start_is_planned_without_a_hold():
    over = a_job(1, comment="offpeak:delay=1h", submit_s=NOW_S - 5 * HOUR_S)
    past = a_job(2, comment="offpeak:deadline=2026-11-21T12:00", nodes=4)
    plan = planned(make_inputs((over, past, a_job(3)), rules=replace(RULES, window=1)))
    assert starts(plan) == {"1": 0, "2": 1, "3": 0}
    assert [job.begin_s for job in plan.jobs] == [0, 0, 0]
    assert constraints_of(plan) == {}


def test_no_job_is_left_out_because_it_loses_money():
    inputs = make_inputs((a_job(1), a_job(2), a_job(3, nodes=4)), prices=prices(*[9000.0] * 48))
    plan = planned(replace(inputs, room=replace(inputs.room, revenue_per_core_h=0.0)))
    assert None not in starts(plan).values()


def test_orders_that_were_not_tried_in_time_are_remarked():
    inputs = make_inputs((a_job(1, limit_s=2 * HOUR_S), a_job(2)), rules=replace(RULES, window=2))
    notes = [remark for remark in planned(inputs, search_s=0.0).remarks if remark.startswith("time was up")]
    assert len(notes) == 1
    assert notes[0].startswith("time was up when 0 of ")
    assert notes[0].endswith(" other orders of the jobs were tried")
    assert not any(remark.startswith("time was up") for remark in planned(inputs, search_s=60.0).remarks)


def test_job_without_a_cheaper_start_does_not_wait():
    many = tuple(a_job(number, comment="offpeak:delay=6h", limit_s=7 * HOUR_S) for number in range(1, 4))
    plan = planned(make_inputs(many, nodes=1))
    assert all(job.begin_s == 0 for job in plan.jobs if not job.waits_for_price)
    assert plan.not_held
    assert plan.not_held == {job.job_id for job in plan.jobs if not job.waits_for_price}


def test_a_cap_lets_jobs_start_later_and_binds_them():
    cap = PowerCap(NOW_S, NOW_S + 3 * HOUR_S, 1000, "the grid asks", "events.toml")
    jobs = (a_job(1, nodes=2), a_job(2), a_job(3, comment="offpeak:now"))
    plan = planned(make_inputs(jobs, caps=(cap,)))
    # Four idle nodes take 200 W of the 1000: of the jobs of 800, 400 and 400 W the wide one fits, or the two others.
    assert starts(plan) == {"1": 0, "2": 1, "3": 1}
    hook = constraints_of(plan)
    assert hook["2"].begin_s == NOW_S + HOUR_S
    assert hook["2"].why == "power is capped at 1,000 W until 21:00: the grid asks"
    assert "3" not in hook
    assert max(plan.power_profile.power_w[plan.power_profile.edge_s[:-1] < cap.until_s]) <= cap.cap_w


def test_a_soft_cap_holds_no_job_that_has_waited_long_enough():
    cap = PowerCap(NOW_S, NOW_S + 3 * HOUR_S, 1000, "charge demand", "peak shaving", longest_wait_s=6 * HOUR_S)
    jobs = tuple(a_job(number, nodes=2, submit_s=NOW_S - hours * HOUR_S) for number, hours in ((1, 1), (2, 1), (3, 6)))
    hook = constraints_of(planned(make_inputs(jobs, caps=(cap,))))
    # Job 3 would wait, too, but for its six hours in the queue.
    assert "3" not in hook
    assert {"1", "2"} & set(hook)


def test_a_cap_holds_for_all_pools_and_jobs_beside_them_together():
    cap = PowerCap(NOW_S, NOW_S + 10 * HOUR_S, 1300, "the grid asks", "events.toml")
    gpu = [a_job(number, partitions=("gpu",)) for number in (5, 6)]
    inputs = make_inputs((a_running(1, "n5"), a_job(2), a_job(3), *gpu), nodes=5, caps=(cap,))
    partitions = (("batch",), ("batch",), ("gpu",), ("gpu",), ("other",))
    nodes = tuple(node._replace(partitions=its) for node, its in zip(inputs.nodes, partitions, strict=True))
    plan = planned(replace(inputs, nodes=nodes))
    # Of 1300 W four idle nodes take 200 and the job beside the pools 400: at first one other runs, then two.
    assert sorted(start or 0.0 for start in starts(plan).values()) == [0, 0.5, 1, 1.5]
    assert max(plan.power_profile.power_w[plan.power_profile.edge_s[:-1] < cap.until_s]) <= cap.cap_w


def test_running_jobs_that_break_a_cap_are_named():
    cap = PowerCap(NOW_S, NOW_S + HOUR_S, 500, "the grid asks", "events.toml")
    plan = planned(make_inputs((a_running(1, "n1,n2", nodes=2), a_job(2)), caps=(cap,)))
    remark = "the cap of 500 W from 18:00 (the grid asks) cannot hold at first: running jobs draw 800 W"
    assert any(each.startswith(remark) and each.endswith("1 (800 W)") for each in plan.remarks)
    assert starts(plan)["2"] >= 0.5


def test_plan_stays_the_same_without_events():
    jobs = (a_running(1, "n1,n2,n3,n4", nodes=4), *(a_job(number, nodes=number % 3 + 1) for number in range(2, 12)))
    first = planned(make_inputs(jobs))
    later = planned(make_inputs(jobs, now_s=NOW_S + 30), first)
    assert later.moves == ()
    assert starts(later) == starts(first)


def test_a_job_that_ends_early_lets_others_start_earlier_and_says_so():
    jobs = (a_running(1, "n1,n2,n3,n4", nodes=4), a_job(2, nodes=2), a_job(3, nodes=4))
    first = planned(make_inputs(jobs))
    assert starts(first) == {"2": 0.5, "3": 1.5}
    after = planned(make_inputs((jobs[0]._replace(state=JobState.ENDED, hosts=""), *jobs[1:])), first)
    assert starts(after) == {"2": 0, "3": 1}
    assert {(move.job_id, move.why) for move in after.moves} == {("2", "1 ended early"), ("3", "1 ended early")}


def test_other_prices_move_only_who_may_wait():
    jobs = (a_job(1, comment="offpeak:delay=12h"), a_job(2))
    flat = planned(make_inputs(jobs, prices=prices(*[50.0] * 48)))
    assert starts(flat) == {"1": 0, "2": 0}
    night = planned(make_inputs(jobs), flat)
    assert [(move.job_id, move.to_s, move.why) for move in night.moves] == [
        ("1", NOW_S + 4 * HOUR_S, "electricity is cheaper then")
    ]
    again = planned(make_inputs(jobs, prices=prices(*[50.0] * 48)), night)
    assert [move.why for move in again.moves] == ["a cheaper hour no longer justifies the wait"]


def test_a_job_that_outlives_its_time_moves_those_behind_it():
    jobs = (a_running(1, "n1"), a_job(2))
    first = planned(make_inputs(jobs, nodes=1))
    late = planned(make_inputs(jobs, nodes=1, now_s=NOW_S + HOUR_S), first)
    assert [(move.job_id, move.why) for move in late.moves] == [("2", "its planned nodes are not free yet")]


def test_a_node_that_is_lost_moves_only_the_jobs_that_were_to_have_it():
    jobs = (a_job(1, limit_s=2 * HOUR_S), a_job(2, limit_s=2 * HOUR_S))
    first = planned(make_inputs(jobs, nodes=2))
    lost = first.by_id["2"].hosts[0]
    inputs = make_inputs(jobs, nodes=2)
    nodes = tuple(node._replace(failed=node.name == lost) for node in inputs.nodes)
    after = planned(replace(inputs, nodes=nodes), first)
    assert starts(after) == {"1": 0, "2": 2}
    assert [move.job_id for move in after.moves] == ["2"]


def test_another_order_is_taken_within_the_window_only():
    # Electricity is cheap from 22:00 on: the hungry one should run then.
    jobs = tuple(a_job(number, limit_s=4 * HOUR_S) for number in (1, 2, 3))
    draws = {"1": 400.0, "2": 100.0, "3": 50.0}
    narrow = planned(make_inputs(jobs, nodes=1, node_power_w=draws, rules=replace(RULES, window=1)))
    assert starts(narrow) == {"1": 0, "2": 4, "3": 8}
    wide = planned(make_inputs(jobs, nodes=1, node_power_w=draws, rules=replace(RULES, window=2)))
    assert starts(wide) == {"1": 4, "2": 0, "3": 8}


def test_job_with_higher_revenue_starts_first_within_the_window():
    # A day is planned, and what runs behind its end earns nothing yet.
    jobs = tuple(a_job(number, limit_s=20 * HOUR_S, account=f"a{number}", qos="long") for number in (1, 2))
    flat = Series(np.array([NOW_S]), NOW_S + HOUR_S, np.array([100.0]), "EUR/MWh", "model")
    inputs = make_inputs(jobs, nodes=1, prices=flat)
    assert starts(planned(inputs)) == {"1": 0, "2": 20}
    revenues = (Revenue("a1", "", 0.05), Revenue("a2", "long", 0.5))
    assert starts(planned(replace(inputs, room=replace(inputs.room, revenues=revenues)))) == {"1": 20, "2": 0}


def test_odd_prices_and_revenues_are_remarked_once():
    inputs = make_inputs((a_job(1), a_job(2)))
    below = replace(inputs.queue, prices=replace(inputs.queue.prices, value=inputs.queue.prices.value - 500))
    remarks = planned(replace(inputs, queue=below, room=replace(inputs.room, revenue_per_core_h=0.0))).remarks
    assert [remark for remark in remarks if remark.startswith(("some prices", "no job earns"))] == [
        NEGATIVE_PRICES,
        NOTHING_EARNS,
    ]
    assert not any(remark in (NEGATIVE_PRICES, NOTHING_EARNS) for remark in planned(inputs).remarks)


def test_jobs_that_no_cap_lets_run_are_named():
    cap = PowerCap(NOW_S, NOW_S + 3 * HOUR_S, 700, "the grid asks", "events.toml")
    plan = planned(make_inputs((a_job(1, nodes=2), a_job(2)), caps=(cap,)))
    remark = "1 job by itself above the cap of 700 W (the grid asks), and not to run before 21:00: 1 (800 W)"
    assert remark in plan.remarks
    assert starts(plan)["1"] == 3


def test_jobs_that_the_plan_ends_before_are_counted():
    held = a_running(1, "n1,n2,n3,n4", nodes=4, limit_s=100 * HOUR_S)
    plan = planned(make_inputs((held, a_job(2), a_job(3))))
    assert starts(plan) == {"2": None, "3": None}
    assert [remark for remark in plan.remarks if "without a place" in remark] == [
        "2 jobs without a place before Mon 00:00, when the plan ends"
    ]


def test_a_temperature_beyond_the_table_is_remarked_once():
    inputs = make_inputs((a_job(1),))
    plan = planned(replace(inputs, room=replace(inputs.room, outside_c=77.0)))
    assert sum("lie outside its table" in remark for remark in plan.remarks) == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_day_of_many_jobs_is_repaired_without_a_violation(seed):
    rng = np.random.default_rng(seed)
    jobs = tuple(
        a_job(number, nodes=int(rng.integers(1, 9)), limit_s=int(rng.integers(600, 20_000))) for number in range(1, 200)
    )
    first = planned(make_inputs(jobs, nodes=24, rules=replace(RULES, window=100)), search_s=0.0)
    gone = tuple(job for job in jobs if rng.random() > 0.1)
    planned(make_inputs(gone, nodes=24, now_s=NOW_S + 500), first, search_s=0.0)


@given(st.data())
def test_repaired_plan_is_feasible_after_any_event(data):
    """Jobs come, go, start and change, nodes are lost, caps appear: `planned` has every plan verified."""
    sizes = st.tuples(st.integers(1, 5), st.integers(60, 9 * HOUR_S), st.sampled_from(["", "offpeak:delay=9h"]))
    pending = [
        a_job(number, nodes=nodes, limit_s=limit_s, comment=comment)
        for number, (nodes, limit_s, comment) in enumerate(data.draw(st.lists(sizes, min_size=1, max_size=8)), 10)
    ]
    first = planned(make_inputs(tuple(pending), nodes=5), search_s=0.0)
    kept = [job for job in pending if data.draw(st.booleans())]
    newcomers = [a_job(50 + at, nodes=nodes, limit_s=limit_s) for at, (nodes, limit_s, _) in enumerate(data.draw(
        st.lists(sizes, max_size=3)))]  # fmt: skip
    ran = [a_running(1, "n1", limit_s=data.draw(st.integers(1900, 9000)))] if data.draw(st.booleans()) else []
    cap_w = data.draw(st.sampled_from([None, 500, 1500]))
    caps = () if cap_w is None else (PowerCap(NOW_S + 600, NOW_S + 7200, cap_w, "test", "test"),)
    now_s = NOW_S + data.draw(st.integers(0, 7200))
    inputs = make_inputs((*ran, *kept, *newcomers), nodes=5, now_s=now_s, caps=caps)
    lost = data.draw(st.integers(0, 4))
    nodes = tuple(node._replace(failed=at == lost and node.name != "n1") for at, node in enumerate(inputs.nodes))
    plan = planned(replace(inputs, nodes=nodes), first, search_s=0.0)
    assert all(job.start_s is None or job.start_s >= now_s for job in plan.jobs)


def shares(number: int, **chunk: object) -> Job:
    """Return a job that shares its node."""
    part = Chunk(**{"copies": 1, **chunk})  # type: ignore[arg-type]
    return a_job(number, request=Request(("batch",), (part,)), whole_nodes=False, cpus=part.cores, nodes=part.copies)


def on_shared(*jobs: Job, nodes: tuple[Node, ...], **facts: object) -> DayPlan:
    inputs = make_inputs(jobs, **facts)  # type: ignore[arg-type]
    plan = planned(replace(inputs, nodes=nodes, shared_nodes=True))
    assert plan.violations == ()
    return plan


def test_memory_is_weighed():
    small = [shares(number, cores=1, memory_mib=300) for number in (1, 2, 3)]
    assert starts(on_shared(*small, nodes=(a_node("n1"),))) == {"1": 0, "2": 0, "3": 0}
    large = [shares(number, cores=1, memory_mib=600) for number in (1, 2, 3)]
    assert starts(on_shared(*large, nodes=(a_node("n1"),))) == {"1": 0, "2": 1, "3": 2}
    runs = a_running(9, "n1", request=large[0].request, whole_nodes=False)
    assert starts(on_shared(runs, *large[:1], nodes=(a_node("n1", cpus_used=1),))) == {"1": 0.5}


def test_gpus_are_weighed():
    nodes = (a_node("n1"), a_node("n2", gpus=(("a100", 2),)))
    jobs = [shares(number, cores=1, gpus=2) for number in (1, 2)]
    plan = on_shared(*jobs, shares(3, cores=1, gpus=1, gpu_type="a100"), shares(4, cores=1, gpus=3), nodes=nodes)
    assert starts(plan) == {"1": 0, "2": 1, "3": 2}
    assert {job.hosts for job in plan.jobs} == {("n2",)}
    assert plan.left_out["4"] == "its request fits no nodes: no node of partition batch has 1 core, 3 GPUs"


def test_features_are_weighed():
    nodes = (a_node("n1"), a_node("n2", features=("fast",)))
    fast = [shares(number, cores=8, features=(frozenset({"fast"}),)) for number in (1, 2)]
    plan = on_shared(*fast, shares(3, cores=8), nodes=nodes)
    assert starts(plan) == {"1": 0, "2": 1, "3": 0}
    assert [plan.by_id[job].hosts for job in ("1", "2", "3")] == [("n2",), ("n2",), ("n1",)]


def test_an_array_is_planned_with_the_tasks_that_could_start():
    # Four nodes, six tasks of whole nodes, then a job: it starts when a node is free again.
    array = a_job(1, array_id="1", tasks=6)
    plan = planned(make_inputs((array, a_job(2))))
    assert starts(plan) == {"1": 0, "2": 1}
    assert plan.power_profile.power_w[0] >= 4 * 400
    throttled = a_job(1, array_id="1", tasks=6, task_limit=3)
    plan = planned(make_inputs((throttled, a_job(2))))
    assert starts(plan) == {"1": 0, "2": 0}
    # The second three tasks follow the first three.
    assert plan.by_id["1"].run_s == 2 * plan.by_id["2"].run_s
    runs = a_running(9, "n1", array_id="1", plain=False)
    full = planned(make_inputs((runs, a_job(1, array_id="1", task_limit=1))))
    assert full.left_out == {"1": "as many of its tasks run as may run at once"}


def test_tasks_of_an_array_share_nodes():
    array = shares(1, cores=1, memory_mib=300)._replace(array_id="1", tasks=6)
    # Three tasks fit the memory of a node: six fill both nodes.
    plan = on_shared(array, shares(2, cores=1, memory_mib=600), nodes=(a_node("n1"), a_node("n2")))
    assert starts(plan) == {"1": 0, "2": 1}


def test_a_cap_binds_an_array_by_the_power_of_all_tasks():
    cap = PowerCap(NOW_S, NOW_S + 2 * HOUR_S, 1000, "the grid asks", "test")
    array, single = a_job(1, array_id="1", tasks=4), a_job(2)
    plan = planned(make_inputs((array, single), caps=(cap,)))
    assert starts(plan) == {"1": 2, "2": 0}
    assert plan.by_id["1"].begin_s == NOW_S + 2 * HOUR_S
    assert plan.by_id["1"].power_w == 1600


def widest_first(views):
    return [sorted(range(len(view.size)), key=lambda at: -view.size[at]) for view in views]


def test_an_own_policy_orders_the_jobs_of_a_window_and_no_other_order_is_tried():
    jobs = (
        a_running(1, "n1,n2,n3,n4", nodes=4),
        a_job(2),
        a_job(3, nodes=4),
        a_job(4, comment="offpeak:now"),
        a_job(5, nodes=2),
    )
    rules = replace(RULES, policy="widest", own_policy=widest_first)
    plan = planned(make_inputs(jobs, rules=rules))
    by_start = sorted(plan.by_id, key=lambda job: plan.by_id[job].start_s)
    assert by_start[0] == "3"
    assert plan.remarks[0] == "the policy widest orders the jobs of a window, and no other order is tried"
    assert [job.job_id for job in find_queue_order(make_inputs(jobs, rules=rules)).ordered] == ["3", "5", "4", "2"]


def test_where_an_own_policy_fails_the_plan_has_the_order_of_the_site():
    def fails(_views):
        raise OffpeakError("the window policy 'widest' failed: it is tired", hint="wake it")

    jobs = (a_job(1), a_job(2, nodes=4))
    inputs = make_inputs(jobs, rules=replace(RULES, policy="widest", own_policy=fails))
    assert [job.job_id for job in find_queue_order(inputs).ordered] == ["1", "2"]
    assert planned(inputs).remarks[0] == (
        "the plan has the site's order: the window policy 'widest' failed: it is tired; wake it"
    )
