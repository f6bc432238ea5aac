"""The bound against brute force, the arrays of a model against scikit-learn, and cells of the documented tables."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor
from study_tables import stored

from benchmarks.sleep_rules.bound import IdleLevels, Prices, cheapest_plan, delay_never_pays
from benchmarks.sleep_rules.experiments import ANNOUNCED, FAMILIES, LATE, TIMEOUT, Laboratory, RuleExperiment
from benchmarks.sleep_rules.learned import fit, learned_rule, observations, trees_of
from benchmarks.sleep_rules.needs import (
    HORIZONS_S,
    NodePrices,
    decide,
    observed_needs,
    sum_of_trees,
    tops_of_blocks,
)
from benchmarks.sleep_rules.replays import NODES, part_of, run, weeks_of
from benchmarks.sleep_rules.scenarios import announced, scenario_rule
from benchmarks.sleep_rules.tables import PERFECT, ahead_row, equal_rows
from sim_backend.nodes.node_log import PoweredUsage, sleep_figures
from studies.logs import LogSource, read_log, usage_of

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared/data"
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
def second_half(generated):
    return part_of(generated, 0.5, 1.0)


def test_weeks_add_up_to_the_figures_of_the_study(generated):
    whole = part_of(generated, 0.0, 1.0)
    schedule = run(whole, "timeout:10min")
    until_s = int(schedule.end_s.max())
    weeks = weeks_of(replace(whole, until_s=until_s), schedule)
    power_w = np.full(len(whole.jobs), 1.0)
    usage = replace(usage_of(whole.jobs, power_w, schedule, whole.machine), begin_s=whole.begin_s)
    powered = PoweredUsage(usage, schedule.node_log, NODES)
    study = sleep_figures(powered, whole.jobs.submit_s, schedule.sleep_delay_s, slowdown_bound=5.0)
    assert weeks.saved_pct == pytest.approx(study.idle_saved_pct)
    assert weeks.mean_delay_s == pytest.approx(study.mean_boot_delay_s)
    assert weeks.cycles.sum() == study.power_cycles


def test_only_jobs_of_the_weeks_that_count_are_counted(second_half):
    weeks = weeks_of(second_half, run(second_half, "timeout:10min"))
    counted = (second_half.jobs.submit_s >= second_half.begin_s).sum()
    assert weeks.jobs.sum() == counted < len(second_half.jobs)
    assert len(weeks.idle_j) == second_half.weeks


def test_trees_as_arrays_predict_what_scikit_learn_does():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(500, 4)).astype(np.float32)
    wanted = np.exp(features[:, 0]) * rng.poisson(1.0, 500)
    model = HistGradientBoostingRegressor(loss="poisson", max_iter=20, random_state=1).fit(features, wanted)
    trees = trees_of(model)
    predicted = [np.exp(sum_of_trees(trees, row)) for row in features]
    assert predicted == pytest.approx(model.predict(features))


def test_blocks_end_at_all_nodes():
    assert tops_of_blocks(20).tolist() == [1, 2, 3, 4, 6, 8, 12, 16, 20]
    assert tops_of_blocks(2).tolist() == [1, 2]


def test_observed_needs_count_new_highs_only():
    # Two units per node, one node in use; within the hour jobs need nodes 2, then 2 again, then 3 and 4 at once.
    at_s = np.array([100, 200, 300, 1000])
    change = np.array([2, -2, 2, 4])
    used, tops = observed_needs(at_s, change, np.array([0]), np.array([1]), np.array([2]), tops_of_blocks(7), 2)
    assert HORIZONS_S.tolist() == [900, 3600, 14400]
    assert used[0, :, 0].tolist() == [1, 0, 0, 0, 0, 0]
    assert used[0, :, 1].tolist() == [1, 1, 1, 0, 0, 0]
    assert tops[0, :, 0].tolist() == [1, 0, 0, 0, 0, 0]
    assert tops[0, :, 2].tolist() == [1, 0, 1, 0, 0, 0]


def test_a_decision_keeps_what_is_likely_needed_and_wakes_only_for_more():
    block_tops = tops_of_blocks(4)
    used = np.array([[0.9, 1.0, 1.0], [0.0, 0.05, 0.1], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    none = np.zeros_like(used)
    assert decide(block_tops, used, none, 4, 4, 4, NodePrices(2000.0, 0.0, 1.0)) == (1, 0)
    assert decide(block_tops, used, none, 4, 4, 0, NodePrices(2000.0, 0.0, 1.0)) == (1, 0)
    jobs = none + np.array([[0.0], [0.0], [0.0], [0.5]])
    assert decide(block_tops, used, jobs, 4, 4, 0, NodePrices(2000.0, 60_000.0, 1.0)) == (4, 4)
    assert decide(block_tops, used, jobs, 4, 4, 4, NodePrices(2000.0, 60_000.0, 1.0)) == (4, 0)


@pytest.mark.thorough
def test_rules_that_learn_run_in_the_engine(generated, second_half):
    model = fit([observations(part_of(generated, 0.0, 0.5, 0), 1)], 1)
    prices = NodePrices(3000.0, 12_000.0, 2.0)
    for rule in (learned_rule(second_half, model, prices), scenario_rule(second_half, prices)):
        schedule = run(second_half, rule)
        assert (schedule.start_s >= second_half.jobs.submit_s).all()
        assert 0 < weeks_of(second_half, schedule).saved_pct < 100


@pytest.mark.thorough
def test_announced_jobs_wait_for_no_boot(second_half):
    some = weeks_of(second_half, run(second_half, announced(second_half, 0.5, 600, 1))).mean_delay_s
    every = weeks_of(second_half, run(second_half, announced(second_half, 1.0, 600, 1))).mean_delay_s
    assert every < some < weeks_of(second_half, run(second_half, "timeout:10min")).mean_delay_s


@pytest.mark.skipif(not DATA.exists(), reason="the logs are not here")
def test_documented_cells_are_what_the_replays_give():
    log, laboratory = "UniLu-Gaia-2014-2", Laboratory(DATA, 1)
    part, families = laboratory.test_part(log), (TIMEOUT, LATE, ANNOUNCED[50])
    found = {rule: laboratory.weeks(RuleExperiment(log, rule, 1)) for family in families for rule in FAMILIES[family]}
    assert ahead_row(log, found, part) in rows_of("sleeping/seen_ahead")
    rows = equal_rows(log, found, part, 1)
    assert [row[2] for row in rows] == [*families, PERFECT]
    assert set(rows) <= set(rows_of("sleeping/better_rules"))


def rows_of(table):
    return [tuple(row) for row in stored(table)]
