"""The hook carries a plan out: order by planned starts, begins that a cap wants, and nobody's consent stretched."""

from dataclasses import replace

import pytest
from queue_site import HOUR_S, NOW_S, RULES, Site, a_job, prices, with_draws

from offpeak.plugin.queue_hook.facts import PlannedStarts, StartConstraint
from offpeak.plugin.scheduler.port import Ranking

pytestmark = pytest.mark.quick

BY_PLAN = replace(RULES, policy="plan")
THREE = with_draws(412, 300, 180)
CAP = "power is capped at 1,000 W until 21:00: the grid asks"


def starts(*hours: float) -> PlannedStarts:
    return PlannedStarts({str(at): int(NOW_S + hour * HOUR_S) for at, hour in enumerate(hours, 1)})


def reasons(plan):
    return {decision.subject: f"{decision.decided}: {decision.reason}" for decision in plan.decisions}


def test_jobs_stand_in_the_order_of_their_planned_starts():
    plan = THREE.plan(BY_PLAN, planned=starts(2, 0, 1))
    assert THREE.apply(plan).order() == ["2", "3", "1"]
    assert reasons(plan)["job 2"] == "moved forward: before 1: planned for 18:00, the other for 20:00"
    assert THREE.apply(plan).plan(BY_PLAN, planned=starts(2, 0, 1)).changes_nothing


def test_planned_order_by_nice_offsets():
    jobs = tuple(a_job(number, priority=1000) for number in (1, 2, 3))
    site = Site(jobs, Ranking.OFFSET, facts=THREE.facts)
    assert site.apply(site.plan(BY_PLAN, planned=starts(2, 0, 1))).order() == ["2", "3", "1"]


def test_job_without_a_planned_start_keeps_its_place():
    plan = THREE.plan(BY_PLAN, planned=PlannedStarts({"1": NOW_S + 60, "3": NOW_S}))
    assert THREE.apply(plan).order() == ["3", "2", "1"]
    assert reasons(plan)["job 2"] == "keeps its place: the plan has no start for it"


def test_without_a_plan_nothing_is_moved():
    assert THREE.plan(BY_PLAN, planned=None).changes_nothing


def test_a_cap_keeps_jobs_back_also_those_without_a_hint():
    planned = {"planned": starts(0, 3, 3), "constraints": {"2": StartConstraint(NOW_S + 3 * HOUR_S, CAP)}}
    plan = THREE.plan(BY_PLAN, **planned)
    assert plan.begin_s == {"2": NOW_S + 3 * HOUR_S}
    assert reasons(plan)["job 2"] == f"kept back: not before 21:00: {CAP}"
    assert plan.tell == {"2": f"not before 2026-11-21 21:00: {CAP}"}
    written = THREE.apply(plan)
    assert written.plan(BY_PLAN, **planned).changes_nothing


def test_job_is_released_when_the_cap_ends():
    constraints = {"2": StartConstraint(NOW_S + 3 * HOUR_S, CAP)}
    written = THREE.apply(THREE.plan(BY_PLAN, planned=starts(0, 3, 3), constraints=constraints))
    plan = written.plan(BY_PLAN, planned=starts(0, 0, 0))
    assert plan.begin_s == {"2": 0}
    assert plan.tell == {"2": ""}


def test_a_job_that_may_wait_is_let_go_when_a_cap_is_withdrawn_unless_a_later_start_is_cheaper():
    constraints, flat = {"1": StartConstraint(NOW_S + 3 * HOUR_S, CAP)}, prices(*[50.0] * 48)
    site = Site((a_job(1, comment="offpeak:delay=8h"),), facts={"prices": flat})
    written = site.apply(site.plan(constraints=constraints))
    plan = written.plan(now_s=NOW_S + 60)
    assert plan.begin_s == {"1": 0}
    assert reasons(plan)["job 1"] == "released: the cap on power that kept it back no longer does"
    assert written.plan(now_s=NOW_S + 60, prices=None).begin_s == {"1": 0}
    cheap = {"now_s": NOW_S + 60, "prices": prices(*[50.0] * 20, *[10.0] * 28)}
    delayed = written.plan(**cheap)
    assert delayed.begin_s == {"1": NOW_S + 2 * HOUR_S}
    assert written.apply(delayed).plan(**cheap).changes_nothing


def test_a_begin_that_is_not_ours_and_a_job_that_may_not_wait_are_left_alone():
    constraints = {str(at): StartConstraint(NOW_S + 3 * HOUR_S, CAP) for at in (1, 2)}
    jobs = (a_job(1, begin_s=NOW_S + HOUR_S), a_job(2, comment="offpeak:now"), a_job(3))
    assert replace(THREE, jobs=jobs).plan(BY_PLAN, planned=starts(0, 3, 3), constraints=constraints).begin_s == {}


def test_a_cheap_hour_that_the_plan_does_not_reach_is_not_waited_for():
    jobs = (a_job(1, comment="offpeak:delay=8h"),)
    cheap = prices(*([100.0] * 21 + [20.0] * 27))
    site = Site(jobs, facts={"node_power_w": {"1": 400.0}, "prices": cheap})
    waits = site.plan(BY_PLAN, planned=starts(3))
    assert waits.begin_s == {"1": NOW_S + 3 * HOUR_S}
    assert site.plan(BY_PLAN, planned=replace(starts(3), not_held=frozenset({"1"}))).begin_s == {}
    held = site.apply(waits)
    assert held.plan(BY_PLAN, planned=replace(starts(3), not_held=frozenset({"1"}))).begin_s == {"1": 0}
