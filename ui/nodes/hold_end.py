"""When a hold ends, as an admin writes it: after a while, or at a time of the clock on the wall."""

import re
from datetime import datetime, time, timedelta

from offpeak.errors import BadInput
from offpeak.model.units import parse_duration_s

_TIME_OF_DAY = re.compile(r"\d{1,2}:\d\d")
HOLD_END_HINT = "write it as 8h, 2d, 18:00 or 2026-12-01T08:00"


def parse_hold_end(text: str, now: datetime) -> float:
    """Return the end; a time without a date is the next such time. BadInput for what is none, or lies in the past.

    `now` is aware; a time without an offset is one of its zone.
    """
    end_unix_s = _parse_end(text.strip(), now)
    if end_unix_s <= now.timestamp():
        raise BadInput(f"--until {text}: lies in the past", hint=HOLD_END_HINT)
    return end_unix_s


def _parse_end(text: str, now: datetime) -> float:
    try:
        if _TIME_OF_DAY.fullmatch(text):
            today = datetime.combine(now.date(), time.fromisoformat(text.zfill(5)), now.tzinfo)
            return (today if today > now else today + timedelta(days=1)).timestamp()
        if re.match(r"\d{4}-", text):
            end = datetime.fromisoformat(text)
            return (end if end.tzinfo else end.replace(tzinfo=now.tzinfo)).timestamp()
    except ValueError:
        raise BadInput(f"--until {text!r} is no time", hint=HOLD_END_HINT) from None
    # Not added to the time of the clock: that may be put forward or back until then.
    return now.timestamp() + parse_duration_s(text)
