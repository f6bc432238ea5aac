"""Slurm's fair share: the example of its documentation, ties, decay, and the plain formulas on random trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from share_trees import plain_classic, plain_fair_tree, share_tree

from offpeak.errors import BadInput
from offpeak.sim_backend.engine.priorities import ROOT, classic_factors, decayed_s, fair_tree_factors

# Accounts A, D, B, C, E, F and users 1 to 5 of Slurm's page on the classic algorithm.
DOCUMENTED = share_tree(
    (ROOT, 40, 0), (ROOT, 60, 0), (0, 30, 0), (0, 10, 0), (1, 25, 0), (1, 35, 0),
    (2, 1, 1), (3, 1, 1), (3, 1, 1), (4, 1, 1), (5, 1, 1),
)  # fmt: skip
USAGE = np.array([0, 0, 0, 0, 0, 0, 0.2, 0.25, 0, 0.25, 0])


def test_the_classic_factors_are_those_of_the_documented_example():
    # The example's usage is that of the whole machine: 0.3 of it is idle.
    tree = share_tree(*zip(DOCUMENTED.parent, DOCUMENTED.shares, DOCUMENTED.is_user, strict=True), (ROOT, 0, 1))
    factors = classic_factors(tree.arrays, np.append(USAGE, 0.3), 1.0)
    assert factors[6:11] == pytest.approx([0.408479, 0.022097, 0.125, 0.5, 0.749154], abs=2e-4)


def test_the_fair_tree_ranks_users_of_better_accounts_first():
    # D has LF 0.6 / (0.25 / 0.7), A 0.4 / (0.45 / 0.7); below D user 5 has used nothing, below C user 3.
    assert (fair_tree_factors(DOCUMENTED.arrays, USAGE)[6:] * 5).round().tolist() == [3, 1, 2, 4, 5]


def test_ties_of_the_fair_tree_share_ranks_and_children():
    equal_users = share_tree((ROOT, 1, 1), (ROOT, 1, 1), (ROOT, 1, 1))
    assert fair_tree_factors(equal_users.arrays, np.array([1.0, 1.0, 4.0])).tolist() == [1, 1, 1 / 3]
    user_and_account = share_tree((ROOT, 1, 1), (ROOT, 1, 0), (1, 1, 1), (1, 1, 1))
    assert fair_tree_factors(user_and_account.arrays, np.array([4.0, 0, 1, 3])).tolist() == [1, 0, 1, 1 / 3]
    equal_accounts = share_tree((ROOT, 1, 0), (ROOT, 1, 0), (0, 1, 1), (0, 1, 1), (1, 3, 1), (1, 1, 1))
    merged = fair_tree_factors(equal_accounts.arrays, np.array([0, 0, 1.0, 3.0, 2.0, 2.0]))
    assert merged[2:].tolist() == [1, 0.5, 0.75, 0.25]


@st.composite
def trees(draw):
    """Draw a tree of accounts and users, and the usage of the users: often equal, or none."""
    rows = draw(st.lists(st.tuples(st.integers(ROOT, 8), st.integers(0, 3)), min_size=1, max_size=14))
    parents = [min(parent, row - 1) for row, (parent, _) in enumerate(rows)]
    is_user = [row not in parents for row in range(len(rows))]
    tree = share_tree(*((parent, rows[row][1], is_user[row]) for row, parent in enumerate(parents)))
    usage = draw(
        st.lists(st.sampled_from([0.0, 0.0, 1.0, 1.0, 2.5, 3.0, 1e-300]), min_size=len(rows), max_size=len(rows))
    )
    return tree, np.array(usage) * tree.is_user


@given(trees(), st.sampled_from([1.0, 2.0]))
def test_factors_are_those_of_the_plain_formulas(drawn, dampening):
    tree, usage = drawn
    assert fair_tree_factors(tree.arrays, usage).tolist() == plain_fair_tree(tree, usage)
    assert classic_factors(tree.arrays, usage, dampening) == pytest.approx(plain_classic(tree, usage, dampening))


def test_factors_of_many_users_are_those_of_the_plain_formulas():
    random = np.random.default_rng(1)
    parent = np.concatenate((np.full(6, ROOT), random.integers(0, 6, 20), random.integers(0, 26, 200)))
    is_user = np.arange(226) >= 26
    tree = share_tree(*zip(parent, random.integers(0, 4, 226), is_user, strict=True))
    for used in (random.integers(0, 4, 226).astype(float), random.lognormal(3, 4, 226), np.zeros(226)):
        usage = used * is_user
        assert fair_tree_factors(tree.arrays, usage).tolist() == plain_fair_tree(tree, usage)
        assert classic_factors(tree.arrays, usage, 1.0) == pytest.approx(plain_classic(tree, usage, 1.0))


@given(trees())
def test_factors_are_between_0_and_1_and_more_usage_never_helps(drawn):
    tree, usage = drawn
    user = tree.is_user.tolist().index(True)
    more = usage + np.where(np.arange(len(usage)) == user, 50.0, 0.0)
    for before, after in (
        (classic_factors(tree.arrays, usage, 1.0), classic_factors(tree.arrays, more, 1.0)),
        (fair_tree_factors(tree.arrays, usage), fair_tree_factors(tree.arrays, more)),
    ):
        assert ((before >= 0) & (before <= 1)).all()
        assert after[user] <= before[user] + 1e-9


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000), st.sampled_from([0, 50, 100_000]))
def test_decay_is_the_same_in_one_step_and_in_two(begin_s, first_s, second_s, half_life_s):
    middle_s, end_s = begin_s + first_s, begin_s + first_s + second_s

    def worth(from_s, until_s, now_s):
        return decayed_s(from_s, until_s, now_s, half_life_s)

    kept = 2 ** ((middle_s - end_s) / half_life_s) if half_life_s else 1
    halves = worth(begin_s, middle_s, middle_s) * kept + worth(middle_s, end_s, end_s)
    assert halves == pytest.approx(worth(begin_s, end_s, end_s), abs=1e-6)


def test_bad_trees_are_refused():
    with pytest.raises(BadInput, match="association 0 has parent 1"):
        share_tree((1, 1, 0), (ROOT, 1, 1))
    with pytest.raises(BadInput, match="association 1 has parent 0, which is a user"):
        share_tree((ROOT, 1, 1), (0, 1, 1))
