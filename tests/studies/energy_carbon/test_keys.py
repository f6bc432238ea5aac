"""Names of results."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from offpeak.compiled import ROOT, sources_of
from studies.energy_carbon.experiment import Measurement, Simulation, SingleSiteExperiment
from studies.energy_carbon.single_site import RUN, key_of

CASES = st.builds(
    Measurement, st.text(max_size=2), st.text(max_size=2), st.integers(0, 99), st.just("easy"), keeps=st.booleans()
) | st.builds(Simulation, st.integers(1, 99), st.text(max_size=2), st.floats(0.1, 1))


@given(CASES, CASES)
def test_one_key_for_one_case(one: Measurement | Simulation, other: Measurement | Simulation) -> None:
    assert (key_of(SingleSiteExperiment(one, 1, 0)) == key_of(SingleSiteExperiment(other, 1, 0))) == (one == other)


def test_the_replay_and_the_seed_count() -> None:
    experiment = SingleSiteExperiment(Simulation(30, "fcfs", 0.2), 1, 0)
    keys = {key_of(each) for each in (experiment, replace(experiment, replay=1), replace(experiment, seed=2))}
    assert len(keys) == 3


def test_sources_hold_the_engine_and_not_the_tables() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in sources_of(RUN)}
    assert {"sim_backend/engine/power.py", "plugin/capacity/sleepers.py", "studies/energy_carbon/paper.py"} <= names
    assert not {"studies/energy_carbon/tables.py", "studies/report.py"} & names
