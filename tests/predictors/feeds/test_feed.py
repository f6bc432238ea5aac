"""The feed as a caller sees it: the cable is pulled, the basis changes, nothing stops."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from offpeak.model.step_series import Series
from offpeak.predictors.feeds.auctions import EnergyCharts, NordPool
from offpeak.predictors.feeds.declared import fill_with_tariff
from offpeak.predictors.feeds.feed import Feed
from offpeak.predictors.feeds.port import (
    OUTSIDE_TEMPERATURE,
    FeedCondition,
    FeedProblem,
    KnownSeries,
    SourceAnswer,
    Window,
    price_quantity,
)
from offpeak.prices.tariff import parse_tariff, tariff_series

HOUR = 3600
DAY = 24 * HOUR
MIDNIGHT = 1_730_674_800
WINDOW = Window(MIDNIGHT, MIDNIGHT + 48 * HOUR)
NOW = MIDNIGHT + 15 * HOUR
BRUSSELS = ZoneInfo("Europe/Brussels")
EUR = price_quantity("EUR")
TARIFF = tariff_series(parse_tariff("on=90EUR/MWh,off=30EUR/MWh"), *WINDOW)


@dataclass(frozen=True)
class Says:
    """A source that says what it is told to."""

    answer: SourceAnswer
    name: str = "says"
    own: bool = False

    def fetch(self, _: Window) -> SourceAnswer:
        return self.answer


def feed(folder: Path, *sources, limit_s: float = 5) -> Feed:
    return Feed(sources, folder / "prices.csv", EUR, BRUSSELS, limit_s)


def series(hours: int = 48, *, source: str = "says", from_s: int = MIDNIGHT, add: float = 0) -> Series:
    start_s = from_s + HOUR * np.arange(hours, dtype=np.int64)
    value = 80 + 30 * np.sin(np.arange(hours) / 3) + add
    return Series(start_s, int(start_s[-1]) + HOUR, value, "EUR/MWh", source)


def conditions(known: KnownSeries) -> list[FeedCondition]:
    return [problem.condition for problem in known.problems]


def test_the_first_good_source_is_taken_and_no_other_queried(tmp_path, player):
    second = EnergyCharts("DE-LU", player.url)
    known = feed(tmp_path, Says(series()), second).known(WINDOW, NOW)
    assert (known.source, known.fresh, known.fetched_s, known.age_s, known.problems) == ("says", True, NOW, 0, ())
    assert not player.requests


def test_a_second_source_when_the_first_fails(tmp_path, player, answer, closed_url):
    good = answer("energy_charts")
    first = NordPool("GER", "EUR", closed_url, timeout_s=5.0)
    player.plays_json(good)
    known = feed(tmp_path, first, EnergyCharts("DE-LU", player.url)).known(WINDOW, NOW)
    assert (known.source, known.basis, conditions(known)) == ("energy-charts", "published", [FeedCondition.REFUSED])
    assert known.series.value.tolist() == good["price"]


def test_pulling_the_cable_changes_the_basis_and_never_stops_the_caller(tmp_path, player, faults, answer, closed_url):
    player.plays_json(answer("energy_charts"))
    source = EnergyCharts("DE-LU", player.url, timeout_s=5.0)
    today = feed(tmp_path, source)
    published = today.known(WINDOW, NOW)
    for condition, fault in faults.items():
        player.plays(fault)
        known = today.known(WINDOW, NOW + 5 * HOUR)
        assert [str(found) for found in conditions(known)] == [condition]
        assert (known.basis, known.source, known.age_s) == ("cached 5 h", "energy-charts", 5 * HOUR)
        assert known.series.value.tolist() == published.series.value.tolist()
    gone = feed(tmp_path, EnergyCharts("DE-LU", closed_url)).known(WINDOW, NOW + 6 * HOUR)
    assert (gone.basis, conditions(gone)) == ("cached 6 h", [FeedCondition.REFUSED])
    based = fill_with_tariff(gone, TARIFF, WINDOW)
    assert set(based.basis) == {"cached 6 h"}


def test_without_anything_the_stated_fallback_holds(tmp_path, closed_url):
    known = feed(tmp_path, EnergyCharts("DE-LU", closed_url)).known(WINDOW, NOW)
    assert (known.series, known.source, known.fresh) == (None, "", False)
    assert set(fill_with_tariff(known, TARIFF, WINDOW).basis) == {"tariff"}


def test_a_server_that_hangs_is_left_behind(tmp_path, player, reply):
    player.plays(reply(hangs=True))
    known = feed(tmp_path, EnergyCharts("DE-LU", player.url, timeout_s=5.0), limit_s=0.1).known(WINDOW, NOW)
    assert conditions(known) == [FeedCondition.HANGING]


def test_tomorrow_from_the_source_that_has_it(tmp_path):
    late, whole = Says(series(24), "late"), Says(series(48), "whole")
    known = feed(tmp_path, late, whole).known(WINDOW, NOW)
    assert (known.source, conditions(known)) == ("says", [FeedCondition.NOT_YET_PUBLISHED])
    assert known.problems[0].source == "late"


def test_an_incomplete_answer_is_used_where_nothing_is_better(tmp_path):
    known = feed(tmp_path, Says(series(24)), Says(series(12))).known(WINDOW, NOW)
    assert conditions(known) == [FeedCondition.NOT_YET_PUBLISHED, FeedCondition.HALF_MISSING]
    assert (known.fresh, known.series.end_s) == (True, MIDNIGHT + 24 * HOUR)
    based = fill_with_tariff(known, TARIFF, WINDOW)
    assert dict.fromkeys(based.basis) == {"published": None, "tariff": None}


def test_shorter_answer_does_not_replace_known_prices(tmp_path):
    feed(tmp_path, Says(series(48))).known(WINDOW, NOW)
    known = feed(tmp_path, Says(series(12))).known(WINDOW, NOW + HOUR)
    assert (known.fresh, known.series.end_s, known.basis) == (False, WINDOW.until_s, "cached 1 h")


def test_an_old_temperature_does_not_stand_against_a_new_one(tmp_path):
    both = [replace(series(hours, add=-70), unit="degC") for hours in (48, 24)]
    feeds = [Feed((Says(answer),), tmp_path / "temperature.csv", OUTSIDE_TEMPERATURE, BRUSSELS, 5) for answer in both]
    known = [each.known(WINDOW, NOW) for each in feeds][-1]
    assert (known.fresh, conditions(known)) == (True, [FeedCondition.NOT_YET_PUBLISHED])


@pytest.mark.parametrize(
    ("answer", "condition"),
    [
        (series(48, from_s=MIDNIGHT + HOUR), FeedCondition.SHIFTED_CLOCK),
        (series(48, add=20), FeedCondition.WRONG_AUCTION),
        (series(48, add=1e4), FeedCondition.IMPLAUSIBLE),
        (replace(series(), unit="SEK/MWh"), FeedCondition.WRONG_CURRENCY),
    ],
)
def test_a_wrong_answer_is_neither_used_nor_kept(tmp_path, answer, condition):
    good = series()
    feed(tmp_path, Says(good)).known(WINDOW, NOW)
    kept = (tmp_path / "prices.csv").read_bytes()
    known = feed(tmp_path, Says(answer)).known(WINDOW, NOW + HOUR)
    assert (conditions(known), known.basis) == ([condition], "cached 1 h")
    assert known.series.value.tolist() == good.value.tolist()
    assert (tmp_path / "prices.csv").read_bytes() == kept


def test_the_operator_may_correct_a_file_of_prices(tmp_path):
    feed(tmp_path, Says(series(), own=True)).known(WINDOW, NOW)
    known = feed(tmp_path, Says(series(add=20), own=True)).known(WINDOW, NOW)
    assert (known.fresh, known.problems) == (True, ())


def test_what_a_file_reported_does_not_judge_a_market(tmp_path):
    feed(tmp_path, Says(series(source="my.csv", add=20), own=True)).known(WINDOW, NOW)
    known = feed(tmp_path, Says(series()), Says(series(source="my.csv"), "file", own=True)).known(WINDOW, NOW)
    assert (known.source, known.problems) == ("says", ())


def test_a_damaged_cache_is_named_and_replaced(tmp_path):
    (tmp_path / "prices.csv").write_bytes(b"\0\0garbage")
    today = feed(tmp_path, Says(series()))
    assert conditions(today.known(WINDOW, NOW)) == [FeedCondition.CACHE_DAMAGED]
    assert conditions(today.known(WINDOW, NOW)) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    known = feed(tmp_path / "file", Says(series())).known(WINDOW, NOW)
    assert known.fresh
    assert conditions(known)[-1] is FeedCondition.CACHE_UNWRITABLE


def test_a_cache_in_another_currency_is_not_used(tmp_path):
    feed(tmp_path, Says(series())).known(WINDOW, NOW)
    crowns = Feed(
        (Says(FeedProblem(FeedCondition.REFUSED, "says", "")),),
        tmp_path / "prices.csv",
        price_quantity("SEK"),
        BRUSSELS,
    )
    known = crowns.known(WINDOW, NOW)
    assert (known.series, conditions(known)) == (None, [FeedCondition.WRONG_CURRENCY, FeedCondition.REFUSED])


def test_every_condition_says_what_to_do():
    for condition in FeedCondition:
        problem = FeedProblem(condition, "nord-pool", "what happened")
        assert problem.hint
        assert str(problem) == f"nord-pool: {condition.value}: what happened"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=80)
    | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_no_body_stops_a_caller_or_becomes_a_price(tmp_path_factory, player, reply, body):
    player.plays(reply(body))
    known = feed(tmp_path_factory.mktemp("cache"), EnergyCharts("DE-LU", player.url)).known(WINDOW, NOW)
    assert (known.series, conditions(known)) == (None, [FeedCondition.GARBAGE])


def test_an_own_file_that_was_shortened_is_believed(tmp_path) -> None:
    path, long = (
        tmp_path / "prices.csv",
        Series(np.array([MIDNIGHT]), MIDNIGHT + 48 * HOUR, np.array([5.0]), "EUR/MWh", "prices.csv"),
    )
    short = replace(long, end_s=MIDNIGHT + HOUR, value=np.array([7.0]))
    feed = Feed((replace(Says(long), own=True),), path, EUR, BRUSSELS)
    assert feed.known(WINDOW, NOW).series.value.tolist() == [5.0]
    after = replace(feed, sources=(replace(Says(short), own=True),)).known(WINDOW, NOW)
    assert after.series.value.tolist() == [7.0]
    assert after.fresh


@dataclass(frozen=True)
class Records:
    """A source that records the windows that it is asked for."""

    windows: list[Window]
    name: str = "records"
    own: bool = False

    def fetch(self, window: Window) -> SourceAnswer:
        self.windows.append(window)
        return replace(series((window.until_s - window.from_s) // HOUR, from_s=window.from_s), source=self.name)


def test_a_source_is_asked_for_what_is_within_its_reach(tmp_path) -> None:
    source = Records([])
    near = replace(feed(tmp_path, source), reach=Window(-DAY, 2 * DAY))
    known = near.known(Window(NOW - 9 * DAY, NOW + 9 * DAY), NOW + 17)
    assert source.windows == [Window(NOW - DAY, NOW + 2 * DAY)]
    assert (known.fresh, known.problems) == (True, ())
    assert (int(known.series.start_s[0]), known.series.end_s) == source.windows[0]


@pytest.mark.parametrize("days", [-9, 9])
def test_a_window_beyond_the_reach_is_a_problem_and_no_question(tmp_path, days) -> None:
    source = Records([])
    near = replace(feed(tmp_path, source), reach=Window(-DAY, 2 * DAY))
    known = near.known(Window(NOW + days * DAY, NOW + days * DAY + HOUR), NOW)
    assert (known.series, source.windows) == (None, [])
    assert [str(problem) for problem in known.problems] == ["records: values missing: it knows 1 days back and 2 ahead"]
