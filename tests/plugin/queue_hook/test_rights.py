"""What the site's priorities promise is kept, whatever the price."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_site import HOUR_S, NOW_S, RULES, Site, a_job, by_id, plain_cluster

from offpeak.model.cluster import NodeType, Partition, Pool
from offpeak.model.limits import PriorityOrder, PriorityWeights, Qos, SitePriority
from offpeak.model.request import Chunk, Request
from offpeak.plugin.priority_bands import NO_BANDS, BandWidths, band_widths
from offpeak.plugin.scheduler.port import Ranking
from offpeak.prices.peak import Peak

pytestmark = pytest.mark.quick

WEIGHTS = PriorityWeights(age=1000, fair_share=2000, qos=10_000)
QOS = {name: Qos(name, priority=priority) for name, priority in (("low", 0), ("normal", 50), ("urgent", 100))}
TEN_PERCENT = replace(RULES, priority_band_percent=10)


def site_of(*jobs, qos=None, **facts):
    """Return a site with multifactor priority; the n-th job draws n hundred watts, so that it goes back on-peak."""
    priority = SitePriority(PriorityOrder.MULTIFACTOR, WEIGHTS)
    cluster = replace(plain_cluster(jobs), qos=QOS if qos is None else qos, priority=priority)
    draws = {job.job_id: 100.0 * (len(jobs) - at) for at, job in enumerate(jobs)}
    return Site(jobs, Ranking.OFFSET, facts={"cluster": cluster, "node_power_w": draws, **facts})


def order(site, rules=TEN_PERCENT):
    return site.apply(site.plan(rules)).order()


def reasons(site):
    return {each.subject: each.reason for each in site.plan(TEN_PERCENT).decisions if each.decided == "keeps its place"}


def test_an_urgent_job_is_not_put_behind_low_ones():
    urgent = a_job(1, qos="urgent", priority=26_763, account="astro")
    low = [a_job(number, qos="low", priority=2_497, account="bio") for number in range(2, 7)]
    assert order(site_of(urgent, *low), replace(RULES, priority_band_percent=100)) == ["1", "6", "5", "4", "3", "2"]


def test_jobs_change_places_within_the_band_only():
    # 10 % of the weights of age and fair share are 300.
    site = site_of(*(a_job(at, qos="low", priority=priority) for at, priority in enumerate((900, 700, 600, 599), 1)))
    assert order(site) == ["3", "2", "1", "4"]
    assert order(site, replace(RULES, priority_band_percent=0)) == ["1", "2", "3", "4"]
    assert reasons(site)["job 4"] == (
        "no job next to it has the same QOS or queue, and a priority and a fair share within 10 % of the range"
    )


def test_a_job_of_a_higher_number_falls_behind_no_equal_one_of_a_lower_qos():
    # Job 3 does not compete yet; with the priority of job 2 job 4 would stand behind it.
    site = site_of(
        a_job(2, qos="normal", priority=20),
        a_job(3, qos="low", priority=20, begin_s=NOW_S + HOUR_S),
        a_job(4, qos="normal", priority=21),
        a_job(5, qos="low", priority=19),
    )
    site = replace(site, facts={**site.facts, "node_power_w": {"2": 100.0, "3": 100.0, "4": 400.0, "5": 100.0}})
    assert site.order() == order(site) == ["4", "2", "3", "5"]


def test_an_account_is_passed_only_while_its_fair_share_is_within_the_band():
    def accounts(other):
        return site_of(
            a_job(1, account="astro", priority=900, fair_share=500), a_job(2, account="bio", priority=800, **other)
        )

    assert order(accounts({"fair_share": 300})) == ["2", "1"]
    # By now what bio has used has lowered its fair share.
    assert order(accounts({"fair_share": 299})) == ["1", "2"]


def test_jobs_with_a_reservation_a_close_deadline_or_a_preempting_qos_are_never_moved_back():
    preempting = QOS | {"urgent": Qos("urgent", priority=100, preempts=frozenset({"low"}))}
    tomorrow_s = NOW_S + 24 * HOUR_S
    for why, fields in (
        ("it has the reservation maintenance", {"reservation": "maintenance"}),
        ("its deadline is Sun 19:00", {"deadline_s": tomorrow_s + HOUR_S}),
        ("its deadline is Sun 19:00", {"comment": "offpeak:deadline=2026-11-22T19:00"}),
        ("jobs of QOS urgent may stop others", {"qos": "urgent"}),
    ):
        jobs = [a_job(number, priority=900, **{"qos": "low", **fields}) for number in (1, 2)]
        site = site_of(*jobs, a_job(3, priority=900, qos=jobs[0].qos), qos=preempting)
        assert order(site)[:2] == ["1", "2"]
        assert reasons(site)["job 1"] == reasons(site)["job 2"] == why
    far = (a_job(number, qos="low", priority=900, deadline_s=tomorrow_s + HOUR_S + 1) for number in (1, 2))
    assert order(site_of(*far)) == ["2", "1"]


def test_a_job_with_a_deadline_and_no_time_limit_is_never_moved_back_nor_passed():
    unlimited = a_job(1, qos="low", priority=900, limit_s=None, deadline_s=NOW_S + 240 * HOUR_S)
    site = site_of(unlimited, *(a_job(number, qos="low", priority=900) for number in (2, 3)))
    assert order(site) == ["1", "3", "2"]
    assert reasons(site) == {"job 1": "its deadline is 2026-12-01 18:00, and it has no time limit"}


def test_a_job_that_cannot_start_yet_keeps_its_right():
    later = a_job(2, qos="urgent", priority=901, begin_s=NOW_S + HOUR_S)
    low = [a_job(number, qos="low", priority=priority) for number, priority in ((1, 902), (3, 900))]
    assert order(site_of(*low, later)) == ["1", "2", "3"]


@pytest.mark.parametrize("other", [{}, {"begin_s": NOW_S + HOUR_S}, {"reason": "QOSMaxJobsPerUserLimit"}])
def test_a_job_of_another_tier_on_the_same_nodes_is_passed_by_none_with_fewer_rights(other):
    """Jobs of several tiers compete as a group of their own, whose bands those of one tier do not have."""
    both = Pool(NodeType(64, 512_000), frozenset({"a", "b"}), 5)
    tiers = {name: Partition(name, shared=True, priority_tier=tier) for name, tier in (("a", 1), ("b", 2))}

    def ordered(qos, priority):
        fields = {"whole_nodes": False, "cpus": 64}
        jobs = [
            a_job(
                number, qos=of, priority=at, partitions=names, request=Request(names, (Chunk(1, 64),)), **more
            )._replace(**fields)
            for number, of, at, names, more in (
                (1, "low", 902, ("a",), {}),
                (2, qos, priority, ("a", "b"), other),
                (3, "low", 900, ("a",), {}),
            )
        ]
        site = site_of(*jobs)
        cluster = replace(site.facts["cluster"], pools=(both,), partitions=tiers)
        return order(replace(site, facts={**site.facts, "cluster": cluster}))

    assert ordered("urgent", 901) == ["1", "2", "3"]
    # One low job is before it and one behind, as before.
    assert ordered("low", 901) == ["3", "2", "1"]


def test_without_known_weights_the_band_is_a_share_of_the_usual_range():
    recorded = replace(plain_cluster(()), priority=None)
    # One in a hundred may be far away.
    priorities = np.append(np.arange(1000), 10**9)
    assert band_widths(10, recorded, priorities).priority == 98
    assert band_widths(100, recorded, priorities) == NO_BANDS
    by_submission = replace(recorded, priority=SitePriority(PriorityOrder.SUBMISSION))
    assert band_widths(10, by_submission, priorities) == NO_BANDS
    weighed = replace(recorded, priority=SitePriority(PriorityOrder.MULTIFACTOR, WEIGHTS))
    assert band_widths(10, weighed, priorities) == BandWidths(300, 200)


@st.composite
def contracts(draw):
    """Return jobs of some QOS, accounts and priorities, of which some cannot start yet or keep their places."""
    odd = [{}, {}, {}, {"begin_s": NOW_S + HOUR_S}, {"reason": "AssocGrpCpuLimit"}, {"plain": False}, {"nodes": 9}]
    jobs = [
        a_job(
            number,
            qos=draw(st.sampled_from(["low", "normal", "urgent"])),
            priority=draw(st.integers(20, 24) | st.integers(20, 3000)),
            fair_share=draw(st.sampled_from([0, 100, 250])),
            submit_s=NOW_S - HOUR_S * draw(st.integers(0, 40)),
            **draw(st.sampled_from(odd)),
        )
        for number in range(1, draw(st.integers(2, 14)) + 1)
    ]
    watts = draw(st.lists(st.integers(1, 5), min_size=len(jobs), max_size=len(jobs)))
    site = site_of(*jobs, free_nodes=(draw(st.integers(0, 9)),))
    return replace(site, facts={**site.facts, "node_power_w": {str(at): 100.0 * w for at, w in enumerate(watts, 1)}})


policies = st.sampled_from(["greedy", "knapsack", "own"])


@given(contracts(), policies, st.integers(0, 99), st.integers(1, 20), st.lists(st.booleans(), min_size=1, max_size=5))
def test_no_job_ends_behind_one_of_a_lower_qos_or_beyond_the_band(site, policy, percent, window, on_peak):
    own = (lambda views: [list(range(len(view.size)))[::-1] for view in views]) if policy == "own" else None
    rules = replace(RULES, policy=policy, own_policy=own, priority_band_percent=percent, window=window)
    before, was = site.order(), by_id(site.jobs)
    band, fair_share_band = (total * percent // 100 for total in (3000, 2000))
    for is_on_peak in on_peak:
        site = site.apply(site.plan(rules, peak=Peak.ON_PEAK if is_on_peak else Peak.OFF_PEAK))
        place = {job: at for at, job in enumerate(site.order())}
        for at, first in enumerate(before):
            for second in before[at + 1 :]:
                one, other = was[first], was[second]
                is_right = (
                    QOS[one.qos].priority > QOS[other.qos].priority
                    or one.priority - other.priority > band
                    or one.fair_share - other.fair_share > fair_share_band
                )
                assert not is_right or place[first] < place[second], (one, other)
