"""Both knapsacks against all subsets."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.plugin.window_order import fill_nodes, fill_value, free_until, put_first, scratch
from offpeak.plugin.window_policy import MOST_JOBS

pytestmark = pytest.mark.quick

job = st.tuples(st.integers(1, 12), st.one_of(st.integers(1, 3), st.integers(1, 400)))
windows = st.lists(job, max_size=9)


def members(chosen) -> set[int]:
    return {position for position in range(MOST_JOBS) if int(chosen) >> position & 1}


def filled(window, capacity, *, first=0, highest_power) -> set[int]:
    return members(fill_nodes(scratch(max(capacity, 1)), first, *columns(window), capacity, highest_power))


def valued(window, capacity, *, first=0) -> set[int]:
    return members(fill_value(scratch(max(capacity, 1)), first, *columns(window), capacity))


def columns(window):
    return np.array([size for size, _ in window], dtype=np.int64), np.array([power for _, power in window], dtype=float)


def fitting_subsets(window, capacity, first=0):
    ranks = range(first, len(window))
    subsets = [set(subset) for count in range(len(ranks) + 1) for subset in combinations(ranks, count)]
    return [subset for subset in subsets if nodes(window, subset) <= capacity]


def nodes(window, subset):
    return sum(window[position][0] for position in subset)


def total_w(window, subset):
    return sum(window[position][0] * window[position][1] for position in subset)


def value_w(window, subset):
    return sum(window[position][1] for position in subset)


@given(windows, st.integers(0, 60), st.integers(0, 3), st.booleans())
def test_the_most_nodes_then_the_most_or_least_power(window, capacity, first, highest_power):
    chosen = filled(window, capacity, first=first, highest_power=highest_power)
    subsets = fitting_subsets(window, capacity, first)
    assert chosen in subsets
    most_nodes = max(nodes(window, subset) for subset in subsets)
    assert nodes(window, chosen) == most_nodes
    best = max if highest_power else min
    assert total_w(window, chosen) == best(total_w(window, s) for s in subsets if nodes(window, s) == most_nodes)


@given(windows, st.integers(0, 60), st.integers(0, 3))
def test_the_slides_knapsack_takes_the_largest_sum_of_draws_per_node(window, capacity, first):
    chosen = valued(window, capacity, first=first)
    subsets = fitting_subsets(window, capacity, first)
    assert chosen in subsets
    assert value_w(window, chosen) == max(value_w(window, subset) for subset in subsets)


@given(windows, st.booleans())
def test_all_are_taken_where_all_fit(window, highest_power):
    capacity = nodes(window, range(len(window)))
    assert filled(window, capacity, highest_power=highest_power) == set(range(len(window)))
    assert valued(window, capacity) == set(range(len(window)))


@given(windows)
def test_no_free_node_takes_nobody(window):
    assert filled(window, 0, highest_power=True) == valued(window, 0) == set()


def test_a_wider_job_with_less_power_per_node_wins_on_nodes_but_not_on_the_slides_value():
    window = [(6, 30), (3, 20), (3, 40), (3, 30), (6, 10)]
    assert filled(window, 10, highest_power=True) == {0, 2}
    assert filled(window, 10, highest_power=False) == {1, 4}
    assert valued(window, 10) == {1, 2, 3}


def test_at_a_tie_the_later_job_stays():
    assert filled([(2, 5)] * 4, 4, highest_power=True) == {0, 1}
    assert filled([(2, 5)] * 4, 4, highest_power=False) == {0, 1}
    assert valued([(2, 5)] * 4, 4) == {0, 1}


def test_the_largest_window():
    window = [(1 + position % 7, 100 + position) for position in range(MOST_JOBS)]
    assert nodes(window, filled(window, 100, highest_power=True)) == 100
    assert filled([(1, 1)] * MOST_JOBS, MOST_JOBS, highest_power=True) == set(range(MOST_JOBS))


@given(st.sets(st.integers(0, 19)), st.integers(0, 20), st.integers(0, 20))
def test_the_chosen_come_first_and_all_keep_their_order(chosen, first, length):
    first = min(first, length)
    order = np.arange(length)
    behind = put_first(order, first, np.uint64(sum(1 << position for position in chosen)), length)
    front = [position for position in range(first, length) if position in chosen]
    rest = [position for position in range(first, length) if position not in chosen]
    assert order.tolist() == [*range(first), *front, *rest]
    assert behind == first + len(front)


@pytest.mark.parametrize("highest_power", [True, False])
def test_the_same_scratch_serves_again(highest_power):
    fillings = scratch(20)
    window = [(3, 2), (5, 9), (7, 1), (8, 4)]
    first = members(fill_nodes(fillings, 0, *columns(window), 20, highest_power))
    fill_value(fillings, 0, *columns(window[::-1]), 11)
    assert members(fill_nodes(fillings, 0, *columns(window), 20, highest_power)) == first


def test_units_that_are_free_until_the_next_decision():
    end_s, units = np.array([5, 10, 20, 20, 30]), np.array([1, 2, 4, 8, 16])
    assert free_until(3, 1, 4, end_s, units) == 3
    assert free_until(3, 1, 10, end_s, units) == 6
    assert free_until(0, 5, 4, end_s, units) == 15, "all that end at the same time"
    assert free_until(0, 99, 4, end_s, units) == 31
    assert free_until(7, 99, 4, end_s[:0], units[:0]) == 7
