"""When consenting jobs are let go: examples."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_site import HOUR_S, MIDNIGHT_S, NOW_S, RULES, Site, a_job, by_id, prices

from offpeak.plugin.queue_hook.facts import PriceIntegral, WaitAllowance
from offpeak.plugin.queue_hook.start_times import StartCosts
from offpeak.plugin.scheduler.job import JobState
from offpeak.prices.peak import Peak

pytestmark = pytest.mark.quick

# From 18:00: dear until 22:00, cheap from 02:00 to 05:00 the next day.
TWO_DAYS = [60] * 18 + [120] * 4 + [80] * 4 + [30] * 3 + [70] * 19
AT_2 = MIDNIGHT_S + 26 * HOUR_S
EARLY = {"submit_s": NOW_S - HOUR_S}


def consenting(comment="offpeak:delay=12h", **fields):
    return Site(
        (a_job(1, comment=comment, **fields),), facts={"prices": prices(*TWO_DAYS), "node_power_w": {"1": 400.0}}
    )


def begin_of(site, **facts):
    return site.plan(**facts).begin_s.get("1")


def test_a_consenting_job_waits_for_the_cheapest_hours():
    site = consenting(limit_s=2 * HOUR_S, nodes=10)
    basis = tuple("published" if start_s == AT_2 else "forecast" for start_s in prices(*TWO_DAYS).start_s)
    plan = site.plan(basis=basis)
    assert plan.begin_s == {"1": AT_2}
    shift = ("shift T1", NOW_S, AT_2)
    assert [(mark.kind, mark.was, mark.to) for mark in plan.remember] == [("begin", 0, AT_2), shift]
    (decision,) = plan.decisions
    assert (decision.subject, decision.decided) == ("job 1", "delayed")
    assert decision.reason == (
        "not before Sun 02:00: 30.00 EUR/MWh over its run against 120.00 now (published);"
        " kept back until Sun 05:00 at the latest"
    )
    # 90 EUR/MWh less for 10 nodes of 400 W through two hours.
    assert dict(decision.inputs)["expected_saving"] == pytest.approx(90 * 0.004 * 2)
    assert plan.tell == {
        "1": "not before 2026-11-22 02:00, when electricity is cheaper; kept back until 2026-11-22 05:00 at the latest"
    }
    assert site.apply(plan).plan().changes_nothing


def test_the_begin_time_of_the_submission_gives_way_to_the_decision():
    submitted = {"submit_s": NOW_S - 30, "begin_s": NOW_S + 90}
    held = consenting(**submitted)
    assert begin_of(held) == AT_2
    assert held.apply(held.plan()).plan().changes_nothing
    # A later begin time is the owner's own, and a job without consent has none from us.
    assert begin_of(consenting(**submitted | {"begin_s": NOW_S + 120})) is None
    assert begin_of(consenting(comment="", **submitted)) is None
    assert begin_of(held, prices=prices(*[50] * 48)) is None


def test_a_long_queue_takes_its_time_off_the_delay():
    assert begin_of(consenting(), wait_allowances={"1": WaitAllowance(5 * HOUR_S)}) == NOW_S + 4 * HOUR_S
    assert begin_of(consenting(), wait_allowances={"1": WaitAllowance(20 * HOUR_S)}) is None


@pytest.mark.parametrize(
    ("allowance", "text"),
    [
        (
            WaitAllowance(80 * 60, 90),
            "Sun 05:00 at the latest, less 1:20 h for the queue (90 % of jobs wait no longer)",
        ),
        (WaitAllowance(3 * HOUR_S), "Sun 05:00 at the latest, less 3 h for the queue (expected wait)"),
        (WaitAllowance(59, 90), "Sun 05:00 at the latest"),
        (WaitAllowance(-HOUR_S, 90), "Sun 05:00 at the latest"),
    ],
)
def test_the_reason_names_the_time_for_the_queue(allowance, text):
    site = consenting()
    plan = site.plan(wait_allowances={"1": allowance})
    (decision,) = plan.decisions
    assert decision.reason.endswith(f"; kept back until {text}")
    assert dict(decision.inputs)["wait_allowance_s"] == max(0, allowance.wait_s)
    longer = site.apply(plan).plan(wait_allowances={"1": WaitAllowance(11 * HOUR_S, 90)})
    assert longer.begin_s == {"1": 0}
    reason = "it may be kept back until Sun 05:00 only, less 11 h for the queue (90 % of jobs wait no longer)"
    assert [decision.reason for decision in longer.decisions] == [reason]


def test_the_deadline_leaves_room_for_the_whole_limit():
    site = consenting("offpeak:deadline=2026-11-22T04:00", limit_s=3 * HOUR_S)
    assert begin_of(site, expected_run_s={"1": HOUR_S}) == NOW_S + 4 * HOUR_S
    assert begin_of(consenting("offpeak:deadline=2026-11-22T04:00", limit_s=None), expected_run_s={"1": 60}) is None


def test_the_site_bounds_what_users_may_grant():
    assert consenting("offpeak:delay=30d").plan(replace(RULES, longest_delay_s=6 * HOUR_S)).begin_s == {
        "1": NOW_S + 4 * HOUR_S
    }
    assert consenting().plan(replace(RULES, longest_delay_s=0)).begin_s == {}


@pytest.mark.parametrize(
    "site",
    [
        consenting(""),
        consenting("offpeak:delay=12h,offpeak:now"),
        consenting("offpeak:delay=12h,offpeak:dealy=3h"),
        consenting("offpeak:delay=0s"),
        consenting(state=JobState.HELD),
        consenting(plain=False),
        consenting(begin_s=NOW_S + 60),
        consenting(limit_s=None),
        consenting(limit_s=40 * HOUR_S),
        replace(consenting(), facts={}),
        replace(consenting(), facts={"prices": prices(*[50] * 48)}),
        replace(consenting(), facts={"prices": prices(*[50] * 24, *[49] * 24)}),
        replace(consenting(), facts={"prices": prices(*[50] * 20)}),
        replace(consenting(), facts={"prices": prices(*[50] * 19, *[float("nan")] * 20)}),
        replace(consenting(), facts={"prices": prices(*TWO_DAYS), "peak": Peak.UNKNOWN}),
    ],
)
def test_jobs_that_are_never_delayed(site):
    assert site.plan().begin_s == {}


def test_begin_time_changes_only_for_a_relevant_saving():
    site = consenting()
    waiting = site.apply(site.plan())
    crumbs = [*TWO_DAYS]
    crumbs[27] = 29.5
    assert waiting.plan(prices=prices(*crumbs)).changes_nothing
    more = [*TWO_DAYS]
    more[27] = 20
    plan = waiting.plan(prices=prices(*more))
    assert plan.begin_s == {"1": MIDNIGHT_S + 27 * HOUR_S}
    assert by_id(waiting.apply(plan).jobs)["1"].begin_s == MIDNIGHT_S + 27 * HOUR_S
    assert waiting.apply(plan).plan(prices=prices(*more)).changes_nothing


def test_a_job_is_let_go_when_now_is_cheapest_and_then_never_kept_back_again():
    waiting = consenting().apply(consenting().plan())
    cheap_now = prices(*[60] * 18, 5, *[100] * 29)
    plan = waiting.plan(prices=cheap_now)
    assert plan.begin_s == {"1": 0}
    assert plan.tell == {"1": ""}
    free = waiting.apply(plan)
    assert free.plan(now_s=NOW_S + 60).changes_nothing
    # Time has come by itself.
    assert waiting.plan(now_s=AT_2 + 60).begin_s == {}


@pytest.mark.parametrize("comment", ["", "offpeak:now", "offpeak:delay=1h", "offpeak:nonsense"])
def test_consent_that_is_taken_back_lets_the_job_go(comment):
    waiting = consenting().apply(consenting().plan())
    taken_back = replace(waiting, jobs=(waiting.jobs[0]._replace(comment=comment),))
    assert taken_back.plan().begin_s == {"1": 0}


def test_a_begin_that_an_admin_set_is_left_alone_and_reported_once():
    waiting = consenting().apply(consenting().plan())
    for begin_s in (NOW_S + 3 * HOUR_S, NOW_S + 30 * HOUR_S):
        by_admin = replace(waiting, jobs=(waiting.jobs[0]._replace(begin_s=begin_s),))
        plan = by_admin.plan()
        assert plan.begin_s == {}
        assert [decision.decided for decision in plan.decisions] == ["left alone"]
        assert by_admin.apply(plan).plan().decisions == ()
    freed = replace(waiting, jobs=(waiting.jobs[0]._replace(begin_s=NOW_S + 60),))
    assert freed.plan(now_s=NOW_S + 120).begin_s == {}


def test_unwritten_begin_time_is_decided_again():
    site = consenting()
    crashed = site.remember(site.plan())
    assert crashed.plan().begin_s == {"1": AT_2}


def test_a_delayed_job_is_not_in_its_window_and_one_that_is_let_go_is():
    site = consenting()
    others = (a_job(2), a_job(3))
    site = replace(site, jobs=(*site.jobs, *others))
    plan = site.plan(node_power_w={"1": 400.0, "2": 300.0, "3": 200.0})
    assert plan.begin_s == {"1": AT_2}
    assert set(plan.rank) == {"2", "3"}


def test_an_unreadable_hint_is_reported_once():
    plan = consenting("offpeak:delay=12parsecs").plan()
    assert plan.tell == {"1": "offpeak:delay=12parsecs: unknown unit 'parsecs'; known: d, h, min, s"}
    assert consenting("offpeak:delay=12parsecs").apply(plan).plan().changes_nothing


values = st.lists(st.one_of(st.integers(-50, 200).map(float), st.just(float("nan"))), min_size=1, max_size=30)


@given(values, st.integers(1, 10 * HOUR_S), st.integers(0, 20 * HOUR_S), st.integers(0, 20 * HOUR_S))
def test_no_start_is_cheaper_than_the_cheapest(per_mwh, run_s, from_s, length_s):
    series = prices(*per_mwh, from_s=0)
    starts = StartCosts(PriceIntegral(series), run_s)
    best = starts.cheapest(from_s, from_s + length_s)
    tried = [starts.at(at_s) for at_s in range(from_s, from_s + length_s + 1, 600)]
    known = [cost.per_watt for cost in tried if cost.per_watt == cost.per_watt]
    if best is None:
        assert known == []
        return
    assert from_s <= best.at_s <= from_s + length_s
    each_s = [series.value[(best.at_s + s) // HOUR_S] for s in range(run_s)]
    assert best.per_watt == pytest.approx(sum(each_s), abs=1e-3)
    assert all(best.per_watt <= value + 1e-3 for value in known)
