"""Cooling in a replay: exact, by the planner's own table, and beside what the computers take."""

from dataclasses import replace

import numpy as np
import pytest

from offpeak.errors import BadInput
from offpeak.model.facility import Facility, facility_named
from offpeak.model.step_integrals import Usage, integrate_constant, integrate_series
from offpeak.model.step_series import Series
from offpeak.plugin.planner.problem import (
    NO_LIMIT,
    NOTHING_RUNS,
    NodeCapacities,
    Plan,
    Problem,
    Rates,
    Work,
    compute_profit,
)
from offpeak.settings.plan import PlanSettings
from offpeak.sim_backend.case.electricity import CoolingConditions, cooling_of, room_of
from offpeak.sim_backend.nodes.power_curve import power_curve

pytestmark = pytest.mark.quick

AIR = facility_named("air", full_power_w=20_000.0)


def usage_of(jobs: int = 30, seed: int = 1, idle_w: float = 40.0) -> Usage:
    random = np.random.default_rng(seed)
    start_s = random.integers(0, 20_000, jobs)
    columns = random.integers(1, 5, jobs), random.uniform(100, 400, jobs)
    return Usage(*columns, start_s, start_s + random.integers(60, 9000, jobs), 200, idle_w, 0, 30_000)


def test_the_sums_are_those_of_every_second() -> None:
    usage = usage_of()
    prices = Series(np.array([0, 7000, 18_000]), 40_000, np.array([50.0, 120.0, -10.0]), "EUR/MWh", "test")
    cooling = cooling_of(
        CoolingConditions(AIR, 24.0), power_curve(usage), integrate_series(prices, 0), integrate_constant(300.0)
    )
    second = np.arange(30_000)[:, None]
    runs = (usage.start_s <= second) & (second < usage.end_s)
    it_w = runs @ (usage.size * usage.node_power_w) + usage.idle_w * (200 - runs @ usage.size)
    watts = it_w * (AIR.pue_at(it_w, np.full(30_000, 24.0)) - 1)
    price = np.repeat(prices.value, [7000, 11_000, 12_000])
    assert cooling.kwh == pytest.approx(watts.sum() / 3.6e6)
    assert cooling.cost == pytest.approx(watts @ price / 3.6e9)
    assert cooling.co2_kg == pytest.approx(watts.sum() / 3.6e6 * 0.3)
    assert cooling.pue == pytest.approx(1 + watts.sum() / it_w.sum())


def test_it_is_the_planners_cooling() -> None:
    """One job on a machine that draws nothing else: the replay's accounting and the plan's come to the same."""
    work = Work(*(np.array([each]) for each in (1, 1, 8, 0, 0, 3600, 0, NO_LIMIT, 16_000.0, 0.0)))
    rates = Rates(np.array([0, 3600]), np.array([0.2]), np.array([24.0]), np.array([NO_LIMIT]))
    machine = NodeCapacities(np.array([8]), np.array([1]), np.array([0]))
    planned = compute_profit(
        Problem(work, machine, NOTHING_RUNS, rates, AIR), Plan(np.array([0]), np.array([0]), "by hand")
    )
    usage = Usage(np.array([1]), np.array([16_000.0]), np.array([0]), np.array([3600]), 1, 0.0, 0, 3600)
    replayed = cooling_of(CoolingConditions(AIR, 24.0), power_curve(usage), integrate_constant(200.0), None)
    assert replayed.kwh == pytest.approx(planned.cooling_j / 3.6e6)
    assert replayed.cost == pytest.approx(planned.cooling_cost)
    assert replayed.pue == pytest.approx(planned.pue)
    assert replayed.co2_kg is None


def test_a_room_that_cools_for_nothing_adds_nothing() -> None:
    free = Facility("free", np.zeros(1), np.array([0.0, 40.0]), np.ones((1, 2)))
    cooling = cooling_of(CoolingConditions(free, 20.0), power_curve(usage_of()), integrate_constant(100.0), None)
    assert (cooling.kwh, cooling.cost, cooling.pue) == (0.0, 0.0, 1.0)


def test_a_machine_that_draws_nothing_has_a_pue_of_one() -> None:
    usage = replace(usage_of(idle_w=0.0), node_power_w=np.zeros(30))
    assert cooling_of(CoolingConditions(AIR, 20.0), power_curve(usage), integrate_constant(1.0), None).pue == 1.0


def test_without_a_facility_there_is_no_room_and_a_wrong_one_is_refused() -> None:
    assert room_of(PlanSettings(), full_power_w=1000.0) is None
    with pytest.raises(BadInput, match="'airy' is not a facility"):
        room_of(PlanSettings(facility="airy"), full_power_w=1000.0)


def test_a_temperature_beyond_the_table_is_reported() -> None:
    assert "lie outside its table" in CoolingConditions(AIR, 99.0).note
    assert CoolingConditions(AIR, 20.0).note == "cooling: air, 20 C outside at all times"
