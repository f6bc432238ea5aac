"""The pages of an OpenADR 3 server: how many events an answer has, repeats, and a list that changes meanwhile."""

import json
from collections.abc import Sequence

import pytest
from openadr_vtn import TestVtn, openadr_vtn

from offpeak.predictors.demand_response import OrderedEvents
from offpeak.predictors.feeds.web import HttpRequest
from offpeak.predictors.openadr import read_server_events
from offpeak.predictors.openadr_server import OpenAdrServer
from offpeak.settings.plan import PlanSettings

BEGIN_S = 1_795_363_200


def read(url: str, before: OrderedEvents = OrderedEvents(), now_s: int = BEGIN_S - 60) -> OrderedEvents:  # noqa: B008
    return read_server_events(PlanSettings(openadr=url), before, now_s=now_s)


def order_many(vtn: TestVtn, count: int) -> None:
    for number in range(count):
        begin_s = BEGIN_S + number * 60
        vtn.order(f"e{number}", from_s=begin_s, until_s=begin_s + 60, cap_w=1000)


@pytest.mark.parametrize("page", [7, 20, 30, 50])
def test_all_pages_of_a_server_that_gives_fewer_events_than_requested_are_read(page: int) -> None:
    with openadr_vtn() as vtn:
        order_many(vtn, 60)
        vtn.page = page
        assert len(read(vtn.url).events) == 60


def test_a_server_without_pages_is_read_unless_its_list_may_be_cut_off() -> None:
    with openadr_vtn() as vtn:
        vtn.knows_pages = False
        order_many(vtn, 49)
        known = read(vtn.url)
        assert (len(known.events), known.problem) == (49, "")
        vtn.events.clear()
        order_many(vtn, 60)
        cut_off = read(vtn.url, known)
    assert cut_off.events == known.events
    assert "the same 50 events again after 50" in cut_off.problem


@pytest.mark.parametrize(
    ("size", "last", "problem"),
    [(20, 40, "the same 20 events again after 60"), (1, 10**6, "200 events in 200 answers, and not all")],
)
def test_pages_that_repeat_or_never_end_are_a_problem(
    monkeypatch: pytest.MonkeyPatch, size: int, last: int, problem: str
) -> None:
    def answer(request: HttpRequest) -> bytes:
        first = min(int(request.query["skip"]), last)
        return json.dumps([{"id": f"e{at}"} for at in range(first, first + size)]).encode()

    monkeypatch.setattr("offpeak.predictors.openadr_server.get", answer)
    assert problem in str(OpenAdrServer("http://vtn.invalid").fetch())


def test_an_event_in_force_that_moves_to_a_page_that_was_read_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    period = {"start": "2026-11-22T16:00:00Z", "duration": "PT1H"}
    limit = {"payloads": [{"type": "IMPORT_CAPACITY_LIMIT", "values": [40]}]}
    events = [{"id": f"e{number}", "intervalPeriod": period, "intervals": [limit]} for number in range(51)]
    listed = list(events)

    def answer(request: HttpRequest) -> bytes:
        first = int(request.query["skip"])
        page: Sequence[object] = listed[first : first + 50]
        if now_s == BEGIN_S + 90 and first == 0:
            del listed[0]
        return json.dumps(page).encode()

    monkeypatch.setattr("offpeak.predictors.openadr_server.get", answer)
    ordered = OrderedEvents()
    for now_s, missing in ((BEGIN_S + 60, set()), (BEGIN_S + 90, {"e50"}), (BEGIN_S + 120, {"e0"})):
        ordered = read("http://vtn.invalid", ordered, now_s)
        assert ordered.missing == missing
        assert "e50" in {event.event_id for event in ordered.events}
