"""Plans beside PV and battery: jobs move to the hours of PV, the battery to those of the price, and bills add up."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planned_site import HOUR_S, NOW_S, a_job, make_inputs, prices

from offpeak.errors import BadInput
from offpeak.model.site_devices import NO_BATTERY, Battery, SiteDevices
from offpeak.model.step_series import Series
from offpeak.plugin.day_plan.day_plan import DayPlan
from offpeak.plugin.day_plan.inputs import PlanInputs
from offpeak.plugin.day_plan.make import plan_beside_devices, plan_day
from offpeak.plugin.planner.orders import budget_of

BATTERY = Battery(4.0, 2.0, 2.0, 0.9, 2.0, 2.0)


def pv(*kw: float) -> Series:
    return Series(NOW_S + HOUR_S * np.arange(len(kw)), NOW_S + HOUR_S * len(kw), np.array(kw, float), "kW", "pv.csv")


def planned(inputs: PlanInputs, devices: SiteDevices) -> DayPlan:
    plan = plan_beside_devices(inputs, devices, budget_of(10.0))
    assert plan is not None
    assert plan.devices is not None
    return plan


def test_a_deferrable_job_waits_for_the_sun() -> None:
    inputs = make_inputs((a_job(1, comment="offpeak:delay=12h"),), prices=prices(*[100.0] * 48))
    sunny = SiteDevices(NO_BATTERY, pv(*[0.0] * 4, *[5.0] * 4, *[0.0] * 40))
    plan = planned(inputs, sunny)
    assert plan.by_id["1"].start_s == NOW_S + 4 * HOUR_S
    assert plan.by_id["1"].begin_s == NOW_S + 4 * HOUR_S
    # At the prices of the grid alone it starts at once, and the profile keeps those prices.
    at_once = plan_day(inputs, None, budget_of(10.0))
    assert at_once is not None
    assert at_once.by_id["1"].start_s == NOW_S
    assert set(plan.power_profile.price_per_kwh) == {0.1}


def test_the_battery_carries_cheap_hours_to_expensive_ones() -> None:
    inputs = make_inputs((a_job(1),), prices=prices(*([20.0] * 6 + [200.0] * 6) * 4))
    plan = planned(inputs, SiteDevices(BATTERY, None))
    schedule, hours = plan.devices, np.diff(plan.devices.edge_s) / HOUR_S
    bill = float(schedule.dispatch.import_kw * hours @ np.repeat(plan.power_profile.price_per_kwh, 1))
    assert schedule.cost == pytest.approx(bill)
    assert schedule.cost < plan.power_profile.cost() - 0.1
    assert schedule.dispatch.stored_kwh[-1] >= BATTERY.end_kwh - 1e-6


@given(st.lists(st.integers(-50, 300), min_size=48, max_size=48), st.lists(st.integers(0, 6), min_size=48, max_size=48))
@settings(max_examples=8, deadline=None)
def test_a_plan_with_devices_is_no_dearer_than_its_jobs_at_grid_prices(price: list[int], sun: list[int]) -> None:
    jobs = tuple(a_job(number, comment="offpeak:delay=24h") for number in range(1, 4))
    plan = planned(make_inputs(jobs, prices=prices(*map(float, price))), SiteDevices(BATTERY, pv(*map(float, sun))))
    assert plan.violations == ()
    assert plan.devices.cost <= plan.power_profile.cost() + 1e-6


def test_pv_that_is_not_known_for_the_time_of_the_plan_is_named() -> None:
    inputs = make_inputs((a_job(1),))
    with pytest.raises(BadInput, match=r"pv\.csv: has no value from"):
        planned(inputs, SiteDevices(NO_BATTERY, pv(1.0, 2.0)))


def test_without_prices_there_is_no_plan() -> None:
    inputs = replace(make_inputs((a_job(1),), prices=None))
    assert plan_beside_devices(inputs, SiteDevices(BATTERY, None), budget_of(1)) is None
