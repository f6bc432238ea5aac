"""One experiment: energy adds up, whatever it is billed by."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Trace, make_jobs
from offpeak_studies.dynamic_pricing.plan import ALONE, Variant
from offpeak_studies.dynamic_pricing.run import (
    TO_THE_LETTER,
    PricedUse,
    PricingBill,
    PricingExperiment,
    PricingResult,
    PricingSetup,
    arranged,
    ceiling_pct,
    draw_power_w,
    least_energy_j,
    run,
    saved_pct,
)
from offpeak_studies.logs import LogSource, StudyLog

SETUPS = [change.of(Variant()).setup for change in ALONE if change.setup]


def result_of(log: StudyLog, setup: PricingSetup, replay: int = 0) -> PricingResult:
    return run(PricingExperiment(log.source.name, 1, replay, setup), log)


def jobs_j(used: PricedUse) -> float:
    return used.on_peak_j + used.off_peak_j


def test_energy_of_jobs_is_the_same_under_all_policies_and_meters(log: StudyLog) -> None:
    for setup in [PricingSetup(), *SETUPS, PricingSetup(policies=TO_THE_LETTER)]:
        result = result_of(log, setup)
        assert [policy.policy for policy in result.policies] == list(setup.policies)
        expected = jobs_j(result.policies[0].as_run)
        for policy in result.policies:
            assert jobs_j(policy.as_run) == pytest.approx(expected)
            assert jobs_j(policy.at_start) == pytest.approx(expected)
            assert jobs_j(policy.until_last_submission) <= expected * (1 + 1e-9)
            assert 0 < policy.utilization <= 1
            assert policy.mean_wait_s >= 0
        assert jobs_j(result.perfect) == pytest.approx(expected)


def test_the_energy_is_that_of_the_drawn_powers(log: StudyLog) -> None:
    jobs, _ = arranged(log, PricingSetup())
    rng = np.random.default_rng([1, 0])
    rng.integers(0, 60, len(jobs), endpoint=True)
    power_w = draw_power_w("uniform", 3.0, jobs, rng)
    used_j = float(np.dot(jobs.size * jobs.runtime_s, power_w))
    assert jobs_j(result_of(log, PricingSetup()).policies[1].as_run) == pytest.approx(used_j)


def test_a_policy_and_the_baseline_are_billed_over_one_period(log: StudyLog) -> None:
    result = result_of(log, PricingSetup(policies=TO_THE_LETTER))
    idle_s, before_s = (
        [each.as_run.on_peak_idle_s + each.as_run.off_peak_idle_s for each in results]
        for results in (result.policies, result.baselines)
    )
    assert idle_s == pytest.approx(before_s)
    assert len(set(before_s)) > 1


def test_no_order_beats_the_perfect_one_where_node_hours_stay(log: StudyLog) -> None:
    result = result_of(log, PricingSetup())
    bill = PricingBill(idle_w=0)
    assert ceiling_pct(result, bill) >= 0
    same_hours = replace(result, policies=(result.policies[0], result.policies[0]))
    assert saved_pct(same_hours, 1, bill) <= ceiling_pct(result, bill)


def test_the_same_seed_gives_the_same_result_and_another_does_not(log: StudyLog) -> None:
    assert result_of(log, PricingSetup()) == result_of(log, PricingSetup())
    assert result_of(log, PricingSetup()) != result_of(log, PricingSetup(), replay=1)


def test_a_ratio_of_one_to_one_saves_nothing_at_equal_power(log: StudyLog) -> None:
    result = result_of(log, PricingSetup(power_ratio=1.0))
    assert saved_pct(result, 1, PricingBill(price_ratio=1.0)) == pytest.approx(0, abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 100), st.floats(1, 9)), min_size=1, max_size=20), st.floats(0, 1))
def test_frugal_energy_is_the_least(jobs: list[tuple[int, float]], share: float) -> None:
    unit_s: Int64 = np.array([job[0] for job in jobs], np.int64)
    power_w: Float64 = np.array([job[1] for job in jobs])
    within_s = share * float(unit_s.sum())
    least_j = least_energy_j(unit_s, power_w, within_s)
    # Any other choice of as many unit-seconds, such as the same share of each job, has no less.
    assert least_j <= share * float(np.dot(unit_s, power_w)) * (1 + 1e-9) + 1e-9
    assert least_j >= within_s * float(power_w.min()) * (1 - 1e-9) - 1e-9


def test_the_hours_of_the_day_are_those_of_the_local_clock() -> None:
    jobs = make_jobs(
        np.array([0, 3600, 90_000]), np.array([8, 8, 1]), np.array([3600, 1800, 60]), np.array([3600, 1800, 60])
    )
    trace = Trace("two days", jobs, 16, 16, 1_231_135_200, "America/Chicago")  # 5 January 2009, 06:00 UTC: midnight
    result = run(
        PricingExperiment("log", 1, 0, PricingSetup(power_ratio=1.0)), StudyLog(LogSource("log", None), trace, 16, "")
    )
    for policy in result.policies:
        assert policy.busy[0] == pytest.approx(0.25, abs=0.01)
        assert policy.busy[1] == pytest.approx(0.125, abs=0.01)
        assert policy.busy[2:] == (0.0,) * 22
        assert policy.draw_w[0] == pytest.approx(100 * 16 * policy.busy[0], rel=1e-3)
