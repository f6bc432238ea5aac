"""What holds whatever the queue, the prices, the draws and the comments are."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_site import HOUR_S, NOW_S, RULES, TOP, ZONE, Site, a_job, by_id, plain_cluster, prices

from offpeak.model.flexibility import parse_user_hints
from offpeak.plugin.queue_hook.facts import NO_GROUP, QueueFacts, WaitAllowance
from offpeak.plugin.queue_hook.positions import marks_by_job, queue_positions
from offpeak.plugin.queue_hook.queue_plan import restore_plan
from offpeak.plugin.queue_hook.start_times import latest_start_s
from offpeak.plugin.queue_hook.window import group_positions, site_place, startable_positions
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.port import Ranking
from offpeak.prices.peak import Peak

pytestmark = pytest.mark.quick

HINTS = ["offpeak:now", "offpeak:delay=12h", "offpeak:delay=2h", "offpeak:delay=3h,deadline=2026-11-22T01:00"]
COMMENTS = ["", "", "", *HINTS, "offpeak:x"]
UNTOUCHABLE = [{"state": JobState.HELD, "priority": 0}, {"plain": False}, {"begin_s": NOW_S + 7200}]
SIX_HOURS = (20.0, 50.0, 55.0, 80.0, -10.0, 0.0)
peaks = st.sampled_from([Peak.ON_PEAK, Peak.OFF_PEAK])


@st.composite
def sites(draw, ranking=None, ties=True, comments=COMMENTS):
    ranking = ranking or draw(st.sampled_from(list(Ranking)))
    count = draw(st.integers(1, 14))
    jobs = []
    for number in range(1, count + 1):
        fields = {
            "partitions": (draw(st.sampled_from(["a", "a", "b"])),),
            "comment": draw(st.sampled_from(comments)),
            "nodes": draw(st.integers(1, 4)),
            "submit_s": NOW_S - draw(st.integers(0, 6)) * HOUR_S,
            "limit_s": draw(st.sampled_from([None, HOUR_S, 5 * HOUR_S])),
        }
        if ranking is Ranking.OFFSET:
            fields["offset"] = draw(st.sampled_from([0, 0, -20, 5]))
            low = draw(st.integers(1, 30)) if ties else 1000 - 7 * number
            fields["priority"] = max(1, low + fields["offset"]) if ties else low
        if ranking is Ranking.TERM:
            fields["priority"] = draw(st.sampled_from([0, 0, 5, -1, -500])) if ties else -7 * number
        if draw(st.integers(0, 5)) == 0:
            fields |= draw(st.sampled_from(UNTOUCHABLE))
        jobs.append(a_job(number, **fields))
    return Site(tuple(jobs), ranking)


def draws_of(data, site):
    """Return draws of most jobs, by job."""
    watts = st.sampled_from([100.0, 200.0, 200.0, 300.0, 400.0, None])
    drawn = data.draw(st.lists(watts, min_size=len(site.jobs), max_size=len(site.jobs)))
    return {job.job_id: power_w for job, power_w in zip(site.jobs, drawn, strict=True) if power_w}


allowances = st.builds(WaitAllowance, st.sampled_from([0, HOUR_S]), st.sampled_from([None, 50, 90]))


def facts_of(data, site):
    pools = {name for job in site.jobs for name in job.partitions}
    return {
        "peak": data.draw(peaks),
        "node_power_w": draws_of(data, site),
        "free_nodes": tuple(data.draw(st.integers(0, 8)) for _ in pools),
        "prices": prices(*[data.draw(st.integers(-5, 9)) * 10.0, *data.draw(st.permutations(SIX_HOURS))] * 7),
        "wait_allowances": dict.fromkeys(by_id(site.jobs), data.draw(allowances)),
    }


rules = st.builds(
    replace, st.just(RULES), policy=st.sampled_from(["greedy", "knapsack"]), window=st.sampled_from([1, 2, 3, 5, 20])
)


def lines(site, later=()):
    marked = marks_by_job(site.marks, site.jobs)
    facts = QueueFacts(NOW_S, site.jobs, site.ranking, cluster=plain_cluster(site.jobs))
    positions = queue_positions(facts.pending, marked, facts)
    startable = startable_positions(sorted(positions.all, key=site_place), later, facts)
    groups = group_positions((each for each in startable if each.job.plain), facts)
    return {group: members for group, members in groups.items() if group != NO_GROUP}


@given(sites(), rules, st.data())
def test_written_value_is_not_written_twice(site, rules, data):
    facts = facts_of(data, site)
    after = site.apply(site.plan(rules, **facts))
    again = after.plan(rules, **facts)
    assert again.changes_nothing
    assert {decision.decided for decision in again.decisions} <= {"keeps its place"}


@given(sites(), rules, st.data())
def test_after_any_cycles_the_site_gets_its_own_values_back(site, rules, data):
    was = by_id(site.jobs)
    for _ in range(data.draw(st.integers(1, 4))):
        facts = facts_of(data, site)
        plan = site.plan(rules, **facts)
        site = site.apply(plan) if data.draw(st.booleans()) else site.remember(plan)
    back = site.apply(restore_plan(site.jobs, site.marks, ranking=site.ranking))
    for job in back.jobs:
        assert (job.priority, job.offset) == (was[job.job_id].priority, was[job.job_id].offset)
        assert (job.begin_s or 0) <= NOW_S or job.begin_s == was[job.job_id].begin_s
    assert restore_plan(back.jobs, back.marks, ranking=back.ranking).changes_nothing


@given(sites(), rules, st.data())
def test_held_array_later_and_opted_out_jobs_are_untouched(site, rules, data):
    plan = site.plan(rules, **facts_of(data, site))
    for job in site.jobs:
        touchable = job.plain and job.state is JobState.PENDING and job.begin_s is None
        if not touchable or parse_user_hints(job.comment, ZONE).now:
            assert job.job_id not in plan.rank.keys() | plan.begin_s.keys()


@given(sites(ties=False, comments=[""]), rules, st.data())
def test_the_windows_values_are_permuted_and_all_others_keep_their_rank(site, rules, data):
    after = site.apply(site.plan(rules, **facts_of(data, site)))
    was, now = by_id(site.jobs), by_id(after.jobs)
    inside = {}
    for at, line in enumerate(lines(site).values()):
        inside |= {each.job.job_id: at for each in line[: rules.window]}
        window = [each.job.job_id for each in line[: rules.window]]
        assert sorted(now[job].priority for job in window) == sorted(was[job].priority for job in window)
    assert [inside.get(job, job) for job in after.order()] == [inside.get(job, job) for job in site.order()]


@given(sites(), rules, st.data())
def test_no_job_outside_a_window_is_passed_and_no_opted_out_job_is_moved_back(site, rules, data):
    plan = site.plan(rules, **facts_of(data, site))
    after = site.apply(plan)
    later = {job for job, begin_s in plan.begin_s.items() if begin_s > NOW_S}
    place = {job: at for at, job in enumerate(after.order())}
    before = lines(site, later)
    for line in before.values():
        window, outside = line[: rules.window], line[rules.window :]
        assert all(place[a.job.job_id] < place[b.job.job_id] for a in window for b in outside)
        for at, each in enumerate(window):
            if parse_user_hints(each.job.comment, ZONE).now:
                assert sum(place[other.job.job_id] < place[each.job.job_id] for other in window) == at


@given(sites(), rules, st.data())
def test_no_job_is_put_before_one_that_is_past_its_latest_start(site, rules, data):
    plan = site.plan(rules, **facts_of(data, site))
    place = {job: at for at, job in enumerate(site.apply(plan).order())}
    delayed = {job for job, begin_s in plan.begin_s.items() if begin_s > NOW_S}
    for group in lines(site, delayed).values():
        names = [position.job.job_id for position in group]
        for at, job in enumerate(position.job for position in group):
            latest_s = latest_start_s(job, parse_user_hints(job.comment, ZONE), rules)
            if latest_s is not None and latest_s <= NOW_S:
                assert {name for name in names if place[name] < place[job.job_id]} == set(names[:at])


@given(sites(), rules, st.data())
def test_a_window_of_one_and_an_unknown_price_change_no_order(site, rules, data):
    facts = facts_of(data, site)
    assert site.plan(replace(rules, window=1), **facts).rank == {}
    unknown = site.plan(rules, **facts | {"peak": Peak.UNKNOWN})
    assert (unknown.rank, unknown.begin_s) == ({}, {})


@given(sites(comments=COMMENTS[4:6]), st.data(), st.integers(0, 30 * HOUR_S))
def test_no_job_is_kept_back_beyond_its_latest_start(site, data, passed_s):
    facts = facts_of(data, site)
    was = by_id(site.jobs)
    for now_s in (NOW_S, NOW_S + passed_s):
        plan = site.plan(now_s=now_s, **facts)
        for job_id, begin_s in plan.begin_s.items():
            job = was[job_id]
            user_hint = parse_user_hints(job.comment, ZONE)
            wait_s = facts["wait_allowances"][job_id].wait_s
            assert begin_s == 0 or now_s < begin_s <= job.submit_s + user_hint.delay_s - wait_s
            ends_in_time = user_hint.deadline_s is None or begin_s + wait_s + job.limit_s <= user_hint.deadline_s
            assert begin_s == 0 or ends_in_time
        site = site.apply(plan, now_s=now_s)


@given(sites(), rules, st.data(), st.integers(0, 50))
def test_value_set_by_an_admin_is_never_overwritten(site, rules, data, by):
    site = site.apply(site.plan(rules, **facts_of(data, site)))
    chosen = data.draw(st.sampled_from(site.jobs))
    values = {mark.to for mark in site.marks} | {mark.was for mark in site.marks}
    values |= {job.priority for job in site.jobs} | {job.offset for job in site.jobs}
    value = max(values) + 1 + by
    assert value < TOP + 100_000
    field = "priority" if site.ranking is Ranking.VALUE else "offset"
    marked = {mark.job for mark in site.marks if mark.kind == "rank"}
    if chosen.state is not JobState.PENDING or not chosen.plain or chosen.job_id not in marked:
        return
    site = replace(site, jobs=tuple(j._replace(**{field: value}) if j is chosen else j for j in site.jobs))
    for _ in range(2):
        plan = site.plan(rules, **facts_of(data, site))
        assert chosen.job_id not in plan.rank
        site = site.apply(plan)
    assert chosen.job_id not in restore_plan(site.jobs, site.marks, ranking=site.ranking).rank
