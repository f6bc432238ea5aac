"""Which running jobs are asked for a checkpoint, and what becomes of them, step by step."""

from dataclasses import replace
from typing import Any

import pytest
from queue_site import HOUR_S, NOW_S, RULES, Site, a_job, prices

from offpeak.ledger.rows import JobMark
from offpeak.model.flexibility import Checkpoint
from offpeak.plugin.queue_hook.checkpoints import (
    CHECKPOINT,
    GOES_ON,
    MOST_AT_ONCE,
    MOST_REQUEUES,
    REQUEUED,
    choose_checkpoints,
    find_signalled,
    plan_checkpoints,
    plan_returns,
)
from offpeak.plugin.queue_hook.facts import QueueFacts, StartConstraint
from offpeak.plugin.queue_hook.positions import BEGIN
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.port import Ranking, RequeuePermit
from offpeak.prices.peak import Peak

pytestmark = pytest.mark.quick

# Ten hours of 200, then a day of 50.
PRICES = prices(*[200.0] * 10, *[50.0] * 40, from_s=NOW_S)
RUNS = {"state": JobState.RUNNING, "start_s": NOW_S - 2 * HOUR_S, "limit_s": 6 * HOUR_S}
HINT = "offpeak:checkpoint=10min"


def running(number: int, comment: str = HINT, **others: Any) -> Job:
    return a_job(number, comment=comment, **{"submit_s": NOW_S - 3 * HOUR_S, **RUNS, **others})


def facts_of(*jobs: Job, now_s: int = NOW_S, marks: tuple[JobMark, ...] = (), **others: Any) -> QueueFacts:
    known = {"prices": PRICES, "peak": Peak.ON_PEAK, "cycle_s": 30.0, **others}
    return QueueFacts(now_s, jobs, Ranking.VALUE, marks=marks, node_power_w={"1": 400.0}, **known)


def permit(allowed: bool = False, restarts: int = 0) -> RequeuePermit:
    return RequeuePermit(allowed, "1", restarts)


def test_a_job_in_expensive_hours_is_stopped_until_the_cheap_ones() -> None:
    choice = choose_checkpoints(facts_of(running(1)), RULES)["1"]
    assert choice.checkpoint == Checkpoint("USR1", 600)
    assert choice.begin_s == NOW_S + 10 * HOUR_S
    assert choice.why.startswith("its last 4 h cost 200.00 EUR/MWh now, and with a checkpoint 60.42 EUR/MWh from ")
    # 4 h at 200 against 10 min at 200 and 4 h 10 min at 50, of 400 W.
    assert dict(choice.inputs)["expected_saving"] == pytest.approx(0.4e-3 * (4 * 200 - (200 + 25 * 50) / 6))


@pytest.mark.parametrize(
    "job",
    [
        running(1, ""),
        running(1, "offpeak:delay=2d"),
        running(1, f"{HINT},now"),
        running(1, f"{HINT},offpeak:later"),
        running(1, f"{HINT},delay=4h"),
        running(1, state=JobState.PENDING),
        running(1, state=JobState.ENDS),
        running(1, plain=False),
        running(1, limit_s=None),
        running(1, start_s=NOW_S - 1800),
        running(1, start_s=NOW_S - 5 * HOUR_S - 1800),
    ],
    ids=[
        "no hint",
        "delay",
        "now",
        "unread",
        "too soon",
        "waits",
        "ends",
        "heterogeneous",
        "no limit",
        "young",
        "last",
    ],
)
def test_others_go_on(job: Job) -> None:
    assert choose_checkpoints(facts_of(job), RULES) == {}


def test_unknown_prices_and_a_small_gain_stop_nothing() -> None:
    job = running(1)
    assert choose_checkpoints(facts_of(job, prices=None), RULES) == {}
    assert choose_checkpoints(facts_of(job, prices=prices(200.0, from_s=NOW_S)), RULES) == {}
    flat = prices(*[100.0] * 10, *[92.0] * 30, from_s=NOW_S)
    assert choose_checkpoints(facts_of(job, prices=flat), RULES) == {}
    assert choose_checkpoints(facts_of(job), replace(RULES, longest_delay_s=0)) == {}


def test_a_task_of_an_array_may_be_stopped() -> None:
    assert "9" in choose_checkpoints(facts_of(running(9, plain=False, array_id="7")), RULES)


def test_an_event_stops_only_jobs_that_declared_a_checkpoint() -> None:
    event = StartConstraint(NOW_S + HOUR_S, "the grid asks")
    jobs = (running(1, start_s=NOW_S - 600), running(2, "offpeak:delay=2d"))
    found = choose_checkpoints(facts_of(*jobs, prices=None), RULES, {"1": event, "2": event})
    assert {job: choice.begin_s for job, choice in found.items()} == {"1": NOW_S + HOUR_S}


@pytest.mark.parametrize(
    ("job", "stops"),
    [
        (running(1, start_s=NOW_S - 599), False),
        # What is left of six hours, and ten minutes to write and read the checkpoint, from 19:00 on: until 23:10.
        (running(1, f"{HINT},deadline=2026-11-21T23:10"), True),
        (running(1, f"{HINT},deadline=2026-11-21T23:09"), False),
        (running(1, f"{HINT},deadline=2026-12-21T23:09", limit_s=None), False),
        (running(1, f"{HINT},now"), False),
    ],
)
def test_an_event_stops_no_young_job_and_keeps_to_deadlines(job: Job, stops: bool) -> None:
    event = StartConstraint(NOW_S + HOUR_S, "the grid asks")
    assert bool(choose_checkpoints(facts_of(job), replace(RULES, longest_delay_s=0), {"1": event})) is stops


def test_an_event_lets_a_job_that_was_requeued_run_for_an_hour_first() -> None:
    event = {"1": StartConstraint(NOW_S + HOUR_S, "the grid asks")}
    young, older = facts_of(running(1, start_s=NOW_S - 3599)), facts_of(running(1, start_s=NOW_S - 3600))
    for facts, restarts, signals in ((young, 0, 1), (young, 1, 0), (older, 1, 1)):
        plan = plan_checkpoints(facts, RULES, choose_checkpoints(facts, RULES, event), {"1": permit(restarts=restarts)})
        assert len(plan.signals) == signals
    assert [
        each.decided
        for each in plan_checkpoints(
            young, RULES, choose_checkpoints(young, RULES, event), {"1": permit(restarts=1)}
        ).decisions
    ] == [GOES_ON]


def test_steps_of_a_job_whose_checkpoint_is_written() -> None:
    job = running(1)
    facts = facts_of(job)
    choices = choose_checkpoints(facts, RULES)
    first = plan_checkpoints(facts, RULES, choices, {"1": permit()})
    signal, mark = first.signals["1"]
    assert (signal, mark.kind, mark.was, mark.to) == ("USR1", CHECKPOINT, job.start_s, NOW_S + 600)
    signalled = facts_of(job, now_s=NOW_S + 300, marks=(mark,))
    assert set(find_signalled(signalled)) == {"1"}
    waiting = plan_checkpoints(signalled, RULES, choices, {"1": permit()})
    assert (waiting.signals, waiting.requeue, waiting.decisions, waiting.forget) == ({}, {}, [], [])
    written = plan_checkpoints(signalled, RULES, choices, {"1": permit(allowed=True)})
    assert written.requeue["1"] == JobMark("1", job.submit_s, REQUEUED, 0, NOW_S + 10 * HOUR_S, NOW_S + 300)
    assert plan_checkpoints(signalled, RULES, choices, {}).requeue == {}
    assert plan_checkpoints(signalled, RULES, {}, {"1": permit(allowed=True)}).requeue == {}


def test_slurm_submits_a_requeued_job_anew_and_it_gets_its_begin_time() -> None:
    begin_s = NOW_S + 10 * HOUR_S
    mark = JobMark("1", NOW_S - 3 * HOUR_S, REQUEUED, 0, begin_s, NOW_S)
    stops = running(1, state=JobState.ENDS)
    assert plan_returns(facts_of(stops, marks=(mark,))) == ({}, [], [])
    waits = a_job(1, submit_s=NOW_S + 5, begin_s=NOW_S + 121)
    # While the nodes are not free yet, Slurm would replace the begin time.
    assert plan_returns(facts_of(waits, marks=(mark,))) == ({}, [], [])
    assert plan_returns(facts_of(waits, now_s=NOW_S + 30, marks=(mark,))) == ({"1": begin_s}, [], [])
    given = JobMark("1", NOW_S + 5, BEGIN, 0, begin_s, NOW_S + 60)
    shift = JobMark("1", NOW_S + 5, "shift T3", NOW_S, begin_s, NOW_S + 60)
    later = waits._replace(begin_s=begin_s)
    assert plan_returns(facts_of(later, now_s=NOW_S + 60, marks=(mark,))) == ({}, [given, shift], [mark])
    by_admin = waits._replace(begin_s=NOW_S + HOUR_S)
    assert plan_returns(facts_of(by_admin, now_s=NOW_S + 60, marks=(mark,))) == ({}, [], [mark])
    again = running(1, submit_s=NOW_S + 5, start_s=NOW_S + 130)
    assert plan_returns(facts_of(again, now_s=NOW_S + HOUR_S, marks=(mark,))) == ({}, [], [mark])


def test_a_job_that_an_event_has_stopped_begins_after_it_or_when_it_is_withdrawn() -> None:
    until_s, ramp_s = NOW_S + 2 * HOUR_S, 300
    event, job = StartConstraint(until_s + ramp_s, "the grid asks", until_s), running(1)
    asked = facts_of(job)
    choices = choose_checkpoints(asked, RULES, {"1": event})
    signal = plan_checkpoints(asked, RULES, choices, {"1": permit()}).signals["1"][1]
    mark = plan_checkpoints(facts_of(job, marks=(signal,)), RULES, choices, {"1": permit(allowed=True)}).requeue["1"]
    waits = a_job(1, comment=HINT, submit_s=NOW_S + 5, begin_s=until_s + ramp_s)
    flat = {"prices": prices(50.0, from_s=NOW_S - HOUR_S, step_s=100 * HOUR_S)}
    cheap_later = {"prices": prices(*[50.0] * 6, *[5.0] * 40, from_s=NOW_S - HOUR_S)}
    by_cap = {"constraints": {"1": StartConstraint(until_s, "the cap lasts")}}
    for known in (flat, cheap_later, {}):
        requeued = Site((waits._replace(begin_s=None),), marks=(mark,), facts=known)
        assert (requeued.plan(**by_cap).begin_s, requeued.plan().begin_s) == ({}, {}), "it gets that of the event"
        site = Site(
            (waits,), marks=tuple(plan_returns(facts_of(waits, now_s=NOW_S + 60, marks=(mark,)))[1]), facts=known
        )
        assert site.plan(now_s=NOW_S + 90, **by_cap).begin_s == {}, "it comes back by the ramp"
        withdrawn = site.plan(now_s=NOW_S + HOUR_S)
        assert withdrawn.begin_s == {"1": NOW_S + HOUR_S + ramp_s}
        at_once = replace(site, jobs=(waits._replace(comment=f"{HINT},now"),)).plan(now_s=NOW_S + HOUR_S)
        assert at_once.begin_s == {"1": 0}, "its owner allows no delay any more"
        after = site.apply(withdrawn, now_s=NOW_S + HOUR_S)
        assert after.plan(now_s=NOW_S + HOUR_S + 30).begin_s == {}
        refused = site.remember(withdrawn).plan(now_s=NOW_S + HOUR_S + 30)
        assert refused.begin_s == withdrawn.begin_s, "the scheduler did not answer"
        assert site.remember(at_once).plan(now_s=NOW_S + HOUR_S + 30).begin_s == at_once.begin_s
        assert site.plan(now_s=until_s + 1).begin_s == {}, "the event has ended as ordered"


def test_pbs_requeues_without_a_pause_and_the_job_gets_its_begin_time_at_once() -> None:
    mark = JobMark("1", NOW_S - HOUR_S, REQUEUED, 0, NOW_S + 10 * HOUR_S, NOW_S)
    waits = a_job(1, submit_s=NOW_S - HOUR_S)
    assert plan_returns(facts_of(waits, marks=(mark,)))[0] == {"1": NOW_S + 10 * HOUR_S}


def test_a_job_without_its_checkpoint_in_time_goes_on_and_is_not_asked_again() -> None:
    job = running(1)
    mark = JobMark("1", job.submit_s, CHECKPOINT, job.start_s or 0, NOW_S - 120, NOW_S - 720)
    facts = facts_of(job, marks=(mark,))
    plan = plan_checkpoints(facts, RULES, choose_checkpoints(facts, RULES), {"1": permit()})
    assert (plan.signals, plan.requeue) == ({}, {})
    assert plan.problems == ["job 1: no checkpoint within 10 min of the signal: it goes on"]
    late = plan_checkpoints(facts, RULES, {}, {"1": permit(allowed=True)})
    assert late.requeue == {}
    next_run = facts_of(running(1, start_s=NOW_S - HOUR_S), marks=(mark,))
    assert plan_checkpoints(next_run, RULES, {}, {}).forget == [mark]


def test_a_job_that_may_be_requeued_at_any_time_gives_no_proof() -> None:
    facts = facts_of(running(1))
    plan = plan_checkpoints(facts, RULES, choose_checkpoints(facts, RULES), {"1": permit(allowed=True)})
    assert (plan.signals, plan.requeue) == ({}, {})
    (decision,) = plan.decisions
    assert "its script forbids that at first" in decision.reason


def test_bounds_on_how_often_and_how_many() -> None:
    jobs = tuple(running(at) for at in range(1, MOST_AT_ONCE + 5))
    facts = facts_of(*jobs)
    choices = choose_checkpoints(facts, RULES)
    permits = {job.job_id: permit() for job in jobs}
    first = plan_checkpoints(facts, RULES, choices, permits)
    assert len(first.signals) == MOST_AT_ONCE
    under_way = replace(facts, marks=tuple(mark for _, mark in first.signals.values()))
    assert plan_checkpoints(under_way, RULES, choices, permits).signals == {}
    often = {job.job_id: permit(restarts=MOST_REQUEUES) for job in jobs}
    too_often = plan_checkpoints(facts, RULES, choices, often)
    assert (too_often.signals, {each.decided for each in too_often.decisions}) == ({}, {GOES_ON})
