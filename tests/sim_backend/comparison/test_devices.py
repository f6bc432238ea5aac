"""Bills beside PV and battery over weeks: their order, what is known when, days of 23 hours, and finer prices."""

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.site_devices import NO_BATTERY, Battery, SiteDevices
from offpeak.model.step_series import Series
from offpeak.prices.bill import make_bill
from offpeak.prices.rates import ClockWindow, RateSchedule, RateWindow, TariffCalendar
from offpeak.prices.tariff import DemandCharge, DemandRatchet, Tariff
from offpeak.sim_backend.comparison.devices import SiteLoad, bill_with_devices

BERLIN = ZoneInfo("Europe/Berlin")
BEGIN_S = int(datetime(2024, 3, 28, tzinfo=BERLIN).timestamp())
"""Three days before a day of 23 hours."""
EVER = TariffCalendar(BERLIN)
CONTRACT = Tariff(
    currency="EUR",
    energy=RateSchedule("energy", EVER, (RateWindow("spot", 0.0, factor=1.0),)),
    text="tariff.toml",
    description="the market's price",
    export=RateSchedule("export", EVER, (RateWindow("spot", -10.0, factor=1.0),)),
    demand=(DemandCharge("demand", 8.0, False, (ClockWindow(),)),),
)
BATTERY = Battery(200.0, 50.0, 50.0, 0.85, 100.0, 100.0)
DAYS = 6


def series(values: np.ndarray, unit: str, step_s: int = 3600, begin_s: int = BEGIN_S) -> Series:
    start_s = begin_s + step_s * np.arange(len(values))
    return Series(start_s, int(start_s[-1]) + step_s, values.astype(float), unit, "test")


def site(seed: int, *, price_step_s: int = 3600) -> tuple[SiteLoad, Series, SiteDevices]:
    random = np.random.default_rng(seed)
    hours = np.arange(24 * DAYS)
    load = SiteLoad(BEGIN_S + 3600 * np.append(hours, len(hours)), random.uniform(20, 80, len(hours)), BERLIN)
    sun = np.maximum(np.sin((hours % 24 - 6) / 12 * np.pi), 0) * random.uniform(0, 120, len(hours))
    prices = series(random.uniform(-50, 250, len(hours) * 3600 // price_step_s), "EUR/MWh", price_step_s)
    return load, prices, SiteDevices(BATTERY, series(sun, "kW"))


@given(st.integers(0, 1000), st.sampled_from([900, 3600]), st.sampled_from([None, CONTRACT]))
@settings(max_examples=10, deadline=None)
def test_no_operation_is_cheaper_than_perfect_knowledge(seed: int, price_step_s: int, tariff: Tariff | None) -> None:
    load, prices, devices = site(seed, price_step_s=price_step_s)
    bill = bill_with_devices(load, prices, devices, tariff=tariff, market=prices)
    assert bill.bound <= bill.planned + 1e-4
    assert bill.bound <= bill.pv_alone + 1e-4
    assert bill.hours == 24 * DAYS


def test_a_repeating_world_is_planned_almost_perfectly() -> None:
    load, _, devices = site(1)
    day = np.arange(24 * DAYS) % 24
    prices = series(np.where((day > 7) & (day < 21), 200.0, 20.0), "EUR/MWh")
    load = replace(load, load_kw=np.full(len(day), 60.0))
    bill = bill_with_devices(load, prices, replace(devices, pv=None))
    assert bill.without == pytest.approx(bill.pv_alone)
    # On the first day nothing is known of the day before, and the battery holds.
    assert (bill.without - bill.planned) / (bill.without - bill.bound) > 0.8
    assert bill.cycles == pytest.approx(DAYS, rel=0.35)


def test_prices_after_the_day_that_begins_are_not_known() -> None:
    load, prices, devices = site(2)
    last = prices.start_s >= BEGIN_S + 86_400 * (DAYS - 1)
    other = replace(prices, value=np.where(last, 1000 - prices.value, prices.value))
    shorter = replace(load, edges_s=load.edges_s[: -24 - 1], load_kw=load.load_kw[: -24 - 1])
    assert bill_with_devices(shorter, prices, devices) == bill_with_devices(shorter, other, devices)
    assert bill_with_devices(load, prices, devices).planned != bill_with_devices(load, other, devices).planned


def test_a_peak_is_that_of_whole_quarter_hours() -> None:
    """PV values of five minutes cut no quarter-hour, and the first minutes of a load are none."""
    minutes = np.arange(0, 2 * 1440, 5)
    load_kw = np.where(minutes % 15 == 0, 90.0, 30.0)
    load = SiteLoad(BEGIN_S + 600 + 300 * np.arange(len(minutes) + 1), load_kw, BERLIN)
    prices = series(np.full(24 * DAYS, 100.0), "EUR/MWh")
    dark = series(np.zeros(12 * 24 * DAYS), "kW", 300)
    bill = bill_with_devices(load, prices, SiteDevices(NO_BATTERY, dark), tariff=CONTRACT, market=prices)
    energy = 50.0 * 48 * 0.1
    share = 48 / (31 * 24 - 1)
    assert bill.without == pytest.approx(energy + 8.0 * 50.0 * share)


def test_a_load_without_devices_costs_its_energy() -> None:
    load, prices, _ = site(3, price_step_s=900)
    bill = bill_with_devices(load, prices, SiteDevices(NO_BATTERY, None))
    energy = np.repeat(load.load_kw, 4) / 4
    assert bill.without == pytest.approx(float(energy @ prices.value) / 1000)
    assert bill.without == pytest.approx(bill.planned)
    assert bill.without == pytest.approx(bill.bound)
    assert bill.a_year(bill.planned) == pytest.approx(0, abs=1e-6)


def test_exports_earn_their_price() -> None:
    load, prices, devices = site(4)
    fixed = RateSchedule("export", EVER, (RateWindow("fixed", 60.0),))
    without = bill_with_devices(load, prices, devices)
    exported = bill_with_devices(load, prices, devices, tariff=replace(CONTRACT, demand=(), export=fixed))
    assert exported.pv_alone < without.pv_alone
    assert exported.planned < without.planned
    assert exported.bound < without.bound


def test_peaks_are_paid_as_the_bill_of_the_tariff_has_them() -> None:
    load, prices, _ = site(5)
    flat = replace(load, load_kw=np.where(load.edges_s[:-1] >= BEGIN_S + 5 * 86_400, 80.0, 50.0))
    nothing = SiteDevices(NO_BATTERY, None)
    taxed = replace(CONTRACT, vat_percent=19.0)
    bill = bill_with_devices(flat, replace(prices, value=np.zeros(len(prices))), nothing, tariff=taxed)
    quarter_s = np.arange(int(load.edges_s[0]), int(load.edges_s[-1]), 900)
    energy_kwh = np.repeat(flat.load_kw, 4) / 4
    of_tariff = make_bill(taxed, quarter_s, energy_kwh, replace(prices, value=np.zeros(len(prices))))
    assert bill.without == pytest.approx(of_tariff.total, abs=0.02)
    assert bill.without > 0


def test_no_battery_is_planned_under_tiers_or_a_ratchet_of_demand() -> None:
    load, prices, devices = site(5)
    for change in ({"tiers": ((100.0, 3.0),)}, {"ratchet": DemandRatchet(0.8, 11)}):
        uneven = replace(CONTRACT, demand=(replace(CONTRACT.demand[0], **change),))
        with pytest.raises(BadInput, match=r"has tiers or a ratchet"):
            bill_with_devices(load, prices, devices, tariff=uneven, market=prices)


def test_a_gap_in_the_prices_has_no_cost() -> None:
    load, prices, devices = site(6)
    gap = replace(prices, value=np.where(np.arange(len(prices)) // 24 == 2, np.nan, prices.value))
    bill = bill_with_devices(load, gap, devices)
    assert bill.unpriced_h == 24
    assert bill.bound <= bill.planned + 1e-4
