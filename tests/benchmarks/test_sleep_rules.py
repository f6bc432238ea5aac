"""The bound against brute force, the arrays of a model against scikit-learn, and a cell of the documented tables."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.sleep_rules.bound import IdleLevels, Prices, cheapest_plan, delay_never_pays
from benchmarks.sleep_rules.learned import observations
from benchmarks.sleep_rules.replays import NODES, part_of, run, weeks_of
from studies.logs import LogSource, read_log

DATA = Path("../shared/data")
TABLES = Path("docs/figures/sleeping")
(DEPTH,) = NODES.depths


def tiny_class(enter_s, leave_s, powers_w):
    """A class whose transitions take seconds, so that all plans can be tried."""
    idle_w, off_w, enter_w, leave_w = powers_w
    enter = replace(DEPTH.enter, duration_s=enter_s, power_w=enter_w)
    leave = replace(DEPTH.leave, duration_s=leave_s, power_w=leave_w)
    return replace(NODES, running=((0.0, idle_w), (1.0, idle_w)), idle_w=idle_w,
                   depths=(replace(DEPTH, power_w=off_w, enter=enter, leave=leave),))  # fmt: skip


def cheapest_by_brute_force(length_s, node_class, prices):
    """Try each second for falling asleep and waking, any number of times; the job starts once the node is up."""
    (depth,) = node_class.depths
    enter_s, leave_s = depth.enter.duration_s, depth.leave.duration_s
    best = {length_s: 0.0}

    def cost_from(now_s):
        """The least cost from an awake node at `now_s` until the job starts."""
        if now_s >= length_s:
            return prices.delay_j_per_s * (now_s - length_s)
        if now_s not in best:
            costs = [node_class.idle_w + cost_from(now_s + 1)]
            for asleep_s in range(length_s + 1):
                used_j = enter_s * depth.enter.power_w + asleep_s * depth.power_w + leave_s * depth.leave.power_w
                costs.append(prices.cycle_j + used_j + cost_from(now_s + enter_s + asleep_s + leave_s))
            best[now_s] = min(costs)
        return best[now_s]

    return cost_from(0)


@settings(max_examples=200, deadline=None)
@given(
    length_s=st.integers(1, 12),
    ways=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    powers=st.tuples(st.integers(5, 9), st.integers(0, 4), st.integers(5, 12), st.integers(5, 12)),
    cycle_j=st.integers(0, 40),
    delay_j=st.integers(0, 12),
)
def test_a_gaps_cheapest_plan_is_that_of_brute_force(length_s, ways, powers, cycle_j, delay_j):
    node_class, prices = tiny_class(*ways, powers), Prices(cycle_j, delay_j)
    planned = cheapest_plan(length_s, node_class, prices).cost_j(prices)
    assert planned == pytest.approx(cheapest_by_brute_force(length_s, node_class, prices))


def test_no_late_boot_pays_on_nodes_of_the_study():
    assert delay_never_pays(NODES)
    assert not delay_never_pays(tiny_class(1, 4, (9, 0, 0, 0)))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4000), st.integers(1, 2)), min_size=1, max_size=7), st.floats(0.01, 0.99))
def test_the_front_has_the_fewest_cycles_of_all_choices_of_gaps(gaps, share):
    length_s, nodes = np.array(gaps).T
    levels = IdleLevels(length_s, nodes, 140.0, 42_600.0)
    each_j = (140.0 * length_s - 42_600.0) * nodes
    most_j = each_j[each_j > 0].sum()
    if most_j <= 0:
        assert np.isnan(levels.fewest_cycles(1.0))
        return
    chosen = [
        nodes[list(taken)].sum()
        for count in range(len(gaps) + 1)
        for taken in itertools.combinations(range(len(gaps)), count)
        if each_j[list(taken)].sum() >= share * most_j
    ]
    # Part of a kind of gaps may be slept through in the bound: it is no higher than the best choice of whole ones.
    assert levels.fewest_cycles(share * most_j) <= min(chosen) + 1e-9
    saved_j, cycles = levels.front()
    assert all(
        cycles[kinds] == min(
            nodes[list(taken)].sum()
            for count in range(len(gaps) + 1)
            for taken in itertools.combinations(range(len(gaps)), count)
            if each_j[list(taken)].sum() >= saved_j[kinds] - 1e-6
        )
        for kinds in range(len(saved_j))
    )  # fmt: skip


def test_a_time_out_that_sees_nothing_is_a_time_out_and_one_that_sees_all_is_the_bound():
    levels = IdleLevels(np.array([400, 1000, 5000, 20_000]), np.array([4, 3, 2, 1]), 140.0, 42_600.0)
    assert levels.timeout(600.0) == ((140 * 400 - 42_600) * 3 + (140 * 4400 - 42_600) * 2 + 140 * 19_400 - 42_600, 6)
    wanted_j = (140 * 5000 - 42_600) * 2 + 140 * 20_000 - 42_600
    assert levels.fewest_cycles(wanted_j) == levels.cycles_seeing(wanted_j, 4999.0) == 3
    assert levels.cycles_seeing(wanted_j, 0.0) == 10
    assert np.isnan(levels.cycles_seeing(wanted_j, 5000.0))
    assert levels.shortest_gap_s(wanted_j) == 5000


@pytest.fixture(scope="module")
def generated():
    return read_log(LogSource("generated", None))


@pytest.fixture(scope="module")
def taught(generated):
    part = part_of(generated, 0.0, 0.5, 0)
    return part, observations(part, 1)


def test_weeks_add_up_to_the_figures_of_the_study(generated):
    part = part_of(generated, 0.5, 1.0)
    weeks = weeks_of(part, run(part, "timeout:10min"))
    assert len(weeks.idle_j) == part.weeks
    counted = (part.jobs.submit_s >= part.begin_s) & (part.jobs.submit_s < part.until_s)
    assert weeks.jobs.sum() == counted.sum()
    assert 0 < weeks.saved_pct < 100
    assert weeks.cycles.sum() > 0
