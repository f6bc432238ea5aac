"""The cases, the published figures and what they imply."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak_studies.energy_carbon.paper import DUNE, JUGGLE, TESTBEDS, MeasuredPair, MeasuredRun
from offpeak_studies.energy_carbon.run import AS_MEASURED, Measurement, Simulation, depth_of, node_class_of
from offpeak_studies.energy_carbon.single_site import (
    CHANGES,
    NO_CHANGE,
    as_measured,
    busy_share,
    ceiling_pct,
    cells,
    empty_saved_pct,
    equally_long_saved_pct,
    first_way,
    loads_of,
    planned,
)
from offpeak_studies.harness import Replays


def test_every_experiment_is_planned_once() -> None:
    plan = planned(Replays(2, 5))
    assert len(plan) == len(set(plan))
    assert {experiment.replay for experiment in plan} == {0, 1}
    assert {experiment.seed for experiment in plan} == {5}
    assert sum(isinstance(experiment.case, Simulation) for experiment in plan) == 2 * 3 * 3 * 10


def test_the_cells_are_those_of_the_tables() -> None:
    assert (loads_of(DUNE), loads_of(JUGGLE)) == ((50, 80, 90), (40, 60, 80))
    assert (len(cells(DUNE)), len(cells(JUGGLE))) == (3, 9)
    assert {case.way for case in first_way(JUGGLE)} == {"standby"}
    case = Measurement("dune", "off", 50, "easy")
    assert all((change.of(case) == case) == (change is NO_CHANGE) for change in CHANGES["dune"])
    assert as_measured(case).reading == AS_MEASURED


ROWS = [row for testbed in TESTBEDS.values() for rows in testbed.rows.values() for row in rows.values()]
OFF_AT_50 = TESTBEDS["dune"].rows["off"][50]


def product_kj(run: MeasuredRun) -> float:
    return run.power_w * run.elapsed_s / 1000


def test_energies_are_products_but_one_and_savings_their_ratios() -> None:
    for row in ROWS:
        assert row.default.energy_kj == pytest.approx(product_kj(row.default), rel=2e-3)
        assert row.saved_pct == pytest.approx(100 * (1 - row.aware.energy_kj / row.default.energy_kj), abs=0.1)
        if row != OFF_AT_50:
            assert row.aware.energy_kj == pytest.approx(product_kj(row.aware), rel=3e-3)
            assert row.saved_by_product_pct == pytest.approx(row.saved_pct, abs=0.1)
    assert OFF_AT_50.aware.energy_kj == pytest.approx(product_kj(OFF_AT_50.aware), rel=0.03)
    assert OFF_AT_50.saved_by_product_pct == pytest.approx(46.5, abs=0.05)


WAYS = [(name, way) for name, testbed in TESTBEDS.items() for way in testbed.rows]
ROW = DUNE.rows["off"][50]
DUNE_NODE = node_class_of("dune", "off")


def made_row(share: float, elapsed_s: float, way: tuple[str, str]) -> MeasuredPair:
    """A row whose nodes are busy that share of the energy-aware run's time, 100 W above idle, and asleep else."""
    node_class, nodes = node_class_of(*way), TESTBEDS[way[0]].nodes
    asleep_w = depth_of(node_class, way[1]).power_w
    busy_j = 100 * share * nodes * elapsed_s
    default_j = nodes * node_class.idle_w * elapsed_s + busy_j
    aware_j = busy_j + nodes * elapsed_s * (share * node_class.idle_w + (1 - share) * asleep_w)
    default, aware = (
        MeasuredRun(energy_j / 1000, elapsed_s, energy_j / elapsed_s) for energy_j in (default_j, aware_j)
    )
    return MeasuredPair(default, aware, 100 * (1 - aware_j / default_j))


@given(st.floats(0.01, 0.99), st.floats(100, 10_000), st.sampled_from(WAYS))
def test_a_share_is_found_again_and_saves_as_much_as_the_ceiling(
    share: float, elapsed_s: float, way: tuple[str, str]
) -> None:
    row, node_class, nodes = made_row(share, elapsed_s, way), node_class_of(*way), TESTBEDS[way[0]].nodes
    assert busy_share(row, node_class, way[1], nodes) == pytest.approx(share, abs=1e-6)
    assert ceiling_pct(row, node_class, way[1], nodes, share) == pytest.approx(row.saved_pct, abs=1e-6)
    assert equally_long_saved_pct(row, node_class, nodes) == pytest.approx(row.saved_pct, abs=1e-6)


def test_an_empty_cluster_saves_what_the_paper_measured() -> None:
    for way in WAYS:
        testbed = TESTBEDS[way[0]]
        row = testbed.rows[way[1]][0]
        assert empty_saved_pct(row, node_class_of(*way), way[1], testbed.nodes) == pytest.approx(row.saved_pct, abs=0.5)


def test_two_cells_save_more_than_their_utilization_allows() -> None:
    assert ceiling_pct(ROW, DUNE_NODE, "off", DUNE.nodes, 0.5) == pytest.approx(43.2, abs=0.05)
    juggle = TESTBEDS["juggle"]
    at_40 = juggle.rows["standby"][40]
    assert ceiling_pct(at_40, node_class_of("juggle", "standby"), "standby", juggle.nodes, 0.4) < at_40.saved_pct


def test_a_default_run_as_short_as_the_other_leaves_less_to_save() -> None:
    assert equally_long_saved_pct(ROW, DUNE_NODE, DUNE.nodes) == pytest.approx(39.0, abs=0.05)
    same = replace(ROW, aware=replace(ROW.aware, elapsed_s=ROW.default.elapsed_s))
    assert equally_long_saved_pct(same, DUNE_NODE, DUNE.nodes) == pytest.approx(ROW.saved_pct, abs=0.05)
