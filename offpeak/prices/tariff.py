"""The tariff of a site: what its bill charges for energy and for the highest demand.

A tariff is a file (`tariff_file`), or a rule of two prices and the local hours of the higher one. `tariff_series` makes
the price of the next MWh from it, with the market's price where the tariff follows a market. All decisions and accounts
use that series; `bill` charges metered energy position by position.
"""

from dataclasses import dataclass, replace
from datetime import UTC, tzinfo

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadPrices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.step_series import Series, merge, split
from offpeak.model.units import parse_price
from offpeak.model.zones import parse_zone, zone_text
from offpeak.prices import rates
from offpeak.prices.peak import ClockHours, PeakRule
from offpeak.text import parse_pairs

KEYS = ("on", "off", "hours", "days", "holidays", "zone")
# The customary on-peak hours of the work on dynamic pricing: 09:00 to 23:00, on every day.
DEFAULTS = {"hours": "09:00-23:00", "days": "mon-sun", "holidays": ""}
EXAMPLE = "write it like on=90EUR/MWh,off=30EUR/MWh,hours=09:00-23:00,days=mon-fri,zone=Europe/Berlin"

TARIFF_BASIS, ASSUMED_TARIFF_BASIS = "tariff", "assumed tariff"
CHARGED = ", charged by the tariff"
"""Ends the source of a price in the ledger that a tariff made from that of the market."""
NO_PRICES = "assumed, as no prices are given: --prices FILE or --tariff RULE"


@dataclass(frozen=True)
class DemandRatchet:
    """A month is charged for at least this share of the highest quarter-hour of the months before it.

    It looks back `months_back` months, at all their hours. Of these only `months` count, 0 is January.
    """

    share: float
    months_back: int
    months: tuple[int, ...] = tuple(range(12))


@dataclass(frozen=True)
class DemandCharge:
    """A price of the highest quarter-hour mean of a month, or of a year if `is_yearly`, in the windows.

    `tiers` are the power up to which a lower tier goes and its price; power beyond them has the price `per_kw`.
    """

    name: str
    per_kw: float
    is_yearly: bool
    windows: tuple[rates.ClockWindow, ...]
    tiers: tuple[tuple[float, float], ...] = ()
    ratchet: DemandRatchet | None = None

    @property
    def is_linear(self) -> bool:
        """Whether each kW more costs `per_kw`."""
        return not self.tiers and self.ratchet is None

    def cost(self, power_kw: float) -> float:
        """Return what a highest quarter-hour of that power costs before tax, in a whole period."""
        cost, lower_kw = self.per_kw * power_kw, 0.0
        for most_kw, per_kw in self.tiers:
            cost += (min(power_kw, most_kw) - min(power_kw, lower_kw)) * (per_kw - self.per_kw)
            lower_kw = most_kw
        return cost

    def counts(self, cells: Int64) -> NDArray[np.bool_]:
        """Return whether a quarter-hour counts in each of these cells of the tariff's calendar."""
        return np.asarray(np.logical_or.reduce([window.mask for window in self.windows]).ravel()[cells])

    def period(self, months: Int64) -> Int64:
        """Return the number of the period of the charge that contains each month."""
        return months // 12 if self.is_yearly else months


@dataclass(frozen=True)
class Tariff:
    """The price of energy, then the grid fee and levies per MWh, demand charges, and the value added tax.

    `export` is the price of energy that the site feeds in, None if it is paid nothing. `text` is the declaration,
    `description` the same in words, `assumed` the parts that were not declared, if any. `hours` are the on-peak hours
    of a rule of two prices. `names_zone`: the tariff names the time zone of its hours itself.
    """

    currency: str
    energy: rates.RateSchedule
    text: str
    description: str
    fees: tuple[rates.RateSchedule, ...] = ()
    export: rates.RateSchedule | None = None
    demand: tuple[DemandCharge, ...] = ()
    vat_percent: float = 0.0
    hours: ClockHours | None = None
    assumed: str = ""
    names_zone: bool = False

    @property
    def calendar(self) -> rates.TariffCalendar:
        """The clock of the tariff."""
        return self.energy.calendar

    @property
    def follows_market(self) -> bool:
        """Whether a price depends on that of the market."""
        return self.energy.needs_spot or (self.export is not None and self.export.needs_spot)

    def on_peak(self, rule: PeakRule) -> PeakRule:
        """Return the on-peak hours that the tariff declares, else the rule."""
        return self.hours or rule

    @property
    def basis(self) -> str:
        """Return the basis of a price of this tariff."""
        return ASSUMED_TARIFF_BASIS if self.assumed == NO_PRICES else TARIFF_BASIS

    @property
    def source(self) -> str:
        """Return the text by which figures name this tariff: the declaration and the assumptions."""
        return f"{self.text} ({self.assumed})" if self.assumed else self.text


def parse_tariff(text: str, zone: tzinfo = UTC) -> Tariff:
    """Return the tariff of "on=90EUR/MWh,off=30EUR/MWh,hours=09:00-23:00,days=mon-fri,holidays=DE,zone=Europe/Berlin".

    Only `on` and `off` are required; the hours are in `zone` unless the text names a time zone. Raises BadPrices or
    BadInput, with an example, for anything else.
    """
    if "=" not in text:
        flat = text.strip() if text[:1].isdigit() else "0.20EUR/kWh"
        raise BadPrices(
            f"the tariff {text!r} needs both on= and off=",
            hint=f"one price for all hours: on={flat},off={flat}; or name a tariff file, FILE.toml",
        )
    pairs = parse_pairs(text, known=KEYS, error=BadPrices)
    if "on" not in pairs or "off" not in pairs:
        raise BadPrices(f"the tariff {text!r} needs both on= and off=", hint=EXAMPLE)
    on_per_mwh, currency = parse_price(pairs["on"])
    off_per_mwh, off_currency = parse_price(pairs["off"])
    if currency != off_currency:
        raise BadPrices(f"the tariff {text!r} mixes {currency} and {off_currency}", hint="use one currency")
    declared = DEFAULTS | pairs
    on, off = (f"{price:,g} {currency}/MWh" for price in (on_per_mwh, off_per_mwh))
    from_s, until_s = rates.parse_hours(declared["hours"])
    named = parse_zone(declared["zone"]) if "zone" in declared else None
    place = declared["holidays"] and rates.check_holidays(declared["holidays"])
    hours = ClockHours(from_s, until_s, rates.parse_days(declared["days"]), place, named or zone)
    return Tariff(
        currency=currency,
        energy=_two_prices(on_per_mwh, off_per_mwh, hours),
        hours=hours,
        text=text,
        description=f"{on} {_when(declared, hours.zone)}, else {off}",
        assumed="" if "hours" in pairs else f"hours={declared['hours']} assumed: none are given",
        names_zone="zone" in pairs,
    )


def _when(pairs: dict[str, str], zone: tzinfo) -> str:
    """Return the hours of the higher price in words."""
    days = "every day" if pairs["days"] == DEFAULTS["days"] else pairs["days"]
    holidays = f" but holidays of {pairs['holidays']}" if pairs["holidays"] else ""
    clock = zone_text(zone) or "this machine"
    return f"from {pairs['hours'].replace('-', ' to ')} {days}{holidays}, clock of {clock}"


def _two_prices(on_per_mwh: float, off_per_mwh: float, hours: ClockHours) -> rates.RateSchedule:
    windows = (rates.RateWindow("on", on_per_mwh, when=hours.window), rates.RateWindow("off", off_per_mwh))
    holiday = rates.RateWindow("holiday", off_per_mwh, when=rates.ClockWindow(days=(rates.HOLIDAY,)))
    return rates.RateSchedule("energy", hours.calendar, (*windows, holiday) if hours.holidays else windows)


def price_of_next_mwh(tariff: Tariff, unix_s: Int64, spot: Float64 | float = np.nan) -> Float64:
    """Return what a MWh more costs at each instant, taxes included, where the market has these prices.

    It has no part of a demand charge, which depends on the highest quarter-hour and not on the energy.
    """
    cells = tariff.calendar.cells(unix_s)
    price = tariff.energy.prices(cells, spot)
    for fee in tariff.fees:
        price = price + fee.prices(cells)
    return price * (1 + tariff.vat_percent / 100)


def price_of_market(tariff: Tariff, unix_s: Int64, charged: Float64) -> Float64:
    """Return the price of the market at which the next MWh costs that much, NaN where it does not depend on it."""
    window = tariff.energy.table.ravel()[tariff.calendar.cells(unix_s)]
    factor = np.array([each.factor for each in tariff.energy.windows])[window] * (1 + tariff.vat_percent / 100)
    return np.where(factor > 0, charged - price_of_next_mwh(tariff, unix_s, 0.0), np.nan) / np.where(
        factor > 0, factor, 1
    )


def tariff_series(tariff: Tariff, from_s: int, until_s: int) -> Series:
    """Return the price of the next MWh from `from_s` to `until_s` [Unix s], one interval per stretch of one price.

    It is not known where the tariff follows the market.
    """
    if until_s <= from_s:
        raise BadPrices(f"the tariff {tariff.text!r} is asked for no time at all")
    start_s: Int64 = np.array([from_s], np.int64)
    unknown = Series(start_s, until_s, np.array([np.nan]), f"{tariff.currency}/MWh", tariff.source)
    return merge(charge_market(tariff, unknown))


def charge_market(tariff: Tariff, spot: Series) -> Series:
    """Return what the next MWh costs at these prices of the market, with the intervals cut where the tariff changes.

    Raises BadPrices if they are in another currency.
    """
    if spot.unit != f"{tariff.currency}/MWh":
        raise BadPrices(
            f"{tariff.text}: is in {tariff.currency}, and the prices of {spot.source} are in {spot.unit}",
            hint="write the tariff in the market's currency, or set the currency of the feed",
        )
    schedules = (tariff.energy, *tariff.fees)
    edges_s = np.concatenate(
        [tariff.calendar.edges_s(each.table, int(spot.start_s[0]), spot.end_s) for each in schedules]
    )
    cut = split(spot, edges_s)
    return replace(cut, value=price_of_next_mwh(tariff, cut.start_s, cut.value))


def check_market(tariff: Tariff, *, has_prices: bool) -> None:
    """Raise BadPrices if the tariff follows the market and there are no prices of it, or the other way round."""
    if tariff.follows_market and not has_prices:
        hint = "name a price file (--prices), or for the agent the market: zone below [feeds]"
        raise BadPrices(f"{tariff.text}: follows the market, whose prices are not set", hint=hint)
    if has_prices and not tariff.follows_market:
        hint = f'leave the price file or the sources out, or write price = "spot" below [[energy]] in {tariff.text}'
        raise BadPrices(f"{tariff.text}: has all prices itself, and others are set, too", hint=hint)
