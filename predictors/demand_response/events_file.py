"""A site's own file of caps on power, in TOML.

    [[event]]
    begin = 2026-11-22T17:00:00+01:00
    end = 2026-11-22T20:00:00+01:00
    cap_w = 40000
    reason = "the grid asks"

Times without an offset are on the site's clock.
"""

import tomllib
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.facility import PowerCap

KEYS = ("begin", "end", "cap_w", "reason")
EXAMPLE = 'write [[event]] and below it begin = 2026-11-22T17:00:00+01:00, end, cap_w = 40000 and reason = "..."'


def read_events(path: Path, zone: tzinfo) -> tuple[PowerCap, ...]:
    """Return the caps of a file; BadInput with file and event for what cannot be read."""
    try:
        told = tomllib.loads(read_bytes(path, BadInput).decode(errors="replace"))
    except tomllib.TOMLDecodeError as problem:
        raise BadInput(f"{path}: {problem}", hint=EXAMPLE) from None
    events = told.get("event", [])
    if set(told) - {"event"} or not isinstance(events, list):
        raise BadInput(f"{path}: has more than [[event]] in it", hint=EXAMPLE)
    return tuple(_cap(event, f"{path}: event {number}", zone, str(path)) for number, event in enumerate(events, 1))


def _cap(event: Any, where: str, zone: tzinfo, source: str) -> PowerCap:
    if not isinstance(event, dict) or set(event) != set(KEYS):
        odd = sorted(set(event) ^ set(KEYS)) if isinstance(event, dict) else []
        raise BadInput(f"{where}: has not just {', '.join(KEYS)}: {', '.join(odd)}", hint=EXAMPLE)
    from_s, until_s = (_unix_s(event[key], f"{where}: {key}", zone) for key in ("begin", "end"))
    cap_w, reason = event["cap_w"], event["reason"]
    if until_s <= from_s:
        raise BadInput(f"{where}: ends before it begins", hint="end is a time behind begin")
    if isinstance(cap_w, bool) or not isinstance(cap_w, int | float) or not 0 <= cap_w < 1e12:
        raise BadInput(f"{where}: cap_w: {cap_w!r} is no power", hint="write watts as a number, such as 40000")
    if not isinstance(reason, str):
        raise BadInput(f"{where}: reason: {reason!r} is no text", hint=EXAMPLE)
    return PowerCap(from_s, until_s, int(cap_w), reason, source)


def _unix_s(written: Any, where: str, zone: tzinfo) -> int:
    if not isinstance(written, datetime):
        raise BadInput(f"{where}: {written!r} is no time", hint="write it without quotes: 2026-11-22T17:00:00+01:00")
    return int((written if written.tzinfo else written.replace(tzinfo=zone)).timestamp())
