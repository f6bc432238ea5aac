"""Caps of an OpenADR 3 server: what its events say, and what is wrong when they say nothing."""

import math
from dataclasses import replace

import pytest

from offpeak.settings.plan import PlanSettings
from predictors.demand_response import OpenAdr, OrderedEvents, read_server_events
from predictors.feeds.port import FeedCondition

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
            "intervalPeriod": {"start": "2026-11-23T16:00:00Z", "duration": "P0DT30M"},
            "payloads": [{"type": "IMPORT_CAPACITY_LIMIT", "values": [20.0]}],
        },
    ],
}


def fetched(player, **texts):
    return OpenAdr(f"{player.url}/openadr3/3.0.1/", timeout_s=5, **texts).fetch()


def test_limits_are_caps_interval_by_interval(player, tmp_path):
    token = tmp_path / "token"
    token.write_text("the-secret\n")
    player.plays_json([EVENT, {"id": "e2", "programID": "p2", "intervals": []}])
    (event,) = fetched(player, token=token)
    caps = event.caps
    assert (event.event_id, event.program_id) == ("e1", "p1")
    assert [(cap.from_s - BEGIN, cap.until_s - BEGIN, cap.cap_w) for cap in caps] == [
        (0, 3600, 40_000),
        (3600, 7200, 55_500),
        (86_400, 88_200, 20_000),
    ]
    assert {(cap.reason, cap.source) for cap in caps} == {("evening peak", "openadr")}
    path, _, headers = player.requests[0]
    assert path == "/openadr3/3.0.1/events"
    assert headers["Authorization"] == "Bearer the-secret"


NO_POWERS = ("much", -1, math.nan, math.inf, 1e300, 10**400)


@pytest.mark.parametrize(
    "change",
    [
        {"intervalPeriod": {"start": "2026-11-22T16:00:00", "duration": "PT1H"}},
        {"intervalPeriod": {"start": "2026-11-22T16:00:00Z", "duration": "an hour"}},
        {"intervalPeriod": None},
        {"payloadDescriptors": [{"payloadType": "IMPORT_CAPACITY_LIMIT", "units": "AMPS"}]},
        *({"intervals": [{"payloads": [{"type": "IMPORT_CAPACITY_LIMIT", "values": [value]}]}]} for value in NO_POWERS),
        {"intervals": "none"},
    ],
)
def test_invalid_openadr_answer_is_garbage(player, change):
    player.plays_json([{key: value for key, value in (EVENT | change).items() if value is not None}])
    problem = fetched(player)
    assert problem.condition is FeedCondition.GARBAGE
    assert "\n" not in str(problem)


def test_while_the_server_is_away_what_it_reported_holds(player, reply):
    settings = PlanSettings(openadr=player.url)
    player.plays_json([EVENT])
    known = read_server_events(settings, OrderedEvents(), timeout_s=5)
    player.plays(reply(status=503))
    away = read_server_events(settings, known, timeout_s=5)
    assert away == replace(known, problem=away.problem)
    assert "service unavailable" in away.problem


def test_a_token_that_cannot_be_read_is_reported(player, tmp_path):
    assert fetched(player, token=tmp_path / "none").condition is FeedCondition.NO_KEY
