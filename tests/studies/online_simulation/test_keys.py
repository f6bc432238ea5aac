"""Names of results."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from offpeak.compiled import ROOT, sources_of
from studies.online_simulation.experiment import INSTANT, SERVER, OnlineExperiment, OnlineSetup
from studies.online_simulation.study import RUN, key_of

SETUPS = st.builds(
    OnlineSetup,
    st.integers(1, 99),
    estimates=st.text(max_size=3),
    nodes=st.sampled_from([INSTANT, SERVER]),
    first_day=st.integers(0, 9),
)


@given(SETUPS, SETUPS)
def test_one_key_for_one_experiment(one: OnlineSetup, other: OnlineSetup) -> None:
    keys = [key_of(OnlineExperiment("log", 1, 0, setup), "digest") for setup in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)


def test_the_log_and_the_replay_count() -> None:
    experiment = OnlineExperiment("log", 1, 0, OnlineSetup(100))
    key = key_of(experiment, "digest")
    assert key_of(experiment, "other") != key
    assert key_of(replace(experiment, replay=1), "digest") != key


def test_sources_hold_the_what_if_and_not_the_tables() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in sources_of(RUN)}
    assert {"power/whatif/simulation.py", "sim_backend/engine/power.py", "studies/online_simulation/run.py"} <= names
    assert not {"studies/online_simulation/tables.py", "studies/report.py"} & names
