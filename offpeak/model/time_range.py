"""Times as users type them, and ranges of time.

Commands take times as `sacct` does: 2026-11-01, 2026-11-01T08:00, 11/01, 08:00, today, now-7days. Owners of jobs write
instants with an offset such as Z or +01:00, else on this machine's clock, and durations such as 30min.
"""

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo

from offpeak.errors import BadInput
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S, WEEK_S
from offpeak.model.units import parse_duration_s

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
        raise BadInput(f"{text!r} is not a time", hint=TIME_HINT) from None


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
        raise BadInput(f"--time {text}: is not a time", hint="write it like 30min or 2h")
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
        raise BadInput(f"{option} {text!r} is not a time", hint=COMING_HINT) from None
    # A duration is not added to local time, because the clock may change until then.
    return now.timestamp() + parse_duration_s(text)
