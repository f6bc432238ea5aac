"""A begin time that a cap on power imposes never reaches farther than an agent may be gone."""

from dataclasses import replace

from queue_site import HOUR_S, NOW_S, Site, a_job

from offpeak.plugin.queue_hook.facts import StartConstraint

AHEAD_S = 6 * HOUR_S
CENTURY_S = 100 * 366 * 24 * HOUR_S
FOR_EVER = {"constraints": {"1": StartConstraint(NOW_S + CENTURY_S, "power is capped")}}


def test_a_cap_without_end_is_written_bit_by_bit_and_lets_the_job_go() -> None:
    site = Site((a_job(1),))
    plan = site.plan(**FOR_EVER)
    assert plan.begin_s == {"1": NOW_S + AHEAD_S}
    held = site.apply(plan)
    # Each change is a request to the scheduler.
    assert held.plan(now_s=NOW_S + AHEAD_S // 2, **FOR_EVER).changes_nothing
    later_s = NOW_S + AHEAD_S // 2 + 60
    moved = held.plan(now_s=later_s, **FOR_EVER)
    assert moved.begin_s == {"1": later_s + AHEAD_S}
    assert held.apply(moved, now_s=later_s).plan(now_s=later_s + 60).begin_s == {"1": 0}


def test_a_begin_time_of_an_older_agent_comes_back_from_the_next_century() -> None:
    far = Site((a_job(1),)).plan(**FOR_EVER)
    marks = tuple(replace(mark, to=NOW_S + CENTURY_S) for mark in far.remember)
    site = Site((a_job(1, begin_s=NOW_S + CENTURY_S),), marks=marks)
    assert site.plan(now_s=NOW_S + 60, **FOR_EVER).begin_s == {"1": NOW_S + 60 + AHEAD_S}
