"""Caps on the machine's power that the site orders in a file of events, and what all sources of caps share.

The file is TOML; times without an offset are on the site's clock:

    [[event]]
    begin = 2026-11-22T17:00:00+01:00
    end = 2026-11-22T20:00:00+01:00
    cap_w = 40000
    reason = "the grid asks"
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

from offpeak.display import utc_text
from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.constants import DAY_S
from offpeak.model.facility import PowerCap
from offpeak.settings.plan import PlanSettings
from offpeak.text import counted


@dataclass(frozen=True)
class CapEvent:
    """Caps that were ordered together; `event_id` and `program_id` are those of an OpenADR server, "" in a file."""

    caps: tuple[PowerCap, ...]
    event_id: str = ""
    program_id: str = ""


MOST = 1e12
"""A larger number is no power, in any unit."""
EVENT_KEYS = ("begin", "end", "cap_w", "reason")
EVENT_EXAMPLE = 'write [[event]] and below it begin = 2026-11-22T17:00:00+01:00, end, cap_w = 40000 and reason = "..."'


def read_events(path: Path, zone: tzinfo) -> tuple[tuple[PowerCap, ...], tuple[BadInput, ...]]:
    """Return the caps of a file, and why other events cannot be read. Raises BadInput for a file without events."""
    try:
        document = tomllib.loads(read_bytes(path, BadInput).decode(errors="replace"))
    except tomllib.TOMLDecodeError as problem:
        raise BadInput(f"{path}: {problem}", hint=EVENT_EXAMPLE) from None
    events = document.get("event", [])
    if set(document) - {"event"} or not isinstance(events, list):
        raise BadInput(f"{path}: has more than [[event]] in it", hint=EVENT_EXAMPLE)
    caps, problems = list[PowerCap](), list[BadInput]()
    for number, event in enumerate(events, 1):
        try:
            caps.append(_cap(event, f"{path}: event {number}", zone, str(path)))
        except BadInput as problem:
            problems.append(problem)
    return tuple(caps), tuple(problems)


def _cap(event: Any, where: str, zone: tzinfo, source: str) -> PowerCap:
    if not isinstance(event, dict) or set(event) != set(EVENT_KEYS):
        odd = sorted(set(event) ^ set(EVENT_KEYS)) if isinstance(event, dict) else []
        raise BadInput(f"{where}: has not just {', '.join(EVENT_KEYS)}: {', '.join(odd)}", hint=EVENT_EXAMPLE)
    from_s, until_s = (_event_time_s(event[key], f"{where}: {key}", zone) for key in ("begin", "end"))
    cap_w, reason = event["cap_w"], event["reason"]
    if until_s <= from_s:
        raise BadInput(f"{where}: ends before it begins", hint="end is a time behind begin")
    if isinstance(cap_w, bool) or not isinstance(cap_w, int | float) or not 0 <= cap_w < MOST:
        raise BadInput(f"{where}: cap_w: {cap_w!r} is not a power", hint="write watts as a number, such as 40000")
    if not isinstance(reason, str):
        raise BadInput(f"{where}: reason: {reason!r} is not text", hint=EVENT_EXAMPLE)
    return PowerCap(from_s, until_s, int(cap_w), reason, source)


def _event_time_s(written: Any, where: str, zone: tzinfo) -> int:
    if not isinstance(written, datetime):
        raise BadInput(f"{where}: {written!r} is not a time", hint="write it without quotes: 2026-11-22T17:00:00+01:00")
    return int((written if written.tzinfo else written.replace(tzinfo=zone)).timestamp())


@dataclass(frozen=True)
class OrderedEvents:
    """The events of one source, and why they could not be read last, "" if they could: then they are the last ones.

    `unreadable` are the events that cannot be read, each with its reason; `foreign` is how many are for others.
    `missing` are the events in force that the last reading did not show: the next one decides. `read_s` is the Unix
    time at which a file was last read without a problem.
    """

    events: tuple[CapEvent, ...] = ()
    problem: str = ""
    unreadable: tuple[str, ...] = ()
    foreign: int = 0
    missing: frozenset[str] = frozenset()
    read_s: int = 0


FILE_KEPT_S = DAY_S
"""How long the events of a file that cannot be read any more stay in force."""


def read_file_events(plan: PlanSettings, zone: tzinfo, before: OrderedEvents, now_s: int) -> OrderedEvents:
    """Read the file. Never raises: a known cap stays in force while an event cannot be read, which may be its own.

    It does so for FILE_KEPT_S, also after a restart.
    """
    try:
        caps, problems = read_events(plan.events, zone) if plan.events else ((), ())
    except BadInput as problem:
        caps, problems = (), (problem,)
    events = tuple(CapEvent((cap,)) for cap in caps)
    if not problems:
        return OrderedEvents(events, read_s=now_s)
    last_s = before.read_s + FILE_KEPT_S
    kept = tuple(event for event in before.events if event not in events and now_s < last_s)
    ahead = len(caps_ahead(kept, now_s))
    stays = f"; {counted(ahead, 'cap')} of before until {utc_text(last_s)} at the latest" if ahead else ""
    text = f"{'; '.join(map(str, problems))}; {problems[0].hint}{stays}"
    return OrderedEvents((*events, *kept), text, read_s=before.read_s)


def caps_ahead(events: Iterable[CapEvent], now_s: int) -> tuple[PowerCap, ...]:
    """Return the caps that are not over, the first to begin first."""
    caps = {cap for event in events for cap in event.caps if cap.until_s > now_s}
    return tuple(sorted(caps, key=lambda cap: (cap.from_s, cap.until_s, cap.cap_w)))
