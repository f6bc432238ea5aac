"""The order that the hook gives to pending jobs: examples."""

from dataclasses import replace

import pytest
from queue_site import HOUR_S, NOW_S, RULES, TOP, Site, a_job, with_draws

from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.port import Ranking
from offpeak.prices.peak import Peak

pytestmark = pytest.mark.quick

DRAWS = {"1": 412.0, "2": 300.0, "3": 180.0}
THREE = with_draws(412, 300, 180)


def reasons(plan):
    return {decision.subject: f"{decision.decided}: {decision.reason}" for decision in plan.decisions}


def test_the_most_frugal_come_first_on_peak_and_the_hungriest_off_peak():
    assert THREE.apply(THREE.plan()).order() == ["3", "2", "1"]
    assert THREE.plan(peak=Peak.OFF_PEAK).changes_nothing
    hungry_last = with_draws(180, 300, 412)
    assert hungry_last.apply(hungry_last.plan(peak=Peak.OFF_PEAK)).order() == ["3", "2", "1"]


def test_the_sites_values_are_dealt_out_anew():
    plan = THREE.plan()
    assert plan.rank == {"1": TOP - 3, "3": TOP - 1}
    assert {(mark.job, mark.kind, mark.was, mark.to) for mark in plan.remember} == {
        ("1", "rank", TOP - 1, TOP - 3),
        ("3", "rank", TOP - 3, TOP - 1),
    }


def test_every_move_has_its_reason_and_its_numbers():
    plan = THREE.plan(peak_until_s=NOW_S + 3 * HOUR_S)
    assert reasons(plan) == {
        "job 3": "moved forward: before 2: on-peak until 21:00, 180 W/node against 300 W/node",
        "job 2": "moved back: behind 3: on-peak until 21:00, 300 W/node against 180 W/node;"
        " no job is put before it after Sun 18:00",
        "job 1": "moved back: behind 2: on-peak until 21:00, 412 W/node against 300 W/node;"
        " no job is put before it after Sun 18:00",
    }
    assert plan.decisions[0].inputs == (("node_power_w", 180.0), ("other_node_power_w", 300.0), ("beside", "2"))


def test_a_job_that_passes_more_jobs_than_pass_it_is_moved_forward():
    five = with_draws(400, 300, 250, 200, 100)
    assert five.apply(five.plan()).order() == ["5", "4", "3", "2", "1"]
    moves = reasons(five.plan())
    assert moves["job 4"].startswith("moved forward: before 3: ")
    assert moves["job 2"].startswith("moved back: behind 3: ")
    assert moves["job 3"].startswith("moved back: behind 4: "), "as many jobs passed it as it passed"


def test_a_job_that_returns_within_its_window_has_no_reason_of_a_former_move():
    ranked = THREE.apply(THREE.plan())
    returned = ranked.plan(node_power_w={"1": 100.0, "2": 200.0, "3": 300.0})
    assert reasons(returned) == dict.fromkeys(["job 1", "job 3"], "returned: it has the place that the site gives it")
    assert ranked.apply(returned).order() == ["1", "2", "3"]


def test_a_job_that_leaves_its_window_gets_its_own_value_back():
    ranked = THREE.apply(THREE.plan())
    newcomer = a_job(4, partitions=("other",))
    moved = replace(
        ranked, jobs=tuple(j._replace(partitions=("other",)) if j.job_id == "1" else j for j in ranked.jobs)
    )
    plan = replace(moved, jobs=(*moved.jobs, newcomer)).plan(replace(RULES, window=1))
    assert plan.rank == {"1": TOP - 1, "3": TOP - 3}
    assert set(reasons(plan)) == {"job 1", "job 3"}


def test_policy_off_gives_everything_back():
    ranked = THREE.apply(THREE.plan())
    plan = ranked.plan(replace(RULES, policy="off"))
    assert plan.rank == {"1": TOP - 1, "3": TOP - 3}
    assert {decision.decided for decision in plan.decisions} == {"returned"}
    assert ranked.apply(plan).plan(replace(RULES, policy="off")).changes_nothing


def test_an_admins_value_is_left_alone_and_reported_once():
    ranked = THREE.apply(THREE.plan())
    by_admin = replace(ranked, jobs=tuple(j._replace(priority=TOP + 7) if j.job_id == "1" else j for j in ranked.jobs))
    plan = by_admin.plan()
    assert "1" not in plan.rank
    assert reasons(plan)["job 1"].startswith("left alone: its priority 4294901766 is neither the site's nor ours")
    again = by_admin.apply(plan).plan()
    assert again.changes_nothing
    assert again.decisions == ()


def test_a_value_that_does_not_fall_with_the_job_numbers_was_set_by_hand():
    jobs = tuple(a_job(number) for number in (1, 2, 3, 4))
    by_hand = jobs[1]._replace(priority=TOP + 1)
    site = Site((jobs[0], by_hand, *jobs[2:]), facts={"node_power_w": DRAWS | {"4": 10.0}})
    plan = site.plan()
    assert plan.rank == {"1": TOP - 4, "4": TOP - 1}
    assert reasons(plan)["job 2"].startswith("left alone")


def test_jobs_that_the_scheduler_calls_set_by_hand_are_left_alone():
    first, *others = THREE.jobs
    site = replace(THREE, ranking=Ranking.OFFSET, jobs=(first._replace(priority_is_set=True), *others))
    plan = site.plan()
    assert set(plan.rank) == {"2", "3"}
    assert site.apply(plan).order() == ["1", "3", "2"]


def test_a_crash_between_the_mark_and_the_change_is_harmless():
    once = THREE.apply(THREE.plan())
    draws = {"1": 1.0, "2": 3.0, "3": 2.0}
    second = once.plan(node_power_w=draws)
    crashed = once.remember(second)
    third = crashed.plan(node_power_w={"1": 5.0, "2": 3.0, "3": 2.0})
    assert not [decision for decision in third.decisions if decision.decided == "left alone"]
    assert crashed.plan(node_power_w=draws).rank == second.rank


def test_a_job_that_was_passed_for_too_long_keeps_its_place_and_those_before_it_too():
    long_ago_s = NOW_S - 30 * HOUR_S
    later = a_job(9, state=JobState.RUNNING, submit_s=NOW_S - 26 * HOUR_S, start_s=NOW_S - 25 * HOUR_S, hosts="n1")
    first, second, third = THREE.jobs
    jobs = (first, second._replace(submit_s=long_ago_s), third, later)
    plan = replace(THREE, jobs=jobs).plan()
    assert plan.rank == {}
    passed = replace(THREE, jobs=jobs).remember(plan)
    assert [(mark.job, mark.kind, mark.was) for mark in passed.marks] == [("2", "passed", NOW_S - 25 * HOUR_S)]
    gone = replace(passed, jobs=jobs[:3])
    assert gone.plan().rank == {}
    assert replace(gone, marks=()).plan().rank != {}


def test_jobs_with_offpeak_now_or_an_unknown_draw_keep_their_place():
    first, second, third = with_draws(412, 300, 180).jobs
    site = replace(THREE, jobs=(first, second._replace(comment="offpeak:now"), third, a_job(4), a_job(5)))
    plan = site.plan(node_power_w=DRAWS | {"5": 20.0})
    assert site.apply(plan).order() == ["5", "2", "3", "4", "1"]
    decided = reasons(plan)
    assert decided["job 2"] == "keeps its place: its owner set offpeak:now"
    assert decided["job 4"] == "keeps its place: its power is not known"


def test_equal_priorities_are_raised_by_the_smallest_steps_and_nobody_outside_is_passed():
    jobs = tuple(a_job(number, priority=100) for number in (1, 2, 3, 4))
    site = Site(jobs, facts={"node_power_w": DRAWS | {"4": 1.0}})
    plan = site.plan(replace(RULES, window=3))
    assert plan.rank == {"2": 101, "3": 102}
    assert site.apply(plan).order() == ["3", "2", "1", "4"]


def test_equal_priorities_beside_one_that_may_not_be_written_to():
    jobs = tuple(a_job(number, priority=100) for number in (1, 2, 3, 4, 5))
    jobs = (*jobs[:2], jobs[2]._replace(comment="offpeak:now"), *jobs[3:])
    site = Site(jobs, facts={"node_power_w": {"1": 5.0, "2": 4.0, "4": 3.0, "5": 2.0}})
    assert site.apply(site.plan()).order() == ["2", "1", "3", "4", "5"]


def test_offsets_are_put_on_top_of_the_users_own():
    first, second, third = (a_job(n, priority=1000 - n, offset=0) for n in (1, 2, 3))
    site = Site((first, second._replace(offset=-50), third), Ranking.OFFSET, facts={"node_power_w": DRAWS})
    plan = site.plan()
    assert plan.rank == {"1": -2, "3": 2}
    off = site.apply(plan).plan(replace(RULES, policy="off"))
    assert off.rank == {"1": 0, "3": 0}


def test_ageing_alone_writes_nothing():
    site = Site(tuple(a_job(n, priority=1000 - n) for n in (1, 2, 3)), Ranking.OFFSET, facts={"node_power_w": DRAWS})
    ranked = site.apply(site.plan())
    aged = replace(ranked, jobs=tuple(job._replace(priority=job.priority + 77) for job in ranked.jobs))
    assert aged.plan().changes_nothing


def test_no_job_is_put_before_one_that_is_past_its_latest_start():
    *before, last = with_draws(412, 300, 180, 90).jobs
    late = before[1]._replace(comment="offpeak:delay=2h", submit_s=NOW_S - 3 * HOUR_S)
    site = with_draws(412, 300, 180, 90)
    site = replace(site, jobs=(before[0], late, before[2], last))
    plan = site.plan()
    assert site.apply(plan).order() == ["1", "2", "4", "3"]
    assert reasons(plan)["job 2"] == "keeps its place: its latest start was 17:00"
    assert reasons(plan)["job 1"] == "keeps its place: a job behind it is past its latest start"
    # An hour earlier it was still moved like any other.
    earlier = site.plan(now_s=NOW_S - 2 * HOUR_S)
    assert site.apply(earlier).order() == ["4", "3", "2", "1"]


def test_order_is_kept_if_all_priorities_are_1():
    site = Site(tuple(a_job(n, priority=1) for n in (1, 2, 3)), Ranking.OFFSET, facts={"node_power_w": DRAWS})
    ranked = site.apply(site.plan())
    assert ranked.order() == ["3", "2", "1"]
    # What lies underneath was 0: each stands one lower than the offset says.
    one_less = tuple(job._replace(priority=max(1, job.offset)) for job in ranked.jobs)
    assert replace(ranked, jobs=one_less).order() == ["3", "2", "1"]
    assert replace(ranked, jobs=one_less).plan().changes_nothing


def test_a_knapsack_fills_the_free_nodes():
    jobs = tuple(a_job(number, nodes=nodes) for number, nodes in ((1, 3), (2, 2), (3, 2)))
    site = Site(jobs, facts={"node_power_w": DRAWS})
    plan = site.plan(replace(RULES, policy="knapsack"), free_nodes=(4,))
    assert site.apply(plan).order() == ["2", "3", "1"]
    assert "4 free nodes are best filled so" in reasons(plan)["job 1"]
    assert site.plan(replace(RULES, policy="knapsack")).changes_nothing


def test_marks_of_jobs_that_ended_are_forgotten():
    ranked = THREE.apply(THREE.plan())
    ended = replace(ranked, jobs=tuple(job._replace(state=JobState.ENDED) for job in ranked.jobs))
    assert set(ended.plan().forget) == set(ranked.marks)
    assert replace(ranked, jobs=()).plan().forget == ()
    assert set(replace(ranked, jobs=()).plan(now_s=NOW_S + 25 * HOUR_S).forget) == set(ranked.marks)
