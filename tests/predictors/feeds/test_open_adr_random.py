"""Random events in the public shapes of OpenADR 3.0.1 and 3.1: whom they concern, and when they let jobs go."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpeak.predictors.demand_response import OrderedEvents, caps_ahead
from offpeak.predictors.feeds.port import FeedCondition, FeedProblem
from offpeak.predictors.feeds.web import HttpRequest
from offpeak.predictors.openadr import read_server_events
from offpeak.predictors.openadr_server import OpenAdrServer
from offpeak.settings.plan import PlanSettings

NOW_S = 1_795_363_200
HOUR_S, DAY_S = 3600, 86_400
LIMIT = "IMPORT_CAPACITY_LIMIT"
PLAN = PlanSettings(openadr="http://vtn.invalid/openadr3", openadr_client="hpc-1", openadr_targets=("hall-2",))
OURS = (None, [], ["hpc-1"], ["hall-2", "site-9"])
"""Targets of events that are for this site, as names; None and none are for all."""
THEIRS = (["other"], ["hpc-10", "HPC-1"], ["site-9"])
RECIPIENTS = st.sampled_from(("VEN_NAME", "RESOURCE_NAME", "GROUP", "SERVICE_AREA", "POWER_SERVICE_LOCATION"))


def nullable(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


def written(at_s: int, offset_h: int, digits: int) -> str:
    at = datetime.fromtimestamp(at_s, timezone(timedelta(hours=offset_h)))
    fraction = f".{'0' * digits}" if digits else ""
    return f"{at:%Y-%m-%dT%H:%M:%S}{fraction}" + (f"{at:%z}"[:3] + ":00" if offset_h else "Z")


TIMES = st.builds(
    written, st.integers(NOW_S - 2 * DAY_S, NOW_S + 20 * DAY_S), st.integers(-11, 14), st.sampled_from((0, 3, 6))
)
STARTS = st.one_of(TIMES, st.sampled_from(("0001-01-01", "0001-01-01T00:00:00Z", "0000-00-00")))
DURATIONS = st.sampled_from((None, "PT0S", "PT15M", "PT1H30M", "P1D", "P1W", "P9999Y", "PT90.5S", "P1Y2M3DT4H5M6S"))
PERIODS = st.builds(
    lambda start, duration, random: (
        {"start": start}
        | ({} if duration is None else {"duration": duration})
        | ({} if random is None else {"randomizeStart": random})
    ),
    STARTS,
    DURATIONS,
    nullable(st.just("PT5M")),
)
POINTS = st.fixed_dictionaries({"x": st.floats(-1e6, 1e6), "y": st.floats(-1e6, 1e6)})
VALUES = st.lists(st.one_of(st.floats(-1e6, 1e6), st.text(max_size=5), st.booleans(), POINTS), max_size=4)
OTHER_PAYLOADS = st.builds(
    lambda kind, values: {"type": kind, "values": values}, st.sampled_from(("PRICE", "SIMPLE", "CURVE", "GHG")), VALUES
)
LIMITS = st.builds(
    lambda watts: {"type": LIMIT, "values": [watts]}, st.one_of(st.integers(0, 10**6), st.floats(0, 1e6))
)
PAYLOADS = st.lists(OTHER_PAYLOADS, max_size=2)


@st.composite
def events(draw: st.DrawFn, version: str) -> tuple[dict[str, Any], bool, bool]:
    """Return an event without its id, whether it is for this site, and whether it has a limit."""
    is_ours, has_limit = draw(st.booleans()), draw(st.booleans())
    names = draw(st.sampled_from(OURS if is_ours else THEIRS))
    intervals = [
        {"id": number, "payloads": [*draw(PAYLOADS), *([draw(LIMITS)] if has_limit else []), *draw(PAYLOADS)]}
        | ({"intervalPeriod": draw(PERIODS)} if draw(st.booleans()) else {})
        for number in range(draw(st.integers(1, 3)))
    ]
    targets: Any = names
    if version == "3.0.1" and names:
        kinds = [draw(RECIPIENTS) for _ in names]
        targets = [{"type": kind, "values": [name]} for kind, name in zip(kinds, names, strict=True)]
        targets += draw(st.sampled_from(([], [{"type": "PROGRAM_NAME", "values": ["hpc-1"]}])))
    event = {
        "objectType": "EVENT",
        "createdDateTime": draw(TIMES),
        "modificationDateTime": draw(TIMES),
        "programID": draw(st.text("abc-123", min_size=1, max_size=9)),
        "eventName": draw(nullable(st.text(max_size=9))),
        "priority": draw(nullable(st.integers(0, 10))),
        "targets": targets,
        "reportDescriptors": None,
        "payloadDescriptors": draw(nullable(st.just([{"payloadType": LIMIT, "units": "KW", "currency": None}]))),
        "intervalPeriod": draw(PERIODS),
        "intervals": intervals,
    }
    if version == "3.1":
        event["duration"] = draw(DURATIONS)
    dropped = [name for name in ("eventName", "priority", "targets", "reportDescriptors") if event[name] is None]
    return (
        {name: value for name, value in event.items() if name not in dropped or draw(st.booleans())},
        is_ours,
        has_limit,
    )


VERSIONS = st.sampled_from(("3.0.1", "3.1"))
FEW = VERSIONS.flatmap(lambda version: st.lists(events(version), max_size=12))
MANY = VERSIONS.flatmap(lambda version: st.lists(events(version), max_size=60))


class Vtn:
    """A server in memory; None is one that is away."""

    listed: Sequence[Mapping[str, Any]] | None = None

    def get(self, request: HttpRequest) -> bytes | FeedProblem:
        assert urlsplit(request.url).path == "/openadr3/events"
        if self.listed is None:
            return FeedProblem(FeedCondition.HANGING, "openadr", "away")
        first = int(request.query["skip"])
        return json.dumps(self.listed[first : first + int(request.query["limit"])]).encode()


@pytest.fixture(scope="module")
def vtn() -> Iterator[Vtn]:
    made = Vtn()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("offpeak.predictors.openadr_server.get", made.get)
        yield made


def check_events(vtn: Vtn, drawn: Sequence[tuple[dict[str, Any], bool, bool]]) -> None:
    own = {f"e{number}" for number, (_, is_ours, has_limit) in enumerate(drawn) if is_ours and has_limit}
    vtn.listed = [{"id": f"e{number}", **event} for number, (event, *_) in enumerate(drawn)]
    known = read_server_events(PLAN, OrderedEvents(), now_s=NOW_S)
    assert (known.problem, known.unreadable) == ("", ())
    assert {event.event_id for event in known.events} == own
    assert known.foreign == sum(not is_ours for _, is_ours, _ in drawn)
    for cap in (cap for event in known.events for cap in event.caps):
        assert 0 < cap.until_s - cap.from_s <= PLAN.openadr_longest_s
        assert cap.cap_w >= PLAN.openadr_least_w
    # While they are listed each lets go in time; a server that is away moves no end on.
    for hour in (1, 25, 26):
        later_s = NOW_S + hour * HOUR_S
        listed = read_server_events(PLAN, known, now_s=later_s)
        assert {event.event_id for event in listed.events} == own
        begun = [cap for cap in caps_ahead(listed.events, later_s) if cap.from_s <= later_s]
        assert all(cap.from_s > later_s - PLAN.openadr_longest_s for cap in begun)
    vtn.listed = None
    away = read_server_events(PLAN, known, now_s=NOW_S + DAY_S)
    assert away.events == known.events
    gone_s = NOW_S + PLAN.openadr_longest_s
    assert all(cap.from_s > NOW_S for cap in caps_ahead(away.events, gone_s))


@given(FEW)
def test_own_events_apply_and_end_whatever_else_is_listed(vtn: Vtn, drawn: list[Any]) -> None:
    check_events(vtn, drawn)


@pytest.mark.nightly
@settings(max_examples=300)
@given(MANY)
def test_of_three_hundred_lists_of_several_pages_only_our_own_events_apply(vtn: Vtn, drawn: list[Any]) -> None:
    check_events(vtn, drawn)


def test_a_slow_server_holds_a_reading_for_three_time_limits_and_not_for_each_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, pages = [0.0], list[float]()

    def slow(request: HttpRequest) -> bytes:
        clock[0] += 0.9 * request.timeout_s
        pages.append(request.timeout_s)
        return json.dumps([{"id": f"e{len(pages)}"}]).encode()

    monkeypatch.setattr("offpeak.predictors.openadr_server.get", slow)
    monkeypatch.setattr("offpeak.predictors.openadr_server.time", SimpleNamespace(monotonic=lambda: clock[0]))
    problem = OpenAdrServer("http://vtn.invalid", timeout_s=10.0).fetch()
    assert isinstance(problem, FeedProblem)
    assert problem.condition is FeedCondition.HANGING
    assert clock[0] <= 30
