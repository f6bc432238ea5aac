"""Workloads that look like the paper's."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.energy_carbon.paper import DUNE, JUGGLE, TESTBEDS
from studies.energy_carbon.run import (
    ANY_WIDTH,
    AS_MEASURED,
    LIKENESS,
    PAPER_WIDTHS,
    Measurement,
    WorkloadMix,
    discipline,
    draw_mix,
    draw_workload,
    elapsed_s,
    node_s,
)

OFF_AT_90 = Measurement("dune", "off", 90, "easy")
STANDBY_AT_80 = Measurement("juggle", "standby", 80, "first-fit")
CASES = [OFF_AT_90, replace(OFF_AT_90, widths=ANY_WIDTH, default="fcfs"), STANDBY_AT_80]


@pytest.mark.parametrize("case", CASES)
def test_the_default_run_is_as_long_and_as_utilized_as_the_papers(case: Measurement) -> None:
    testbed = TESTBEDS[case.testbed]
    workload = draw_workload(case, np.random.default_rng(1))
    assert workload.default_s == pytest.approx(testbed.rows[case.way][case.load_pct].default.elapsed_s, rel=LIKENESS)
    assert elapsed_s(workload.jobs, testbed.nodes, discipline(case.default)) == workload.default_s
    share = node_s(workload.jobs) / testbed.nodes / workload.default_s
    assert share == pytest.approx(case.load_pct / 100, abs=LIKENESS)
    assert set(workload.jobs.submit_s.tolist()) == {0}


@pytest.mark.parametrize("case", CASES)
def test_as_measured_both_runs_are_as_long_as_the_papers(case: Measurement) -> None:
    testbed = TESTBEDS[case.testbed]
    row = testbed.rows[case.way][case.load_pct]
    workload = draw_workload(replace(case, reading=AS_MEASURED), np.random.default_rng(1))
    assert workload.default_s == row.default.elapsed_s
    assert workload.aware_s == pytest.approx(row.aware.elapsed_s, rel=LIKENESS)
    assert node_s(workload.jobs) / testbed.nodes / workload.aware_s == pytest.approx(case.load_pct / 100, abs=LIKENESS)


@given(st.integers(0, 10**6), st.sampled_from([DUNE, JUGGLE]), st.sampled_from(["fcfs", "easy", "first-fit"]))
def test_no_order_keeps_more_nodes_busy_than_the_fullest(seed: int, testbed: object, default: str) -> None:
    assert isinstance(testbed, type(DUNE))
    jobs = (mix := draw_mix(testbed, ANY_WIDTH, np.random.default_rng(seed))).jobs(10_000, 0)
    busy = node_s(jobs) / elapsed_s(jobs, testbed.nodes, discipline(default))
    assert busy <= min(mix.fullest * 1.001, testbed.nodes)


def test_the_papers_widths() -> None:
    rng = np.random.default_rng(1)
    widths = {
        testbed.name: {int(size) for _ in range(50) for size in draw_mix(testbed, PAPER_WIDTHS, rng).size}
        for testbed in (DUNE, JUGGLE)
    }
    assert widths == {"dune": {1, 2}, "juggle": {1, 2, 8}}


def test_a_mix_is_stretched_and_asks_for_its_walltime() -> None:
    jobs = WorkloadMix(np.array([1, 2]), np.array([0.5, 1.0])).jobs(1000, 720)
    assert jobs.runtime_s.tolist() == [500, 1000]
    assert jobs.estimate_s.tolist() == [720, 1000]
    assert jobs.size.tolist() == [1, 2]
