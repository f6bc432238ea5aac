"""Prices and carbon intensities in the events of an OpenADR 3 server: units, times, bounds, and what is none."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from openadr_vtn import openadr_vtn

from offpeak.model.step_series import Series
from offpeak.predictors.feeds.openadr_events import GHG, PRICE, OpenAdrEvents
from offpeak.predictors.feeds.port import FeedCondition, FeedProblem, Window
from offpeak.predictors.feeds.registry import price_feed
from offpeak.settings.replay import FeedSettings, PriceSettings

pytestmark = pytest.mark.quick

HOUR_S = 3600
BEGIN_S = 1_795_363_200


@dataclass(frozen=True)
class Reply:
    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None
    hangs: bool = False


WINDOW = Window(BEGIN_S, BEGIN_S + 4 * HOUR_S)
USD = {"payloadType": "PRICE", "units": "KWH", "currency": "USD"}


def event(name: str, values: list[object], *, kind: str = "PRICE", unit: dict[str, str] | None = USD, **other: object):
    return {
        "id": name,
        "programID": "tariff",
        "intervalPeriod": {"start": "2026-11-22T17:00:00+01:00", "duration": "PT1H"},
        "payloadDescriptors": [unit] if unit else None,
        "intervals": [{"id": at, "payloads": [{"type": kind, "values": [value]}]} for at, value in enumerate(values)],
    } | other


def read(player, *events, program=None, targets=(), kind=PRICE, programs=(), key_file: Path | None = None):
    def by_path(path, _query):
        of_program = path.rpartition("/")[0].endswith("programs")
        return Reply(json.dumps({"payloadDescriptors": list(programs)} if of_program else list(events)).encode())

    player.reply = by_path
    return OpenAdrEvents(player.url, kind, program, targets, key_file, timeout_s=5).fetch(WINDOW)


def hours(series: Series) -> list[tuple[int, float]]:
    assert isinstance(series, Series), series
    return [((start - BEGIN_S) // HOUR_S, value) for start, value in zip(series.start_s, series.value, strict=True)]


def test_prices_per_kwh_follow_one_another(player) -> None:
    series = read(player, event("a", [0.1, -0.05, 0.3, 0.2]))
    assert hours(series) == [(0, 100), (1, -50), (2, 300), (3, 200)]
    assert (series.unit, series.source, series.end_s) == ("USD/MWh", "openadr", WINDOW.until_s)


def test_the_programme_tells_the_unit_where_the_event_does_not(player) -> None:
    series = read(player, event("a", [1, 2], unit=None), programs=[USD | {"currency": "SEK"}])
    assert (hours(series), series.unit) == ([(0, 1000), (1, 2000)], "SEK/MWh")


@pytest.mark.parametrize(("units", "factor"), [("GHG", 1.0), ("G/KWH", 1.0), ("LB/MWH", 0.45359237)])
def test_carbon_intensities(player, units: str, factor: float) -> None:
    series = read(player, event("a", [400], kind=GHG, unit={"payloadType": GHG, "units": units}), kind=GHG)
    assert series.value.tolist() == pytest.approx([400 * factor])
    assert series.unit == "g/kWh"


def test_of_one_time_the_highest_priority_and_then_the_latest_change_counts(player) -> None:
    later = {"intervalPeriod": {"start": "2026-11-22T17:00:00Z", "duration": "PT2H"}}
    series = read(
        player,
        event("first", [0.1, 0.2, 0.3, 0.4], modificationDateTime="2026-11-21T00:00:00Z"),
        event("urgent", [0.9], priority=0, **later),
        event("changed", [0.5], modificationDateTime="2026-11-22T00:00:00Z"),
    )
    assert hours(series) == [(0, 500), (1, 900), (2, 900), (3, 400)]


def test_events_that_contradict_each_other_are_a_problem(player) -> None:
    problem = read(player, event("a", [0.1]), event("b", [0.2]))
    assert isinstance(problem, FeedProblem)
    assert "events a and b differ for the same time" in str(problem)
    problem = read(player, event("a", [0.1]), event("b", [0.2], unit=USD | {"currency": "EUR"}))
    assert isinstance(problem, FeedProblem)
    assert problem.condition is FeedCondition.WRONG_CURRENCY


def test_events_of_others_do_not_count(player) -> None:
    mine = event("a", [0.1], targets=[{"type": "GROUP", "values": ["hpc"]}])
    others = (
        event("b", [0.2], targets=["hall-9"]),
        event("c", [0.3], programID="another"),
        event("d", [40], kind="IMPORT_CAPACITY_LIMIT"),
    )
    assert hours(read(player, mine, *others, program="tariff", targets=("hpc",))) == [(0, 100)]
    assert player.requests[0][1]["programID"] == "tariff"
    problem = read(player, *others, program="tariff")
    assert isinstance(problem, FeedProblem)
    assert problem.condition is FeedCondition.NOT_YET_PUBLISHED


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (event("b", ["x"]), "not a single number"),
        (event("b", [0.2], unit={"payloadType": "PRICE", "units": "KWH"}), "no currency"),
        (event("b", [0.2], unit=USD | {"units": "KW"}), "the unit 'KW'"),
        (event("b", [0.2], unit=None), "no unit"),
        (event("b", [0.2], unit=USD | {"currency": "ORE"}), "unknown unit 'ORE/kWh'"),
        (event("b", [0.2], intervalPeriod={"start": "0001-01-01T00:00:00Z", "duration": "PT1H"}), "not a time"),
        (event("b", [0.2], intervalPeriod={"start": "2026-11-22T17:00:00", "duration": "PT1H"}), "not a time"),
        (event("b", [0.2], intervalPeriod={"start": "2026-11-22T17:00:00Z"}), "has no end"),
    ],
)
def test_an_event_that_cannot_be_read_is_named_and_hides_no_other(player, bad, what: str) -> None:
    series = read(player, event("a", [0.1]), bad)
    assert hours(series) == [(0, 100)]
    assert "1 event cannot be read, such as b: " in series.source
    assert what in series.source
    problem = read(player, bad)
    assert isinstance(problem, FeedProblem)
    assert problem.condition is FeedCondition.GARBAGE


def test_a_feed_of_it_has_the_bounds_of_the_others(player, tmp_path: Path) -> None:
    feeds = FeedSettings(prices=("openadr",), openadr=player.url, currency="USD", cache=tmp_path / "cache", timeout_s=5)
    for price, condition in ((0.1, None), (99.0, FeedCondition.IMPLAUSIBLE)):
        read(player, event("a", [price] * 4))
        feed = price_feed(feeds, PriceSettings())
        assert feed
        known = feed.known(WINDOW, BEGIN_S)
        assert {problem.condition for problem in known.problems} == ({condition} if condition else set())
        assert known.fresh is (condition is None)
    read(player, event("a", [0.1] * 4, unit=USD | {"currency": "EUR"}))
    assert {each.condition for each in feed.known(WINDOW, BEGIN_S).problems} == {FeedCondition.WRONG_CURRENCY}


def test_the_keys_are_in_the_key_file(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.touch(mode=0o600)
    keys.write_text("OPENADR_CLIENT_ID=hpc\nOPENADR_CLIENT_SECRET=secret\n")
    with openadr_vtn() as vtn:
        vtn.client = ("hpc", "secret")
        vtn.events.append(event("a", [0.1]))
        source = OpenAdrEvents(vtn.url, PRICE, None, (), keys, timeout_s=5)
        assert hours(source.fetch(WINDOW)) == [(0, 100)]
        keys.write_text("OPENADR_TOKEN=old\n")
        problem = source.fetch(WINDOW)
        assert isinstance(problem, FeedProblem)
        assert problem.condition is FeedCondition.TOKEN_REFUSED
        keys.chmod(0o644)
        problem = source.fetch(WINDOW)
        assert isinstance(problem, FeedProblem)
        assert problem.condition is FeedCondition.NO_KEY
