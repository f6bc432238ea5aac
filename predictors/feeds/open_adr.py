"""Caps on power from an OpenADR 3 server: events whose intervals have a payload IMPORT_CAPACITY_LIMIT.

Shapes after the OpenADR 3.0.1 specification: GET /events answers with a list of events; an interval begins with its own
intervalPeriod, else behind the one before it in the event's. Limits are kW unless the event says otherwise.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from offpeak.model.facility import PowerCap
from predictors.feeds.condition import Condition, Trouble
from predictors.feeds.json_answer import Shape
from predictors.feeds.web import TIMEOUT_S, Ask, get

LIMIT = "IMPORT_CAPACITY_LIMIT"
WATTS: Mapping[str, float] = {"KW": 1e3, "W": 1.0, "MW": 1e6}
FOREVER_S = 100 * 366 * 86_400
_DURATION = re.compile(r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_SECONDS = (31_536_000, 2_592_000, 604_800, 86_400, 3600, 60, 1)


class Told(Shape):
    """Names as OpenADR writes them: intervalPeriod."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", alias_generator=to_camel)


class Period(Told):
    """When something begins, and how long it lasts, as ISO 8601 has it."""

    start: str
    duration: str | None = None


class Payload(Told):
    """What holds."""

    type: str
    values: tuple[float | int | str | bool, ...] = ()


class Interval(Told):
    """A part of an event."""

    interval_period: Period | None = None
    payloads: tuple[Payload, ...] = ()


class Descriptor(Told):
    """The unit of a kind of payload."""

    payload_type: str
    units: str | None = None


class Event(Told):
    """What is used of an event."""

    id: str = ""
    event_name: str | None = None
    interval_period: Period | None = None
    payload_descriptors: tuple[Descriptor, ...] | None = None
    intervals: tuple[Interval, ...] = ()


@dataclass(frozen=True)
class OpenAdr:
    """A server, asked with the token that stands in a file, if there is one."""

    url: str
    token: Path | None = None
    timeout_s: float = TIMEOUT_S
    name: str = "openadr"

    def fetch(self) -> tuple[PowerCap, ...] | Trouble:
        """Return all caps of its events. Never raises for what the world does."""
        try:
            token = self.token.read_text().strip() if self.token else ""
        except OSError as problem:
            return Trouble(Condition.NO_KEY, self.name, f"{self.token}: {problem.strerror}")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        body = get(Ask(self.name, f"{self.url.rstrip('/')}/events", {}, headers, self.timeout_s))
        if isinstance(body, Trouble):
            return body
        try:
            events = TypeAdapter(tuple[Event, ...]).validate_json(body)
            return tuple(cap for event in events for cap in _caps(event, self.name))
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False, include_context=False)[0]
            return Trouble(Condition.GARBAGE, self.name, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
        except ValueError as error:
            return Trouble(Condition.GARBAGE, self.name, str(error))


def _caps(event: Event, source: str) -> Iterator[PowerCap]:
    units = {each.payload_type: each.units or "KW" for each in event.payload_descriptors or ()}
    next_s = None if event.interval_period is None else _unix_s(event.interval_period.start)
    for interval in event.intervals:
        period = interval.interval_period or event.interval_period
        if period is None:
            raise ValueError(f"event {event.id}: an interval has no period")
        from_s = _unix_s(period.start) if interval.interval_period or next_s is None else next_s
        next_s = from_s + _duration_s(period.duration)
        for payload in interval.payloads:
            if payload.type == LIMIT:
                cap_w = _watts(payload, units.get(LIMIT, "KW"), event.id)
                yield PowerCap(from_s, next_s, cap_w, event.event_name or f"event {event.id}", source)


def _watts(payload: Payload, unit: str, event: str) -> int:
    if unit.upper() not in WATTS:
        raise ValueError(f"event {event}: {LIMIT} in {unit!r}, not kW")
    values = [each for each in payload.values if isinstance(each, float | int) and not isinstance(each, bool)]
    if not values or min(values) < 0:
        raise ValueError(f"event {event}: {LIMIT} without a power")
    return int(min(values) * WATTS[unit.upper()])


def _unix_s(text: str) -> int:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text!r} has no offset to UTC")
    return int(at.timestamp())


def _duration_s(text: str | None) -> int:
    """Return a duration of ISO 8601 [s]; what has none, or 9999 years, lasts for ever."""
    if text is None:
        return FOREVER_S
    match = _DURATION.fullmatch(text)
    if match is None or text.endswith(("P", "T")):
        raise ValueError(f"{text!r} is no duration")
    seconds = sum(int(part or 0) * each for part, each in zip(match.groups(), _SECONDS, strict=True))
    return min(seconds, FOREVER_S) or FOREVER_S
