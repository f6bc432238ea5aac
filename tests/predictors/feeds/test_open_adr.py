"""Caps of an OpenADR 3 server: what its events say, for whom, and what is wrong with those that say nothing."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openadr_vtn import openadr_vtn

from offpeak.predictors.demand_response import OrderedEvents
from offpeak.predictors.feeds.port import FeedCondition
from offpeak.predictors.openadr import read_server_events
from offpeak.predictors.openadr_server import OpenAdrServer, ServerLogin
from offpeak.settings.plan import PlanSettings

pytestmark = pytest.mark.quick

BEGIN = 1_795_363_200
EVENT = {
    "id": "e1",
    "objectType": "EVENT",
    "programID": "p1",
    "eventName": "evening peak",
    "intervalPeriod": {"start": "2026-11-22T16:00:00Z", "duration": "PT1H"},
    "payloadDescriptors": [
        {"objectType": "EVENT_PAYLOAD_DESCRIPTOR", "payloadType": "IMPORT_CAPACITY_LIMIT", "units": "KW"}
    ],
    "intervals": [
        {"id": 0, "payloads": [{"type": "IMPORT_CAPACITY_LIMIT", "values": [40]}]},
        {
            "id": 1,
            "payloads": [{"type": "PRICE", "values": [0.3]}, {"type": "IMPORT_CAPACITY_LIMIT", "values": [55.5]}],
        },
        {
            "id": 2,
            "intervalPeriod": {"start": "2026-11-22T20:00:00Z", "duration": "P0DT30M"},
            "payloads": [{"type": "IMPORT_CAPACITY_LIMIT", "values": [20.0]}],
        },
    ],
}


NOW_S = BEGIN - 3600
DAY_S, HOUR_S = 86_400, 3600


def read(player, before=OrderedEvents(), now_s=NOW_S, **settings):  # noqa: B008
    plan = PlanSettings(openadr=f"{player.url}/openadr3/3.0.1/", openadr_client="hpc-site-1", **settings)
    return read_server_events(plan, before, now_s=now_s, timeout_s=5)


def spans(ordered, event_id="e1"):
    caps = [cap for event in ordered.events if event.event_id == event_id for cap in event.caps]
    return [(cap.from_s - NOW_S, cap.until_s - NOW_S, cap.cap_w) for cap in caps]


def with_limit(event_id, value=40, **fields):
    payload = {"type": "IMPORT_CAPACITY_LIMIT", "values": [value]}
    return EVENT | {"id": event_id, "intervals": [{"id": 0, "payloads": [payload]}]} | fields


def test_limits_are_caps_interval_by_interval(player, tmp_path):
    token = tmp_path / "token"
    token.write_text("the-secret\n")
    player.plays_json([EVENT, {"id": "e2", "programID": "p2", "intervals": []}])
    (event,) = read(player, openadr_token=token).events
    caps = event.caps
    assert (event.event_id, event.program_id) == ("e1", "p1")
    assert [(cap.from_s - BEGIN, cap.until_s - BEGIN, cap.cap_w) for cap in caps] == [
        (0, 3600, 40_000),
        (3600, 7200, 55_500),
        (14_400, 16_200, 20_000),
    ]
    assert {(cap.reason, cap.source) for cap in caps} == {("evening peak", "openadr")}
    path, query, headers = player.requests[0]
    assert (path, query) == ("/openadr3/3.0.1/events", {"skip": "0", "limit": "50"})
    assert headers["Authorization"] == "Bearer the-secret"


LONG_NUMBER = 10**400
NO_POWERS = ("much", -1, 1e300, LONG_NUMBER, None, {"x": 0.0, "y": 1.5})
UNREADABLE = [
    {"intervalPeriod": {"start": "2026-11-22T16:00:00", "duration": "PT1H"}},
    {"intervalPeriod": {"start": "2026-11-22T16:00:00Z", "duration": "an hour"}},
    {"intervalPeriod": {"start": "9999-12-31T23:59:59-12:00", "duration": "PT1H"}},
    {"intervalPeriod": {"start": "2227-11-22T16:00:00Z", "duration": "PT1H"}},
    {"intervalPeriod": None},
    {"payloadDescriptors": [{"payloadType": "IMPORT_CAPACITY_LIMIT", "units": "AMPS"}]},
    *({"intervals": [{"payloads": [{"type": "IMPORT_CAPACITY_LIMIT", "values": [value]}]}]} for value in NO_POWERS),
    {"intervals": "none"},
    {"targets": 7},
]


@pytest.mark.parametrize("change", UNREADABLE)
def test_an_event_that_cannot_be_read_hides_no_other(player, reply, change):
    curve = {"id": "curve", "intervals": [{"payloads": [{"type": "CURVE", "values": [{"x": 0.0, "y": 1.5}]}]}]}
    events = [EVENT | {"id": "odd\nid"} | change, with_limit("good"), curve | {"intervalPeriod": None}]
    player.plays(reply(json.dumps(events).replace(str(LONG_NUMBER), "9" * 5000).encode()))
    ordered = read(player)
    assert (ordered.problem, spans(ordered, "good")) == ("", [(HOUR_S, 2 * HOUR_S, 40_000)])
    assert len(ordered.unreadable) == 1
    assert all("\n" not in reason for reason in ordered.unreadable)


@pytest.mark.parametrize("answer", [b"", b"{}", b"null", b"[" * 100_000, b"<html>", b"7"])
def test_an_answer_without_events_is_no_reading(player, reply, answer):
    player.plays(reply(body=answer))
    known = OrderedEvents(missing=frozenset({"e1"}))
    assert read(player, known).problem.startswith("openadr: ")
    assert read(player, known).missing == known.missing


@pytest.mark.parametrize(
    ("targets", "is_ours"),
    [
        (None, True),
        ([], True),
        ([{"type": "VEN_NAME", "values": ["hpc-site-1"]}], True),
        ([{"type": "VEN_NAME", "values": ["another-customer"]}], False),
        ([{"type": "VEN_NAME", "values": ["another-customer", "hpc-site-1"]}], True),
        ([{"type": "GROUP", "values": ["hpc-sites"]}], True),
        ([{"type": "GROUP", "values": ["schools"]}], False),
        ([{"type": "RESOURCE_NAME", "values": ["hall-2"]}], True),
        ([{"type": "EVENT_NAME", "values": ["evening peak"]}], True),
        (["hpc-site-1"], True),
        (["another-customer"], False),
    ],
)
def test_only_events_for_this_site_apply(player, targets, is_ours):
    player.plays_json([with_limit("e1", targets=targets), with_limit("e2")])
    ordered = read(player, openadr_targets=("hall-2", "hpc-sites"))
    assert bool(spans(ordered)) is is_ours
    assert ordered.foreign == (not is_ours)
    assert spans(ordered, "e2")


def test_only_the_programmes_of_the_settings_apply(player):
    player.plays_json([with_limit("e1", programID="p1"), with_limit("e2", programID="p2")])
    ordered = read(player, openadr_programs=("p2",))
    assert (spans(ordered), len(spans(ordered, "e2")), ordered.foreign) == ([], 1, 1)


def test_all_pages_are_read():
    with openadr_vtn() as vtn:
        for number in range(120):
            vtn.order(f"e{number}", from_s=BEGIN + number * DAY_S, until_s=BEGIN + number * DAY_S + 60, cap_w=1000)
        plan = PlanSettings(openadr=vtn.url)
        assert len(read_server_events(plan, OrderedEvents(), now_s=NOW_S).events) == 120


@pytest.mark.parametrize("start", ["0001-01-01", "0001-01-01T00:00:00", "0000-00-00", "0001-01-01T00:00:00Z"])
def test_an_event_that_begins_now_keeps_its_begin(player, start):
    player.plays_json([with_limit("e1", intervalPeriod={"start": start, "duration": "PT1H"})])
    first = read(player)
    assert spans(first) == [(0, HOUR_S, 40_000)]
    assert read(player, first, now_s=NOW_S + 600).events == first.events


@pytest.mark.parametrize("duration", [None, "PT0S", "P9999Y", "PT0.2S"])
def test_an_event_without_an_end_ends_when_the_server_is_silent(player, reply, duration):
    period = {"start": "2026-11-22T14:00:00Z"} | ({"duration": duration} if duration else {})
    player.plays_json([with_limit("e1", 0, intervalPeriod=period)])
    ordered = read(player)
    ((from_s, until_s, cap_w),) = spans(ordered)
    assert (from_s, cap_w) == (-HOUR_S, 100)
    assert HOUR_S <= until_s <= HOUR_S + 900
    assert spans(read(player, ordered, now_s=NOW_S + 7200))[0][1] >= until_s + 7200 - 900
    player.plays(reply(status=503))
    assert spans(read(player, ordered, now_s=NOW_S + 7200)) == spans(ordered)


def test_no_event_is_longer_than_the_site_permits(player):
    player.plays_json([with_limit("e1", intervalPeriod={"start": "2026-11-22T15:00:00Z", "duration": "P30DT0.5S"})])
    assert spans(read(player)) == [(0, DAY_S, 40_000)]
    assert spans(read(player, openadr_longest_s=HOUR_S)) == [(0, HOUR_S, 40_000)]


def test_an_event_in_force_that_is_not_listed_is_withdrawn_by_a_second_reading(player):
    player.plays_json(
        [EVENT, with_limit("later", intervalPeriod={"start": "2026-11-23T16:00:00Z", "duration": "PT1H"})]
    )
    known = read(player)
    player.plays_json([])
    once = read(player, known, now_s=BEGIN + 60)
    assert [event.event_id for event in once.events] == ["e1"]
    assert read(player, once, now_s=BEGIN + 90).events == ()


def test_an_event_that_cannot_be_read_any_more_stays_as_it_was(player):
    player.plays_json([EVENT])
    known = read(player)
    player.plays_json([EVENT | UNREADABLE[1]])
    later = read(player, known)
    assert (later.events, len(later.unreadable)) == (known.events, 1)


def test_while_the_server_is_away_what_it_reported_holds(player, reply):
    player.plays_json([EVENT])
    known = read(player)
    player.plays(reply(status=503))
    away = read(player, known)
    assert away.events == known.events
    assert "service unavailable" in away.problem


def test_a_token_that_cannot_be_read_is_reported(player, tmp_path):
    assert OpenAdrServer(player.url, ServerLogin(tmp_path / "none")).fetch().condition is FeedCondition.NO_KEY


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(EVENT)), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(EVENT)), JSON))
def test_any_event_leaves_the_others_and_ends_in_time(monkeypatch_get, change):
    monkeypatch_get(json.dumps([EVENT | {"id": "odd"} | change, with_limit("good", id="good")]).encode())
    plan = PlanSettings(openadr="http://vtn.invalid", openadr_client="hpc-site-1")
    ordered = read_server_events(plan, OrderedEvents(), now_s=NOW_S)
    assert spans(ordered, "good") == [(HOUR_S, 2 * HOUR_S, 40_000)]
    for event in ordered.events:
        for cap in event.caps:
            assert 0 < cap.until_s - cap.from_s <= DAY_S
            assert cap.cap_w >= 100
            datetime.fromtimestamp(cap.until_s, UTC)


@pytest.fixture(scope="module")
def monkeypatch_get():
    with pytest.MonkeyPatch.context() as patch:
        yield lambda body: patch.setattr("offpeak.predictors.openadr_server.get", lambda _: body)
