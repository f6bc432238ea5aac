"""Prices and carbon intensities that an OpenADR 3 server publishes as events, as utilities do with their tariffs.

An interval of an event has a payload PRICE [currency/kWh] or GHG [g/kWh]; the event, or else its programme, tells the
unit. Of events of the same time the one with the highest priority counts, of equal ones the one that was changed last.
Each event stands alone: one that cannot be read hides no other, and the source of the series says how many there are.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from offpeak.errors import BadInput
from offpeak.model.constants import DAY_S
from offpeak.model.step_series import Series
from offpeak.model.units import CARBON_G_PER_KWH, parse_series_unit
from offpeak.predictors.feeds.port import FeedCondition, FeedProblem, SourceAnswer, Window
from offpeak.predictors.feeds.web import TIMEOUT_S, read_optional_keys
from offpeak.predictors.openadr import (
    EventPayload,
    OpenAdrEvent,
    OpenAdrShape,
    PayloadDescriptor,
    is_addressed,
    place_intervals,
    problem_text,
)
from offpeak.predictors.openadr_server import OpenAdrServer, ServerLogin
from offpeak.text import counted

PRICE, GHG = "PRICE", "GHG"
TOKEN, CLIENT_ID, CLIENT_SECRET = "OPENADR_TOKEN", "OPENADR_CLIENT_ID", "OPENADR_CLIENT_SECRET"
"""The lines of the key file; a server may need none."""
ENERGY = {"KWH": "kWh", "MWH": "MWh"}
CARBON_UNITS = {"GHG": "g/kWh", **{unit.upper(): unit for unit in CARBON_G_PER_KWH}}
"""OpenADR's own unit of greenhouse gases is g/kWh."""
LONGEST_S = 366 * DAY_S


class UnitDescriptor(PayloadDescriptor):
    """The unit and the currency of a kind of payload."""

    currency: str | None = None


class PublishedEvent(OpenAdrEvent):
    """An event with what decides between events of the same time: a low number is a high priority."""

    priority: int | None = None
    modification_date_time: str | None = None
    payload_descriptors: tuple[UnitDescriptor, ...] | None = None


class Program(OpenAdrShape):
    """What is used of a programme."""

    payload_descriptors: tuple[UnitDescriptor, ...] | None = None


EVENT, PROGRAM = TypeAdapter(PublishedEvent), TypeAdapter(Program)


@dataclass(frozen=True)
class PublishedValue:
    """A value over a time [Unix s]; of two of the same time the one with the greater `strength` counts."""

    from_s: int
    until_s: int
    value: float
    strength: tuple[float, float]
    event: str


@dataclass(frozen=True)
class OpenAdrEvents:
    """The values of one `kind` of payload, of one programme if it is given; `targets` are names of the site there."""

    url: str
    kind: str
    program: str | None
    targets: tuple[str, ...]
    key_file: Path | None
    timeout_s: float = TIMEOUT_S
    name: str = "openadr"
    own: bool = True

    def fetch(self, window: Window) -> SourceAnswer:
        """Return the values of all events that touch the window."""
        login = self._login()
        if isinstance(login, FeedProblem):
            return login
        server = OpenAdrServer(self.url, login, self.timeout_s, self.name)
        listed = server.fetch({"programID": self.program} if self.program else {})
        if isinstance(listed, FeedProblem):
            return listed
        values, units, unread = list[PublishedValue](), set[str](), list[str]()
        programs = dict[str, tuple[UnitDescriptor, ...]]()
        for event_id, text in listed.items():
            try:
                event = EVENT.validate_json(text)
                if not self._is_ours(event):
                    continue
                if event.payload_descriptors is None and event.program_id not in programs:
                    programs[event.program_id] = _descriptors(server, event.program_id)
                unit, factor = self._unit(event, programs.get(event.program_id, ()))
                found = [value for value in self._values(event, factor) if value.until_s > window.from_s]
            except (ValueError, OverflowError, BadInput) as problem:
                unread.append(f"{event_id}: {problem_text(problem)}")
                continue
            values += [value for value in found if value.from_s < window.until_s]
            units.add(unit)
        return self._series(values, units, unread)

    def _login(self) -> ServerLogin | FeedProblem:
        keys = read_optional_keys(self.key_file, (TOKEN, CLIENT_ID, CLIENT_SECRET), self.name)
        if isinstance(keys, FeedProblem):
            return keys
        return ServerLogin(keys.get(TOKEN), keys.get(CLIENT_ID), keys.get(CLIENT_SECRET))

    def _is_ours(self, event: PublishedEvent) -> bool:
        """Whether the event has such values, is of the programme, and for all or for one of our names."""
        has_values = any(payload.type == self.kind for each in event.intervals for payload in each.payloads)
        of_program = self.program in (None, event.program_id)
        return has_values and of_program and is_addressed(event, set(self.targets))

    def _unit(self, event: PublishedEvent, of_program: tuple[UnitDescriptor, ...]) -> tuple[str, float]:
        """Return the unit of the series and the factor to it. Raises ValueError where none is told."""
        descriptors = of_program if event.payload_descriptors is None else event.payload_descriptors
        found = next((each for each in descriptors if each.payload_type == self.kind), None)
        unit = (found.units or "").upper() if found else ""
        if self.kind == GHG and unit in CARBON_UNITS:
            return parse_series_unit(CARBON_UNITS[unit])
        if self.kind == PRICE and unit in ENERGY and found and found.currency:
            return parse_series_unit(f"{found.currency}/{ENERGY[unit]}")
        raise ValueError(
            f"its {self.kind} has {f'the unit {unit!r}' if unit else 'no unit'} and no currency that is read"
        )

    def _values(self, event: PublishedEvent, factor: float) -> Iterator[PublishedValue]:
        strength = (-math.inf if event.priority is None else -event.priority), _unix_s(event.modification_date_time)
        for from_s, length_s, interval in place_intervals(event, _start_s):
            for payload in interval.payloads:
                if payload.type != self.kind:
                    continue
                if length_s is None or length_s > LONGEST_S:
                    raise ValueError("an interval has no end")
                value = _number(payload) * factor
                yield PublishedValue(from_s, from_s + length_s, value, strength, event.id)

    def _series(self, values: list[PublishedValue], units: set[str], unread: list[str]) -> SourceAnswer:
        """Return the values as a series, NaN where no event has one."""
        problem = f"{counted(len(unread), 'event')} cannot be read, such as {unread[0]}" if unread else ""
        if not values:
            condition = FeedCondition.GARBAGE if unread else FeedCondition.NOT_YET_PUBLISHED
            return FeedProblem(condition, self.name, problem or f"no event has a {self.kind} for this time")
        if len(units) > 1:
            return FeedProblem(FeedCondition.WRONG_CURRENCY, self.name, f"events are in {' and '.join(sorted(units))}")
        edges = np.unique([edge for value in values for edge in (value.from_s, value.until_s)])
        series = np.full(len(edges) - 1, np.nan)
        last: list[PublishedValue | None] = [None] * len(series)
        for value in sorted(values, key=lambda value: value.strength):
            for at in range(*np.searchsorted(edges, (value.from_s, value.until_s)).tolist()):
                before = last[at]
                if before is not None and before.strength == value.strength and before.value != value.value:
                    message = f"events {before.event} and {value.event} differ for the same time, with equal priority"
                    return FeedProblem(FeedCondition.GARBAGE, self.name, message)
                series[at], last[at] = value.value, value
        source = f"{self.name} ({problem})" if problem else self.name
        return Series(edges[:-1].astype(np.int64), int(edges[-1]), series, units.pop(), source)


def _descriptors(server: OpenAdrServer, program_id: str) -> tuple[UnitDescriptor, ...]:
    body = server.read_program(program_id) if program_id else b"{}"
    if isinstance(body, FeedProblem):
        raise ValueError(f"its programme {program_id} is not known: {body}")
    return PROGRAM.validate_json(body).payload_descriptors or ()


def _start_s(text: str) -> int:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None or at.year < 1970:
        raise ValueError(f"{text!r} is not a time with an offset to UTC")
    return int(at.timestamp())


def _unix_s(text: str | None) -> float:
    return _start_s(text) if text else 0.0


def _number(payload: EventPayload) -> float:
    match payload.values:
        case (float() | int() as value,) if not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    raise ValueError(f"a {payload.type} is not a single number")
