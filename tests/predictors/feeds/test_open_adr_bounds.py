"""What bounds the events of an OpenADR 3 server: the length of all their intervals together, and their targets."""

import json
from typing import Any

import pytest

from offpeak.model.step_series import Series
from offpeak.predictors.demand_response import OrderedEvents
from offpeak.predictors.feeds.openadr_events import PRICE, OpenAdrEvents
from offpeak.predictors.feeds.port import Window
from offpeak.predictors.openadr import read_server_events
from offpeak.settings.plan import PlanSettings

NOW_S = 1_795_359_600
HOUR_S, DAY_S = 3600, 86_400
START = "2026-11-22T16:00:00Z"


def read(monkeypatch: pytest.MonkeyPatch, event: dict[str, Any], **settings: Any) -> list[tuple[int, int, int]]:
    """Return the caps of an event: begin and end [s after now], and power [W]."""
    body = json.dumps([{"id": "e1", "programID": "flex"} | event]).encode()
    monkeypatch.setattr("offpeak.predictors.openadr_server.get", lambda _: body)
    plan = PlanSettings(openadr="http://vtn.invalid", openadr_client="hpc-site-1", **settings)
    ordered = read_server_events(plan, OrderedEvents(), now_s=NOW_S)
    assert (ordered.problem, ordered.unreadable) == ("", ())
    return [(cap.from_s - NOW_S, cap.until_s - NOW_S, cap.cap_w) for each in ordered.events for cap in each.caps]


def limits(count: int, *, start: str, duration: str) -> dict[str, Any]:
    limit = {"payloads": [{"type": "IMPORT_CAPACITY_LIMIT", "values": [0]}]}
    return {"intervalPeriod": {"start": start, "duration": duration}, "intervals": [limit] * count}


@pytest.mark.parametrize(
    ("start", "from_s"), [(START, HOUR_S), ("0001-01-01", 0), ("2026-11-22T10:00:00Z", -5 * HOUR_S)]
)
def test_the_intervals_of_an_event_last_no_longer_together_than_one_may(monkeypatch, start: str, from_s: int) -> None:
    assert read(monkeypatch, limits(400, start=start, duration="P1D")) == [(from_s, from_s + DAY_S, 100)]
    thirds = read(monkeypatch, limits(400, start=start, duration="PT10H"))
    assert [(begin_s - from_s, end_s - from_s) for begin_s, end_s, _ in thirds] == [
        (0, 10 * HOUR_S),
        (10 * HOUR_S, 20 * HOUR_S),
        (20 * HOUR_S, DAY_S),
    ]
    week = read(monkeypatch, limits(400, start=start, duration="P1D"), openadr_longest_s=7 * DAY_S)
    assert (len(week), week[-1][1]) == (7, from_s + 7 * DAY_S)


def test_an_interval_with_a_period_of_its_own_does_not_begin_the_time_anew(monkeypatch) -> None:
    event = limits(1, start=START, duration="PT1H")
    later = event["intervals"][0] | {"intervalPeriod": {"start": "2026-11-23T15:30:00Z", "duration": "PT1H"}}
    gone = event["intervals"][0] | {"intervalPeriod": {"start": "2026-11-24T16:00:00Z", "duration": "PT1H"}}
    event["intervals"] += [later, gone]
    assert read(monkeypatch, event) == [(HOUR_S, 2 * HOUR_S, 100), (24.5 * HOUR_S, 25 * HOUR_S, 100)]


VEN, OWN = {"type": "VEN_NAME", "values": ["hpc-site-1"]}, {"type": "EVENT_NAME", "values": ["evening peak"]}


@pytest.mark.parametrize(
    ("targets", "is_ours"),
    [
        ([{"type": "PROGRAM_NAME", "values": ["another"]}], False),
        ([{"type": "PROGRAM_NAME", "values": ["flex"]}], True),
        ([{"type": "PROGRAM_NAME", "values": ["another", "flex"]}], True),
        ([{"type": "PROGRAM_NAME", "values": []}], False),
        ([{"type": "PROGRAM_NAME", "values": ["hpc-site-1"]}], False),
        ([{"type": "PROGRAM_NAME", "values": ["another"]}, VEN], True),
        ([{"type": "PROGRAM_NAME", "values": ["another"]}, OWN], False),
        ([{"type": "VEN_NAME", "values": []}], False),
        ([{"type": "VEN_NAME", "values": []}, OWN], False),
        ([{"type": "VEN_NAME", "values": []}, VEN], True),
        ([{"type": "EVENT_NAME", "values": ["morning peak"]}], False),
        ([OWN], True),
        ([], True),
    ],
)
def test_targets_that_name_nothing_of_ours_are_not_for_all(monkeypatch, targets: list[Any], is_ours: bool) -> None:
    event = limits(1, start=START, duration="PT1H") | {"eventName": "evening peak", "targets": targets}
    assert bool(read(monkeypatch, event)) is is_ours
    prices = {"payloadType": "PRICE", "units": "KWH", "currency": "USD"}
    priced = [{"payloads": [{"type": "PRICE", "values": [0.1]}]}]
    body = json.dumps(
        [{"id": "e1", "programID": "flex"} | event | {"payloadDescriptors": [prices], "intervals": priced}]
    )
    monkeypatch.setattr("offpeak.predictors.openadr_server.get", lambda _: body.encode())
    feed = OpenAdrEvents("http://vtn.invalid", PRICE, None, ("hpc-site-1",), None)
    assert isinstance(feed.fetch(Window(NOW_S, NOW_S + DAY_S)), Series) is is_ours


def test_the_name_of_a_programme_in_the_settings_is_known(monkeypatch) -> None:
    named = limits(1, start=START, duration="PT1H") | {
        "targets": [{"type": "PROGRAM_NAME", "values": ["Flexible load"]}]
    }
    assert read(monkeypatch, named) == []
    assert len(read(monkeypatch, named, openadr_programs=("flex", "Flexible load"))) == 1
