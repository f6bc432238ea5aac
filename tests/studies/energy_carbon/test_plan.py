"""What is run: each experiment once."""

from studies.energy_carbon.paper import DUNE, JUGGLE
from studies.energy_carbon.run import AS_MEASURED, Measurement, Simulation
from studies.energy_carbon.tables import CHANGES, NO_CHANGE, as_measured, cells, first_way, loads_of, planned
from studies.harness import Replays


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


def test_a_change_changes_something() -> None:
    case = Measurement("dune", "off", 50, "easy")
    assert all((change.of(case) == case) == (change is NO_CHANGE) for change in CHANGES["dune"])
    assert as_measured(case).reading == AS_MEASURED
