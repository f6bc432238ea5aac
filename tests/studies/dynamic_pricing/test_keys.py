"""Names of results."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from offpeak.compiled import ROOT, sources_of
from studies.dynamic_pricing.experiment import PricingExperiment, PricingSetup
from studies.dynamic_pricing.study import RUN, key_of

EXPERIMENT = PricingExperiment("log", 1, 0, PricingSetup())
SETUPS = st.builds(
    PricingSetup, window=st.integers(1, 64), load=st.none() | st.floats(0.1, 1), on_peak=st.text(max_size=3)
)


@given(SETUPS, SETUPS)
def test_one_key_for_one_experiment(one: PricingSetup, other: PricingSetup) -> None:
    keys = [key_of(replace(EXPERIMENT, setup=setup), "digest") for setup in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)


def test_the_log_and_the_replay_count() -> None:
    key = key_of(EXPERIMENT, "digest")
    assert key_of(EXPERIMENT, "other") != key
    assert key_of(replace(EXPERIMENT, replay=1), "digest") != key


def test_sources_hold_the_kernels_and_not_the_tables() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in sources_of(RUN)}
    assert {"sim_backend/engine/advance.py", "plugin/window_order.py", "studies/dynamic_pricing/run.py"} <= names
    assert not {"studies/dynamic_pricing/figure.py", "studies/report.py"} & names


def test_a_file_without_imports_of_ours_is_alone(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("import json\nfrom numpy import array\n")
    assert sources_of(module) == (module,)
