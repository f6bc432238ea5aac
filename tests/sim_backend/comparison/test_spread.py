"""The spread of replays: intervals and noise."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.prices.alignment import AlignmentWeeks
from offpeak.sim_backend.comparison.outcome import PolicyOutcome
from offpeak.sim_backend.comparison.replications import FIGURES, alignment_interval_of, interval_of, spreads_of

BASELINE = PolicyOutcome(
    policy="easy",
    jobs=10,
    mean_wait_s=100.0,
    mean_response_s=200.0,
    mean_bounded_slowdown=2.0,
    mean_bounded_slowdown_by_delay=2.0,
    utilization=0.5,
    makespan_s=1000,
    energy_kwh=50.0,
    idle_energy_kwh=10.0,
    unpriced_kwh=0.0,
    cost=10.0,
    currency="EUR",
    co2_kg=None,
    saving_pct=0.0,
    worst_postponement_s=0,
    worst_postponement_job_id=1,
    response_ratio=1.0,
    simulate_s=0.1,
)


def outcomes(waits: list[float], other_waits: list[float]) -> list[tuple[PolicyOutcome, PolicyOutcome]]:
    """Each replay's outcomes under two policies that differ in their mean wait alone."""
    return [
        (first, replace(BASELINE, policy="greedy", mean_wait_s=other, baseline=first))
        for wait, other in zip(waits, other_waits, strict=True)
        for first in (replace(BASELINE, mean_wait_s=wait),)
    ]


WAITS = st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=2, max_size=30)


@given(WAITS)
def test_an_interval_holds_its_mean_and_lies_within_many_replays(
    waits: list[tuple[float, float]],
) -> None:
    own, other = zip(*waits, strict=True)
    _, spread = spreads_of(outcomes(list(own), list(other)))
    interval = spread.figures["mean_wait_s"]
    if len(waits) >= 10:
        assert min(other) <= interval.low <= interval.high <= max(other)
    assert 0 <= interval.low <= interval.mean + 1e-6
    assert interval.high >= interval.mean - 1e-6
    assert interval.mean == pytest.approx(np.mean(other))


@given(WAITS)
def test_differences_are_taken_within_each_replay(waits: list[tuple[float, float]]) -> None:
    own, other = zip(*waits, strict=True)
    _, spread = spreads_of(outcomes(list(own), list(other)))
    assert spread.differences["mean_wait_s"].mean == pytest.approx(np.mean(np.subtract(other, own)), abs=1e-6)


def test_nineteen_of_twenty_replays_lie_within_the_interval() -> None:
    waits = list(np.arange(20.0))
    first, _ = spreads_of(outcomes(waits, waits))
    interval = first.figures["mean_wait_s"]
    assert sum(interval.low <= wait <= interval.high for wait in np.linspace(0, 19, 1001)) == pytest.approx(950, abs=2)


@pytest.mark.parametrize("count", [10, 20, 60])
@pytest.mark.parametrize("kind", ["normal", "uniform", "exponential", "two years"])
def test_nineteen_of_twenty_further_weeks_lie_within_the_range_of_weeks(count: int, kind: str) -> None:
    rng = np.random.default_rng(7)
    draws = {
        "normal": rng.normal(5, 1, (4000, count + 1)),
        "uniform": rng.uniform(0, 1, (4000, count + 1)),
        "exponential": rng.exponential(1, (4000, count + 1)),
        "two years": rng.normal(rng.choice([2.0, 9.0], (4000, count + 1)), 0.5),
    }
    held = 0
    for *values, next_one in draws[kind]:
        interval = alignment_interval_of(np.array(values))
        assert min(values) <= interval.middle <= max(values)
        held += interval.low <= next_one <= interval.high
    assert held / 4000 > 0.925


@pytest.mark.parametrize("count", [2, 4, 9])
def test_the_range_of_a_few_replays_holds_the_next_one(count: int) -> None:
    draws = np.random.default_rng(7).normal(5, 1, (4000, count + 1))
    intervals = [interval_of(values[:-1]) for values in draws]
    held = [each.low <= values[-1] <= each.high for each, values in zip(intervals, draws, strict=True)]
    assert np.mean(held) == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize("sign", [-1, 1])
def test_money_of_years_with_other_prices_keeps_its_sign_and_its_range_holds(sign: int) -> None:
    draws = sign * np.random.default_rng(7).lognormal(4, 1, (4000, 21))
    held = 0
    for *values, next_one in draws:
        interval = alignment_interval_of(np.array(values), by_factors=True)
        assert interval.low * interval.high > 0
        held += interval.low <= next_one <= interval.high
    assert held / 4000 > 0.94
    mixed = alignment_interval_of(np.array([-1.0, 1.0, 3.0, 3.0]), by_factors=True)
    assert mixed == alignment_interval_of(np.array([-1.0, 1.0, 3.0, 3.0]))


def test_a_range_of_weeks_holds_no_negative_wait_but_a_negative_saving() -> None:
    weeks = AlignmentWeeks(tuple(range(30)), "")
    replays = outcomes([0.0, 0.0, 500.0], [0.0, 0.0, 900.0])
    other = [
        (first, replace(second, saving_pct=saved)) for (first, second), saved in zip(replays, (0, 0, 5), strict=True)
    ]
    _, spread = spreads_of(other, weeks)
    assert spread.alignments == 3
    assert spread.figures["mean_wait_s"].low == 0
    assert spread.figures["saving_pct"].low < 0
    assert spread.differences["mean_wait_s"].low < 0
    assert spread.figures["mean_wait_s"].middle == 0


def test_a_difference_that_may_have_either_sign_is_noise() -> None:
    _, unsure = spreads_of(outcomes([100, 100, 100], [99, 101, 100.5]))
    _, sure = spreads_of(outcomes([100, 150, 200], [90, 140, 189]))
    assert unsure.is_noise("mean_wait_s")
    assert not sure.is_noise("mean_wait_s"), "the baseline moved more than the difference, but both moved together"


def test_figures_without_a_value_have_no_interval() -> None:
    first, _ = spreads_of(outcomes([1.0, 2.0], [1.0, 2.0]))
    without = {"co2_kg", "idle_saved_pct", "captured_pct", "asleep_share", "cycles_per_node_day", "delayed_share"}
    without |= {"mean_sleep_delay_s", "above_sla_share", "cooling_kwh", "cooling_cost", "pue", "cooled_saving_pct"}
    without |= {"peak_kw", "bill", "bill_saving_pct", "held_wait_s"}
    assert set(first.figures) == set(FIGURES) - without


def test_figures_of_nodes_that_sleep_have_their_interval() -> None:
    first = replace(BASELINE, idle_saved_pct=0.0)
    asleep = replace(BASELINE, policy="asleep", baseline=first)
    _, spread = spreads_of([(first, replace(asleep, idle_saved_pct=saved)) for saved in (80.0, 82.0)])
    assert spread.figures["idle_saved_pct"].mean == 81
    assert not spread.is_noise("idle_saved_pct")
