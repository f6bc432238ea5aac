"""What a PV plant and a battery bring beside a machine: bills without and with them over the time of a replay.

The battery follows a plan of two days, made anew each midnight: prices are known for the day that begins; for the day
after it they are taken to repeat. Load and PV power are forecast by those of the last whole day. A bound beside it is
the bill under perfect knowledge of load, PV and prices over the whole time.
"""

from dataclasses import fields, replace
from functools import partial
from itertools import pairwise

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S, QUARTER_S
from offpeak.model.local_time import local_days, to_unix_s
from offpeak.model.site_devices import NO_BATTERY, SiteDevices
from offpeak.model.step_series import Series, integral_between, value_at
from offpeak.model.time_range import TimeRange
from offpeak.plugin.planner.dispatch import Dispatch, DispatchProblem, cost_of, hold, operate, solve_dispatch
from offpeak.prices.alignment import extend
from offpeak.prices.bill import demand_periods
from offpeak.prices.tariff import Tariff
from offpeak.sim_backend.comparison.compare import Comparison, SiteLoad, site_load
from offpeak.sim_backend.comparison.outcome import DeviceBill


def with_device_bills(comparison: Comparison, devices: SiteDevices) -> Comparison:
    """Return the comparison with the bills of each run beside these devices. Raises BadInput as `bill_with_devices`."""
    prices = comparison.case.prices
    market = prices.market and extend(prices.market, prices.aligned.series.end_s)
    bill = partial(
        bill_with_devices, prices=prices.aligned.series, devices=devices, tariff=prices.tariff, market=market
    )
    loads = (site_load(comparison.case, run.usage, run.sleep) for run in comparison.runs)
    return replace(comparison, device_bills=tuple(map(bill, loads)))


def bill_with_devices(
    load: SiteLoad, prices: Series, devices: SiteDevices, *, tariff: Tariff | None = None, market: Series | None = None
) -> DeviceBill:
    """Return the bills of the load at these prices of a MWh, with the demand charges of the tariff.

    Exports earn the tariff's price for them, at the prices of the `market` if it follows these, else nothing. Slots are
    cut at each price, each PV value, each midnight, and each full hour, for demand charges each quarter, and then not
    at PV values: the peak is that of whole quarter-hours. Power is its mean over a slot. Raises BadInput if the PV
    power is not known, or if a demand charge has tiers or a ratchet.
    """
    if tariff and (uneven := [charge.name for charge in tariff.demand if not charge.is_linear]):
        raise BadInput(
            f"{tariff.text}: {uneven[0]}: has tiers or a ratchet, under which no battery is planned",
            hint="leave out the battery and the PV plant, or write the price of the highest tier into a tariff file",
        )
    begin_s, until_s = int(load.edges_s[0]), int(load.edges_s[-1])
    midnights_s = to_unix_s(local_days(begin_s, until_s, load.zone) * DAY_S, load.zone)[0]
    grid_s = QUARTER_S if tariff and tariff.demand else HOUR_S
    finer = (prices,) if tariff and tariff.demand else (prices, devices.pv)
    instants = [each.start_s for each in finer if each is not None]
    if tariff and tariff.export:
        instants.append(tariff.calendar.edges_s(tariff.export.table, begin_s, until_s))
    grid = np.arange(begin_s // grid_s * grid_s, until_s, grid_s)
    edges_s = np.unique(np.concatenate([*instants, midnights_s, grid, [begin_s, until_s]]))
    edges_s = edges_s[(edges_s >= begin_s) & (edges_s <= until_s)]
    start_s, length_s = edges_s[:-1], np.diff(edges_s)
    billed = TimeRange(float(begin_s), float(until_s))
    charges = list(demand_periods(tariff, start_s, billed)) if tariff else []
    quarter_s = start_s // QUARTER_S * QUARTER_S
    is_whole = (quarter_s >= begin_s) & (quarter_s + QUARTER_S <= until_s)
    taxed = 1 + tariff.vat_percent / 100 if tariff else 1.0
    export_per_mwh = np.zeros(len(start_s))
    if tariff and tariff.export:
        spot = np.nan if market is None else value_at(market, start_s)
        export_per_mwh = tariff.export.prices(tariff.calendar.cells(start_s), spot)
    problem = DispatchProblem(
        hours=length_s / HOUR_S,
        load_kw=integral_between(load.edges_s, load.load_kw, edges_s) / length_s,
        pv_kw=devices.pv_kw(edges_s),
        import_per_kwh=value_at(prices, start_s) / 1000,
        export_per_kwh=export_per_mwh * taxed / 1000,
        battery=devices.battery,
        demand=np.array([mask & is_whole for _, _, mask, _ in charges], np.bool_).reshape(-1, len(start_s)),
        peak_per_kw=np.array([charge.per_kw * share * taxed for charge, _, _, share in charges]),
        peak_so_far_kw=np.zeros(len(charges)),
    )
    done = operate_day_ahead(problem, edges_s, midnights_s)
    # Perfect knowledge must not end with less in the battery, and need not end with more.
    least = replace(devices.battery, end_kwh=min(devices.battery.end_kwh, float(done.stored_kwh[-1])))
    bound = replace(problem, battery=least)
    no_battery = replace(problem, battery=NO_BATTERY)
    no_pv = replace(no_battery, pv_kw=np.zeros(len(problem)))
    alone = hold(no_pv)
    peaks_kw = [float(problem.peaks_kw(each.import_kw).max(initial=0.0)) for each in (alone, done)]
    return DeviceBill(
        hours=float(problem.hours.sum()),
        currency=prices.currency,
        without=cost_of(problem, alone),
        pv_alone=cost_of(problem, hold(no_battery)),
        planned=cost_of(problem, done),
        bound=cost_of(bound, solve_dispatch(bound, relaxed=True)),
        pv_kwh=float(problem.pv_kw @ problem.hours),
        exported_kwh=float(done.export_kw @ problem.hours),
        curtailed_kwh=float(done.curtailed_kw @ problem.hours),
        cycles=float(done.discharge_kw @ problem.hours) / max(devices.battery.capacity_kwh, 1e-9),
        unpriced_h=float(problem.hours @ ~problem.priced),
        saved_kwh=float((alone.import_kw - done.import_kw) @ problem.hours),
        saved_kw=peaks_kw[0] - peaks_kw[1] if problem.demand.any() else None,
    )


def operate_day_ahead(whole: DispatchProblem, edges_s: Int64, midnights_s: Int64) -> Dispatch:
    """Return what becomes of the plans that are made at each midnight, with the knowledge of that time only."""
    one_day, two_days = ((np.searchsorted(edges_s, edges_s[:-1] - days * DAY_S, side="right") - 1) for days in (1, 2))
    inside = midnights_s[(midnights_s > edges_s[0]) & (midnights_s < edges_s[-1])]
    firsts = [0, *np.searchsorted(edges_s, inside).tolist(), len(whole), len(whole)]
    battery, peaks_kw, parts = whole.battery, whole.peak_so_far_kw, []
    for (first, last), (_, ahead) in pairwise(pairwise(firsts)):
        actual = replace(whole.part(first, last), battery=battery, peak_so_far_kw=peaks_kw)
        at, day_after = np.concatenate([one_day[first:last], two_days[last:ahead]]), one_day[last:ahead]
        forecast = replace(
            whole.part(first, ahead),
            load_kw=_taken(whole.load_kw, at, 0.0),
            pv_kw=_taken(whole.pv_kw, at, 0.0),
            import_per_kwh=np.append(actual.import_per_kwh, _taken(whole.import_per_kwh, day_after, np.nan)),
            export_per_kwh=np.append(actual.export_per_kwh, _taken(whole.export_per_kwh, day_after, np.nan)),
            battery=battery,
            peak_so_far_kw=peaks_kw,
        )
        # Nothing is known of the day before the first one.
        done = operate(actual, solve_dispatch(forecast).part(0, last - first)) if first else hold(actual)
        battery = replace(battery, start_kwh=float(done.stored_kwh[-1]))
        peaks_kw = actual.peaks_kw(done.import_kw)
        parts.append(done)
    names = [column.name for column in fields(Dispatch)]
    return Dispatch(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _taken(column: Float64, at: Int64, unknown: float) -> Float64:
    return np.where(at >= 0, column[np.maximum(at, 0)], unknown)
