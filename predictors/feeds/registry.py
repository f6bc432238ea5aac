"""Every source by its name in the settings, and the feeds that the settings name."""

import re
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path

from offpeak.errors import BadInput, BadSetting
from offpeak.model.constants import DAY_S
from offpeak.model.zones import parse_zone
from offpeak.predictors.feeds.auctions import EnergyCharts, NordPool, UsMarket
from offpeak.predictors.feeds.declared import FileSource, TariffSource
from offpeak.predictors.feeds.electricity_maps import ElectricityMaps
from offpeak.predictors.feeds.entso_e import (
    LOAD_FORECAST,
    WIND_SOLAR_FORECAST,
    EntsoE,
    EntsoEDocument,
    day_ahead_prices,
)
from offpeak.predictors.feeds.feed import Feed
from offpeak.predictors.feeds.great_britain import GreatBritain
from offpeak.predictors.feeds.markets import Market, find_market
from offpeak.predictors.feeds.open_meteo import (
    ARCHIVE_URL,
    FORECAST_URL,
    SUNSHINE,
    TEMPERATURE,
    WIND_AT_120_M,
    OpenMeteo,
    WeatherVariable,
)
from offpeak.predictors.feeds.openadr_events import GHG, PRICE, OpenAdrEvents
from offpeak.predictors.feeds.port import CARBON, OUTSIDE_TEMPERATURE, FeedQuantity, FeedSource, Window, price_quantity
from offpeak.predictors.feeds.watt_time import WattTime
from offpeak.predictors.feeds.web import KeyLocation
from offpeak.prices.layout import PriceFileLayout, parse_file_and_layout, parse_layout
from offpeak.prices.tariff_file import site_tariff
from offpeak.settings.replay import CarbonSettings, FeedSettings, PriceSettings
from offpeak.text import did_you_mean

# A source may send several requests for one answer.
ASKS = 3
# Of all inputs, so that the time limit is enough. Open-Meteo's last hour is at the end of the 15th day after today.
INPUT_REACH = Window(-90 * DAY_S, 14 * DAY_S)


@dataclass(frozen=True)
class SourceSettings:
    """The settings of sources. A source raises BadSetting for a missing one."""

    feeds: FeedSettings
    file: Path | None = None
    layout: PriceFileLayout | None = None
    tariff: str | None = None

    @property
    def market(self) -> Market:
        """The market of feeds.zone."""
        if self.feeds.zone is None:
            raise BadSetting("feeds.zone: is not set", hint='write such as zone = "DE-LU" below [feeds]')
        return find_market(self.feeds.zone)

    @property
    def clock(self) -> tzinfo:
        """Whose midnight begins a day: the market's, UTC without one."""
        return parse_zone(self.market.clock) if self.feeds.zone else UTC

    @property
    def currency(self) -> str:
        """What prices are in."""
        return self.feeds.currency or USUAL_CURRENCY

    def key(self, variable: str) -> KeyLocation:
        """Where the key of that name is kept."""
        return KeyLocation(variable, self.feeds.key_file)


def _file(site: SourceSettings) -> FeedSource:
    if site.file is None:
        raise BadSetting("feeds: the source file has no file", hint="name it: file below [prices], source in [carbon]")
    return FileSource(site.file, site.layout or PriceFileLayout())


def _weather(site: SourceSettings, url: str, name: str, variable: WeatherVariable = TEMPERATURE) -> FeedSource:
    if site.feeds.place is None:
        raise BadSetting("feeds.place: is not set", hint='write such as place = "52.52,13.41" below [feeds]')
    text = site.feeds.place
    match = re.fullmatch(r"\s*(-?\d+\.?\d*)\s*,\s*(-?\d+\.?\d*)\s*", text)
    if match is None or abs(float(match[1])) > 90 or abs(float(match[2])) > 180:
        raise BadSetting(f"feeds.place: {text!r} is not a place", hint="degrees north and east, such as 52.52,13.41")
    north, east = float(match[1]), float(match[2])
    return OpenMeteo(north, east, url, site.feeds.timeout_s, name, variable)


def _entso_e(site: SourceSettings, name: str, document: EntsoEDocument) -> FeedSource:
    key = site.key("ENTSOE_API_KEY")
    return EntsoE(site.market.entsoe, document, key, timeout_s=site.feeds.timeout_s, name=name)


def _openadr(site: SourceSettings, kind: str) -> FeedSource:
    feeds = site.feeds
    if feeds.openadr is None:
        hint = 'write such as openadr = "https://vtn.example.org/openadr3/3.0.1" below [feeds]'
        raise BadSetting("feeds.openadr: is not set", hint=hint)
    targets = feeds.openadr_targets or ()
    return OpenAdrEvents(feeds.openadr, kind, feeds.openadr_program, targets, feeds.key_file, feeds.timeout_s)


def _watt_time(site: SourceSettings) -> FeedSource:
    if site.feeds.watttime_region is None:
        hint = 'write such as watttime_region = "CAISO_NORTH" below [feeds]'
        raise BadSetting("feeds.watttime_region: is not set", hint=hint)
    return WattTime(site.feeds.watttime_region, site.key("WATTTIME_LOGIN"), timeout_s=site.feeds.timeout_s)


INPUTS: Mapping[str, EntsoEDocument | WeatherVariable] = {
    "entso-e-load": LOAD_FORECAST,
    "entso-e-wind-solar": WIND_SOLAR_FORECAST,
    "open-meteo-wind": WIND_AT_120_M,
    "open-meteo-sun": SUNSHINE,
}


def _input(name: str, site: SourceSettings) -> FeedSource:
    wanted = INPUTS[name]
    if isinstance(wanted, EntsoEDocument):
        return _entso_e(site, name, wanted)
    return _weather(site, FORECAST_URL, name, wanted)


USUAL_CURRENCY = "EUR"

SOURCES: Mapping[str, Mapping[str, Callable[[SourceSettings], FeedSource]]] = {
    "prices": {
        "file": _file,
        "tariff": lambda site: TariffSource(site_tariff(site.tariff, site.clock)),
        "energy-charts": lambda site: EnergyCharts(site.market.zone, timeout_s=site.feeds.timeout_s),
        "nord-pool": lambda site: NordPool(site.market.nord_pool, site.currency, timeout_s=site.feeds.timeout_s),
        "entso-e": lambda site: _entso_e(site, "entso-e", day_ahead_prices(site.currency)),
        "us-markets": lambda site: UsMarket(site.market.zone, site.market.place),
        "openadr": lambda site: _openadr(site, PRICE),
    },
    "carbon": {
        "file": _file,
        "electricity-maps": lambda site: ElectricityMaps(
            site.market.maps, site.key("ELECTRICITY_MAPS_TOKEN"), timeout_s=site.feeds.timeout_s
        ),
        "great-britain": lambda site: GreatBritain(timeout_s=site.feeds.timeout_s),
        "watttime": _watt_time,
        "openadr": lambda site: _openadr(site, GHG),
    },
    "temperature": {
        "open-meteo": lambda site: _weather(site, FORECAST_URL, "open-meteo"),
        "open-meteo-archive": lambda site: _weather(site, ARCHIVE_URL, "open-meteo-archive"),
    },
    "inputs": {name: partial(_input, name) for name in INPUTS},
}


def price_feed(feeds: FeedSettings, prices: PriceSettings) -> Feed | None:
    """Return the feed of known prices, None if the settings name no source. Raises BadSetting for what cannot be."""
    site = SourceSettings(feeds, prices.file, parse_layout(prices.layout or ""), prices.tariff)
    currency = feeds.currency or _declared_currency(site)
    site = replace(site, feeds=replace(feeds, currency=currency))
    return _feed("prices", feeds.prices, site, price_quantity(currency))


def _declared_currency(site: SourceSettings) -> str:
    """Return the currency of the first declared source, of the file if it can be read, USUAL_CURRENCY without one."""
    for name in site.feeds.prices or ():
        if name == "tariff" and site.tariff:
            return site_tariff(site.tariff, site.clock).currency
        if name == "file" and site.file:
            from offpeak.prices.file import read_series

            with suppress(BadInput):
                return read_series(site.file, site.layout or PriceFileLayout()).currency
    return USUAL_CURRENCY


def carbon_feed(feeds: FeedSettings, carbon: CarbonSettings) -> Feed | None:
    """Return the feed of carbon intensity [g/kWh]."""
    site = SourceSettings(feeds, *parse_file_and_layout(carbon.source)) if carbon.source else SourceSettings(feeds)
    return _feed("carbon", feeds.carbon, site, CARBON)


def temperature_feed(feeds: FeedSettings) -> Feed | None:
    """Return the feed of the outside temperature [degC]."""
    return _feed("temperature", feeds.temperature, SourceSettings(feeds), OUTSIDE_TEMPERATURE)


def input_feeds(feeds: FeedSettings) -> tuple[tuple[str, Feed], ...]:
    """Return the feed of each input of the price forecast by its name. Raises BadSetting for what cannot be."""
    names, site = feeds.inputs or (), SourceSettings(feeds)
    for name in names:
        if names.count(name) > 1:
            raise BadSetting(f"feeds.inputs: {name!r} is named twice", hint="name each input once")
    return tuple((name, _input_feed(name, site)) for name in names)


def _input_feed(name: str, site: SourceSettings) -> Feed:
    source, quantity = _builder("inputs", name)(site), INPUTS[name].quantity
    where = site.feeds.place if isinstance(source, OpenMeteo) else site.feeds.zone
    cache = _cache_file(site, f"input {name} {where} {quantity.unit}")
    return Feed((source,), cache, quantity, site.clock, ASKS * site.feeds.timeout_s, INPUT_REACH)


def _feed(what: str, names: tuple[str, ...] | None, site: SourceSettings, quantity: FeedQuantity) -> Feed | None:
    if names is None:
        return None
    if "tariff" in names and len(names) > 1:
        raise BadSetting(
            "feeds.prices: tariff stands beside others", hint="name it alone, or not: it is what holds last"
        )
    sources = tuple(_builder(what, name)(site) for name in names)
    place = site.feeds.place if what == "temperature" else site.feeds.zone
    if "watttime" in names:
        place = site.feeds.watttime_region
    cache = _cache_file(site, f"{what} {place or _own_place(site)} {quantity.unit}")
    return Feed(sources, cache, quantity, site.clock, ASKS * site.feeds.timeout_s)


def _cache_file(site: SourceSettings, words: str) -> Path:
    return site.feeds.cache / (re.sub(r"[^A-Za-z0-9.-]", "_", words) + ".csv")


def _own_place(site: SourceSettings) -> str:
    """Return the text that distinguishes files of prices with the same name, and programmes of servers."""
    if site.feeds.openadr:
        return f"openadr {zlib.crc32(f'{site.feeds.openadr} {site.feeds.openadr_program}'.encode()):08x}"
    return f"{site.file.name} {zlib.crc32(bytes(site.file.resolve())):08x}" if site.file else "here"


def _builder(what: str, name: str) -> Callable[[SourceSettings], FeedSource]:
    if name not in SOURCES[what]:
        raise BadSetting(f"feeds.{what}: {name!r} is not a source", hint=did_you_mean(name, SOURCES[what]))
    return SOURCES[what][name]
