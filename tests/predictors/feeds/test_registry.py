"""From settings to feeds: every name makes a source of that name."""

from pathlib import Path

import pytest

from offpeak.errors import BadSetting
from offpeak.predictors.feeds.registry import (
    INPUTS,
    SOURCES,
    SourceSettings,
    carbon_feed,
    input_feeds,
    price_feed,
    temperature_feed,
)
from offpeak.settings.replay import CarbonSettings, FeedSettings, PriceSettings

pytestmark = pytest.mark.quick

FILE = Path("prices_eur_per_mwh.csv")
SITE = SourceSettings(
    FeedSettings(zone="DE-LU", watttime_region="CAISO_NORTH", place="52.52, -13.4", openadr="http://vtn.invalid"),
    FILE,
    tariff="on=90EUR/MWh,off=30EUR/MWh",
)
NAMES = tuple(INPUTS)


@pytest.mark.parametrize(("what", "name"), [(what, name) for what, names in SOURCES.items() for name in names])
def test_every_source_has_the_name_of_its_row(what, name):
    source = SOURCES[what][name](SITE)
    assert source.name == name
    assert source.own == (name in {"file", "tariff", "openadr"})


def test_feeds_in_the_order_of_the_settings(tmp_path):
    feeds = FeedSettings(prices=("nord-pool", "file"), zone="DE-LU", cache=tmp_path, timeout_s=5)
    feed = price_feed(feeds, PriceSettings(file=FILE))
    assert [source.name for source in feed.sources] == ["nord-pool", "file"]
    assert (feed.cache, feed.quantity.unit) == (tmp_path / "prices_DE-LU_EUR_MWh.csv", "EUR/MWh")
    assert (str(feed.clock), feed.limit_s, feed.sources[0].timeout_s) == ("Europe/Brussels", 15, 5)


def test_each_quantity_has_a_cache_of_its_own():
    names = FeedSettings(("tariff",), ("electricity-maps",), ("open-meteo",), zone="DE-LU", place="52.52,13.41")
    feeds = [price_feed(names, PriceSettings()), carbon_feed(names, CarbonSettings()), temperature_feed(names)]
    assert len({feed.cache for feed in feeds}) == 3
    assert [feed.quantity.unit for feed in feeds] == ["EUR/MWh", "g/kWh", "degC"]


def test_no_names_no_feeds():
    names = FeedSettings()
    assert price_feed(names, PriceSettings()) is carbon_feed(names, CarbonSettings()) is temperature_feed(names) is None
    assert input_feeds(names) == ()


def test_a_rule_and_a_file_need_no_zone():
    feed = price_feed(FeedSettings(prices=("file",)), PriceSettings(file=FILE))
    assert price_feed(FeedSettings(prices=("tariff",)), PriceSettings())
    assert feed.cache.name.startswith("prices_prices_eur_per_mwh.csv_")


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        (FeedSettings(prices=("energy-chart",), zone="DE-LU"), r"feeds\.prices: 'energy-chart'"),
        (FeedSettings(prices=("energy-charts",)), r"feeds\.zone: is not set"),
        (FeedSettings(prices=("file",)), "has no file"),
        (FeedSettings(prices=("nord-pool", "tariff"), zone="DE-LU"), "tariff stands beside"),
        (FeedSettings(prices=("nord-pool",), zone="Germany"), r"feeds\.zone: 'Germany'"),
        (FeedSettings(temperature=("open-meteo",)), r"feeds\.place"),
        (FeedSettings(temperature=("open-meteo",), place="91,0"), r"feeds\.place"),
        (FeedSettings(inputs=("entso-e-wind",), zone="DE-LU"), r"feeds\.inputs: 'entso-e-wind' is not a source"),
        (FeedSettings(inputs=("entso-e-load",), place="52.52,13.41"), r"feeds\.zone: is not set"),
        (FeedSettings(inputs=("open-meteo-sun",), zone="DE-LU"), r"feeds\.place: is not set"),
        (FeedSettings(inputs=("open-meteo-sun",), place="Berlin"), r"feeds\.place: 'Berlin'"),
        (FeedSettings(inputs=("entso-e-load",) * 2, zone="DE-LU"), r"feeds\.inputs: 'entso-e-load' is named twice"),
    ],
)
def test_settings_that_make_no_feed(feeds, message):
    with pytest.raises(BadSetting, match=message) as problem:
        price_feed(feeds, PriceSettings()) or temperature_feed(feeds) or input_feeds(feeds)
    assert problem.value.hint


def test_files_of_one_name_in_two_folders_share_no_cache(tmp_path) -> None:
    feeds = FeedSettings(prices=("file",), cache=tmp_path)
    caches = {price_feed(feeds, PriceSettings(file=tmp_path / each / "prices.csv")).cache for each in ("a", "b")}
    assert len(caches) == 2


def test_each_input_is_a_feed_of_its_own(tmp_path) -> None:
    feeds = input_feeds(FeedSettings(inputs=NAMES, zone="DE-LU", place="52.52,13.41", cache=tmp_path, timeout_s=5))
    assert tuple(name for name, _ in feeds) == NAMES
    assert [source.name for _, feed in feeds for source in feed.sources] == list(NAMES)
    assert [feed.cache.name for _, feed in feeds] == [
        "input_entso-e-load_DE-LU_MW.csv",
        "input_entso-e-wind-solar_DE-LU_MW.csv",
        "input_open-meteo-wind_52.52_13.41_m_s.csv",
        "input_open-meteo-sun_52.52_13.41_W_m2.csv",
    ]
    assert {(str(feed.clock), feed.limit_s, feed.quantity.final) for _, feed in feeds} == {
        ("Europe/Brussels", 15, False)
    }


def test_weather_needs_no_zone() -> None:
    ((_, feed),) = input_feeds(FeedSettings(inputs=("open-meteo-wind",), place="52.52,13.41"))
    assert feed.quantity.unit == "m/s"
