"""The range of a saving in a further period, by the weeks of replays."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from offpeak.model.constants import DAY_S, J_PER_MWH, WEEK_S
from offpeak.model.step_integrals import StepIntegral, Usage, charge, integrate_steps
from offpeak.sim_backend.comparison.replications import alignment_interval_of
from offpeak.sim_backend.comparison.weeks import ReplayedWeeks, costs_of_weeks, further_period
from offpeak.sim_backend.nodes.power_curve import power_curve

SUNDAY_S, MONDAY_S = 13 * DAY_S, 14 * DAY_S
"""Across the edge of the second week."""
USAGE = Usage(
    size=np.array([2, 1]),
    node_power_w=np.array([300.0, 100.0]),
    start_s=np.array([DAY_S, SUNDAY_S]),
    end_s=np.array([9 * DAY_S, SUNDAY_S + 3600]),
    machine_size=4,
    idle_w=75.0,
    begin_s=0,
    until_s=3 * WEEK_S,
)


def daily_prices(*prices: float) -> StepIntegral:
    return integrate_steps(DAY_S * np.arange(22), np.resize(np.array(prices), 22))


def costs(usage: Usage, price: StepIntegral) -> np.ndarray:
    always_on = costs_of_weeks(usage, np.array([0, SUNDAY_S]), price)
    assert costs_of_weeks(usage, np.array([0, SUNDAY_S]), price, power_curve(usage)) == pytest.approx(always_on)
    return always_on


def test_the_weeks_cost_what_the_period_costs() -> None:
    price = daily_prices(40.0, 90.0, -10.0)
    assert costs(USAGE, price).sum() == pytest.approx(charge(price, USAGE).total / J_PER_MWH)


def test_a_job_that_moves_to_the_next_week_saves_by_its_prices_in_the_week_of_its_submission() -> None:
    moved = replace(USAGE, start_s=np.array([DAY_S, MONDAY_S]), end_s=np.array([9 * DAY_S, MONDAY_S + 3600]))
    assert costs(moved, daily_prices(50.0)) == pytest.approx(costs(USAGE, daily_prices(50.0)))
    rising = integrate_steps(np.array([0, MONDAY_S]), np.array([40.0, 60.0]))
    more = (100 - 75) * 3600 * (60 - 40) / J_PER_MWH
    assert costs(moved, rising) - costs(USAGE, rising) == pytest.approx([0, more, 0])


def test_the_variance_is_that_of_blocks_drawn_from_the_ring_of_weeks() -> None:
    saved = np.array([1.0, 3.0, 2.0, 6.0, 5.0, 1.0])
    found = further_period([ReplayedWeeks(100 - saved, np.full(6, 100.0))], np.array([3.0]), np.array([18.0]))
    blocks = [np.resize(np.roll(saved, -first), 2).sum() for first in range(6)]
    drawn = np.var([sum(chosen) for chosen in product(blocks, repeat=3)]) * 3 / 2
    # Three blocks leave two degrees of freedom; the further period is as long as the known one.
    assert found.share_half_pct == pytest.approx(4.303 * np.sqrt(2 * drawn) / 6)
    assert found.saved_half == pytest.approx(4.303 * np.sqrt(2 * drawn))
    assert found.saved_factor == pytest.approx(np.exp(4.303 * np.sqrt(2 * drawn) / 18))


@pytest.mark.parametrize(("weeks", "persistence"), [(6, 0.0), (12, 0.5), (26, 0.5), (104, 0.7)])
def test_19_of_20_further_periods_lie_in_the_range(weeks: int, persistence: float) -> None:
    """Weeks follow each other with this correlation; a further period is a year at most."""
    rng, held = np.random.default_rng(1), 0
    for _ in range(400):
        noise = rng.normal(size=weeks + min(weeks, 52) + 50)
        for at in range(1, len(noise)):
            noise[at] += persistence * noise[at - 1]
        saved, paid = 10 + noise[50:], np.full(len(noise) - 50, 100.0)
        known = ReplayedWeeks((paid - saved)[:weeks], paid[:weeks])
        share = np.array([saved[:weeks].mean()])
        further = further_period([known], share, share * weeks)
        held += abs(saved[weeks:].mean() - share[0]) <= further.share_half_pct
    assert 0.9 <= held / 400 <= 0.99


def test_replays_of_equal_weeks_give_the_range_of_one_more_replay() -> None:
    equal = ReplayedWeeks(np.full(8, 9.0), np.full(8, 10.0))
    share = np.array([9.0, 10.0, 10.5, 12.0])
    one_more = alignment_interval_of(share)
    found = further_period([equal] * 4, share, share)
    assert found.share_half_pct == pytest.approx(one_more.high - one_more.mean)


def test_five_weeks_say_nothing() -> None:
    known = ReplayedWeeks(np.arange(5.0), np.full(5, 9.0))
    assert not further_period([known], np.ones(1), np.ones(1)).is_known
