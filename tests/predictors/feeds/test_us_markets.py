"""American markets: what gridstatus returns becomes a series, and its absence a named condition."""

import inspect
import sys

import pytest

from offpeak.installation import install_hint
from offpeak.predictors.feeds.auctions import CLASSES, UsMarket
from offpeak.predictors.feeds.port import FeedCondition, Window

WINDOW = Window(1_730_674_800, 1_730_674_800 + 24 * 3600)


@pytest.mark.parametrize(("market", "column"), [("CAISO", "LMP"), ("ERCOT", "SPP")])
def test_rows_become_a_series(market, column):
    pandas = pytest.importorskip("pandas")
    times = pandas.date_range("2024-03-10", periods=23, freq="h", tz="America/Los_Angeles")
    rows = pandas.DataFrame({"Interval Start": times[::-1], column: [float(i) for i in range(23)]})
    rows.loc[0, column] = None
    series = UsMarket(market, "HUB").series(rows)
    assert (len(series), series.unit, int(series.start_s[0])) == (23, "USD/MWh", round(times[0].timestamp()))
    assert series.end_s - series.start_s[0] == 23 * 3600
    assert series.value[0] == 22.0
    assert not series.known[-1]
    assert UsMarket(market, "HUB").series(rows[:0]).condition is FeedCondition.WRONG_ZONE


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "gridstatus", None)
    found = UsMarket("CAISO", "HUB").fetch(WINDOW)
    assert found.condition is FeedCondition.NOT_INSTALLED
    assert found.hint == install_hint("feeds-us")


def test_a_european_zone():
    assert UsMarket("DE-LU", "").fetch(WINDOW).condition is FeedCondition.WRONG_ZONE


@pytest.mark.parametrize("market", sorted(CLASSES))
def test_the_library_takes_what_is_queried(market):
    gridstatus = pytest.importorskip("gridstatus")
    kind = getattr(gridstatus, CLASSES[market])
    ask = kind.get_spp if market == "ERCOT" else kind.get_lmp
    inspect.signature(ask).bind(None, date=0, end=0, market="DAY_AHEAD_HOURLY", locations=["HUB"])
    assert kind.default_timezone
