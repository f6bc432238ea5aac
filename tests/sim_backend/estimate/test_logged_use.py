"""Energy, money and waiting of a log as it was, against a count second by second."""

from datetime import UTC

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logged_jobs import ROWS, Row, logged

from offpeak.model.step_series import Series
from offpeak.prices.peak import AboveDayMean
from offpeak.sim_backend.case.electricity import AlignedSeries, ReplayPrices
from offpeak.sim_backend.case.replay_case import ReplayCase, ReplayMachine
from offpeak.sim_backend.estimate import LoggedUse, logged_use, waiting_share

IDLE_W = 40.0
PRICE_S = 10


def case_of(rows: list[Row], price: list[float]) -> ReplayCase:
    """Return the jobs on a machine that holds all of them at once; a price holds for 10 s."""
    jobs = logged(rows)
    series = Series(np.arange(len(price)) * PRICE_S, len(price) * PRICE_S, np.array(price), "EUR/MWh", "test")
    size = int(jobs.size.sum())
    prices = ReplayPrices(AlignedSeries(series, 0, UTC, ()), AboveDayMean(UTC))
    return ReplayCase(jobs, np.linspace(100.0, 200.0, len(jobs)), ReplayMachine(size, IDLE_W), prices, carbon=400.0)


def use_of(case: ReplayCase, *, low: float = 1.0, high: float = 1.0) -> LoggedUse:
    until_s = int((case.jobs.logged_start_s + case.jobs.runtime_s).max()) + 1
    draw_w = case.node_power_w
    return logged_use(case, (low * draw_w, draw_w, high * draw_w), 0, until_s)


PRICES = st.lists(st.floats(-50, 300), min_size=9, max_size=9)


@given(ROWS, PRICES)
def test_energy_and_money_are_those_of_each_second(rows: list[Row], price: list[float]) -> None:
    case = case_of(rows, price)
    use = use_of(case)
    jobs = case.jobs
    ends = jobs.logged_start_s + jobs.runtime_s
    joules = money = 0.0
    for second in range(use.until_s):
        runs = (jobs.logged_start_s <= second) & (second < ends)
        watts = float((runs * jobs.size * case.node_power_w).sum())
        watts += IDLE_W * (case.machine.size - int((runs * jobs.size).sum()))
        joules += watts
        money += watts * price[second // PRICE_S]
    assert use.energy_kwh.middle == pytest.approx(joules / 3.6e6)
    assert use.cost.middle == pytest.approx(money / 3.6e9, abs=1e-9)
    assert use.co2_kg == pytest.approx(joules / 3.6e6 * 0.4)
    assert use.unpriced_kwh == 0
    plain = np.repeat(price, PRICE_S)[: use.until_s].mean()
    assert use.plain_mean_price == pytest.approx(plain, abs=1e-9)
    assert use.mean_price == pytest.approx(1000 * use.cost.middle / use.energy_kwh.middle, abs=1e-6)


@given(ROWS)
def test_jobs_wait_in_the_seconds_in_which_one_does(rows: list[Row]) -> None:
    jobs = logged(rows)
    seconds = np.arange(100)[:, np.newaxis]
    waiting = ((jobs.submit_s <= seconds) & (seconds < jobs.logged_start_s)).any(axis=1)
    assert waiting_share(jobs, 0, 100) == pytest.approx(waiting.sum() / 100)


def test_bounds_of_the_draw_are_bounds_of_energy_and_money() -> None:
    use = use_of(case_of([(0, 0, 20, 2), (5, 3, 10, 1)], [50.0] * 9), low=0.5, high=2.0)
    assert use.energy_kwh.low < use.energy_kwh.middle < use.energy_kwh.high
    assert use.cost.low < use.cost.middle < use.cost.high


def test_at_negative_prices_the_hungriest_jobs_give_the_lowest_cost() -> None:
    use = use_of(case_of([(0, 0, 20, 2), (5, 3, 10, 1)], [-50.0] * 9), low=0.5, high=2.0)
    assert use.cost.low < use.cost.middle < use.cost.high < 0


def test_a_gap_of_the_prices_is_no_free_electricity() -> None:
    use = use_of(case_of([(0, 0, 20, 2)], [50.0, float("nan"), 50.0, *[50.0] * 6]))
    assert use.mean_price == pytest.approx(50.0)
    assert use.unpriced_kwh == pytest.approx(10 * 200.0 / 3.6e6)
