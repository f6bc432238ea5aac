"""Slurm's multifactor priority: the example of its documentation, ties, decay, and the order of jobs in a replay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_clusters import cases
from random_logs import PLAIN, policy_of

from offpeak.errors import BadInput
from offpeak.model.cluster import Cluster, NodeType, Pool
from offpeak.model.request import Chunk, Request
from sim_backend.mixed.case import MixedJobs, mixed_case
from sim_backend.mixed.priorities import (
    ROOT,
    Priorities,
    PriorityWeights,
    ShareTree,
    classic_factors,
    decayed_s,
    fair_tree_factors,
)
from sim_backend.mixed.replay import replay_mixed, rules_of


def tree_of(*rows) -> ShareTree:
    parent, shares, is_user = (np.array(column) for column in zip(*rows, strict=True))
    return ShareTree(parent, shares, is_user.astype(bool))


# Accounts A, D, B, C, E, F and users 1 to 5 of Slurm's page on the classic algorithm.
DOCUMENTED = tree_of(
    (ROOT, 40, 0), (ROOT, 60, 0), (0, 30, 0), (0, 10, 0), (1, 25, 0), (1, 35, 0),
    (2, 1, 1), (3, 1, 1), (3, 1, 1), (4, 1, 1), (5, 1, 1),
)  # fmt: skip
USAGE = np.array([0, 0, 0, 0, 0, 0, 0.2, 0.25, 0, 0.25, 0])
TWO_USERS = tree_of((ROOT, 1, 1), (ROOT, 1, 1))
PLAIN_POLICY = policy_of(PLAIN)


def test_the_classic_factors_are_those_of_the_documented_example():
    # The example's usage is that of the whole machine: 0.3 of it is idle.
    tree = tree_of(*zip(DOCUMENTED.parent, DOCUMENTED.shares, DOCUMENTED.is_user, strict=True), (ROOT, 0, 1))
    factors = classic_factors(tree, np.append(USAGE, 0.3))
    assert factors[6:11] == pytest.approx([0.408479, 0.022097, 0.125, 0.5, 0.749154], abs=2e-4)


def test_the_fair_tree_ranks_users_of_better_accounts_first():
    # D has LF 0.6 / (0.25 / 0.7), A 0.4 / (0.45 / 0.7); below D user 5 has used nothing, below C user 3.
    assert (fair_tree_factors(DOCUMENTED, USAGE)[6:] * 5).round().tolist() == [3, 1, 2, 4, 5]


def test_ties_of_the_fair_tree_share_ranks_and_children():
    equal_users = tree_of((ROOT, 1, 1), (ROOT, 1, 1), (ROOT, 1, 1))
    assert fair_tree_factors(equal_users, np.array([1.0, 1.0, 4.0])).tolist() == [1, 1, 1 / 3]
    user_and_account = tree_of((ROOT, 1, 1), (ROOT, 1, 0), (1, 1, 1), (1, 1, 1))
    assert fair_tree_factors(user_and_account, np.array([4.0, 0, 1, 3])).tolist() == [1, 0, 1, 1 / 3]
    equal_accounts = tree_of((ROOT, 1, 0), (ROOT, 1, 0), (0, 1, 1), (0, 1, 1), (1, 3, 1), (1, 1, 1))
    merged = fair_tree_factors(equal_accounts, np.array([0, 0, 1.0, 3.0, 2.0, 2.0]))
    assert merged[2:].tolist() == [1, 0.5, 0.75, 0.25]


@given(st.lists(st.tuples(st.integers(-1, 5), st.integers(0, 5), st.floats(0, 100)), min_size=1, max_size=8))
def test_factors_are_between_0_and_1_and_more_usage_never_helps(rows):
    parents = [min(parent, row - 1) for row, (parent, _, _) in enumerate(rows)]
    is_user = [row not in parents for row in range(len(rows))]
    tree = tree_of(*((parent, rows[row][1], is_user[row]) for row, parent in enumerate(parents)))
    usage = np.array([used if own else 0.0 for (_, _, used), own in zip(rows, is_user, strict=True)])
    user = is_user.index(True)
    more = usage + np.where(np.arange(len(rows)) == user, 50.0, 0.0)
    for factors in (classic_factors, fair_tree_factors):
        before, after = factors(tree, usage), factors(tree, more)
        assert ((before >= 0) & (before <= 1)).all()
        assert after[user] <= before[user] + 1e-9


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000), st.sampled_from([0, 50, 100_000]))
def test_decay_is_the_same_in_one_step_and_in_two(begin_s, first_s, second_s, half_life_s):
    middle_s, end_s = begin_s + first_s, begin_s + first_s + second_s

    def worth(from_s, until_s, now_s):
        return float(decayed_s(np.array([from_s]), np.array([until_s]), now_s, half_life_s)[0])

    kept = 2 ** ((middle_s - end_s) / half_life_s) if half_life_s else 1
    halves = worth(begin_s, middle_s, middle_s) * kept + worth(middle_s, end_s, end_s)
    assert halves == pytest.approx(worth(begin_s, end_s, end_s), abs=1e-6)


def schedule(weights, rows, *, nodes=1, tree=TWO_USERS):
    """Return the starts of jobs (submit, run, nodes, user[, partition factor, qos factor, nice]) on equal nodes."""
    columns = [np.array(column) for column in zip(*(row + (0,) * (7 - len(row)) for row in rows), strict=True)]
    submit, run, size, user, partition, qos, nice = columns
    widths = sorted(set(size.tolist()))
    request = np.array([widths.index(width) for width in size.tolist()])
    jobs = MixedJobs(np.arange(len(rows)), submit, run, run, request, np.ones(len(rows)))
    cluster = Cluster((Pool(NodeType(1), frozenset(), nodes),))
    case = mixed_case(cluster, [Request((), (Chunk(width),)) for width in widths], jobs)
    priorities = Priorities(weights, tree, user, partition, qos, nice)
    return replay_mixed(case, PLAIN_POLICY, rules_of(PLAIN_POLICY), steps=priorities.steps).start_s.tolist()


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


@given(cases())
def test_with_no_weights_the_order_is_that_of_tiers_and_submissions(random):
    case = random.case
    columns = [np.zeros(int(case.kept.max(initial=0)) + 1, dtype=np.int64) for _ in range(4)]
    priorities = Priorities(PriorityWeights(calc_period_s=7), TWO_USERS, *columns)
    ranked = replay_mixed(case, PLAIN_POLICY, rules_of(PLAIN_POLICY), steps=priorities.steps)
    workload = case.workload
    tier = np.array([max(random.cluster.partitions[name].priority_tier for name in request.partitions)
                     for request in case.request_of])[workload.request_class]  # fmt: skip
    rank = np.empty(len(tier), dtype=np.int64)
    rank[np.argsort(-tier, kind="stable")] = np.arange(len(tier))
    plain = case.__class__(**{**vars(case), "workload": workload._replace(rank=rank)})
    expected = replay_mixed(plain, PLAIN_POLICY, rules_of(PLAIN_POLICY))
    assert ranked.start_s.tolist() == expected.start_s.tolist()


def test_bad_trees_and_associations_are_refused():
    with pytest.raises(BadInput, match="association 0 has parent 1"):
        tree_of((1, 1, 0), (ROOT, 1, 1))
    account = tree_of((ROOT, 1, 0), (0, 1, 1))
    with pytest.raises(BadInput, match="no user of the tree"):
        Priorities(PriorityWeights(), account, np.array([0]), np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int64))
