"""A year beside PV and a battery: what day-ahead plans save of what perfect knowledge would, and how long they take.

`--prices` is a year or more of prices, `--weather` an answer of Open-Meteo's archive for the place and the year, as
JSON: with `shortwave_radiation`, or with `cloudcover`, of which the radiation follows (Haurwitz 1945; Kasten and
Czeplak 1980).
The load is the log's replay under easy, on the year of the weather. PV has the mean load as its peak, the battery
carries it for two hours.
"""

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.site_devices import Battery, SiteDevices
from offpeak.model.step_series import Series
from offpeak.settings.file import read_values
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import prepare
from offpeak.sim_backend.comparison.compare import compare, site_load
from offpeak.sim_backend.comparison.devices import with_device_bills
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.traces.read import read_log

PERFORMANCE = 0.8


def radiation(weather: Path) -> tuple[Int64, Float64]:
    """Return the hours [Unix s] and their mean radiation [W/m2]."""
    answer = json.loads(weather.read_text())
    hourly = answer["hourly"]
    start_s = np.array(hourly["time"], "datetime64[s]").astype(np.int64) - answer["utc_offset_seconds"]
    if "shortwave_radiation" in hourly:
        # Open-Meteo's value is the mean of the hour before its time.
        return start_s - 3600, np.array(hourly["shortwave_radiation"], float)
    clear = clear_sky(start_s + 1800, answer["latitude"], answer["longitude"])
    return start_s, clear * (1 - 0.75 * (np.array(hourly["cloudcover"], float) / 100) ** 3.4)


def clear_sky(unix_s: Int64, north_deg: float, east_deg: float) -> Float64:
    """Return the radiation of a cloudless sky [W/m2]."""
    day = unix_s / 86_400 % 365.25
    declination = np.radians(-23.44) * np.cos(2 * np.pi * (day + 10) / 365.25)
    angle = 2 * np.pi * (day - 81) / 364
    equation_min = 9.87 * np.sin(2 * angle) - 7.53 * np.cos(angle) - 1.5 * np.sin(angle)
    hour_angle = np.radians(15 * (unix_s % 86_400 / 3600 + east_deg / 15 + equation_min / 60 - 12))
    north = np.radians(north_deg)
    height = np.sin(north) * np.sin(declination) + np.cos(north) * np.cos(declination) * np.cos(hour_angle)
    watts: Float64 = 1098 * np.maximum(height, 0) * np.exp(-0.057 / np.maximum(height, 1e-3))
    return watts


def main() -> None:
    """Print a row for the prices alone, and one for each tariff."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("--prices", type=Path, required=True)
    parser.add_argument("--weather", type=Path, required=True)
    parser.add_argument("--tariff", action="append", default=[])
    given = parser.parse_args()
    start_s, watts = radiation(given.weather)
    print(f"radiation {watts.sum() / 1000:,.0f} kWh/m2 a year")
    first = datetime.fromtimestamp(int(start_s[0]) + 2 * 86_400, UTC).date().isoformat()
    for tariff in (None, *given.tariff):
        options = {"prices.file": str(given.prices), "prices.tariff": tariff, "log.time_zone": "Europe/Berlin"}
        settings = Settings.of(read_values(None, options=options))
        trace = read_log(str(given.log), lenient=False, zone=UTC)
        prepared = prepare(trace, settings, start=first)
        comparison = compare(prepared.case, (parse_policy("easy", settings.scheduling),))
        load = site_load(comparison.case, comparison.runs[0].usage, comparison.runs[0].sleep)
        mean_kw = float(np.average(load.load_kw, weights=np.diff(load.edges_s)))
        end_s = int(start_s[-1]) + 3600
        pv = Series(start_s, end_s, watts / 1000 * PERFORMANCE * mean_kw, "kW", given.weather.name)
        battery = Battery(2 * mean_kw, mean_kw, mean_kw, 0.88, mean_kw, mean_kw)
        began_s = time.process_time()
        (bill,) = with_device_bills(comparison, SiteDevices(battery, pv)).device_bills
        took_s = time.process_time() - began_s
        saved, most = bill.pv_alone - bill.planned, bill.pv_alone - bill.bound
        print(f"{tariff or 'prices alone'}: mean load {mean_kw:.1f} kW, {bill.hours / 24:,.0f} days")
        print(f"  {took_s:.1f} s of processor time")
        for name in ("without", "pv_alone", "planned", "bound"):
            cost = getattr(bill, name)
            print(f"  {name:9} {cost:10,.0f} {bill.currency}, a year {bill.a_year(cost):,.0f} less")
        share = f"{saved:,.0f} of at most {most:,.0f} ({100 * saved / most:.1f} %)"
        print(f"  the battery saves {share} in {bill.cycles:,.0f} cycles")
        rest = f"{bill.exported_kwh:,.0f} exported, {bill.curtailed_kwh:,.0f} curtailed"
        print(f"  PV {bill.pv_kwh:,.0f} kWh, {rest}")


if __name__ == "__main__":
    main()
