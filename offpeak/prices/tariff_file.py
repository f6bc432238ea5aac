"""Tariff files: the bill of a site in TOML, `docs/examples` has three of them, or JSON of the URDB (`urdb`).

`[[energy]]`, `[[grid_fee]]` and `[[export]]` are lists of windows that divide all time, `[[levy]]` and `[[demand]]` are
lists of positions. A price of energy or export is fixed, or the market's: price = "spot" with factor and markup.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import Field, InstanceOf, model_validator

from offpeak.errors import BadInput, BadPrices
from offpeak.files import read_bytes
from offpeak.model.description import (
    Description,
    TableModel,
    WrongEntry,
    read_by,
    refuse,
    text_by,
)
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
from offpeak.settings.kinds import TEXT, number

SPOT = "spot"
Price = Annotated[tuple[float, str], text_by(parse_price)]


def _one_or_more(written: object) -> list[object]:
    """Return a list as it is, and what is no list as a list of one."""
    if written == []:
        refuse("is empty", hint="leave it out, or fill it in")
    return written if isinstance(written, list) else [written]


def _period(text: str) -> str:
    return text if text in ("month", "year") else refuse(f"{text!r} is not a period", hint='write "month" or "year"')


def _hours(written: object) -> tuple[tuple[int, int], ...] | None:
    texts = _one_or_more(written)
    return None if texts == [ELSE] else tuple(parse_hours(TEXT.read(text)) for text in texts)


Words = Annotated[str, read_by(TEXT.read)]


class TimesTable(TableModel):
    """Hours, days and months; None for the hours: at all other times."""

    hours: Annotated[tuple[tuple[int, int], ...] | None, read_by(_hours)] = ClockWindow().hours
    days: Annotated[tuple[int, ...], text_by(parse_kinds)] = ClockWindow().days
    months: Annotated[tuple[int, ...], text_by(parse_months)] = ClockWindow().months

    @model_validator(mode="after")
    def _else_stands_alone(self) -> Self:
        for key in ("days", "months"):
            if self.hours is None and key in self.model_fields_set:
                raise WrongEntry(f'stands beside hours = "{ELSE}"', key, hint="leave it out: the rest is the rest")
        return self

    @property
    def when(self) -> ClockWindow | None:
        """The window, None for all other times."""
        return None if self.hours is None else ClockWindow(self.hours, self.days, self.months)


class WindowTable(TimesTable):
    """A window of a grid fee."""

    name: Words = ""
    price: Price

    def window(self, name: str) -> RateWindow:
        """Return the window; `name` is that of a window without one."""
        return RateWindow(self.name or name, self.price[0], when=self.when)


class MarketWindowTable(TimesTable):
    """A window of energy or export, whose price may be that of the market."""

    name: Words = ""
    price: Annotated[tuple[float, str] | None, text_by(lambda text: None if text == SPOT else parse_price(text))]
    factor: Annotated[float, read_by(number(0.01, 10.0).read)] = 1.0
    markup: Price | None = None

    @model_validator(mode="after")
    def _market_has_factor(self) -> Self:
        for key in ("factor", "markup"):
            if self.price is not None and key in self.model_fields_set:
                raise WrongEntry("is for the market's price", key, hint=f'write price = "{SPOT}", or leave it out')
        return self

    def window(self, name: str) -> RateWindow:
        """Return the window; `name` is that of a window without one."""
        if self.price is not None:
            return RateWindow(self.name or name, self.price[0], when=self.when)
        return RateWindow(self.name or name, self.markup[0] if self.markup else 0.0, self.factor, self.when)


class LevyTable(TableModel):
    """A levy, whose price is the same at all times."""

    name: Words
    price: Price


class DemandTable(TableModel):
    """A demand charge."""

    price: Annotated[tuple[float, str], text_by(parse_demand_price)]
    per: Annotated[str, text_by(_period)]
    name: Words = "demand"
    window: Annotated[list[TimesTable], read_by(_one_or_more)] = Field(default_factory=list)


class TariffFile(Description):
    """The whole file."""

    noun = "a tariff"
    error = BadPrices
    examples: ClassVar = {
        "currency": '"EUR"',
        "energy": '[{ price = "spot" }]',
        "name": '"high"',
        "price": '"0.031EUR/kWh"',
        "hours": '"08:00-20:00"',
        "days": '"mon-fri"',
        "months": '"nov-feb"',
        "per": '"year"',
    }

    currency: Words
    zone: Annotated[InstanceOf[tzinfo] | None, text_by(parse_zone)] = None
    holidays: Annotated[list[Annotated[str, text_by(check_holiday)]], read_by(_one_or_more)] = Field(
        default_factory=list
    )
    vat_percent: Annotated[float, read_by(number(0.0, 100.0).read)] = 0.0
    energy: Annotated[list[MarketWindowTable], read_by(_one_or_more)]
    grid_fee: Annotated[list[WindowTable] | None, read_by(_one_or_more)] = None
    levy: Annotated[list[LevyTable], read_by(_one_or_more)] = Field(default_factory=list)
    demand: Annotated[list[DemandTable], read_by(_one_or_more)] = Field(default_factory=list)
    export: Annotated[list[MarketWindowTable] | None, read_by(_one_or_more)] = None


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
    return TariffFile.parse(text, file, lambda tables: _tariff(tables, file, zone))


def _tariff(tables: TariffFile, file: str, zone: tzinfo) -> Tariff:
    currency = tables.currency.upper()
    for position in ("energy", "grid_fee", "levy", "demand", "export"):
        for at, table in enumerate(getattr(tables, position) or ()):
            for key in ("price", "markup"):
                price = getattr(table, key, None)
                if price is not None and price[1] != currency:
                    what = f"is in {price[1]}, and the tariff in {currency}"
                    raise WrongEntry(what, position, at, key, hint="use one currency")
    calendar = TariffCalendar(tables.zone or zone, tuple(tables.holidays))
    energy = _schedule("energy", tables.energy, calendar)
    fees = [] if tables.grid_fee is None else [_schedule("grid_fee", tables.grid_fee, calendar)]
    fees += [RateSchedule(levy.name, calendar, (RateWindow("", levy.price[0]),)) for levy in tables.levy]
    demand = tuple(_demand(at, table) for at, table in enumerate(tables.demand))
    how = "the market's price" if energy.needs_spot else "a time of use"
    parts = [f"energy at {how}", *(fee.title.replace("_", " ") for fee in fees), *(each.name for each in demand)]
    return Tariff(
        currency=currency,
        energy=energy,
        text=file,
        description=f"{file}: {', '.join(parts)}",
        fees=tuple(fees),
        export=None if tables.export is None else _schedule("export", tables.export, calendar),
        demand=demand,
        vat_percent=tables.vat_percent,
        names_zone=tables.zone is not None,
    )


def _schedule(
    position: str, tables: Sequence[WindowTable | MarketWindowTable], calendar: TariffCalendar
) -> RateSchedule:
    """Return the windows of a position, which divide all time."""
    windows = tuple(table.window(f"window {at}") for at, table in enumerate(tables, 1))
    if len([window for window in windows if window.when is None]) > 1:
        hint = "one covers all times that no other covers"
        raise WrongEntry(f'two windows have hours = "{ELSE}"', position, hint=hint)
    schedule = RateSchedule(position, calendar, windows)
    try:
        schedule.table  # noqa: B018
    except BadInput as problem:
        raise WrongEntry(str(problem), hint=problem.hint) from None
    return schedule


def _demand(number: int, table: DemandTable) -> DemandCharge:
    windows = []
    for at, times in enumerate(table.window):
        if times.when is None:
            what = f"hours = {ELSE!r} is for prices"
            raise WrongEntry(what, "demand", number, "window", at, hint="name the hours in which a peak counts")
        windows.append(times.when)
    return DemandCharge(table.name, table.price[0], table.per == "year", tuple(windows or [ClockWindow()]))
