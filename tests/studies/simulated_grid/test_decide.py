"""The federation's policies in a simulated grid."""

import numpy as np
import pytest
from small_grids import jobs_of, log_of, site_of

from offpeak.plugin.federation.cycle import GridRules
from offpeak.plugin.federation.policies import grid_policy
from offpeak.predictors.prices.models import YESTERDAY
from offpeak_studies.simulated_grid.broker import Decider, LongestWaits, StayHome, run_grid
from offpeak_studies.simulated_grid.grid import DayAhead, Markets, SimulatedGrid, Steady, forecast_days

PRICES, CARBON = (50.0, 50.0, 50.0), (700.0, 1500.0, 200.0)


def grid_of(count: int = 12) -> SimulatedGrid:
    jobs = jobs_of([(second, 100, 0, 4) for second in range(count)])
    return SimulatedGrid(tuple(site_of(name=f"s{number}") for number in range(3)), log_of(jobs, home=[1] * count))


def placed(policy: str, **rules) -> list[int]:
    decider = Decider(grid_policy(policy), GridRules(**rules), LongestWaits(), Steady(PRICES, CARBON))
    return run_grid(grid_of(), decider).site.tolist()


def test_by_turns() -> None:
    assert placed("round-robin") == [0, 1, 2] * 4


def test_the_baseline_stays_at_home() -> None:
    assert placed("baseline") == [1] * 12
    assert run_grid(grid_of(), StayHome()).site.tolist() == [1] * 12


def test_the_least_co2_until_its_queue_is_long_then_the_next() -> None:
    # One runs, then two wait; the limit is one: a third is taken by nobody but the fastest.
    assert placed("eca-queue", queue_limit=1)[:9] == [2, 2, 2, 0, 0, 0, 1, 1, 1]


def test_the_fastest_fills_what_is_idle_first() -> None:
    assert sorted(placed("fastest")[:3]) == [0, 1, 2]


def test_hours_of_today_are_known_later_ones_are_forecast() -> None:
    price = np.repeat(np.arange(5.0), 24).reshape(5, 24)
    market = DayAhead(price, forecast_days(price, YESTERDAY, range(2, 5)), 0, "EUR/MWh")
    prices = Markets((market,)).price(2 * 86_400 + 5 * 3600)[0]
    assert prices.start_s[0] == 2 * 86_400
    assert prices.value.tolist() == [2.0] * 24 * 5
    assert len(prices) == 24 * 5


def test_a_forecast_is_not_made_where_nothing_ever_changed() -> None:
    class Never:
        def fit(self, _past):
            pytest.fail("was asked")

    assert (forecast_days(np.full((4, 24), 7.0), Never(), range(4)) == 7.0).all()
