"""Instants and spans as owners of jobs write them."""

import time
from datetime import datetime

from offpeak.errors import BadInput
from offpeak.model.local_time import parse_time
from offpeak.model.units import parse_duration_s


def instant(text: str) -> float:
    """Return the instant [Unix s]: with an offset such as Z or +01:00, else on this machine's clock; BadInput."""
    here = datetime.now().astimezone().tzinfo
    assert here is not None
    try:
        written = datetime.fromisoformat(text)
    except ValueError:
        written = None
    if written is not None and written.tzinfo is not None:
        return written.timestamp()
    return parse_time(text, now_unix_s=time.time(), zone=here)


def limit_s_of(text: str) -> int:
    """Return the time that a job is given [s], written like 30min; BadInput."""
    limit_s = parse_duration_s(text)
    if limit_s < 1:
        raise BadInput(f"--time {text}: is no time", hint="write it like 30min or 2h")
    return limit_s
