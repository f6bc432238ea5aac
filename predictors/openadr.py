"""Caps on power from the events of an OpenADR 3 server, and the reports on what the site drew.

Shapes after the OpenADR 3.0.1 specification. GET /events answers with at most 50 events, which any client may read: an
event with targets is for those whom they name, as a VEN, a resource or a group; 3.1 writes the names alone. An interval
with a payload IMPORT_CAPACITY_LIMIT is a cap. It starts with its own intervalPeriod, else after the previous interval,
within the event's; a start in the year 0 or 1 means now. Limits are kW unless the event says otherwise. POST /reports
tells the server what the site drew during an interval: its energy (USAGE) and its mean power (DEMAND).

Each event stands alone: one that cannot be read hides no other. What a server orders has a floor, a longest length, and
an end: a limit without an end ends some time after the server was reached last.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from offpeak.display import utc_text
from offpeak.model.constants import DAY_S, HOUR_S, J_PER_KWH, MINUTE_S, QUARTER_S, WEEK_S
from offpeak.model.facility import PowerCap
from offpeak.predictors.demand_response import MOST, CapEvent, OrderedEvents
from offpeak.predictors.feeds.port import FeedProblem
from offpeak.predictors.feeds.web import TIMEOUT_S, AnswerShape
from offpeak.predictors.openadr_server import SOURCE, OpenAdrServer, ServerLogin
from offpeak.settings.plan import PlanSettings
from offpeak.text import printable

LIMIT = "IMPORT_CAPACITY_LIMIT"
WATTS: Mapping[str, float] = {"KW": 1e3, "W": 1.0, "MW": 1e6}
MOST_AHEAD_S = 366 * DAY_S
"""A cap that begins later is a mistake."""


def read_server_events(
    plan: PlanSettings, before: OrderedEvents, *, now_s: int, timeout_s: float = TIMEOUT_S
) -> OrderedEvents:
    """Query the server. Never raises: a known cap stays in force.

    An event that cannot be read any more stays as it was. One in force that is not listed is withdrawn once a second
    reading does not list it either: a server may show its events incompletely.
    """
    if not plan.openadr:
        return OrderedEvents()
    listed = OpenAdrServer(plan.openadr, server_login(plan), timeout_s).fetch()
    if isinstance(listed, FeedProblem):
        return replace(before, problem=f"{listed}; {listed.hint}")
    known = {event.event_id: event for event in before.events}
    found = dict[str, CapEvent]()
    unreadable = []
    foreign = 0
    for event_id, text in listed.items():
        try:
            event = EVENT.validate_json(text)
            if not is_for_site(event, plan):
                foreign += 1
                continue
            caps = _caps(event, CapTerms(plan, now_s, _begin_s(known.get(event_id), now_s)))
        except (ValueError, OverflowError) as problem:
            unreadable.append(f"event {printable(event_id)}: {problem_text(problem)}")
            found |= {event_id: known[event_id]} if event_id in known else {}
            continue
        if caps:
            found[event_id] = CapEvent(caps, event_id, event.program_id)
    gone = {event_id for event_id, event in known.items() if event_id not in listed and is_in_force(event, now_s)}
    missing = frozenset(gone - before.missing)
    events = (*found.values(), *(known[event_id] for event_id in sorted(missing)))
    return OrderedEvents(events, unreadable=tuple(unreadable), foreign=foreign, missing=missing)


def server_login(plan: PlanSettings) -> ServerLogin:
    """Return how the settings log in to the server."""
    return ServerLogin(
        plan.openadr_token,
        plan.openadr_client_id,
        plan.openadr_client_secret,
        plan.openadr_token_url or "",
        plan.openadr_scope or "",
    )


def is_in_force(event: CapEvent, now_s: int) -> bool:
    """Whether one of its caps holds now."""
    return any(cap.from_s <= now_s < cap.until_s for cap in event.caps)


def _begin_s(known: CapEvent | None, now_s: int) -> int:
    """Return when an event that begins "now" began: when it was read first."""
    return min((cap.from_s for cap in known.caps), default=now_s) if known else now_s


def problem_text(problem: Exception) -> str:
    """Return what is wrong with an event in one line."""
    if isinstance(problem, ValidationError):
        first = problem.errors(include_input=False, include_url=False, include_context=False)[0]
        return printable(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    return printable(str(problem))


class OpenAdrShape(AnswerShape):
    """Names as OpenADR writes them: intervalPeriod."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", alias_generator=to_camel)


class EventPeriod(OpenAdrShape):
    """When something begins, and how long it lasts, as ISO 8601 has it."""

    start: str
    duration: str | None = None


class EventPayload(OpenAdrShape):
    """What holds; the values of other kinds than ours may be points."""

    type: str
    values: tuple[Any, ...] = ()


class EventInterval(OpenAdrShape):
    """A part of an event."""

    interval_period: EventPeriod | None = None
    payloads: tuple[EventPayload, ...] = ()


class PayloadDescriptor(OpenAdrShape):
    """The unit of a kind of payload."""

    payload_type: str
    units: str | None = None


class EventTarget(OpenAdrShape):
    """Whom an event is for."""

    type: str
    values: tuple[Any, ...] = ()


class OpenAdrEvent(OpenAdrShape):
    """What is used of an event."""

    id: str = ""
    program_id: str = Field("", alias="programID")
    event_name: str | None = None
    targets: tuple[EventTarget | str, ...] | None = None
    interval_period: EventPeriod | None = None
    payload_descriptors: tuple[PayloadDescriptor, ...] | None = None
    intervals: tuple[EventInterval, ...] = ()


EVENT = TypeAdapter(OpenAdrEvent)


def is_for_site(event: OpenAdrEvent, plan: PlanSettings) -> bool:
    """Whether the event is for all clients of one of our programmes, or names this site as a VEN, resource or group."""
    if plan.openadr_programs and event.program_id not in plan.openadr_programs:
        return False
    return is_addressed(event, {*(plan.openadr_targets or ()), plan.openadr_client}, plan.openadr_programs or ())


def is_addressed(event: OpenAdrEvent, names: Set[str | None], programs: Sequence[str] = ()) -> bool:
    """Whether the event has no targets, or names one of `names` as a VEN, resource or group.

    Targets that are only programmes and events must be its own: its ID or one of `programs`, and its name.
    """
    own: Mapping[str, Set[str | None]] = {
        "PROGRAM_NAME": {event.program_id, *programs},
        "EVENT_NAME": {event.event_name},
    }
    targets = [
        ("VEN_NAME", (target,)) if isinstance(target, str) else (target.type.upper(), tuple(map(str, target.values)))
        for target in event.targets or ()
    ]
    recipients = [values for kind, values in targets if kind not in own]
    if recipients:
        # A target without a value is for no recipient, and not for all.
        return any(not names.isdisjoint(values) for values in recipients)
    return all(not own[kind].isdisjoint(values) for kind, values in targets)


def place_intervals(
    event: OpenAdrEvent, start_s: Callable[[str], int]
) -> Iterator[tuple[int, int | None, EventInterval]]:
    """Return when each interval begins, how long it lasts, None for no end, and the interval.

    An interval begins at its own start, else after the one before it, else at the start of the event.
    """
    next_s: int | None = None
    for interval in event.intervals:
        period = interval.interval_period or event.interval_period
        if period is None:
            raise ValueError("an interval has no period")
        follows = next_s is not None and interval.interval_period is None
        from_s = next_s if next_s is not None and follows else start_s(period.start)
        length_s = _length_s(period.duration)
        next_s = from_s + (length_s or 0)
        yield from_s, length_s, interval


@dataclass(frozen=True)
class CapTerms:
    """What bounds the caps of an event that is read at `now_s`; one that begins "now" began at `began_s`."""

    plan: PlanSettings
    now_s: int
    began_s: int

    def until_s(self, from_s: int, length_s: int | None) -> int:
        """Return the end of a cap: after its length, and without one some time after this reading."""
        if length_s is None:
            # In whole quarter-hours: the end moves with each reading.
            latest_s = max(self.now_s, from_s) + self.plan.openadr_silence_s
            return -(-latest_s // QUARTER_S) * QUARTER_S
        return from_s + length_s


def _caps(event: OpenAdrEvent, terms: CapTerms) -> tuple[PowerCap, ...]:
    """Return the caps of an event, from the begin of the first for the longest time that the settings permit."""
    if not any(payload.type == LIMIT for interval in event.intervals for payload in interval.payloads):
        return ()
    caps = list[PowerCap]()
    units = {descriptor.payload_type: descriptor.units or "KW" for descriptor in event.payload_descriptors or ()}
    for number, (from_s, length_s, interval) in enumerate(place_intervals(event, lambda text: _start_s(text, terms))):
        for payload in interval.payloads:
            if payload.type == LIMIT:
                cap_w = max(_watts(payload, units.get(LIMIT, "KW")), round(terms.plan.openadr_least_w))
                if from_s - terms.now_s > MOST_AHEAD_S:
                    if interval.interval_period or number == 0:
                        raise ValueError(f"begins in more than a year: {utc_text(from_s)}")
                    # Long intervals before it delay it; they hold, and it is read again later.
                    continue
                reason = printable(event.event_name or f"event {event.id}")
                caps.append(PowerCap(from_s, terms.until_s(from_s, length_s), cap_w, reason, SOURCE))
    end_s = min((cap.from_s for cap in caps), default=0) + terms.plan.openadr_longest_s
    return tuple(replace(cap, until_s=min(cap.until_s, end_s)) for cap in caps if cap.from_s < end_s)


def _watts(payload: EventPayload, unit: str) -> int:
    if unit.upper() not in WATTS:
        raise ValueError(f"{LIMIT} in {unit!r}, not kW")
    values = [value for value in payload.values if isinstance(value, float | int) and not isinstance(value, bool)]
    if not values or not all(0 <= value < MOST for value in values):
        raise ValueError(f"{LIMIT} without a power")
    return int(min(values) * WATTS[unit.upper()])


_NOW = re.compile(r"000[01]-0[01]-0[01]")
_DURATION = re.compile(
    r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)
_SECONDS = (365 * DAY_S, 30 * DAY_S, WEEK_S, DAY_S, HOUR_S, MINUTE_S, 1)
FOR_EVER_S = 50 * 366 * DAY_S
"""P9999Y means for ever."""


def _start_s(text: str, terms: CapTerms) -> int:
    if _NOW.match(text):
        return terms.began_s
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text!r} has no offset to UTC")
    return int(at.timestamp())


def _length_s(text: str | None) -> int | None:
    """Return an ISO 8601 duration [s]; None for no duration, 0 seconds, or for ever."""
    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None or text.endswith(("P", "T")):
        raise ValueError(f"{text!r} is not a duration")
    seconds = sum(float(part or 0) * value for part, value in zip(match.groups(), _SECONDS, strict=True))
    return round(seconds) if 0 < round(seconds) < FOR_EVER_S else None


@dataclass(frozen=True)
class MeasuredInterval:
    """The mean power of all measured nodes in an interval [Unix s], of which the share `covered` was measured."""

    from_s: int
    until_s: int
    power_w: float
    covered: float


def make_report(event: CapEvent, cap: PowerCap, intervals: Sequence[MeasuredInterval], client: str) -> dict[str, Any]:
    """Return the report on a cap of an event, of intervals that follow one another; `client` is the site's name."""
    confidence = min(100, round(100 * min(interval.covered for interval in intervals)))
    kinds = (("USAGE", "DIRECT_READ", "KWH"), ("DEMAND", "MEAN", "KW"))
    return {
        "objectType": "REPORT",
        "programID": event.program_id,
        "eventID": event.event_id,
        "clientName": client,
        "reportName": f"{cap.reason} {utc_text(cap.from_s)}",
        "payloadDescriptors": [
            {
                "objectType": "REPORT_PAYLOAD_DESCRIPTOR",
                "payloadType": kind,
                "readingType": reading,
                "units": units,
                "confidence": confidence,
            }
            for kind, reading, units in kinds
        ],
        "resources": [
            {
                "resourceName": client,
                "intervalPeriod": _period(intervals[0].from_s, intervals[-1].until_s),
                "intervals": [_report_interval(number, interval) for number, interval in enumerate(intervals)],
            }
        ],
    }


def _report_interval(number: int, interval: MeasuredInterval) -> dict[str, Any]:
    usage_kwh = interval.power_w * (interval.until_s - interval.from_s) / J_PER_KWH
    demand_kw = interval.power_w / 1e3
    payloads = (("USAGE", usage_kwh), ("DEMAND", demand_kw))
    return {
        "id": number,
        "intervalPeriod": _period(interval.from_s, interval.until_s),
        "payloads": [{"type": kind, "values": [round(value, 6)]} for kind, value in payloads],
    }


def _period(from_s: int, until_s: int) -> dict[str, str]:
    return {"start": utc_text(from_s), "duration": f"PT{until_s - from_s}S"}
