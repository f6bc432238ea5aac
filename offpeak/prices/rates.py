"""Rates by windows of the local calendar: months, days of the week, public holidays and hours of the day.

The windows of a position of the bill, such as the grid fee, divide all time: a gap or an overlap is an error that names
the months, days and hours. Days on which the clock changes have 23 or 25 hours, as on the bill.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, tzinfo
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput, BadPrices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S
from offpeak.model.local_time import local_days, local_edges_s, to_local_s, weekday
from offpeak.text import did_you_mean

DAY_NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
HOLIDAY = len(DAY_NAMES)
"""The kind of day that a public holiday is, after the days of the week."""
KINDS = (*DAY_NAMES, "holiday")
DAY_MINUTES = DAY_S // MINUTE_S
SHAPE = (len(MONTH_NAMES), len(KINDS), DAY_MINUTES)
ELSE = "else"

Mask = NDArray[np.bool_]
_FIRST_DATE = date(1970, 1, 1)
_HOURS = re.compile(r"(\d\d?):(\d\d)-(\d\d?):(\d\d)")


@dataclass(frozen=True)
class TariffCalendar:
    """The clock of a tariff and its holidays: places such as "DE-BY", and dates such as "12-24" or "2026-05-15"."""

    zone: tzinfo = UTC
    holidays: tuple[str, ...] = ()

    def cells(self, unix_s: Int64) -> Int64:
        """Return the month, kind of day and minute of each instant as an index of a flat table of that SHAPE."""
        local_day, clock_s = np.divmod(to_local_s(unix_s, self.zone), DAY_S)
        days = local_day.astype("datetime64[D]")
        month = days.astype("datetime64[M]").astype(np.int64) % len(MONTH_NAMES)
        kind = np.where(np.isin(local_day, self._holidays(days)), HOLIDAY, weekday(local_day))
        return np.asarray((month * len(KINDS) + kind) * DAY_MINUTES + clock_s // MINUTE_S)

    def months(self, unix_s: Int64) -> Int64:
        """Return the local month of each instant, counted from January 1970."""
        local_day = to_local_s(unix_s, self.zone) // DAY_S
        return np.asarray(local_day.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64))

    def edges_s(self, table: NDArray[np.int8] | Mask, from_s: int, until_s: int) -> Int64:
        """Return the instants [Unix s] between these two at which the table may change, and some others."""
        changes = np.flatnonzero((table[:, :, 1:] != table[:, :, :-1]).any(axis=(0, 1))) + 1
        midnights = local_days(from_s, until_s, self.zone) * DAY_S
        clock_s = (midnights[:, None] + np.append(0, changes * MINUTE_S)).ravel()
        edges = local_edges_s(clock_s, self.zone)
        return np.asarray(edges[(edges > from_s) & (edges < until_s)])

    def _holidays(self, days: NDArray[np.datetime64]) -> Int64:
        if not self.holidays or not len(days):
            return np.array([], np.int64)
        first, last = (int(str(day)[:4]) for day in (days.min(), days.max()))
        found = [np.array([], np.int64)]
        for each in self.holidays:
            if each[:1].isdigit():
                texts = [each] if len(each) > 5 else [f"{year}-{each}" for year in range(first, last + 1)]
                found.append(np.array(texts, "datetime64[D]").astype(np.int64))
            else:
                found.append(holiday_days(each, first, last))
        return np.concatenate(found)


def holiday_days(place: str, first_year: int, last_year: int) -> Int64:
    """Return the numbers of the public holidays of these years. Raises BadInput for an unknown place."""
    # Imported here because it takes a tenth of a second and few tariffs name a country.
    import holidays

    country, _, subdivision = place.partition("-")
    try:
        found = holidays.country_holidays(country, subdiv=subdivision or None, years=range(first_year, last_year + 1))
    except NotImplementedError:
        known = holidays.list_supported_countries()
        places = [f"{country}-{part}" for part in known[country]] if country in known else known
        raise BadInput(
            f"no public holidays known for {place!r}",
            hint=f"write a place such as DE or, with its part, such as DE-BY; {did_you_mean(place, places)}",
        ) from None
    return np.array([(day - _FIRST_DATE).days for day in found], np.int64)


def check_holidays(place: str) -> str:
    """Return `place` if its public holidays are known. Raises BadInput otherwise."""
    holiday_days(place, 2024, 2024)
    return place


def parse_hours(text: str) -> tuple[int, int]:
    """Return "09:00-23:00" as seconds after midnight. Raises BadInput if it is invalid or the two are equal."""
    match = _HOURS.fullmatch(text)
    if match is None:
        raise BadInput(
            f"{text!r}: not a range of hours within a day", hint="write them like 09:00-23:00 or 22:00-06:00"
        )
    from_s, until_s = (
        int(hour) * HOUR_S + int(minute) * MINUTE_S for hour, minute in (match.group(1, 2), match.group(3, 4))
    )
    if from_s >= DAY_S or until_s > DAY_S or int(match[2]) > 59 or int(match[4]) > 59:
        raise BadInput(f"{text!r}: not a range of hours within a day", hint="they lie between 00:00 and 24:00")
    if from_s == until_s:
        raise BadInput(f"the hours {text!r} begin where they end", hint="the whole day is 00:00-24:00")
    return from_s, until_s


def parse_days(text: str) -> tuple[int, ...]:
    """Return "mon-fri" as (0, 1, 2, 3, 4) and "sat" as (5,); a range may run over Sunday (fri-mon)."""
    first, _, last = text.lower().partition("-")
    begin, end = _day(first), _day(last or first)
    return tuple(sorted((begin + i) % 7 for i in range((end - begin) % 7 + 1)))


def _day(name: str) -> int:
    if name not in DAY_NAMES:
        raise BadInput(f"unknown day {name!r}", hint=f"write days like mon-fri or sat; {did_you_mean(name, DAY_NAMES)}")
    return DAY_NAMES.index(name)


def check_holiday(text: str) -> str:
    """Return the place or date if it is known. Raises BadInput otherwise."""
    if not text[:1].isdigit():
        return check_holidays(text)
    try:
        # A leap year would let 29 February through, which other years do not have.
        date.fromisoformat(text if len(text) > 5 else f"2026-{text}")
    except ValueError:
        raise BadInput(f"{text!r} is not a date", hint="write 12-24 for each year, or 2026-05-15 for one") from None
    return text


@dataclass(frozen=True)
class ClockWindow:
    """Hours of some kinds of day (0 is Monday, 7 a public holiday) of some months (0 is January).

    `hours` are seconds after local midnight; from > until means over midnight, on the same dates.
    """

    hours: tuple[tuple[int, int], ...] = ((0, DAY_S),)
    days: tuple[int, ...] = tuple(range(len(KINDS)))
    months: tuple[int, ...] = tuple(range(len(MONTH_NAMES)))

    @property
    def names_holiday(self) -> bool:
        """Whether the window is for holidays rather than for all days."""
        return HOLIDAY in self.days and len(self.days) < len(KINDS)

    @cached_property
    def mask(self) -> Mask:
        """Whether the window contains each month, kind of day and minute: bool[SHAPE]."""
        minute_s = np.arange(DAY_MINUTES) * MINUTE_S
        within = np.zeros(DAY_MINUTES, np.bool_)
        for from_s, until_s in self.hours:
            after, before = minute_s >= from_s, minute_s < until_s
            within |= after & before if from_s < until_s else after | before
        months = np.isin(np.arange(len(MONTH_NAMES)), self.months)
        days = np.isin(np.arange(len(KINDS)), self.days)
        return np.asarray(months[:, None, None] & days[None, :, None] & within)


def parse_kinds(text: str) -> tuple[int, ...]:
    """Return "sat-sun,holiday" as (5, 6, 7). Raises BadInput."""
    parts = [part.strip().lower() for part in text.split(",")]
    return tuple(sorted({day for part in parts for day in ((HOLIDAY,) if part == "holiday" else parse_days(part))}))


def parse_months(text: str) -> tuple[int, ...]:
    """Return "nov-feb" as (0, 1, 10, 11); a list is separated by commas. Raises BadInput."""
    found = set[int]()
    for part in text.lower().split(","):
        first, _, last = part.strip().partition("-")
        for name in (first, last or first):
            if name not in MONTH_NAMES:
                hint = f"write months like jan-mar or dec; {did_you_mean(name, MONTH_NAMES)}"
                raise BadInput(f"unknown month {name!r}", hint=hint)
        begin, end = MONTH_NAMES.index(first), MONTH_NAMES.index(last or first)
        found |= {(begin + at) % 12 for at in range((end - begin) % 12 + 1)}
    return tuple(sorted(found))


@dataclass(frozen=True)
class RateWindow:
    """A price of a MWh: `factor` times the market's plus `per_mwh`, in the window; None: at all other times.

    `tiers` are lower amounts of a month with prices of their own: up to how many kWh, and per MWh. All windows of a
    schedule have them up to the same amounts. Windows of one name are one position.
    """

    name: str
    per_mwh: float
    factor: float = 0.0
    when: ClockWindow | None = None
    tiers: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class RateSchedule:
    """The windows of one position of the bill, which divide all time; `title` is its name.

    A holiday counts as a Sunday unless a window of the position names holidays.
    """

    title: str
    calendar: TariffCalendar
    windows: tuple[RateWindow, ...]

    @property
    def needs_spot(self) -> bool:
        """Whether some price depends on that of the market."""
        return any(window.factor for window in self.windows)

    @cached_property
    def table(self) -> NDArray[np.int8]:
        """The number of the window of each cell, int8[SHAPE]. Raises BadPrices for a gap or an overlap."""
        table = np.full(SHAPE, -1, np.int8)
        names_holiday = any(window.when and window.when.names_holiday for window in self.windows)
        for number, window in enumerate(self.windows):
            if window.when is None:
                continue
            twice = window.when.mask & (table >= 0)
            if twice.any():
                other = self.windows[int(table[twice][0])].name
                raise BadPrices(
                    f"{self.title}: {other!r} and {window.name!r} both cover {_describe(twice)}",
                    hint="shorten one of the two: each time has one price",
                )
            table[window.when.mask] = number
        if not names_holiday:
            table[:, HOLIDAY] = table[:, DAY_NAMES.index("sun")]
        rest = next((number for number, window in enumerate(self.windows) if window.when is None), -1)
        table[table < 0] = rest
        if rest < 0 and (table < 0).any():
            raise BadPrices(
                f"{self.title}: no window covers {_describe(table < 0)}",
                hint=f'widen a window, or add one with hours = "{ELSE}" for all times that no other covers',
            )
        return table

    def prices(self, cells: Int64, spot: Float64 | float = np.nan) -> Float64:
        """Return the price of each cell of the calendar, with that of the market there."""
        window = self.table.ravel()[cells]
        factor, fixed = (np.array([getattr(each, name) for each in self.windows]) for name in ("factor", "per_mwh"))
        return np.asarray(fixed[window] + np.where(factor[window] != 0, factor[window] * spot, 0.0))


def _describe(mask: Mask) -> str:
    """Return the first stretch of hours that is set, and the days and months that have it, too."""
    month, kind, minute = (int(axis[0]) for axis in np.nonzero(mask))
    row = mask[month, kind]
    until = minute + int(np.argmin(np.append(row[minute:], False)))
    same: Mask = np.asarray(mask[:, :, minute:until].all(axis=2))
    days, months = np.flatnonzero(same[month, :]), np.flatnonzero(same[:, kind])
    # A holiday counts as one of the other days, unless the file names holidays.
    days = days[:-1] if len(days) > 1 and days[-1] == HOLIDAY else days
    hours = "-".join(f"{at // 60:02d}:{at % 60:02d}" for at in (minute, until))
    return f"{_ranges(days, KINDS)} {hours} in {_ranges(months, MONTH_NAMES)}"


def _ranges(numbers: NDArray[np.intp], names: tuple[str, ...]) -> str:
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    return ",".join(names[run[0]] if len(run) == 1 else f"{names[run[0]]}-{names[run[-1]]}" for run in runs)
