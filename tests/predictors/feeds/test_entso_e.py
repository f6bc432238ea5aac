"""ENTSO-E through the real entsoe-py, against a server of this machine."""

import logging
import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.installation import install_hint
from offpeak.model.step_series import Series, value_at
from offpeak.predictors.feeds.entso_e import (
    LOAD_FORECAST,
    WIND_SOLAR_FORECAST,
    EntsoE,
    day_ahead_prices,
    sum_series,
)
from offpeak.predictors.feeds.port import FeedCondition, KnownSeries, Window, clip_series
from offpeak.predictors.feeds.registry import input_feeds
from offpeak.predictors.feeds.web import KeyLocation
from offpeak.settings.replay import FeedSettings

WINDOW = Window(1_730_674_800, 1_730_674_800 + 48 * 3600)
XML = (Path(__file__).parent / "answers" / "entso_e.xml").read_text(encoding="utf-8")
AS_XML = {"Content-Type": "application/xml"}
NOTHING = "<Acknowledgement_MarketDocument><Reason><text>No matching data found</text></Reason></...>"

# What entsoe-py, its HTML parser and its pandas warn of is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def source(player, key_file, monkeypatch) -> EntsoE:
    pytest.importorskip("entsoe")
    monkeypatch.delenv("ENTSOE_API_KEY", raising=False)
    return EntsoE("DE_LU", day_ahead_prices("EUR"), KeyLocation("ENTSOE_API_KEY", key_file), player.url, timeout_s=5.0)


@pytest.fixture
def plays(player, reply):
    """Plays a document, and nothing where entsoe-py asks for more of it."""

    def of(text: str) -> None:
        player.reply = lambda _, query: reply((NOTHING if int(query["offset"]) else text).encode(), headers=AS_XML)

    return of


def test_a_good_answer(player, plays, answer, source):
    plays(XML)
    series = source.fetch(WINDOW)
    assert (int(series.start_s[0]), series.end_s, series.unit) == (*WINDOW, "EUR/MWh")
    assert series.value.tolist() == answer("energy_charts")["price"]
    assert player.requests[0][1]["securityToken"] == "the-secret-key"


POSITION = "classificationSequence_AttributeInstanceComponent.position"
SEQUENCE = f"<{POSITION}>{{}}</{POSITION}>"


def with_second(first: str, second: Callable[[str], str]) -> str:
    """The document with each series twice: of that sequence, "" for none, and changed."""
    numbered = re.sub("<curveType>", f"{SEQUENCE.format(first) if first else ''}<curveType>", XML)
    return re.sub(
        "<TimeSeries>.*?</TimeSeries>", lambda series: series[0] + second(series[0]), numbered, flags=re.DOTALL
    )


def dearer(series: str) -> str:
    return re.sub(r"amount>[-.\d]+<", "amount>999<", series)


def test_the_first_of_two_auctions_counts(plays, answer, source):
    plays(with_second("1", lambda series: dearer(series).replace(SEQUENCE.format("1"), SEQUENCE.format("2"))))
    assert source.fetch(WINDOW).value.tolist() == answer("energy_charts")["price"]


def test_steps_that_differ_at_one_time_are_no_prices(plays, source):
    plays(with_second("", lambda series: dearer(series).replace("PT60M", "PT15M")))
    problem = source.fetch(WINDOW)
    assert problem.condition is FeedCondition.WRONG_AUCTION
    assert "PT15M and PT60M" in problem.detail


@pytest.mark.parametrize(
    ("tag", "other", "condition"),
    [
        ("<currency_Unit.name>EUR", "<currency_Unit.name>PLN", FeedCondition.WRONG_CURRENCY),
        ("<contract_MarketAgreement.type>A01", "<contract_MarketAgreement.type>A07", FeedCondition.WRONG_AUCTION),
        ("10Y1001A1001A82H</out_Domain", "10YFR-RTE------C</out_Domain", FeedCondition.WRONG_ZONE),
    ],
)
def test_tags_of_another_answer(plays, source, tag, other, condition):
    plays(XML.replace(tag, other))
    assert source.fetch(WINDOW).condition is condition


def test_faults(player, reply, faults, source):
    faults["not yet published"] = reply(NOTHING.encode(), headers=AS_XML)
    for condition, fault in faults.items():
        player.plays(fault)
        found = source.fetch(WINDOW)
        assert str(found.condition) == condition
        assert "the-secret-key" not in repr(found)


def test_unreachable_entso_e_server_is_reported(closed_url, key_file):
    pytest.importorskip("entsoe")
    place = KeyLocation("ENTSOE_API_KEY", key_file)
    assert EntsoE("DE_LU", day_ahead_prices("EUR"), place, closed_url).fetch(WINDOW).condition is FeedCondition.REFUSED


def test_the_key_is_in_no_log(player, plays, source, caplog):
    plays(XML)
    with caplog.at_level(logging.DEBUG):
        source.fetch(WINDOW)
    assert player.requests
    assert "the-secret-key" not in caplog.text
    assert "the-secret-key" not in repr(source)


def test_without_the_library_a_key_or_the_zone(source, monkeypatch):
    assert (
        EntsoE("DE_LU", day_ahead_prices("EUR"), KeyLocation("NOT_SET")).fetch(WINDOW).condition is FeedCondition.NO_KEY
    )
    assert (
        EntsoE("", day_ahead_prices("EUR"), KeyLocation("NOT_SET")).fetch(WINDOW).condition is FeedCondition.WRONG_ZONE
    )
    monkeypatch.setitem(sys.modules, "entsoe", None)
    missing = source.fetch(WINDOW)
    assert (missing.condition, missing.hint) == (FeedCondition.NOT_INSTALLED, install_hint("feeds-entsoe"))


HOUR, QUARTER = 3600, 900
LONG = Window(WINDOW.from_s - 54 * 24 * HOUR, WINDOW.until_s)
SOLAR, WIND = "B16", "B19"
ZONE = "10Y1001A1001A82H"
RESOLUTIONS = {QUARTER: "PT15M", 1800: "PT30M", HOUR: "PT60M"}
ZONE_TAGS = {"A65": "outBiddingZone_Domain.mRID", "A69": "inBiddingZone_Domain.mRID"}


def utc(unix_s: int) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%MZ")


@dataclass(frozen=True)
class Forecast:
    """One time series of a document: `value` of each start but the `missing` ones, in the documented shape."""

    value: Callable[[int], float]
    step_s: int = HOUR
    plant: str = ""
    missing: tuple[int, ...] = ()
    curve: str = "A01"

    def text(self, kind: str, window: Window) -> str:
        starts = enumerate(range(window.from_s, window.until_s, self.step_s), start=1)
        points = (
            f"<Point><position>{at}</position><quantity>{self.value(start)}</quantity></Point>"
            for at, start in starts
            if start not in self.missing
        )
        plant = f"<MktPSRType><psrType>{self.plant}</psrType></MktPSRType>" if self.plant else ""
        return (
            f'<TimeSeries><mRID>1</mRID><{ZONE_TAGS[kind]} codingScheme="A01">{ZONE}</{ZONE_TAGS[kind]}>'
            f"<quantity_Measure_Unit.name>MAW</quantity_Measure_Unit.name><curveType>{self.curve}</curveType>{plant}"
            f"<Period><timeInterval><start>{utc(window.from_s)}</start><end>{utc(window.until_s)}</end></timeInterval>"
            f"<resolution>{RESOLUTIONS[self.step_s]}</resolution>{''.join(points)}</Period></TimeSeries>"
        )


def load(start_s: int) -> float:
    return 50_000.0 + start_s % (24 * HOUR) / QUARTER


def sun(start_s: int) -> float:
    return float(max(0, 43_200 - abs(start_s % (24 * HOUR) - 43_200)) // QUARTER)


@pytest.fixture
def forecasts(player, reply, key_file, monkeypatch):
    """Plays a document of forecasts for the period that is asked for, and returns the source that asks."""
    pytest.importorskip("entsoe")
    monkeypatch.delenv("ENTSOE_API_KEY", raising=False)

    def of(kind: str, *series: Forecast, change: tuple[str, str] = ("", "")) -> EntsoE:
        def answer(_, query):
            start, end = (
                int(datetime.strptime(query[edge], "%Y%m%d%H%M").replace(tzinfo=UTC).timestamp())
                for edge in ("periodStart", "periodEnd")
            )
            # The platform answers with whole days, so that neighbouring months overlap.
            days = Window(start - start % (24 * HOUR), end + 24 * HOUR - end % (24 * HOUR))
            text = "".join(each.text(kind, days) for each in series)
            head = f"<type>{kind}</type><process.processType>A01</process.processType>"
            document = f"<GL_MarketDocument>{head}{text}</GL_MarketDocument>".replace(*change)
            return reply(document.encode(), headers=AS_XML)

        player.reply = answer
        document = {"A65": LOAD_FORECAST, "A69": WIND_SOLAR_FORECAST}[kind]
        return EntsoE("DE_LU", document, KeyLocation("ENTSOE_API_KEY", key_file), player.url, timeout_s=5.0)

    return of


def inside(series: Series, window: Window = WINDOW) -> Series:
    return clip_series(series, window)


@pytest.mark.parametrize("step_s", [QUARTER, 1800, HOUR])
@pytest.mark.parametrize("window", [WINDOW, Window(WINDOW.from_s, WINDOW.from_s + HOUR)])
def test_forecast_of_the_load(player, forecasts, step_s, window):
    series = inside(forecasts("A65", Forecast(load, step_s)).fetch(window), window)
    assert series.unit == "MW"
    assert series.start_s.tolist() == list(range(*window, step_s))
    assert series.value.tolist() == [load(start_s) for start_s in range(*window, step_s)]
    query = player.requests[0][1]
    assert (query["documentType"], query["processType"], query["outBiddingZone_Domain"]) == ("A65", "A01", ZONE)


def test_wind_and_solar_power_of_different_steps_are_added(player, forecasts):
    source = forecasts("A69", Forecast(sun, QUARTER, SOLAR), Forecast(load, HOUR, WIND), Forecast(load, HOUR, "B18"))
    series = inside(source.fetch(WINDOW))
    starts = range(*WINDOW, QUARTER)
    assert series.start_s.tolist() == list(starts)
    assert series.value.tolist() == [sun(start) + 2 * load(start - start % HOUR) for start in starts]
    query = player.requests[0][1]
    assert (query["documentType"], query["processType"], query["in_Domain"]) == ("A69", "A01", ZONE)


def test_a_zone_with_solar_power_only(forecasts):
    series = inside(forecasts("A69", Forecast(sun, HOUR, SOLAR)).fetch(WINDOW))
    assert series.value.tolist() == [sun(start_s) for start_s in range(*WINDOW, HOUR)]


@pytest.mark.parametrize("step_s", [QUARTER, HOUR])
def test_an_hour_that_one_forecast_lacks_is_unknown(forecasts, step_s):
    hour = WINDOW.from_s + 30 * HOUR
    missing = tuple(range(hour, hour + HOUR, step_s))
    source = forecasts("A69", Forecast(sun, step_s, SOLAR), Forecast(load, step_s, WIND, missing))
    assert inside(source.fetch(WINDOW)).gaps() == ((hour, hour + HOUR),)
    assert inside(forecasts("A65", Forecast(load, step_s, missing=missing)).fetch(WINDOW)).gaps() == (
        (hour, hour + HOUR),
    )


def test_a_value_that_is_not_repeated_holds(forecasts):
    repeated = tuple(range(WINDOW.from_s + HOUR, WINDOW.from_s + 12 * HOUR, HOUR))
    source = forecasts("A65", Forecast(lambda _: 7000.0, missing=repeated, curve="A03"))
    series = inside(source.fetch(WINDOW))
    assert series.gaps() == ()
    assert set(series.value.tolist()) == {7000.0}


@pytest.mark.parametrize("kind", ["A65", "A69"])
def test_answers_about_neighbouring_months_make_one_series(player, forecasts, kind):
    series = inside(forecasts(kind, Forecast(sun, HOUR, SOLAR)).fetch(LONG), LONG)
    assert len(player.requests) == 2
    assert series.start_s.tolist() == list(range(*LONG, HOUR))
    assert series.gaps() == ()


@pytest.mark.parametrize("kind", ["A65", "A69"])
@pytest.mark.parametrize(
    ("change", "condition"),
    [
        (("<quantity_Measure_Unit.name>MAW", "<quantity_Measure_Unit.name>KWT"), FeedCondition.WRONG_CURRENCY),
        (("<process.processType>A01", "<process.processType>A16"), FeedCondition.WRONG_AUCTION),
        ((f">{ZONE}<", ">10YFR-RTE------C<"), FeedCondition.WRONG_ZONE),
    ],
)
def test_tags_of_another_forecast(forecasts, kind, change, condition):
    assert forecasts(kind, Forecast(sun, HOUR, SOLAR), change=change).fetch(WINDOW).condition is condition


@pytest.mark.parametrize(
    ("body", "condition"),
    [
        (b"", FeedCondition.GARBAGE),
        (b"<!DOCTYPE html><title>Login</title>", FeedCondition.GARBAGE),
        (b"<GL_MarketDocument></GL_MarketDocument>", FeedCondition.GARBAGE),
        (NOTHING.encode(), FeedCondition.NOT_YET_PUBLISHED),
    ],
)
@pytest.mark.parametrize("kind", ["A65", "A69"])
def test_an_answer_without_values_prints_nothing(player, reply, forecasts, capsys, kind, body, condition):
    source = forecasts(kind)
    player.plays(reply(body, headers=AS_XML))
    assert source.fetch(WINDOW).condition is condition
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["A65", "A69"])
def test_a_slow_platform_and_a_refused_key(player, reply, forecasts, kind):
    source = replace(forecasts(kind), timeout_s=0.2)
    player.plays(reply(hangs=True))
    assert source.fetch(WINDOW).condition is FeedCondition.HANGING
    player.plays(reply(b"", 401))
    refused = replace(source, timeout_s=5.0).fetch(WINDOW)
    assert refused.condition is FeedCondition.KEY_REFUSED
    assert "the-secret-key" not in repr(refused)


def test_a_forecast_through_its_feed(tmp_path, forecasts):
    ((_, made),) = input_feeds(FeedSettings(inputs=("entso-e-wind-solar",), zone="DE-LU", cache=tmp_path))

    def known(*series: Forecast, at_s: int = WINDOW.from_s) -> KnownSeries:
        return replace(made, sources=(forecasts("A69", *series),)).known(WINDOW, at_s)

    calm, windy = Forecast(lambda _: 0.0, QUARTER, WIND), Forecast(load, QUARTER, WIND)
    first = known(calm)
    assert (first.basis, first.problems, set(first.series.value.tolist())) == ("published", (), {0.0})
    revised = known(windy, at_s=WINDOW.from_s + HOUR)
    assert (revised.basis, revised.problems) == ("published", ())
    wrong = known(Forecast(lambda _: 1e6, QUARTER, WIND), at_s=WINDOW.from_s + 2 * HOUR)
    assert [problem.condition for problem in wrong.problems] == [FeedCondition.IMPLAUSIBLE]
    assert (wrong.basis, wrong.series.value.tolist()) == ("cached 1 h", revised.series.value.tolist())
    late = known(replace(windy, missing=tuple(range(WINDOW.from_s + 24 * HOUR, WINDOW.until_s + 24 * HOUR, QUARTER))))
    assert [problem.condition for problem in late.problems] == [FeedCondition.NOT_YET_PUBLISHED]
    assert late.fresh


STEPS = st.sampled_from([QUARTER, 1800, HOUR])
VALUES = st.lists(st.just(math.nan) | st.integers(0, 9000).map(float), min_size=1, max_size=8)


@given(st.lists(st.tuples(STEPS, st.integers(0, 4), VALUES), min_size=1, max_size=4))
def test_the_sum_at_every_instant_is_the_sum_of_the_parts(rows):
    parts = []
    for step_s, first, values in rows:
        start_s = HOUR * first + step_s * np.arange(len(values))
        parts.append(Series(start_s, int(start_s[-1]) + step_s, np.array(values), "MW", "test"))
    total = sum_series(parts)
    instants = np.arange(0, 13 * HOUR, QUARTER)
    np.testing.assert_array_equal(value_at(total, instants), sum(value_at(part, instants) for part in parts))
