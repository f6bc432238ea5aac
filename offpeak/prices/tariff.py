"""Time-of-use tariffs: two prices, and the local hours in which the higher one holds."""

from dataclasses import dataclass, replace
from datetime import UTC, tzinfo

import numpy as np

from offpeak.errors import BadPrices
from offpeak.model.arrays import Int64
from offpeak.model.local_time import parse_zone, zone_text
from offpeak.model.step_series import Series, merge
from offpeak.model.units import parse_price
from offpeak.prices import ASSUMED_TARIFF
from offpeak.prices.peak import ClockHours, check_holidays, parse_days, parse_hours
from offpeak.text import parse_pairs

KEYS = ("on", "off", "hours", "days", "holidays", "zone")
# The customary on-peak hours of the work on dynamic pricing: 09:00 to 23:00, on every day.
DEFAULTS = {"hours": "09:00-23:00", "days": "mon-sun", "holidays": ""}
EXAMPLE = "write it like on=90EUR/MWh,off=30EUR/MWh,hours=09:00-23:00,days=mon-fri,zone=Europe/Berlin"

TARIFF_BASIS, ASSUMED_TARIFF_BASIS = "tariff", "assumed tariff"
NO_PRICES = "assumed, as no prices are given: --prices FILE or --tariff RULE"


@dataclass(frozen=True)
class Tariff:
    """`on_per_mwh` within `hours`, `off_per_mwh` outside, in `currency` per MWh.

    `text` is the declaration, `description` the same in words, `assumed` the parts that were not declared, if any.
    `names_zone`: the tariff names the time zone of its hours itself.
    """

    on_per_mwh: float
    off_per_mwh: float
    currency: str
    hours: ClockHours
    text: str
    description: str
    assumed: str = ""
    names_zone: bool = False

    @property
    def basis(self) -> str:
        """Return the basis of a price of this tariff."""
        return ASSUMED_TARIFF_BASIS if self.assumed == NO_PRICES else TARIFF_BASIS

    @property
    def source(self) -> str:
        """Return the text by which figures name this tariff: the declaration and the assumptions."""
        return f"{self.text} ({self.assumed})" if self.assumed else self.text


def site_tariff(text: str | None, zone: tzinfo = UTC) -> Tariff:
    """Return the tariff that a site declares, else the assumed one."""
    if text is not None:
        return parse_tariff(text, zone)
    return replace(parse_tariff(ASSUMED_TARIFF, zone), assumed=NO_PRICES)


def parse_tariff(text: str, zone: tzinfo = UTC) -> Tariff:
    """Return the tariff of "on=90EUR/MWh,off=30EUR/MWh,hours=09:00-23:00,days=mon-fri,holidays=DE,zone=Europe/Berlin".

    Only `on` and `off` are required; the hours are in `zone` unless the text names a time zone. Raises BadPrices or
    BadInput, with an example, for anything else.
    """
    if "=" not in text:
        flat = text.strip() or "0.20EUR/kWh"
        raise BadPrices(
            f"the tariff {text!r} needs both on= and off=", hint=f"one price for all hours: on={flat},off={flat}"
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
    hours = _hours(declared, zone)
    return Tariff(
        on_per_mwh=on_per_mwh,
        off_per_mwh=off_per_mwh,
        currency=currency,
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


def _hours(pairs: dict[str, str], zone: tzinfo) -> ClockHours:
    from_s, until_s = parse_hours(pairs["hours"])
    named = parse_zone(pairs["zone"]) if "zone" in pairs else None
    place = pairs["holidays"] and check_holidays(pairs["holidays"])
    return ClockHours(from_s, until_s, parse_days(pairs["days"]), place, named or zone)


def tariff_series(tariff: Tariff, from_s: int, until_s: int) -> Series:
    """Return the tariff's price from `from_s` to `until_s` [Unix s], one interval per stretch of one price."""
    if until_s <= from_s:
        raise BadPrices(f"the tariff {tariff.text!r} is asked for no time at all")
    start_s: Int64 = np.append(np.int64(from_s), tariff.hours.edges_s(from_s, until_s))
    price = np.where(tariff.hours.on_peak_at(start_s), tariff.on_per_mwh, tariff.off_per_mwh)
    return merge(Series(start_s, until_s, price, f"{tariff.currency}/MWh", tariff.source))
