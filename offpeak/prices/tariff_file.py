"""Tariff files: the bill of a site in TOML, `docs/examples` has three of them, or JSON of the URDB (`urdb`).

`[[energy]]`, `[[grid_fee]]` and `[[export]]` are lists of windows that divide all time, `[[levy]]` and `[[demand]]` are
lists of positions. A price of energy or export is fixed, or the market's: price = "spot" with factor and markup.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TypeVar

from offpeak.errors import BadInput, BadPrices
from offpeak.files import read_bytes
from offpeak.model.toml_file import TomlEntry, TomlFormat
from offpeak.model.units import parse_demand_price, parse_price
from offpeak.model.zones import parse_zone
from offpeak.prices import ASSUMED_TARIFF
from offpeak.prices.rates import (
    ELSE,
    ClockWindow,
    RateSchedule,
    RateWindow,
    TariffCalendar,
    check_holiday,
    parse_hours,
    parse_kinds,
    parse_months,
)
from offpeak.prices.tariff import NO_PRICES, DemandCharge, Tariff, parse_tariff
from offpeak.prices.urdb import parse_urdb

SPOT = "spot"
POSITIONS = ("energy", "grid_fee", "levy", "demand", "export")
WHEN = ("hours", "days", "months")
FORMAT = TomlFormat(
    "a tariff",
    {
        "currency": '"EUR"',
        "zone": '"Europe/Berlin"',
        "holidays": '["DE-NW", "12-24"]',
        "vat_percent": "19",
        "energy": '[{ price = "spot" }]',
        "name": '"high"',
        "price": '"0.031EUR/kWh"',
        "factor": "1.02",
        "markup": '"4EUR/MWh"',
        "hours": '"08:00-20:00"',
        "days": '"mon-fri"',
        "months": '"nov-feb"',
        "per": '"year"',
    },
)

Parsed = TypeVar("Parsed")


def site_tariff(text: str | None, zone: tzinfo = UTC) -> Tariff:
    """Return the tariff that a site declares, a file or a rule, else the assumed one.

    Its hours are in `zone` unless it names one. Raises BadInput for a file or rule that cannot be read.
    """
    if text is None:
        return replace(parse_tariff(ASSUMED_TARIFF, zone), assumed=NO_PRICES)
    return parse_source(read_source(text), zone)


TariffSource = tuple[str, str]
"""The name and the text of a tariff file, or no name and a rule."""


def read_source(text: str) -> TariffSource:
    """Return what a site declares, with the text of its file. Raises BadInput if that cannot be read."""
    path = Path(text).expanduser()
    return (str(path), read_bytes(path, BadPrices).decode(errors="replace")) if is_file(text) else ("", text)


def parse_source(source: TariffSource, zone: tzinfo) -> Tariff:
    """Return the tariff of a source; errors as `site_tariff`."""
    file, text = source
    if file.endswith(".json"):
        return parse_urdb(text.encode(), file, zone)
    return parse_tariff_file(text.encode(), file, zone) if file else parse_tariff(text, zone)


def is_file(text: str) -> bool:
    """Return whether the text names a tariff file."""
    return text.endswith((".toml", ".json")) and "=" not in text


def parse_tariff_file(text: bytes, file: str, zone: tzinfo) -> Tariff:
    """Return the tariff of the text of a file. Raises BadInput with file and key, and what to write."""
    whole = FORMAT.parse(text, file)
    optional = ("zone", "holidays", "vat_percent", *POSITIONS[1:])
    found = FORMAT.entries_below(whole, ("currency", "energy"), optional=optional)
    currency = _text(found["currency"]).upper()
    named = _parse(found["zone"], parse_zone) if "zone" in found else None
    holidays = tuple(_parse(each, check_holiday) for each in _list(found.get("holidays")))
    calendar = TariffCalendar(named or zone, holidays)
    parser = _PositionParser(currency, calendar)
    schedules = {key: parser.schedule(found[key]) for key in ("energy", "grid_fee", "export") if key in found}
    levies = [parser.levy(each) for each in _list(found.get("levy"))]
    demand = tuple(parser.demand(each) for each in _list(found.get("demand")))
    fees = (*([schedules["grid_fee"]] if "grid_fee" in schedules else []), *levies)
    energy = schedules["energy"]
    how = "the market's price" if energy.needs_spot else "a time of use"
    parts = [f"energy at {how}", *(fee.title.replace("_", " ") for fee in fees), *(each.name for each in demand)]
    return Tariff(
        currency=currency,
        energy=energy,
        text=file,
        description=f"{file}: {', '.join(parts)}",
        fees=fees,
        export=schedules.get("export"),
        demand=demand,
        vat_percent=_number(found["vat_percent"], 0.0, 100.0) if "vat_percent" in found else 0.0,
        names_zone=named is not None,
    )


class _PositionParser:
    """Reads the positions of a file in one currency and on one calendar."""

    def __init__(self, currency: str, calendar: TariffCalendar) -> None:
        self._currency, self._calendar = currency, calendar

    def schedule(self, position: TomlEntry) -> RateSchedule:
        """Return the windows of a position, which divide all time."""
        entries = _list(position)
        windows = tuple(self._window(each, position.key, number) for number, each in enumerate(entries, 1))
        if len([window for window in windows if window.when is None]) > 1:
            raise position.wrong(f'two windows have hours = "{ELSE}"', hint="one covers all times that no other covers")
        return self._checked(RateSchedule(position.key, self._calendar, windows), position)

    def levy(self, entry: TomlEntry) -> RateSchedule:
        """Return a levy, whose price is the same at all times."""
        found = FORMAT.entries_below(entry, ("name", "price"))
        window = RateWindow("", self._price(found["price"]))
        return RateSchedule(_text(found["name"]), self._calendar, (window,))

    def demand(self, entry: TomlEntry) -> DemandCharge:
        """Return a demand charge."""
        found = FORMAT.entries_below(entry, ("price", "per"), optional=("name", "window"))
        per_kw, currency = _parse(found["price"], parse_demand_price)
        self._check_currency(found["price"], currency)
        per = _text(found["per"])
        if per not in ("month", "year"):
            raise found["per"].wrong(f"{per!r} is no period", hint='write "month" or "year"')
        name = _text(found["name"]) if "name" in found else "demand"
        windows = []
        for each in _list(found.get("window")):
            when = self._when(FORMAT.entries_below(each, (), optional=WHEN))
            if when is None:
                raise each.wrong(f"hours = {ELSE!r} is for prices", hint="name the hours in which a peak counts")
            windows.append(when)
        return DemandCharge(name, per_kw, per == "year", tuple(windows or [ClockWindow()]))

    def _window(self, entry: TomlEntry, position: str, number: int) -> RateWindow:
        optional = ("name", *WHEN) if position == "grid_fee" else ("name", "factor", "markup", *WHEN)
        found = FORMAT.entries_below(entry, ("price",), optional=optional)
        name = _text(found["name"]) if "name" in found else f"window {number}"
        when = self._when(found)
        if found["price"].written != SPOT or position == "grid_fee":
            for key in ("factor", "markup"):
                if key in found:
                    raise found[key].wrong("is for the market's price", hint=f'write price = "{SPOT}", or leave it out')
            return RateWindow(name, self._price(found["price"]), when=when)
        factor = _number(found["factor"], 0.01, 10.0) if "factor" in found else 1.0
        return RateWindow(name, self._price(found["markup"]) if "markup" in found else 0.0, factor, when)

    def _when(self, found: dict[str, TomlEntry]) -> ClockWindow | None:
        if "hours" in found and found["hours"].written == ELSE:
            for key in ("days", "months"):
                if key in found:
                    raise found[key].wrong(f'stands beside hours = "{ELSE}"', hint="leave it out: the rest is the rest")
            return None
        usual = ClockWindow()
        hours = tuple(_parse(each, parse_hours) for each in _list(found.get("hours")))
        return ClockWindow(
            hours or usual.hours,
            _parse(found["days"], parse_kinds) if "days" in found else usual.days,
            _parse(found["months"], parse_months) if "months" in found else usual.months,
        )

    def _price(self, entry: TomlEntry) -> float:
        per_mwh, currency = _parse(entry, parse_price)
        self._check_currency(entry, currency)
        return per_mwh

    def _check_currency(self, entry: TomlEntry, currency: str) -> None:
        if currency != self._currency:
            raise entry.wrong(f"is in {currency}, and the tariff in {self._currency}", hint="use one currency")

    def _checked(self, schedule: RateSchedule, position: TomlEntry) -> RateSchedule:
        try:
            schedule.table  # noqa: B018
        except BadInput as problem:
            raise BadPrices(f"{position.file}: {problem}", hint=problem.hint) from None
        return schedule


def _text(entry: TomlEntry) -> str:
    if not isinstance(entry.written, str) or not entry.written.strip():
        key = entry.key.rpartition(".")[2]
        raise entry.wrong(f"{entry.written!r} is no text", hint=f"write {FORMAT.how_to_write(key)}")
    return entry.written.strip()


def _number(entry: TomlEntry, low: float, high: float) -> float:
    written = entry.written
    if isinstance(written, bool) or not isinstance(written, int | float) or not low <= written <= high:
        raise entry.wrong(f"{written!r} is no number from {low:g} to {high:g}", hint="write it without quotes")
    return float(written)


def _list(entry: TomlEntry | None) -> list[TomlEntry]:
    """Return the entries of a list, or the entry itself if it is no list; none if the key is missing."""
    if entry is None:
        return []
    if not isinstance(entry.written, list):
        return [entry]
    if not entry.written:
        raise entry.wrong("is empty", hint="leave it out, or fill it in")
    return [TomlEntry(entry.file, f"{entry.key}[{at}]", each) for at, each in enumerate(entry.written, 1)]


def _parse(entry: TomlEntry, parse: Callable[[str], Parsed]) -> Parsed:
    try:
        return parse(_text(entry))
    except BadInput as problem:
        raise entry.wrong(str(problem), hint=problem.hint) from None
