"""The keys of results: one key for one experiment, and what the digest of the code covers."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from offpeak.compiled import ROOT, sources_of
from offpeak_studies.dynamic_pricing import study as dynamic_pricing
from offpeak_studies.dynamic_pricing.run import PricingExperiment, PricingSetup
from offpeak_studies.energy_carbon import single_site
from offpeak_studies.energy_carbon.run import Measurement, Simulation, SingleSiteExperiment
from offpeak_studies.harness import module_path, result_key
from offpeak_studies.online_simulation import study as online_simulation
from offpeak_studies.online_simulation.run import INSTANT, SERVER, OnlineExperiment, OnlineSetup

PRICING = st.builds(
    PricingSetup, window=st.integers(1, 64), load=st.none() | st.floats(0.1, 1), on_peak=st.text(max_size=3)
).map(lambda setup: PricingExperiment("log", 1, 0, setup))
ONLINE = st.builds(
    OnlineSetup,
    st.integers(1, 99),
    estimates=st.text(max_size=3),
    nodes=st.sampled_from([INSTANT, SERVER]),
    first_day=st.integers(0, 9),
).map(lambda setup: OnlineExperiment("log", 1, 0, setup))
CASES = st.builds(
    Measurement, st.text(max_size=2), st.text(max_size=2), st.integers(0, 99), st.just("easy"), keeps=st.booleans()
) | st.builds(Simulation, st.integers(1, 99), st.text(max_size=2), st.floats(0.1, 1))
EXPERIMENTS = PRICING | ONLINE | CASES.map(lambda case: SingleSiteExperiment(case, 1, 0))
RUN = dynamic_pricing.RUN


@given(EXPERIMENTS, EXPERIMENTS)
def test_one_key_for_one_experiment(one: object, other: object) -> None:
    assert (result_key(RUN, one, "digest") == result_key(RUN, other, "digest")) == (one == other)


def test_the_log_the_replay_the_seed_and_the_code_count() -> None:
    for experiment in [
        PricingExperiment("log", 1, 0, PricingSetup()),
        OnlineExperiment("log", 1, 0, OnlineSetup(100)),
        SingleSiteExperiment(Simulation(30, "fcfs", 0.2), 1, 0),
    ]:
        keys = {
            result_key(RUN, experiment, "digest"),
            result_key(RUN, experiment, "other"),
            result_key(RUN, replace(experiment, replay=1), "digest"),
            result_key(RUN, replace(experiment, seed=2), "digest"),
            result_key(online_simulation.RUN, experiment, "digest"),
        }
        assert len(keys) == 5


def test_sources_hold_the_kernels_and_not_the_tables() -> None:
    for run, sources in [
        (
            dynamic_pricing.RUN,
            {
                "offpeak/sim_backend/engine/advance.py",
                "offpeak/plugin/window_order.py",
                "studies/offpeak_studies/dynamic_pricing/run.py",
            },
        ),
        (
            online_simulation.RUN,
            {
                "offpeak/power/whatif.py",
                "offpeak/sim_backend/engine/power.py",
                "studies/offpeak_studies/online_simulation/run.py",
            },
        ),
        (
            single_site.RUN,
            {
                "offpeak/sim_backend/engine/power.py",
                "offpeak/plugin/capacity/sleepers.py",
                "studies/offpeak_studies/energy_carbon/paper.py",
            },
        ),
    ]:
        names = {path.relative_to(ROOT).as_posix() for path in sources_of(module_path(run))}
        assert sources <= names
        others = ("tables", "study", "plan", "single_site")
        assert not {"studies/offpeak_studies/report.py", "studies/offpeak_studies/harness.py"} & names
        assert not [name for name in names if name.startswith("studies/offpeak_studies/") and Path(name).stem in others]


def test_a_file_without_imports_of_ours_is_alone(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("import json\nfrom numpy import array\n")
    assert sources_of(module) == (module,)
