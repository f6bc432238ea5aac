"""The effect measured by on/off days: coverage of the interval, known quantiles, and what is left out."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.trial_design import BAR, CASES, score_case, simulate_effect
from offpeak.services.accounts.trials import TrialEffect, estimate_effect, student_quantile


@pytest.mark.quick
def test_the_interval_covers_the_truth_and_excludes_nothing() -> None:
    score = score_case(BAR, 400)
    # Three standard deviations of 400 trials around 95 %.
    assert score.covers == pytest.approx(0.95, abs=0.033)
    assert score.excludes_zero >= 0.95


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_interval_covers_the_truth_in_trials_of_each_kind(case: object) -> None:
    # Three standard deviations of 200 trials.
    assert score_case(case, 200).covers == pytest.approx(0.95, abs=0.046)  # type: ignore[arg-type]


@pytest.mark.quick
def test_what_is_not_known_widens_the_interval_and_is_not_named() -> None:
    full = simulate_effect(BAR, 1)
    blind = simulate_effect(replace(BAR, knows_weather=False), 1)
    assert full.adjusted_for == ("load", "outside temperature", "day of the week")
    assert blind.adjusted_for == ("load", "day of the week")
    assert blind.high_percent - blind.low_percent > full.high_percent - full.low_percent


# Tables of Student's t, 97.5 %.
@pytest.mark.quick
@pytest.mark.parametrize(
    ("degrees", "quantile"), [(8, 2.3060), (12, 2.1788), (30, 2.0423), (50, 2.0086), (120, 1.9799)]
)
def test_quantiles_of_student(degrees: int, quantile: float) -> None:
    assert student_quantile(degrees) == pytest.approx(quantile, abs=0.001)


IS_ON = np.tile([1.0, 0.0, 0.0, 1.0], 6)


@pytest.mark.quick
@given(st.floats(0.001, 1e6), st.floats(-50.0, 90.0), st.integers(0, 1000))
def test_the_effect_scales_and_ignores_units(scale: float, saving_percent: float, seed: int) -> None:
    chance = np.random.default_rng(seed)
    load = chance.normal(5, 1, 24)
    value = np.exp(0.1 * load + chance.normal(0, 0.01, 24) + IS_ON * math.log(1 - saving_percent / 100))
    one, other = (
        estimate_effect(value * by, IS_ON, {"load": load * by + by, "twice": load * 0 + by}) for by in (1, scale)
    )
    assert isinstance(one, TrialEffect)
    assert isinstance(other, TrialEffect)
    assert one.adjusted_for == other.adjusted_for == ("load",)
    assert other.saving_percent == pytest.approx(one.saving_percent, abs=1e-4)
    assert one.low_percent <= one.saving_percent <= one.high_percent
    assert one.saving_percent == pytest.approx(saving_percent, abs=0.03 * (100 - saving_percent))


@pytest.mark.quick
def test_too_few_blocks_give_a_reason() -> None:
    assert estimate_effect(np.ones(10), np.append(np.ones(6), np.zeros(4)), {}) == (
        "6 on and 4 off: a result needs 7 of each"
    )


@pytest.mark.quick
def test_a_few_missing_temperatures_do_not_cost_the_adjustment_and_many_do() -> None:
    chance = np.random.default_rng(3)
    outside_c = chance.normal(10, 5, 24)
    value = np.exp(chance.normal(0, 0.1, 24))
    outside_c[:2] = np.nan
    few = estimate_effect(value, IS_ON, {"outside temperature": outside_c})
    outside_c[:3] = np.nan
    many = estimate_effect(value, IS_ON, {"outside temperature": outside_c})
    assert isinstance(few, TrialEffect)
    assert isinstance(many, TrialEffect)
    assert (few.adjusted_for, many.adjusted_for) == (("outside temperature",), ())


@pytest.mark.quick
def test_a_saving_that_is_not_proven_names_the_blocks_that_would() -> None:
    effect = simulate_effect(replace(BAR, days=28, saving=0.03), 4)
    assert effect.blocks_to_prove is not None
    assert (effect.blocks_to_prove > 28) == (effect.low_percent < 0)
    worse = simulate_effect(replace(BAR, saving=-0.2), 4)
    assert (worse.blocks_to_prove, worse.high_percent < 0) == (None, True)
