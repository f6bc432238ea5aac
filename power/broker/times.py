"""Instants as owners of jobs write them."""

import time
from datetime import datetime

from offpeak.time_range import parse_time


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
