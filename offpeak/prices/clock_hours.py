"""On-peak by the local clock: hours of the day, days of the week and public holidays, exact over clock changes."""

import re
from dataclasses import dataclass
from datetime import UTC, date, timedelta, tzinfo

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.jobs import Int64
from offpeak.prices.series import Series
from offpeak.suggest import did_you_mean
from offpeak.zones import DAY_S, local_days, local_edges_s, to_local_s, weekday

DAY_NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_EPOCH = date(1970, 1, 1)
_HOURS = re.compile(r"(\d\d?):(\d\d)-(\d\d?):(\d\d)")


@dataclass(frozen=True)
class ClockHours:
    """An instant is on-peak when its local date is one of `days`, is no holiday, and its clock is within the hours.

    `from_s` and `until_s` are seconds after local midnight; from > until means over midnight (22:00-06:00 holds from
    0:00 to 6:00 and from 22:00 to 24:00 of each such date). `days`: 0 is Monday. `holidays`: country, or country and
    subdivision ("DE-BY"), whose public holidays are off-peak all day; "" for none.
    """

    from_s: int = 9 * 3600
    until_s: int = 23 * 3600
    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    holidays: str = ""
    zone: tzinfo = UTC

    def on_peak_at(self, unix_s: Int64) -> NDArray[np.bool_]:
        """Return whether each instant is on-peak."""
        local_day, clock_s = np.divmod(to_local_s(unix_s, self.zone), DAY_S)
        free = np.isin(weekday(local_day), self.days, invert=True) | np.isin(local_day, self._holidays(local_day))
        after, before = clock_s >= self.from_s, clock_s < self.until_s
        return ~free & (after & before if self.from_s < self.until_s else after | before)

    def on_peak(self, series: Series) -> NDArray[np.bool_]:
        """Return whether each interval begins on-peak; `edges_s` says where to cut it."""
        return self.on_peak_at(series.start_s)

    def edges_s(self, from_s: int, until_s: int) -> Int64:
        """Return all instants [Unix s] from `from_s` to `until_s` at which on-peak may begin or end, and some more."""
        midnights = local_days(from_s, until_s, self.zone) * DAY_S
        clock_s = np.concatenate([midnights, midnights + self.from_s, midnights + self.until_s])
        edges = local_edges_s(clock_s, self.zone)
        return edges[(edges > from_s) & (edges < until_s)]

    def _holidays(self, local_day: Int64) -> Int64:
        if not self.holidays or len(local_day) == 0:
            return np.array([], np.int64)
        first, last = (_EPOCH + timedelta(days=int(day)) for day in (local_day.min(), local_day.max()))
        return _holiday_days(self.holidays, first.year, last.year)


def _holiday_days(place: str, first_year: int, last_year: int) -> Int64:
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
    return np.array([(day - _EPOCH).days for day in found], np.int64)


def check_holidays(place: str) -> str:
    """Return `place` if its public holidays are known; BadInput otherwise."""
    _holiday_days(place, 2024, 2024)
    return place


def parse_hours(text: str) -> tuple[int, int]:
    """Return "09:00-23:00" as seconds after midnight; BadInput if it is no such text or the two are equal."""
    match = _HOURS.fullmatch(text)
    if match is None:
        raise BadInput(f"{text!r} are no hours of the day", hint="write them like 09:00-23:00 or 22:00-06:00")
    from_s, until_s = (int(hour) * 3600 + int(minute) * 60 for hour, minute in (match.group(1, 2), match.group(3, 4)))
    if from_s >= DAY_S or until_s > DAY_S or int(match[2]) > 59 or int(match[4]) > 59:
        raise BadInput(f"{text!r} are no hours of the day", hint="they lie between 00:00 and 24:00")
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
