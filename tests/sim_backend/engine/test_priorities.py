"""Slurm's multifactor priority: the order of jobs in a replay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_clusters import cases
from random_logs import PLAIN, policy_of
from share_trees import share_tree

from offpeak.errors import BadInput
from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.limits import PriorityOrder, PriorityWeights, SitePriority
from offpeak.model.request import Chunk, Request
from offpeak.plugin.priority_bands import band_widths
from offpeak.plugin.window_policy import GREEDY
from offpeak.prices.peak import Peak
from offpeak.sim_backend.engine.case import RequestedJobs, engine_case
from offpeak.sim_backend.engine.cells import new_picks
from offpeak.sim_backend.engine.preemption import with_room
from offpeak.sim_backend.engine.priorities import BEFORE_S, ROOT, Priorities, advance_ranked, decayed_s
from offpeak.sim_backend.engine.rules import FULL, NO_PEAKS, NOT_YET, PeakTimes
from offpeak.sim_backend.engine.state import new_state
from offpeak.sim_backend.replay.replay import replay_case, rules_of, schedule_of

TWO_USERS = share_tree((ROOT, 1, 1), (ROOT, 1, 1))
PLAIN_POLICY = policy_of(PLAIN)


def schedule(weights, rows, *, nodes=1, tree=TWO_USERS, policy=PLAIN_POLICY, percent=100, peaks=NO_PEAKS, draws=None):
    """Return the starts of jobs (submit, run, nodes, user[, partition factor, qos factor, nice]) on equal nodes."""
    columns = [np.array(column) for column in zip(*(row + (0,) * (7 - len(row)) for row in rows), strict=True)]
    submit, run, size, user, partition, qos, nice = columns
    widths = sorted(set(size.tolist()))
    request = np.array([widths.index(width) for width in size.tolist()])
    power_w = np.ones(len(rows)) if draws is None else draws
    jobs = RequestedJobs(np.arange(len(rows)), submit, run, run, request, power_w)
    order = SitePriority(PriorityOrder.MULTIFACTOR, weights)
    cluster = Cluster((Pool(NodeType(1), frozenset(), nodes),), priority=order)
    case = engine_case(cluster, [Request((), (Chunk(width),)) for width in widths], jobs)
    priorities = Priorities(weights, tree, user, partition, qos, nice)
    rules = rules_of(policy)._replace(widths=band_widths(percent, cluster, case.workload.priority))
    return replay_case(case, policy, rules, peaks=peaks, priorities=priorities).start_s.tolist()


def test_the_user_who_has_used_less_goes_first():
    rows = [(0, 1000, 1, 0), (1, 100, 1, 0), (2, 100, 1, 1), (3, 100, 1, 0)]
    assert schedule(PriorityWeights(), rows) == [0, 1000, 1100, 1200]
    for is_fair_tree in (True, False):
        weights = PriorityWeights(fair_share=1000, is_fair_tree=is_fair_tree)
        assert schedule(weights, rows) == [0, 1100, 1000, 1200]


def test_usage_is_forgotten_after_some_half_lives():
    rows = [(0, 1000, 1, 0), (1000, 500, 1, 1), (1001, 100, 1, 1), (1002, 100, 1, 0)]
    assert schedule(PriorityWeights(fair_share=1000, half_life_s=10**9), rows) == [0, 1000, 1500, 1600]
    assert schedule(PriorityWeights(fair_share=1000, half_life_s=60), rows) == [0, 1000, 1600, 1500]


def test_size_partition_qos_and_nice_decide_by_their_weights():
    blocked = (0, 100, 4, 0)
    small, large = (1, 10, 1, 0), (1, 10, 4, 0)
    assert schedule(PriorityWeights(job_size=100), [blocked, small, large], nodes=4) == [0, 110, 100]
    assert schedule(PriorityWeights(job_size=100, favor_small=True), [blocked, large, small], nodes=4) == [0, 110, 100]
    one, better = (1, 10, 1, 0), (1, 10, 1, 0, 0.5, 0, 0)
    assert schedule(PriorityWeights(partition=100), [(0, 100, 1, 0), one, better]) == [0, 110, 100]
    assert schedule(PriorityWeights(qos=100), [(0, 100, 1, 0), one, (1, 10, 1, 0, 0, 1, 0)]) == [0, 110, 100]
    assert schedule(PriorityWeights(), [(0, 100, 1, 0), (1, 10, 1, 0, 0, 0, 5), one]) == [0, 110, 100]


def test_age_lifts_a_job_above_a_better_one_that_came_later():
    rows = [(0, 5000, 1, 0), (10, 10, 1, 0), (4000, 10, 1, 0, 1.0, 0, 0)]
    assert schedule(PriorityWeights(partition=100), rows) == [0, 5010, 5000]
    assert schedule(PriorityWeights(partition=100, age=1000, max_age_s=10_000), rows) == [0, 5000, 5010]


def test_a_stopped_job_waits_behind_those_that_may_stop_it():
    partitions = {"low": Partition("low"), "high": Partition("high", priority_tier=2, preempts=True)}
    cluster = Cluster((Pool(NodeType(1), frozenset(partitions), 1),), partitions)
    rows = np.array([(0, 1000, 0), (600, 100, 1), (600, 100, 1)])
    submit_s, run_s, request = rows.T.copy()
    jobs = RequestedJobs(np.arange(3), submit_s, run_s, run_s, request, np.ones(3))
    case = engine_case(cluster, [Request((name,), (Chunk(1),)) for name in partitions], jobs)
    priorities = Priorities(PriorityWeights(), TWO_USERS, *(np.zeros(3, dtype=np.int64),) * 4)
    found = replay_case(case, PLAIN_POLICY, rules_of(PLAIN_POLICY), priorities=priorities)
    assert found.start_s.tolist() == [800, 600, 700]
    assert [column.tolist() for column in found.lost] == [[0], [0], [600]]


@given(cases() | cases(preempts=True), st.sampled_from([0, 40, 100_000]), st.integers(1, 300))
def test_usage_is_the_decayed_work_of_each_user(random, half_life_s, until_s):
    case = random.case
    user = np.arange(int(case.kept.max(initial=0)) + 1) % 2
    weights = PriorityWeights(fair_share=1000, calc_period_s=7, half_life_s=half_life_s)
    priority_state = Priorities(weights, TWO_USERS, user, *(np.zeros(len(user), dtype=np.int64),) * 3).initial_state(
        case
    )
    rules = rules_of(PLAIN_POLICY)
    state = new_state(case.tables, case.workload, rules, new_picks(case.tables))
    ranked = case.tables, case.workload, NO_PEAKS, rules
    while advance_ranked(*ranked, state, priority_state, until_s=until_s) == FULL:
        state = with_room(state, case.tables)
    now_s = int(priority_state.period[BEFORE_S])
    found = schedule_of(case, state, 0.0)
    expected = [0.0, 0.0]
    for job, start_s, end_s in zip(*(column.tolist() for column in found.runs), strict=True):
        # The part of the job that is charged is the one before the last period.
        if start_s != NOT_YET and start_s < now_s:
            cores = case.request_of[case.workload.request_class[job]].cores
            worth_s = decayed_s(start_s, min(end_s, now_s), now_s, half_life_s)
            expected[user[case.kept[job]]] += worth_s * cores
    assert priority_state.usage.tolist() == pytest.approx(expected, abs=1e-4)


@given(cases())
def test_with_no_weights_the_order_is_that_of_tiers_and_submissions(random):
    case = random.case
    columns = [np.zeros(int(case.kept.max(initial=0)) + 1, dtype=np.int64) for _ in range(4)]
    priorities = Priorities(PriorityWeights(calc_period_s=7), TWO_USERS, *columns)
    ranked = replay_case(case, PLAIN_POLICY, rules_of(PLAIN_POLICY), priorities=priorities)
    workload = case.workload
    tier = np.array([max(random.cluster.partitions[name].priority_tier for name in request.partitions)
                     for request in case.request_of])[workload.request_class]  # fmt: skip
    rank = np.empty(len(tier), dtype=np.int64)
    rank[np.argsort(-tier, kind="stable")] = np.arange(len(tier))
    plain = case.__class__(**{**vars(case), "workload": workload._replace(rank=rank)})
    expected = replay_case(plain, PLAIN_POLICY, rules_of(PLAIN_POLICY))
    assert ranked.start_s.tolist() == expected.start_s.tolist()


def test_associations_that_are_no_users_are_refused():
    account = share_tree((ROOT, 1, 0), (0, 1, 1))
    with pytest.raises(BadInput, match="not a user of the tree"):
        Priorities(PriorityWeights(), account, np.array([0]), np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int64))


@pytest.mark.parametrize("percent", [0, 10, 30, 100])
def test_an_account_is_held_back_only_until_its_fair_share_is_beyond_the_band(percent):
    # The first user's jobs draw more: on-peak greedy puts all of them behind those of the second.
    rows = [(0, 600, 1, int(at >= 6)) for at in range(12)]
    weights = PriorityWeights(fair_share=10_000, half_life_s=0, is_fair_tree=False)
    greedy = policy_of(PLAIN._replace(policy=GREEDY, window=20, max_postponement_s=10**9))
    on_peak = PeakTimes(np.array([0]), np.array([Peak.ON_PEAK], dtype=np.int8))
    draws = np.repeat([2.0, 1.0], 6)
    found = schedule(weights, rows, policy=greedy, percent=percent, peaks=on_peak, draws=draws)
    users = [int(job >= 6) for job in np.argsort(found)]
    for at, user in enumerate(users):
        # Slurm's classic formula for equal shares: 2 ** (-usage / share).
        use = [users[:at].count(each) / max(at, 1) for each in (0, 1)]
        ahead = 2 ** (-use[0] / 0.5) - 2 ** (-use[1] / 0.5)
        must_wait = ahead <= percent / 100 and 1 in users[at:]
        assert user == (1 if must_wait else 0)
