"""Figures, durations, times, power and their units as people read them."""

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S


def power_text(power_w: float | None) -> str:
    """Return watts, kilowatts and megawatts from ten of them on; "no value" for None."""
    if power_w is None:
        return "no value"
    if power_w >= 10_000_000:
        return f"{power_w / 1e6:,.2f} MW"
    return watts_text(power_w) if power_w < 10_000 else f"{power_w / 1000:,.2f} kW"


NOT_KNOWN = "not known"


def amount_text(amount: float | None) -> str:
    """Return money, energy [kWh] or mass [kg] with two decimals; "not known" for None."""
    return NOT_KNOWN if amount is None else f"{amount:z,.2f}"


def money_text(amount: float | None, currency: str) -> str:
    """Return "1,234.50 EUR", "0.0018 EUR"; `currency` may be the unit of a price; "not known" for None."""
    return NOT_KNOWN if amount is None else f"{amount:z,.{_decimals(amount)}f} {currency}"


def _decimals(amount: float) -> int:
    """Return 2, or 4 if an amount that is not zero would look like it."""
    return 4 if 0.00005 <= abs(amount) < 0.005 else 2


def range_text(low: float | None, high: float | None) -> str:
    """Return "1.20 to 1.50", "" if a bound is not known or both look the same."""
    texts = [amount_text(bound) for bound in (low, high) if bound is not None]
    return " to ".join(texts) if len(set(texts)) == 2 else ""


def idle_hours_text(allocated_s: float, idle_s: float, busy_s: float) -> str:
    """Return the GPU-hours that were idle for certain, and how many more may have been: "1.50", "1.50 to 2.00"."""
    least, most = idle_s / HOUR_S, (allocated_s - busy_s) / HOUR_S
    return NOT_KNOWN if not idle_s + busy_s else range_text(least, most) or amount_text(least)


def energy_text(energy_kwh: float | None, decimals: int | None = None) -> str:
    """Return "1,234.50 kWh", "0.0018 kWh"; "not known" for None."""
    if energy_kwh is None:
        return NOT_KNOWN
    return f"{energy_kwh:z,.{_decimals(energy_kwh) if decimals is None else decimals}f} kWh"


def co2_text(co2_kg: float) -> str:
    """Return "1.25 kg CO2"."""
    return f"{amount_text(co2_kg)} kg CO2"


def percent_text(percent: float, decimals: int = 0) -> str:
    """Return "12 %", with one decimal "12.3 %"."""
    return f"{percent:z.{decimals}f} %"


def watts_text(power_w: float) -> str:
    """Return whole watts whatever their number: "12,345 W"."""
    return f"{power_w:,.0f} W"


NOT_WRAPPED = 1000
"""The width of output into a pipe, so that long lines are not wrapped."""

WITH_CENTS_BELOW = 10_000
SECONDS_BELOW_S = 2 * MINUTE_S
HOURS_BELOW, WHOLE_DAYS_FROM = 48, 14


@dataclass(frozen=True)
class Unit:
    """A unit in which figures are shown; `size` is how much of the smallest one it is."""

    name: str
    size: float

    def figure(self, value: float) -> str:
        """Return a figure that is given in the smallest unit."""
        return figure(value / self.size)


ENERGY_UNITS = (Unit("GWh", 1e6), Unit("MWh", 1e3), Unit("kWh", 1.0))
CO2_UNITS = (Unit("t", 1e3), Unit("kg", 1.0))


def unit_of(largest: float, units: tuple[Unit, ...]) -> Unit:
    """Return the largest unit of which `largest`, given in the smallest one, is ten or more; else the smallest."""
    return next((unit for unit in units if abs(largest) >= 10 * unit.size), units[-1])


def figure(value: float) -> str:
    """Return money or energy with cents, a large one without."""
    return amount_text(value) if abs(value) < WITH_CENTS_BELOW else f"{value:,.0f}"


def duration_text(duration_s: float) -> str:
    """Return "40 s", "14 min", "2:05 h" (hours and minutes) or "3 d 7 h"; without a rest "2 h" or "3 days"."""
    if duration_s < SECONDS_BELOW_S:
        return f"{duration_s:.0f} s"
    hours, minutes = divmod(round(duration_s / MINUTE_S), 60)
    if hours < HOURS_BELOW:
        return f"{minutes} min" if not hours else f"{hours}:{minutes:02} h" if minutes else f"{hours} h"
    days, hours = divmod(round(duration_s / HOUR_S), 24)
    return f"{days} d {hours} h" if hours and days < WHOLE_DAYS_FROM else f"{round(duration_s / DAY_S):,} days"


def minute_text(unix_s: float, zone: tzinfo) -> str:
    """Return the local date and time to the minute: "2020-09-21 14:05"."""
    return f"{datetime.fromtimestamp(unix_s, zone):%Y-%m-%d %H:%M}"


def second_text(unix_s: float, zone: tzinfo) -> str:
    """Return the local date and time to the second: "2020-09-21 14:05:09"."""
    return f"{datetime.fromtimestamp(unix_s, zone):%Y-%m-%d %H:%M:%S}"


def iso_text(unix_s: float, zone: tzinfo) -> str:
    """Return the local date and time to the second with the offset of the zone: "2020-09-21T14:05:09+02:00"."""
    return datetime.fromtimestamp(unix_s, zone).isoformat(timespec="seconds")


def utc_text(unix_s: float) -> str:
    """Return an instant in UTC: "2026-11-22T08:00:00Z"."""
    return f"{datetime.fromtimestamp(round(unix_s), UTC):%Y-%m-%dT%H:%M:%SZ}"


def utc_minute_text(unix_s: float) -> str:
    """Return the time in UTC to the minute: "2024-11-04T23:00Z"."""
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%dT%H:%MZ}"
