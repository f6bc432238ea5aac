"""Caps on the machine's power that the grid or the site orders: a site's own file of events, and OpenADR 3.

The site's file is TOML; times without an offset are on the site's clock:

    [[event]]
    begin = 2026-11-22T17:00:00+01:00
    end = 2026-11-22T20:00:00+01:00
    cap_w = 40000
    reason = "the grid asks"

An OpenADR 3 server sends events whose intervals have a payload IMPORT_CAPACITY_LIMIT. Shapes after the OpenADR 3.0.1
specification: GET /events answers with a list of events; an interval starts with its own intervalPeriod, else after the
previous interval, within the event's. Limits are kW unless the event says otherwise. POST /reports tells the server
what the site drew during an interval: its energy (USAGE) and its mean power (DEMAND).
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from offpeak.display import utc_text
from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.constants import DAY_S, HOUR_S, J_PER_KWH, MINUTE_S, WEEK_S
from offpeak.model.facility import PowerCap
from offpeak.settings.plan import PlanSettings
from predictors.feeds.port import FeedCondition, FeedProblem
from predictors.feeds.web import TIMEOUT_S, AnswerShape, HttpRequest, get, post


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


def read_events(path: Path, zone: tzinfo) -> tuple[PowerCap, ...]:
    """Return the caps of a file. Raises BadInput with file and event for what cannot be read."""
    try:
        document = tomllib.loads(read_bytes(path, BadInput).decode(errors="replace"))
    except tomllib.TOMLDecodeError as problem:
        raise BadInput(f"{path}: {problem}", hint=EVENT_EXAMPLE) from None
    events = document.get("event", [])
    if set(document) - {"event"} or not isinstance(events, list):
        raise BadInput(f"{path}: has more than [[event]] in it", hint=EVENT_EXAMPLE)
    return tuple(_cap(event, f"{path}: event {number}", zone, str(path)) for number, event in enumerate(events, 1))


def _cap(event: Any, where: str, zone: tzinfo, source: str) -> PowerCap:
    if not isinstance(event, dict) or set(event) != set(EVENT_KEYS):
        odd = sorted(set(event) ^ set(EVENT_KEYS)) if isinstance(event, dict) else []
        raise BadInput(f"{where}: has not just {', '.join(EVENT_KEYS)}: {', '.join(odd)}", hint=EVENT_EXAMPLE)
    from_s, until_s = (_event_time_s(event[key], f"{where}: {key}", zone) for key in ("begin", "end"))
    cap_w, reason = event["cap_w"], event["reason"]
    if until_s <= from_s:
        raise BadInput(f"{where}: ends before it begins", hint="end is a time behind begin")
    if isinstance(cap_w, bool) or not isinstance(cap_w, int | float) or not 0 <= cap_w < MOST:
        raise BadInput(f"{where}: cap_w: {cap_w!r} is no power", hint="write watts as a number, such as 40000")
    if not isinstance(reason, str):
        raise BadInput(f"{where}: reason: {reason!r} is no text", hint=EVENT_EXAMPLE)
    return PowerCap(from_s, until_s, int(cap_w), reason, source)


def _event_time_s(written: Any, where: str, zone: tzinfo) -> int:
    if not isinstance(written, datetime):
        raise BadInput(f"{where}: {written!r} is no time", hint="write it without quotes: 2026-11-22T17:00:00+01:00")
    return int((written if written.tzinfo else written.replace(tzinfo=zone)).timestamp())


LIMIT = "IMPORT_CAPACITY_LIMIT"
WATTS: Mapping[str, float] = {"KW": 1e3, "W": 1.0, "MW": 1e6}
FOREVER_S = 100 * 366 * DAY_S
_DURATION = re.compile(r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_SECONDS = (365 * DAY_S, 30 * DAY_S, WEEK_S, DAY_S, HOUR_S, MINUTE_S, 1)


class OpenAdrShape(AnswerShape):
    """Names as OpenADR writes them: intervalPeriod."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", alias_generator=to_camel)


class EventPeriod(OpenAdrShape):
    """When something begins, and how long it lasts, as ISO 8601 has it."""

    start: str
    duration: str | None = None


class EventPayload(OpenAdrShape):
    """What holds."""

    type: str
    values: tuple[float | int | str | bool, ...] = ()


class EventInterval(OpenAdrShape):
    """A part of an event."""

    interval_period: EventPeriod | None = None
    payloads: tuple[EventPayload, ...] = ()


class PayloadDescriptor(OpenAdrShape):
    """The unit of a kind of payload."""

    payload_type: str
    units: str | None = None


class OpenAdrEvent(OpenAdrShape):
    """What is used of an event."""

    id: str = ""
    program_id: str = Field("", alias="programID")
    event_name: str | None = None
    interval_period: EventPeriod | None = None
    payload_descriptors: tuple[PayloadDescriptor, ...] | None = None
    intervals: tuple[EventInterval, ...] = ()


@dataclass(frozen=True)
class OpenAdr:
    """A server, queried with the token in a file if there is one."""

    url: str
    token: Path | None = None
    timeout_s: float = TIMEOUT_S
    name: str = "openadr"

    def fetch(self) -> tuple[CapEvent, ...] | FeedProblem:
        """Return its events that have caps. Never raises for what the world does."""
        request = self._request("events")
        body = request if isinstance(request, FeedProblem) else get(request)
        if isinstance(body, FeedProblem):
            return body
        try:
            events = TypeAdapter(tuple[OpenAdrEvent, ...]).validate_json(body)
            found = (CapEvent(tuple(_caps(event, self.name)), event.id, event.program_id) for event in events)
            return tuple(event for event in found if event.caps)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False, include_context=False)[0]
            return FeedProblem(FeedCondition.GARBAGE, self.name, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
        except ValueError as error:
            return FeedProblem(FeedCondition.GARBAGE, self.name, str(error))

    def send_report(self, report: Mapping[str, Any]) -> str:
        """Send a report; return why the server has not taken it, "" if it has. Never raises, as `fetch`."""
        request = self._request("reports")
        answer = request if isinstance(request, FeedProblem) else post(request, json.dumps(report).encode())
        if isinstance(answer, FeedProblem):
            return f"{answer}; {answer.hint}"
        return "" if answer in TAKEN else f"{self.name}: HTTP {answer} from {urlsplit(self.url).netloc}; {REFUSED_HINT}"

    def _request(self, resource: str) -> HttpRequest | FeedProblem:
        try:
            token = self.token.read_text().strip() if self.token else ""
        except OSError as problem:
            return FeedProblem(FeedCondition.NO_KEY, self.name, f"{self.token}: {problem.strerror}")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return HttpRequest(self.name, f"{self.url.rstrip('/')}/{resource}", {}, headers, self.timeout_s)


TAKEN = frozenset({200, 201, 409})
"""The statuses of a report that the server has: 409 is that of one that it has already."""
REFUSED_HINT = "does it know openadr_client and the token? The report is sent again later"


def _caps(event: OpenAdrEvent, source: str) -> Iterator[PowerCap]:
    units = {descriptor.payload_type: descriptor.units or "KW" for descriptor in event.payload_descriptors or ()}
    next_s = None if event.interval_period is None else _parse_time_s(event.interval_period.start)
    for interval in event.intervals:
        period = interval.interval_period or event.interval_period
        if period is None:
            raise ValueError(f"event {event.id}: an interval has no period")
        from_s = _parse_time_s(period.start) if interval.interval_period or next_s is None else next_s
        next_s = from_s + _duration_s(period.duration)
        for payload in interval.payloads:
            if payload.type == LIMIT:
                cap_w = _watts(payload, units.get(LIMIT, "KW"), event.id)
                yield PowerCap(from_s, next_s, cap_w, event.event_name or f"event {event.id}", source)


def _watts(payload: EventPayload, unit: str, event: str) -> int:
    if unit.upper() not in WATTS:
        raise ValueError(f"event {event}: {LIMIT} in {unit!r}, not kW")
    values = [value for value in payload.values if isinstance(value, float | int) and not isinstance(value, bool)]
    if not values or not all(0 <= value < MOST for value in values):
        raise ValueError(f"event {event}: {LIMIT} without a power")
    return int(min(values) * WATTS[unit.upper()])


def _parse_time_s(text: str) -> int:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text!r} has no offset to UTC")
    return int(at.timestamp())


def _duration_s(text: str | None) -> int:
    """Return an ISO 8601 duration [s]; no duration, or 9999 years, means for ever."""
    if text is None:
        return FOREVER_S
    match = _DURATION.fullmatch(text)
    if match is None or text.endswith(("P", "T")):
        raise ValueError(f"{text!r} is no duration")
    seconds = sum(int(part or 0) * value for part, value in zip(match.groups(), _SECONDS, strict=True))
    return min(seconds, FOREVER_S) or FOREVER_S


@dataclass(frozen=True)
class OrderedEvents:
    """The events of one source, and why they could not be read last, "" if they could: then they are the last ones."""

    events: tuple[CapEvent, ...] = ()
    problem: str = ""


def read_file_events(plan: PlanSettings, zone: tzinfo, before: OrderedEvents) -> OrderedEvents:
    """Read the file. Never raises: a known cap stays in force."""
    try:
        caps = read_events(plan.events, zone) if plan.events else ()
    except BadInput as problem:
        return OrderedEvents(before.events, f"{problem}; {problem.hint}")
    return OrderedEvents(tuple(CapEvent((cap,)) for cap in caps))


def read_server_events(plan: PlanSettings, before: OrderedEvents, *, timeout_s: float = TIMEOUT_S) -> OrderedEvents:
    """Query the server. Never raises: a known cap stays in force."""
    answer = OpenAdr(plan.openadr, plan.openadr_token, timeout_s).fetch() if plan.openadr else ()
    if isinstance(answer, FeedProblem):
        return OrderedEvents(before.events, f"{answer}; {answer.hint}")
    return OrderedEvents(answer)


def caps_ahead(events: Iterable[CapEvent], now_s: int) -> tuple[PowerCap, ...]:
    """Return the caps that are not over, the first to begin first."""
    caps = {cap for event in events for cap in event.caps if cap.until_s > now_s}
    return tuple(sorted(caps, key=lambda cap: (cap.from_s, cap.until_s, cap.cap_w)))


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
