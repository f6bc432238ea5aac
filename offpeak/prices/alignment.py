"""Aligns a job log with a price series: maps the seconds of the log to the calendar of the prices, with a reason."""

from calendar import monthrange
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, tzinfo

import numpy as np

from offpeak.errors import BadPrices
from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S, WEEK_S
from offpeak.model.local_time import local_days, to_unix_s, weekday
from offpeak.model.step_series import IntegralCurve, Series, running_integral, split
from offpeak.model.zones import date_text, offset_at

REPEATED_WEEKS = 52
YEAR_D = 365.2425
EPOCH = date(1970, 1, 1)
SEASON_WEEKS = 6
"""Days of the year that are no further apart are of one season."""
LEAST_KNOWN = 0.9
"""A week on which less of the prices is known, of what the best week knows, is no place for a log."""


@dataclass(frozen=True)
class LogSpan:
    """The time that a log needs: first submission and last needed second on the trace's clock.

    `unix_start_s` is the Unix time of the trace's second 0, None if unknown; `zone` is the time zone of the machine,
    UTC if `is_zone_assumed`. The second 0 of a log without a date counts as midnight, as in workload models.
    """

    first_s: int
    last_s: int
    unix_start_s: int | None = None
    zone: tzinfo = UTC
    is_zone_assumed: bool = False

    @property
    def begin_s(self) -> int:
        """The trace's second that is laid: the first submission, or without a date the last whole week before it."""
        return self.first_s if self.unix_start_s is not None else self.first_s - self.first_s % WEEK_S


@dataclass(frozen=True)
class AlignmentWeeks:
    """The weeks of a series on which a log could as well lie, by the offset of each; `note` says which these are.

    One week stands for a choice that is not drawn again.
    """

    offsets_s: tuple[int, ...]
    note: str

    def draw(self, number: int, seed: int) -> int:
        """Return the offset of the replay of that number: in random order, each week once before any comes again."""
        weeks = len(self.offsets_s)
        order = np.random.default_rng([seed, weeks, 1]).permutation(weeks)
        return self.offsets_s[int(order[number % weeks])]


@dataclass(frozen=True)
class LogAlignment:
    """Unix time = trace second + `offset_s`; `note` is a sentence about how the offset was chosen.

    `weeks` are those that were there to choose from, None for a log that lies on its own dates.
    """

    offset_s: int
    note: str
    weeks: AlignmentWeeks | None = None


def parse_start(text: str, zone: tzinfo) -> date | datetime:
    """Return "2020-09-21" as a date, "2020-09-21T06:00" as an aware datetime (on the zone's clock without offset)."""
    try:
        if len(text) == len("2020-09-21"):
            return date.fromisoformat(text)
        start = datetime.fromisoformat(text)
    except ValueError:
        raise BadPrices(f"cannot read the date {text!r}", hint="write it like 2020-09-21 or 2020-09-21T06:00") from None
    return start if start.tzinfo else start.replace(tzinfo=zone)


def align_log(log: LogSpan, series: Series, *, start: date | datetime | None = None) -> LogAlignment:
    """Return the position of the log on the series.

    Tried in this order: `start` if given (a date keeps the log's local clock time); the log's own dates if it begins
    within the series; the same weekday and season of the first year with room for the whole log, else of the first
    year; the first Monday for a log without a date. Raises BadPrices if `start` is outside or the series too short.
    """
    if start is not None:
        unix_s = instant_of(log, start)
        if not series.start_s[0] <= unix_s < series.end_s:
            first, end = date_text(int(series.start_s[0]), log.zone), date_text(series.end_s, log.zone)
            message = f"the start {start} lies outside the prices of {series.source}"
            raise BadPrices(message, hint=f"they go from {first} to {end}")
        offset_s = unix_s - log.begin_s
        weeks = AlignmentWeeks(
            (offset_s,), "the week is fixed (--start): ranges over replays do not contain its choice"
        )
        return LogAlignment(offset_s, f"log mapped to {date_text(unix_s, log.zone)} as asked", weeks)
    if log.unix_start_s is None:
        return _on_monday(log, series)
    own_s = log.unix_start_s + log.first_s
    if series.start_s[0] <= own_s < series.end_s:
        return LogAlignment(log.unix_start_s, f"log mapped to its own dates, from {date_text(own_s, log.zone)}")
    return _in_season(log, series, own_s)


def instant_of(log: LogSpan, start: date | datetime) -> int:
    """Return the Unix second of `LogSpan.begin_s` for a start; a date keeps the log's local clock time."""
    if isinstance(start, datetime):
        return int(start.timestamp())
    return int(_on_days(log, np.array([(start - EPOCH).days], np.int64))[0])


def _on_monday(log: LogSpan, series: Series) -> LogAlignment:
    unix_s, day = _days_inside(log, series)
    monday = weekday(day) == 0
    # Without a Monday argmax is 0, the first day.
    chosen_s = int(unix_s[np.argmax(monday)])
    basis = "the first Monday of the prices" if monday.any() else "the first day of the prices"
    note = f"log without a date mapped to {date_text(chosen_s, log.zone)} ({basis})"
    return LogAlignment(chosen_s - log.begin_s, note, _weeks_like(log, series, chosen_s))


def _in_season(log: LogSpan, series: Series, own_s: int) -> LogAlignment:
    own = datetime.fromtimestamp(own_s, log.zone).date()
    zone = log.zone
    first, last = (datetime.fromtimestamp(unix_s, zone).year for unix_s in (int(series.start_s[0]), series.end_s))
    days = []
    for year in range(first - 1, last + 2):
        # 29 February becomes 28 February in other years.
        same_day = own.replace(year=year, day=min(own.day, monthrange(year, own.month)[1]))
        days.append((same_day - EPOCH).days + (own.weekday() - same_day.weekday() + 3) % 7 - 3)
    unix_s = _on_days(log, np.array(days, np.int64))
    unix_s = unix_s[(unix_s >= series.start_s[0]) & (unix_s < series.end_s)]
    preferred, basis = unix_s + (log.last_s - log.first_s) <= series.end_s, "same weekday and season"
    if len(unix_s) == 0:
        unix_s, day = _days_inside(log, series)
        preferred = weekday(day) == own.weekday()
        basis = "same weekday" if preferred.any() else "the first day of the prices"
    chosen_s = int(unix_s[np.argmax(preferred)])
    note = f"log of {own} mapped to {date_text(chosen_s, log.zone)} ({basis})"
    return LogAlignment(chosen_s - log.begin_s, note, _weeks_like(log, series, chosen_s))


def _weeks_like(log: LogSpan, series: Series, chosen_s: int) -> AlignmentWeeks:
    """Return the weeks with room for the whole log and, if it has a date, of the season of the chosen week; without
    two of them those where its end meets repeated prices, or of any season.
    """
    unix_s, day = _days_inside(log, series)
    apart = day - day[np.searchsorted(unix_s, chosen_s)]
    length_s = log.last_s - log.begin_s
    until_s = np.minimum(unix_s + length_s, series.end_s)
    edges_s = np.append(series.start_s, series.end_s).astype(np.float64)
    curve = IntegralCurve(edges_s, running_integral(edges_s, series.known.astype(np.float64)))
    known = curve.between(unix_s, until_s) / np.maximum(until_s - unix_s, 1)
    week = (apart % 7 == 0) & (known >= LEAST_KNOWN * known.max())
    room = week & (unix_s + length_s <= series.end_s)
    near = np.abs((apart + YEAR_D / 2) % YEAR_D - YEAR_D / 2) <= 7 * SEASON_WEEKS
    season, repeated = f"within {SEASON_WEEKS} weeks of that day of any year", "prices repeat where they end before it"
    choices = [(room & near, season), (week & near, f"{season}; {repeated}")] if log.unix_start_s is not None else []
    choices += [(room, "of any season"), (week, f"of any season; {repeated}")]
    for fits, which in choices:
        if (count := int(np.count_nonzero(fits))) > 1:
            offsets_s = tuple((unix_s[fits] - log.begin_s).tolist())
            return AlignmentWeeks(offsets_s, f"replays (--replays) lay it on others of {count} weeks, {which}")
    none = "the prices have no other week for the log: ranges over replays do not contain the choice of the week"
    return AlignmentWeeks((chosen_s - log.begin_s,), none)


def _days_inside(log: LogSpan, series: Series) -> tuple[Int64, Int64]:
    """Return instant and number of each local date on which the series knows the log's clock time."""
    day = local_days(int(series.start_s[0]), series.end_s, log.zone)
    unix_s = _on_days(log, day)
    inside = (unix_s >= series.start_s[0]) & (unix_s < series.end_s)
    if not inside.any():
        raise BadPrices(f"{series.source}: less than a day of prices", hint="at least a whole day is needed")
    return unix_s[inside], day[inside]


def _on_days(log: LogSpan, local_day: Int64) -> Int64:
    """Return the instants with the log's own clock time on those dates."""
    clock_s = 0
    if log.unix_start_s is not None:
        begin_s = log.unix_start_s + log.begin_s
        clock_s = (begin_s + offset_at(begin_s, log.zone)) % DAY_S
    return to_unix_s(local_day * DAY_S + clock_s, log.zone)[0]


def extend(series: Series, until_s: int) -> Series:
    """Return the series up to `until_s` [Unix s] if it ends before, its last weeks repeated as often as needed.

    This repeats the last 52 weeks, or the whole weeks of a shorter series, or the whole days if it is shorter than a
    week. Raises BadPrices if it is shorter than a day.
    """
    if until_s <= series.end_s:
        return series
    period_s = _repeated_s(series)
    times = -(-(until_s - series.end_s) // period_s)
    tail = split(series, np.array([series.end_s - period_s]))
    repeated = tail.start_s >= series.end_s - period_s
    later_s = (tail.start_s[repeated] + period_s * np.arange(1, times + 1)[:, None]).ravel()
    kept = later_s < until_s
    value = np.concatenate([series.value, np.tile(tail.value[repeated], times)[kept]])
    return replace(series, start_s=np.concatenate([series.start_s, later_s[kept]]), end_s=until_s, value=value)


def extension_note(series: Series, until_s: int, *, zone: tzinfo) -> str:
    """Return in a sentence what `extend` repeats; "" if the series is long enough."""
    if until_s <= series.end_s:
        return ""
    period_s = _repeated_s(series)
    count, unit = (period_s // WEEK_S, "week") if period_s >= WEEK_S else (period_s // DAY_S, "day")
    repeated = f"last {unit} is" if count == 1 else f"last {count} {unit}s are"
    what = "the carbon intensity ends" if series.unit == "g/kWh" else "prices end"
    return f"{what} {date_text(series.end_s, zone)}, from there the {repeated} repeated"


def _repeated_s(series: Series) -> int:
    length_s = series.end_s - int(series.start_s[0])
    if length_s < DAY_S:
        raise BadPrices(f"{series.source}: less than a day of prices", hint="at least a whole day is needed")
    unit_s = WEEK_S if length_s >= WEEK_S else DAY_S
    return min(length_s // unit_s * unit_s, REPEATED_WEEKS * WEEK_S)
