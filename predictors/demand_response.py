"""Caps on the machine's power that the site orders in a file of events, and what all sources of caps share.

The file is TOML; times without an offset are on the site's clock:

    [[event]]
    begin = 2026-11-22T17:00:00+01:00
    end = 2026-11-22T20:00:00+01:00
    cap_w = 40000
    reason = "the grid asks"
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from offpeak.display import duration_text, utc_text
from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.constants import DAY_S
from offpeak.model.description import Description, Text, WrongEntry, read_by
from offpeak.model.facility import PowerCap
from offpeak.settings.kinds import number
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


class EventsFile(Description):
    """The whole file."""

    noun = "a file of events"
    examples: ClassVar = {"event": '[{ begin = 2026-11-22T17:00:00+01:00, end = ..., cap_w = 40000, reason = "..." }]'}

    event: list[Any] = Field(default_factory=list)


class EventTable(Description):
    """[[event]]: each one is read by itself, so that a wrong one hides no other."""

    noun = "an event"
    examples: ClassVar = {
        "begin": "2026-11-22T17:00:00+01:00",
        "end": "2026-11-22T20:00:00+01:00",
        "cap_w": "40000",
        "reason": '"the grid asks"',
    }

    begin: datetime
    end: datetime
    cap_w: Annotated[float, read_by(number(0, MOST).read)]
    reason: Text


def read_events(path: Path, zone: tzinfo) -> tuple[tuple[PowerCap, ...], tuple[BadInput, ...]]:
    """Return the caps of a file, and why other events cannot be read. Raises BadInput for a file without events."""
    events = EventsFile.parse(read_bytes(path, BadInput), str(path), lambda file: file.event)
    caps, problems = list[PowerCap](), list[BadInput]()
    for at, entry in enumerate(events, 1):
        try:
            with EventTable.problems_in(f"{path}: event {at}"):
                event = EventTable.model_validate(entry)
                times = [time if time.tzinfo else time.replace(tzinfo=zone) for time in (event.begin, event.end)]
                from_s, until_s = (int(time.timestamp()) for time in times)
                if until_s <= from_s:
                    raise WrongEntry("ends before it begins", hint="end is a time behind begin")
                caps.append(PowerCap(from_s, until_s, int(event.cap_w), event.reason, str(path)))
        except BadInput as problem:
            problems.append(problem)
    return tuple(caps), tuple(problems)


@dataclass(frozen=True)
class OrderedEvents:
    """The events of one source, and why they could not be read last, "" if they could: then they are the last ones.

    `unreadable` are the events that cannot be read, each with its reason; `foreign` is how many are for others.
    `missing` are the events in force that the last reading did not show: the next one decides. `read_s` is the Unix
    time at which a file was last read without a problem. `bounded` are the events of a file that the settings bound,
    each with what holds.
    """

    events: tuple[CapEvent, ...] = ()
    problem: str = ""
    unreadable: tuple[str, ...] = ()
    foreign: int = 0
    missing: frozenset[str] = frozenset()
    read_s: int = 0
    bounded: tuple[str, ...] = ()


FILE_KEPT_S = DAY_S
"""How long the events of a file that cannot be read any more stay in force."""


def read_file_events(plan: PlanSettings, zone: tzinfo, before: OrderedEvents, now_s: int) -> OrderedEvents:
    """Read the file. Never raises: a known cap stays in force while an event cannot be read, which may be its own.

    It does so for FILE_KEPT_S, also after a restart. The settings bound an event as one of an OpenADR server.
    """
    try:
        caps, problems = read_events(plan.events, zone) if plan.events else ((), ())
    except BadInput as problem:
        caps, problems = (), (problem,)
    least_w, events, bounded = round(plan.openadr_least_w), list[CapEvent](), list[str]()
    for cap in caps:
        last_s = cap.from_s + plan.openadr_longest_s
        if cap.until_s > last_s:
            length = duration_text(plan.openadr_longest_s)
            bounded.append(f"{cap.source}: {cap.reason!r} ends {length} after its begin, by plan.openadr_longest")
        if cap.cap_w < least_w:
            bounded.append(f"{cap.source}: {cap.reason!r} is a cap of {least_w:,} W, by plan.openadr_least")
        in_bounds = replace(cap, until_s=min(cap.until_s, last_s), cap_w=max(cap.cap_w, least_w))
        events.append(CapEvent((in_bounds,)))
    if not problems:
        return OrderedEvents(tuple(events), read_s=now_s, bounded=tuple(bounded))
    kept_until_s = before.read_s + FILE_KEPT_S
    kept = tuple(event for event in before.events if event not in events and now_s < kept_until_s)
    ahead = len(caps_ahead(kept, now_s))
    stays = f"; {counted(ahead, 'cap')} of before until {utc_text(kept_until_s)} at the latest" if ahead else ""
    text = f"{'; '.join(map(str, problems))}; {problems[0].hint}{stays}"
    return OrderedEvents((*events, *kept), text, read_s=before.read_s, bounded=tuple(bounded))


def caps_ahead(events: Iterable[CapEvent], now_s: int) -> tuple[PowerCap, ...]:
    """Return the caps that are not over, the first to begin first."""
    caps = {cap for event in events for cap in event.caps if cap.until_s > now_s}
    return tuple(sorted(caps, key=lambda cap: (cap.from_s, cap.until_s, cap.cap_w)))
