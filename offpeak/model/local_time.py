"""Local clocks: time zones, columns of Unix seconds to and from local seconds, and times and ranges as users type them.

Columns of seconds are converted as a whole. A local second is what the wall clock shows, counted from 1970-01-01 00:00
on that clock: local // 86400 is the number of the local date. Where clocks go back a local second happens twice, where
they go forward some never happen.

Commands take times as `sacct` does: 2026-11-01, 2026-11-01T08:00, 11/01, 08:00, today, now-7days. Owners of jobs write
instants with an offset such as Z or +01:00, else on this machine's clock, and durations such as 30min.
"""

import os
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S, WEEK_S
from offpeak.model.units import parse_duration_s
from offpeak.text import did_you_mean

# 1970-01-01, day 0, was a Thursday; Monday is 0 as in datetime.weekday.
WEEKDAY_OF_DAY_0 = 3

_FIXED_OFFSET = re.compile(r"(?:UTC)?([+-])(\d\d):?(\d\d)")


def parse_zone(text: str) -> tzinfo:
    """Return the zone of "Europe/Berlin", "UTC" or an offset such as "+01:00". Raises BadInput for anything else."""
    offset = _FIXED_OFFSET.fullmatch(text)
    if offset and int(offset[2]) < 24 and int(offset[3]) < 60:
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(ahead if offset[1] == "+" else -ahead)
    if text.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = did_you_mean(text, available_timezones()) if text else "such as Europe/Berlin"
        if hint.startswith("known"):
            hint = "give a name such as Europe/Berlin or a fixed offset such as +01:00"
        raise BadInput(f"unknown time zone {text!r}", hint=hint) from None


def zone_text(zone: tzinfo) -> str | None:
    """Return what `parse_zone` reads as this zone; None for one that was read from a file and has no name."""
    return zone.key if isinstance(zone, ZoneInfo) else str(zone)


def machine_zone(etc: Path = Path("/etc")) -> tzinfo:
    """Return the zone of this machine's clock: TZ, else /etc/localtime, else /etc/timezone, else UTC.

    It has a key unless /etc/localtime is a copied file. Raises BadInput for rules such as TZ=CET-1CEST.
    """
    if "TZ" in os.environ:
        return _zone_of_tz(os.environ["TZ"])
    clock = etc / "localtime"
    names = [clock.resolve().as_posix().partition("zoneinfo/")[2], _first_token(etc / "timezone")]
    zone = next((zone for name in names if (zone := _zone_named(name))), None)
    return zone or _zone_in(clock) or UTC


def _zone_of_tz(text: str) -> tzinfo:
    # As the C library reads it: an empty TZ is UTC, a colon may precede a name or a file.
    name = text.removeprefix(":")
    zone = _zone_named(name.rpartition("zoneinfo/")[2]) if name else UTC
    if zone is None:
        raise BadInput(f"TZ={text}: is not the name of a time zone", hint="such as `export TZ=Europe/Berlin`")
    return zone


def _zone_named(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _first_token(file: Path) -> str:
    try:
        return (file.read_text(encoding="utf-8", errors="replace").split() or [""])[0]
    except OSError:
        return ""


def _zone_in(file: Path) -> ZoneInfo | None:
    try:
        with file.open("rb") as rules:
            return ZoneInfo.from_file(rules)
    except (ValueError, OSError):
        return None


def offset_at(unix_s: int, zone: tzinfo) -> int:
    """Return how far the zone's clock is ahead of UTC at that instant [s]."""
    ahead = datetime.fromtimestamp(unix_s, zone).utcoffset()
    return 0 if ahead is None else round(ahead.total_seconds())


def offset_changes(zone: tzinfo, from_s: int, until_s: int) -> tuple[Int64, Int64]:
    """Return the instants [Unix s] from which an offset holds and the offsets [s]; the first is `from_s` itself.

    Looks once a day, so two changes within one day would be missed: no zone has had that.
    """
    days = np.append(np.arange(from_s, until_s, DAY_S), until_s)
    offsets = [offset_at(int(day), zone) for day in days]
    since, ahead = [from_s], [offsets[0]]
    for i in range(1, len(days)):
        if offsets[i] != ahead[-1]:
            since.append(_change_between(zone, int(days[i - 1]), int(days[i])))
            ahead.append(offsets[i])
    return np.array(since, np.int64), np.array(ahead, np.int64)


def _change_between(zone: tzinfo, before_s: int, after_s: int) -> int:
    old = offset_at(before_s, zone)
    while after_s - before_s > 1:
        middle = (before_s + after_s) // 2
        if offset_at(middle, zone) == old:
            before_s = middle
        else:
            after_s = middle
    return after_s


def to_local_s(unix_s: Int64, zone: tzinfo) -> Int64:
    """Return what the zone's clock shows at each instant."""
    if len(unix_s) == 0:
        return unix_s
    since, ahead = offset_changes(zone, int(unix_s.min()), int(unix_s.max()))
    return unix_s + ahead[np.searchsorted(since, unix_s, side="right") - 1]


def to_unix_s(local_s: Int64, zone: tzinfo) -> tuple[Int64, Int64]:
    """Return the first and the last instant [Unix s] at which the clock shows each local second.

    They differ in the doubled hour. For a local second that never happens both are the instant of the change.
    """
    if len(local_s) == 0:
        return local_s, local_s
    since, ahead = offset_changes(zone, int(local_s.min()) - 2 * DAY_S, int(local_s.max()) + 2 * DAY_S)
    shown_until = since[1:] + ahead[:-1]
    first = np.searchsorted(shown_until, local_s, side="right")
    last = np.searchsorted((since + ahead)[1:], local_s, side="right")
    until = np.append(since[1:], np.iinfo(np.int64).max)
    return np.maximum(local_s - ahead[first], since[first]), np.minimum(local_s - ahead[last], until[last])


def local_edges_s(clock_s: Int64, zone: tzinfo) -> Int64:
    """Return every instant at which the clock shows one of the local seconds or is changed; sorted, once each."""
    if len(clock_s) == 0:
        return clock_s
    first, last = to_unix_s(clock_s, zone)
    changes, _ = offset_changes(zone, int(first.min()), int(last.max()) + DAY_S)
    return np.unique(np.concatenate([first, last, changes]))


def local_days(from_s: int, until_s: int, zone: tzinfo) -> Int64:
    """Return the numbers of all local dates that touch the time from `from_s` to `until_s` [Unix s]."""
    first, last = to_local_s(np.array([from_s, until_s], np.int64), zone) // DAY_S
    # A clock that is changed at midnight may show the date before or after for an hour.
    return np.arange(first - 1, last + 2, dtype=np.int64)


def weekday(local_day: Int64) -> Int64:
    """Return 0 for Monday to 6 for Sunday."""
    return (local_day + WEEKDAY_OF_DAY_0) % 7


def date_text(unix_s: int, zone: tzinfo) -> str:
    """Return the local date as 2020-09-21."""
    return datetime.fromtimestamp(unix_s, zone).date().isoformat()


TIME_HINT = "write it like 2026-11-01, 2026-11-01T08:00, today, yesterday or now-7days"
UNITS_S = {"second": 1, "minute": MINUTE_S, "hour": HOUR_S, "day": DAY_S, "week": WEEK_S}
NAMED_DAYS = {"yesterday": -1, "today": 0, "midnight": 0, "tomorrow": 1}
NAMED_HOURS = {"noon": 12, "fika": 15, "teatime": 16}

_FROM_NOW = re.compile(r"now(?:([+-])(\d{1,9})([a-z]*))?")
_CLOCK = re.compile(r"\d{1,2}:\d\d(?::\d\d)?")
_MONTH_AND_DAY = re.compile(r"(\d\d)[/.]?(\d\d)(?:[/.]?(\d\d))?(?:-(\d{1,2}:\d\d(?::\d\d)?))?")


@dataclass(frozen=True)
class TimeRange:
    """From an instant up to another, which is no more in it [Unix s]."""

    from_unix_s: float
    until_unix_s: float


def parse_range(start: str | None, end: str | None, *, now_unix_s: float, zone: tzinfo) -> TimeRange:
    """Return the range; without a start it begins at today's midnight, without an end it ends now.

    A date is its first instant, as an end too. Raises BadInput for what is no time, and for an end before the start.
    """
    from_unix_s = parse_time(start or "today", now_unix_s=now_unix_s, zone=zone)
    until_unix_s = parse_time(end or "now", now_unix_s=now_unix_s, zone=zone)
    if until_unix_s <= from_unix_s:
        message = f"the end ({end or 'now'}) is not after the start ({start or 'today'})"
        raise BadInput(message, hint="-S 2026-11-01 -E 2026-11-02 is the whole of 1 November")
    return TimeRange(from_unix_s, until_unix_s)


def parse_time(text: str, *, now_unix_s: float, zone: tzinfo) -> float:
    """Return the instant [Unix s] that the text names on the zone's clock. Raises BadInput if it names none."""
    token = text.strip().lower()
    now = datetime.fromtimestamp(now_unix_s, zone)
    try:
        if from_now := _FROM_NOW.fullmatch(token):
            return now_unix_s + _shift_s(*from_now.groups())
        return _instant(token, now).timestamp()
    except (ValueError, KeyError, OverflowError):
        raise BadInput(f"{text!r} is no time", hint=TIME_HINT) from None


def day_edges(span: TimeRange, zone: tzinfo) -> list[float]:
    """Return the start, every local midnight within, and the end [Unix s]; some days have 23 or 25 hours."""
    day = datetime.fromtimestamp(span.from_unix_s, zone).date() + timedelta(days=1)
    edges = [span.from_unix_s]
    while (midnight := _midnight(day, zone).timestamp()) < span.until_unix_s:
        if midnight > edges[-1]:
            edges.append(midnight)
        day += timedelta(days=1)
    return [*edges, span.until_unix_s]


def _shift_s(sign: str | None, count: str | None, unit: str | None) -> int:
    if sign is None or count is None:
        return 0
    names = [name for name in UNITS_S if unit and f"{name}s".startswith(unit)] or ([] if unit else ["second"])
    return int(f"{sign}{count}") * UNITS_S[names[0] if len(names) == 1 else ""]


def _instant(token: str, now: datetime) -> datetime:
    zone = now.tzinfo
    assert zone is not None
    if token in NAMED_DAYS:
        return _midnight(now.date() + timedelta(days=NAMED_DAYS[token]), zone)
    if token in NAMED_HOURS:
        return datetime.combine(now.date(), time(NAMED_HOURS[token]), zone)
    if _CLOCK.fullmatch(token):
        return datetime.combine(now.date(), _time(token), zone)
    if parts := _MONTH_AND_DAY.fullmatch(token):
        month, day, year, clock = parts.groups()
        on = date(2000 + int(year) if year else now.year, int(month), int(day))
        return datetime.combine(on, _time(clock), zone) if clock else _midnight(on, zone)
    if len(token) == len("2026-11-01"):
        return _midnight(date.fromisoformat(token), zone)
    written = datetime.fromisoformat(token.upper())
    return written if written.tzinfo else written.replace(tzinfo=zone)


def _time(clock: str) -> time:
    hour, minute, second = (*map(int, clock.split(":")), 0)[:3]
    return time(hour, minute, second)


def _midnight(day: date, zone: tzinfo) -> datetime:
    """Return the first instant of a local date; where clocks go forward at midnight, that of the change."""
    midnight = datetime.combine(day, time(), zone)
    # A time that the clock never shows is read with the offset before the change: the very instant of it, or later.
    return datetime.fromtimestamp(midnight.timestamp(), zone)


def parse_instant(text: str) -> float:
    """Return the instant [Unix s]: with an offset such as Z or +01:00, else on this machine's clock; raise BadInput."""
    now = datetime.now().astimezone()
    here = now.tzinfo
    assert here is not None
    try:
        written = datetime.fromisoformat(text)
    except ValueError:
        written = None
    if written is not None and written.tzinfo is not None:
        return written.timestamp()
    return parse_time(text, now_unix_s=now.timestamp(), zone=here)


def parse_limit_s(text: str) -> int:
    """Return the time that a job is given [s], written like 30min. Raises BadInput."""
    limit_s = parse_duration_s(text)
    if limit_s < 1:
        raise BadInput(f"--time {text}: is no time", hint="write it like 30min or 2h")
    return limit_s


COMING_HINT = "write it as 8h, 2d, 18:00 or 2026-12-01T08:00"


def parse_coming_time(option: str, text: str, now: datetime) -> float:
    """Return an instant after `now` [Unix s]; a time of day is the next such time. Raises BadInput.

    `now` is aware; a time without an offset is one of its zone.
    """
    at_unix_s = _coming_unix_s(option, text.strip(), now)
    if at_unix_s <= now.timestamp():
        raise BadInput(f"{option} {text}: lies in the past", hint=COMING_HINT)
    return at_unix_s


def _coming_unix_s(option: str, text: str, now: datetime) -> float:
    try:
        if re.fullmatch(r"\d{1,2}:\d\d", text):
            today = datetime.combine(now.date(), time.fromisoformat(text.zfill(5)), now.tzinfo)
            return (today if today > now else today + timedelta(days=1)).timestamp()
        if re.match(r"\d{4}-", text):
            at = datetime.fromisoformat(text)
            return (at if at.tzinfo else at.replace(tzinfo=now.tzinfo)).timestamp()
    except ValueError:
        raise BadInput(f"{option} {text!r} is no time", hint=COMING_HINT) from None
    # A duration is not added to local time, because the clock may change until then.
    return now.timestamp() + parse_duration_s(text)
