"""A month on a local clock, as an operator writes it: 2026-11."""

from dataclasses import dataclass
from datetime import datetime, tzinfo

from offpeak.errors import BadInput
from offpeak.model.local_time import TimeRange


@dataclass(frozen=True)
class Month:
    """A month by its name, "November 2026", and its time; of one that goes on, what of it is over."""

    name: str
    span: TimeRange
    goes_on: bool


def month_of(text: str | None, *, now_unix_s: float, zone: tzinfo) -> Month:
    """Return the month "2026-11", without a text the last one that is over; BadInput for what is no month."""
    now = datetime.fromtimestamp(now_unix_s, zone)
    first = _first_day(text, zone) if text else _before(now)
    if first.timestamp() >= now_unix_s:
        raise BadInput(f"--month {text}: has not begun", hint=f"this month is {now:%Y-%m}")
    after = _after(first)
    until_s = min(after.timestamp(), now_unix_s)
    return Month(f"{MONTHS[first.month - 1]} {first.year}", TimeRange(first.timestamp(), until_s), after > now)


MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def _first_day(text: str, zone: tzinfo) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m").replace(tzinfo=zone)
    except ValueError:
        raise BadInput(f"--month {text}: is no month", hint="write it like 2026-11") from None


def _before(now: datetime) -> datetime:
    year, month = divmod(12 * now.year + now.month - 2, 12)
    return datetime(year, month + 1, 1, tzinfo=now.tzinfo)


def _after(first: datetime) -> datetime:
    year, month = divmod(12 * first.year + first.month, 12)
    return datetime(year, month + 1, 1, tzinfo=first.tzinfo)
