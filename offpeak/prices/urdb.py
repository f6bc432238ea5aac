"""Tariffs of the United States as JSON of the Utility Rate Database (URDB, version 7 and 8).

Its rates are by month, weekday or weekend, and hour: seasons and times of use of energy, and demand charges of each
month. A bill has the tiers and the ratchet; decisions use the price above the tiers of energy, at which a machine buys
its next MWh. A tariff with what cannot be charged exactly is refused, such as units other than kWh and kW. Fixed and
minimum charges are left out, because no decision changes them.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import tzinfo
from itertools import groupby
from typing import Any

from offpeak.errors import BadPrices
from offpeak.model.constants import HOUR_S
from offpeak.prices.rates import MONTH_NAMES, ClockWindow, RateSchedule, RateWindow, TariffCalendar
from offpeak.prices.tariff import DemandCharge, DemandRatchet, Tariff

KWH_A_MWH = 1000
WEEKDAYS, WEEKEND = tuple(range(5)), (5, 6)
METERED_MINUTES = 15
MOST_WINDOWS = 120
RATCHET_MONTHS = 11
"""The months before the present one that a ratchet looks back at if the tariff does not say."""
NOT_READ = {
    "coincidentratestructure": "charges for the peak of the grid",
    "demandreactivepowercharge": "reactive power",
}
HINT = "write its prices as a tariff file in TOML: docs/how-to/tariff.md"


def parse_urdb(text: bytes, file: str, zone: tzinfo) -> Tariff:
    """Return the tariff of the text of a file; its hours are in `zone`. Raises BadPrices for what cannot be charged."""
    found = _rate(text, file)
    try:
        return _tariff(found, file, zone)
    except (TypeError, KeyError, AttributeError) as problem:
        raise BadPrices(f"{file}: is not a tariff of the URDB: {type(problem).__name__}", hint=HINT) from None


def _tariff(found: dict[str, Any], file: str, zone: tzinfo) -> Tariff:
    for key, what in NOT_READ.items():
        if any(_flat(found.get(key))):
            raise BadPrices(f"{file}: {key}: {what} are not read", hint=HINT)
    calendar = TariffCalendar(zone)
    energy = _schedule(found, "energy", file, calendar, "rate")
    ratchet, assumed = _ratchet(found, file)
    of_month = tuple(replace(charge, ratchet=ratchet) for charge in _charges(found, "flatdemand", file))
    if ratchet and not of_month:
        raise BadPrices(f"{file}: a ratchet of demand at a time of use is not read", hint=HINT)
    demand = (*_charges(found, "demand", file), *of_month)
    window = found.get("demandwindow") or METERED_MINUTES
    name = " ".join(str(found[key]) for key in ("utility", "name") if found.get(key)) or file
    positions = ", ".join(["energy at a time of use", *(charge.name for charge in demand)])
    has_export = any(_number(tier, "sell", file) for period in found["energyratestructure"] for tier in period)
    if demand and window != METERED_MINUTES:
        assumed.append(f"demand by quarter-hours, not by {window} min")
    if any(each.tiers for each in energy.windows):
        assumed.append("each MWh at the price above the tiers, which only a bill has")
    return Tariff(
        currency="USD",
        energy=energy,
        text=file,
        description=f"{name}: {positions}",
        export=_schedule(found, "energy", file, calendar, "sell") if has_export else None,
        demand=demand,
        assumed="; ".join(assumed),
    )


def _rate(text: bytes, file: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as problem:
        raise BadPrices(f"{file}: is no JSON: {problem}", hint="a tariff is JSON of the URDB, or TOML") from None
    if isinstance(found, dict) and isinstance(found.get("items"), list):
        found = found["items"]
    if isinstance(found, list):
        names = [str(each.get("name")) for each in found if isinstance(each, dict)]
        if len(names) != 1:
            raise BadPrices(f"{file}: holds {len(names)} tariffs: {', '.join(names[:5])}", hint="keep one of its items")
        found = found[0]
    needed = {"energyratestructure", "energyweekdayschedule", "energyweekendschedule"}
    rate: dict[str, Any] = found if isinstance(found, dict) else {}
    if missing := needed - set(rate):
        raise BadPrices(f"{file}: is not a tariff of the URDB: it lacks {', '.join(sorted(missing))}", hint=HINT)
    return rate


def _schedule(found: dict[str, Any], prefix: str, file: str, calendar: TariffCalendar, key: str) -> RateSchedule:
    periods = _periods(found, prefix, file, "kwh")
    windows = tuple(
        RateWindow(
            f"period {period + 1}",
            _price(tiers[-1], key, file) * KWH_A_MWH,
            when=when,
            tiers=tuple((most_kwh, price * KWH_A_MWH) for most_kwh, price in _lower_tiers(tiers, key, file)),
        )
        for period, when in _windows(found, prefix, file, len(periods))
        if (tiers := periods[period])
    )
    if len(windows) > MOST_WINDOWS:
        raise BadPrices(f"{file}: has {len(windows)} different hours, months and days", hint=HINT)
    limits = {tuple(most_kwh for most_kwh, _ in window.tiers) for window in windows}
    if len(limits) > 1:
        raise BadPrices(f"{file}: the periods have tiers of different amounts, which are not read", hint=HINT)
    return RateSchedule(prefix if key == "rate" else "export", calendar, windows)


def _price(tier: dict[str, Any], key: str, file: str) -> float:
    return _number(tier, key, file) + (_number(tier, "adj", file) if key == "rate" else 0.0)


def _lower_tiers(tiers: list[dict[str, Any]], key: str, file: str) -> tuple[tuple[float, float], ...]:
    """Return the amount [kWh or kW] and the price of the lower tiers; all beyond them has the price of the last."""
    lower = tuple((float(tier.get("max") or 0), _price(tier, key, file)) for tier in tiers[:-1])
    limits = [most for most, _ in lower]
    if limits != sorted(set(limits)) or (limits and limits[0] <= 0):
        raise BadPrices(f"{file}: the tiers of a period do not rise: {', '.join(map(str, limits))}", hint=HINT)
    return lower


def _charges(found: dict[str, Any], prefix: str, file: str) -> Iterator[DemandCharge]:
    """Return the demand charges of the times of use, or of the whole months (`flatdemand`)."""
    if f"{prefix}ratestructure" not in found and f"{prefix}structure" not in found:
        return
    periods = _periods(found, prefix, file, "kw")
    windows = list(_windows(found, prefix, file, len(periods)))
    for period, tiers in enumerate(periods):
        per_kw, lower = _price(tiers[-1], "rate", file), _lower_tiers(tiers, "rate", file)
        when = tuple(window for number, window in windows if number == period)
        if when and (per_kw or any(price for _, price in lower)):
            name = "demand" if prefix == "flatdemand" else "time-of-use demand"
            yield DemandCharge(f"{name} {period + 1}", per_kw, False, when, lower)


def _ratchet(found: dict[str, Any], file: str) -> tuple[DemandRatchet | None, list[str]]:
    """Return the ratchet of the demand of a month, and what of it the tariff does not say.

    `lookbackPercent` is a part of 1, of the highest demand of the last `lookbackRange` months, or of those of
    `lookbackMonths`. Older tariffs have a `demandratchetpercentage` for each month.
    """
    found = {key.lower(): value for key, value in found.items()}
    of_months = {_number({"%": each}, "%", file) for each in found.get("demandratchetpercentage") or []}
    share = _number(found, "lookbackpercent", file) or max(of_months, default=0.0)
    if not share:
        return None, []
    if (of_months - {0.0, share}) or len(of_months) > 1 or not 0 < share <= 1:
        raise BadPrices(f"{file}: demand ratchets of different months, or above 1, are not read", hint=HINT)
    flags, range_months = found.get("lookbackmonths") or [], int(_number(found, "lookbackrange", file))
    months = tuple(month for month, counts in enumerate(flags) if counts)
    if len(flags) not in (0, 12) or not 0 <= range_months <= 12 or (months and range_months):
        raise BadPrices(f"{file}: lookbackRange and lookbackMonths contradict each other", hint=HINT)
    assumed = ["the ratchet by the months with readings, at the demand of a month only"]
    if not range_months:
        assumed.append(f"the ratchet of the last {RATCHET_MONTHS} months")
    return DemandRatchet(share, range_months or RATCHET_MONTHS, months or tuple(range(12))), assumed


def _periods(found: dict[str, Any], prefix: str, file: str, unit: str) -> list[list[dict[str, Any]]]:
    """Return the tiers of each period. Raises BadPrices for other units."""
    key = next(key for key in (f"{prefix}ratestructure", f"{prefix}structure") if key in found)
    written = str(found.get("flatdemandunit" if prefix == "flatdemand" else f"{prefix}rateunit") or unit)
    if prefix != "energy" and written.lower() != unit:
        raise BadPrices(f"{file}: {key}: is per {written}, not per kW", hint=HINT)
    for number, period in enumerate(found[key], 1):
        if not period:
            raise BadPrices(f"{file}: {key}: period {number} has no price", hint=HINT)
        for tier in period:
            if str(tier.get("unit") or unit).lower() != unit:
                raise BadPrices(f"{file}: {key}: period {number} is per {tier['unit']}", hint=HINT)
    return list(found[key])


def _windows(found: dict[str, Any], prefix: str, file: str, periods: int) -> Iterator[tuple[int, ClockWindow]]:
    """Return the hours of each period on the days of equal months."""
    if prefix == "flatdemand":
        month_of = found.get("flatdemandmonths") or []
        schedules = [(tuple(range(7)), [[period] * 24 for period in month_of])]
    else:
        keys = (f"{prefix}weekdayschedule", f"{prefix}weekendschedule")
        schedules = list(zip((WEEKDAYS, WEEKEND), (found.get(key) or [] for key in keys), strict=True))
    for days, months in schedules:
        rows = [tuple(row) for row in months]
        known = all(isinstance(period, int) and 0 <= period < periods for row in rows for period in row)
        if len(rows) != len(MONTH_NAMES) or any(len(row) != 24 for row in rows) or not known:
            raise BadPrices(f"{file}: {prefix}: its schedule is not of 12 months of 24 known periods", hint=HINT)
        for row in dict.fromkeys(rows):
            of_row = tuple(month for month, each in enumerate(rows) if each == row)
            for period in dict.fromkeys(row):
                yield period, ClockWindow(_hours(row, period), days, of_row)


def _hours(row: tuple[int, ...], period: int) -> tuple[tuple[int, int], ...]:
    hour, hours = 0, []
    for value, run in groupby(row):
        count = len(list(run))
        if value == period:
            hours.append((hour * HOUR_S, (hour + count) * HOUR_S))
        hour += count
    return tuple(hours)


def _number(tier: dict[str, Any], key: str, file: str) -> float:
    value = tier.get(key) or 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1000:
        raise BadPrices(f"{file}: {key} = {value!r} is not a plausible price", hint=HINT)
    return float(value)


def _flat(value: Any) -> Iterator[Any]:
    """Return what a value holds, at any depth, that is not 0."""
    if isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _flat(each)
    elif value:
        yield value
