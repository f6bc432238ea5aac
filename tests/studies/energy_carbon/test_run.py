"""One experiment: workloads of the testbeds, node classes, measurements and simulations."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.jobs import make_jobs
from offpeak.model.node_states import DEPTHS, POWERSAVE, STANDBY
from offpeak.plugin.capacity.rules import NEVER
from offpeak_studies.energy_carbon.paper import DUNE, JOBS, JUGGLE, TESTBEDS
from offpeak_studies.energy_carbon.run import (
    ANY_WIDTH,
    AS_MEASURED,
    PAPER_WIDTHS,
    TOLERANCE,
    BatchWorkload,
    Measurement,
    Simulation,
    SimulationResult,
    SingleSiteExperiment,
    WorkloadMix,
    busy_node_w,
    depth_of,
    discipline,
    draw_jobs,
    draw_mix,
    draw_workload,
    elapsed_s,
    energy_aware,
    measured,
    node_class_of,
    node_s,
    run,
)
from offpeak_studies.energy_carbon.single_site import ceiling_pct


def result_of(discipline: str, load: float) -> SimulationResult:
    result = run(SingleSiteExperiment(Simulation(30, discipline, load), 1, 0))
    assert isinstance(result, SimulationResult)
    return result


def test_the_jobs_are_those_of_table_ii() -> None:
    case = Simulation(40, "fcfs", 0.5)
    node_class = node_class_of("dune", "off")
    jobs, power_w = draw_jobs(case, node_class, np.random.default_rng(1))
    assert len(jobs) == JOBS
    assert (jobs.size.min(), jobs.size.max()) == (1, 20)
    assert 600 <= jobs.runtime_s.min() < jobs.runtime_s.max() <= 86_400
    assert node_class.running_w(0.3 / 4) <= power_w.min() < power_w.max() <= node_class.running_w(0.99)
    load = np.dot(jobs.size, jobs.runtime_s) / (case.servers * jobs.submit_s[-1])
    assert jobs.submit_s[0] == 0
    assert load == pytest.approx(case.load)


def test_the_more_idle_the_more_is_saved() -> None:
    for name in ("fcfs", "first-fit", "best-fit"):
        results = [result_of(name, load) for load in (0.2, 0.5, 0.8, 1.2)]
        saved = [result.saved_pct for result in results]
        assert saved[:3] == sorted(saved[:3], reverse=True)
        assert min(saved) > 0
        assert results[0].utilization == pytest.approx(0.2, rel=0.02)


def test_where_nodes_are_idle_a_job_waits_for_little_more_than_a_boot() -> None:
    result = result_of("first-fit", 0.2)
    assert 0 < result.sleep_delay_s < 180
    assert result.aware_wait_s - result.wait_s < 300


def test_fifo_leaves_most_idle_and_so_saves_most_under_full_load() -> None:
    fifo, bff, bbf = (result_of(discipline, 1.2) for discipline in ("fcfs", "first-fit", "best-fit"))
    assert fifo.saved_pct > 2 * max(bff.saved_pct, bbf.saved_pct)
    assert fifo.utilization < min(bff.utilization, bbf.utilization)


OFF_AT_80 = Measurement("dune", "off", 80, "easy")
ROW = DUNE.rows["off"][80]
DUNE_NODE = node_class_of("dune", "off")


def made_workload(sizes: list[int], runtimes_s: list[int], default_s: int) -> BatchWorkload:
    runtime_s = np.array(runtimes_s)
    return BatchWorkload(
        make_jobs(np.zeros_like(runtime_s), np.array(sizes), runtime_s, runtime_s), default_s, default_s
    )


def test_the_default_run_has_the_papers_power() -> None:
    busy_w = busy_node_w(ROW, DUNE_NODE, 4, 3.2)
    assert 3.2 * busy_w + 0.8 * DUNE_NODE.idle_w == pytest.approx(ROW.default.power_w)


def test_nodes_without_a_job_are_shut_down_once() -> None:
    result = measured(OFF_AT_80, made_workload([3], [1000], 1000))
    jobs_j = 3 * 1000 * busy_node_w(ROW, DUNE_NODE, 4, 3.0)
    aware_j = jobs_j + 30 * 85.85 + 970 * 1
    assert result.saved_pct == pytest.approx(100 * (1 - aware_j / (1000 * ROW.default.power_w)))
    assert result.power_saved_pct == pytest.approx(result.saved_pct)
    assert (result.elapsed_ratio, result.order_ratio, result.wakes) == (1, 1, 0)
    assert result.default_share == 0.75


def test_a_job_that_has_to_wait_for_a_boot_costs_more_than_sleep_saves() -> None:
    """The second job cannot start before the first ends, 200 s later: off and on again takes 180 s of them."""
    workload = made_workload([2, 4], [200, 200], 400)
    kept, at_once = (measured(replace(OFF_AT_80, keeps=keeps), workload) for keeps in (True, False))
    assert (kept.elapsed_ratio, kept.wakes) == (1, 0)
    assert at_once.elapsed_ratio == pytest.approx(550 / 400)
    assert at_once.wakes == 2
    assert at_once.saved_pct < kept.saved_pct == pytest.approx(0, abs=1e-9)


@given(st.integers(0, 10**6), st.sampled_from(["standby", "powersave", "both"]), st.booleans())
def test_no_workload_saves_more_than_the_ceiling(seed: int, way: str, keeps: bool) -> None:
    case = Measurement("juggle", way, 80, "first-fit", keeps=keeps)
    workload = draw_workload(case, np.random.default_rng(seed))
    result = measured(case, workload)
    row = JUGGLE.rows[way][80]
    ceiling = ceiling_pct(row, node_class_of("juggle", way), way, JUGGLE.nodes, result.default_share)
    # A node that is woken for a job may move a later, smaller job before a wide one: a workload can end earlier.
    if result.elapsed_ratio >= 1:
        assert result.saved_pct <= ceiling + 1e-9
    assert result.busy_w > node_class_of("juggle", way).idle_w


def test_the_same_seed_gives_the_same_result_and_another_does_not() -> None:
    one, same, other = (run(SingleSiteExperiment(OFF_AT_80, 1, replay)) for replay in (0, 0, 1))
    assert one == same != other


def test_the_papers_savings_at_high_load() -> None:
    saved = np.mean([run(SingleSiteExperiment(OFF_AT_80, 1, replay)).saved_pct for replay in range(3)])
    assert saved == pytest.approx(ROW.saved_pct, abs=3)


WAYS = [(name, way) for name, testbed in TESTBEDS.items() for way in testbed.rows]


def test_standby_with_the_governor_draws_a_little_less() -> None:
    both, standby = (depth_of(node_class_of("juggle", way), way) for way in ("both", "standby"))
    assert (both.depth, standby.depth) == (STANDBY, STANDBY)
    assert both.power_w == pytest.approx(1280 / 12)
    assert both.power_w < standby.power_w
    assert depth_of(node_class_of("juggle", "powersave"), "powersave").depth == POWERSAVE


def test_the_policy_uses_that_depth_alone_and_at_once() -> None:
    for testbed, way in WAYS:
        node_class = node_class_of(testbed, way)
        capacity = energy_aware(TESTBEDS[testbed].nodes, node_class, way, keeps=False)
        expected = [0 if depth == depth_of(node_class, way).depth else NEVER for depth in range(len(DEPTHS))]
        assert capacity.schedule.after_s.tolist() == [expected]
        assert capacity.rules.ahead_s == 0


def test_a_node_that_is_soon_needed_is_kept_for_as_long_as_sleep_would_not_pay() -> None:
    kept_s = {way: energy_aware(12, node_class_of(name, way), way, keeps=True).rules.ahead_s for name, way in WAYS}
    assert kept_s == {"off": 259, "standby": 30, "powersave": 2, "both": 30}


OFF_AT_90 = Measurement("dune", "off", 90, "easy")
STANDBY_AT_80 = Measurement("juggle", "standby", 80, "first-fit")
CASES = [OFF_AT_90, replace(OFF_AT_90, widths=ANY_WIDTH, default="fcfs"), STANDBY_AT_80]


def test_the_default_run_is_as_long_and_as_utilized_as_the_papers() -> None:
    for case in CASES:
        testbed = TESTBEDS[case.testbed]
        workload = draw_workload(case, np.random.default_rng(1))
        assert workload.default_s == pytest.approx(
            testbed.rows[case.way][case.load_pct].default.elapsed_s, rel=TOLERANCE
        )
        assert elapsed_s(workload.jobs, testbed.nodes, discipline(case.default)) == workload.default_s
        share = node_s(workload.jobs) / testbed.nodes / workload.default_s
        assert share == pytest.approx(case.load_pct / 100, abs=TOLERANCE)
        assert set(workload.jobs.submit_s.tolist()) == {0}


def test_as_measured_both_runs_are_as_long_as_the_papers() -> None:
    for case in CASES:
        testbed = TESTBEDS[case.testbed]
        row = testbed.rows[case.way][case.load_pct]
        workload = draw_workload(replace(case, reading=AS_MEASURED), np.random.default_rng(1))
        assert workload.default_s == row.default.elapsed_s
        assert workload.aware_s == pytest.approx(row.aware.elapsed_s, rel=TOLERANCE)
        assert node_s(workload.jobs) / testbed.nodes / workload.aware_s == pytest.approx(
            case.load_pct / 100, abs=TOLERANCE
        )


@given(st.integers(0, 10**6), st.sampled_from([DUNE, JUGGLE]), st.sampled_from(["fcfs", "easy", "first-fit"]))
def test_no_order_keeps_more_nodes_busy_than_the_fullest(seed: int, testbed: object, default: str) -> None:
    assert isinstance(testbed, type(DUNE))
    jobs = (mix := draw_mix(testbed, ANY_WIDTH, np.random.default_rng(seed))).jobs(10_000, 0)
    busy = node_s(jobs) / elapsed_s(jobs, testbed.nodes, discipline(default))
    assert busy <= min(mix.fullest * 1.001, testbed.nodes)


def test_a_mix_has_the_papers_widths_and_is_stretched() -> None:
    rng = np.random.default_rng(1)
    widths = {
        testbed.name: {int(size) for _ in range(50) for size in draw_mix(testbed, PAPER_WIDTHS, rng).size}
        for testbed in (DUNE, JUGGLE)
    }
    assert widths == {"dune": {1, 2}, "juggle": {1, 2, 8}}
    jobs = WorkloadMix(np.array([1, 2]), np.array([0.5, 1.0])).jobs(1000, 720)
    assert jobs.runtime_s.tolist() == [500, 1000]
    assert jobs.estimate_s.tolist() == [720, 1000]
    assert jobs.size.tolist() == [1, 2]
