"""The simulated clusters and the testbed's: single experiments."""

from dataclasses import replace

import pytest

from offpeak.plugin.federation.sites import esc_g_per_kwh
from offpeak_studies.energy_carbon import paper
from offpeak_studies.energy_carbon.federation import (
    CLUSTERS,
    TABLE_IX,
    TESTBED_JOBS,
    TESTBEDS,
    FederationExperiment,
    FederationResult,
    MeasuredCase,
    SelectionCase,
    TableColumn,
    run,
)

NORMAL = SelectionCase("first-fit", False, "round-robin", 1.2, 0)
FEW_JOBS = 300
"""A fifth of the paper's jobs, behind queues a fifth as long, show the same."""


def result_of(case: SelectionCase | MeasuredCase) -> FederationResult:
    return run(FederationExperiment(case, 1, 0))


def co2_of(column: TableColumn) -> float:
    """Return the emissions [kg] that a column's energies have."""
    return sum(testbed.cue * part.energy_kj / 3600 for testbed, part in zip(TESTBEDS, column.parts, strict=True))


def test_emissions_are_those_of_the_papers_tables() -> None:
    esc = [esc_g_per_kwh(cluster.mix) for cluster in CLUSTERS]
    assert esc == pytest.approx([459.83, 850.0, 128.44])
    cue = [value * cluster.pue for value, cluster in zip(esc, CLUSTERS, strict=True)]
    assert cue == pytest.approx([689.745, 1530.0, 166.972])
    assert TABLE_IX["RR"].energy_kj == 14_884
    more = {name: column.co2_kg / co2_of(column) - 1 for name, column in TABLE_IX.items()}
    assert more == pytest.approx({"ECA, 3600 s": 0.0, "ECA, 10800 s": 0.0, "FP": 0.07, "RR": 0.13}, abs=0.01)


def test_findings_of_the_paper_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "JOBS", FEW_JOBS)
    normal = result_of(NORMAL)
    asleep = result_of(replace(NORMAL, asleep=True))
    fast = result_of(replace(NORMAL, selection="fastest"))
    green = result_of(replace(NORMAL, asleep=True, selection="eca-queue", queue_limit=10))
    assert normal.jobs == (100, 100, 100)
    assert asleep.energy_kwh < 0.8 * normal.energy_kwh
    assert fast.energy_kwh < 0.85 * normal.energy_kwh
    assert fast.wait_h < normal.wait_h
    assert green.co2_kg < 0.75 * normal.co2_kg
    assert green.co2_kg < asleep.co2_kg
    assert sum(green.jobs) == sum(fast.jobs) == FEW_JOBS


def test_the_testbed_sends_to_dune_what_may_wait_and_least_to_juggle() -> None:
    early, late, fast, turns = (result_of(MeasuredCase(column)) for column in TABLE_IX)
    assert all(sum(federation_result.jobs) == TESTBED_JOBS for federation_result in (early, late, fast, turns))
    assert early.jobs[2] < late.jobs[2]
    assert early.energy_kwh < fast.energy_kwh < turns.energy_kwh
    assert late.co2_kg <= early.co2_kg < fast.co2_kg < turns.co2_kg
