"""Every source by its name in the settings, and the feeds that the settings name."""

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path

from offpeak.errors import BadSetting
from offpeak.model.local_time import parse_zone
from offpeak.prices.layout import PriceFileLayout, parse_file_and_layout, parse_layout
from offpeak.prices.tariff import site_tariff
from offpeak.settings.feeds import FeedSettings
from offpeak.settings.replay import CarbonSettings, PriceSettings
from offpeak.text import did_you_mean
from predictors.feeds.declared import FileSource, TariffSource
from predictors.feeds.electricity_maps import ElectricityMaps
from predictors.feeds.energy_charts import EnergyCharts
from predictors.feeds.entso_e import EntsoE
from predictors.feeds.feed import Feed
from predictors.feeds.markets import Market, find_market
from predictors.feeds.nord_pool import NordPool
from predictors.feeds.open_meteo import ARCHIVE_URL, FORECAST_URL, OpenMeteo
from predictors.feeds.port import CARBON, OUTSIDE_TEMPERATURE, FeedQuantity, FeedSource, price_quantity
from predictors.feeds.us_markets import UsMarket
from predictors.feeds.web import KeyLocation

# A source may send several requests for one answer.
ASKS = 3


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

    def key(self, variable: str) -> KeyLocation:
        """Where the key of that name is kept."""
        return KeyLocation(variable, self.feeds.key_file)


def _file(site: SourceSettings) -> FeedSource:
    if site.file is None:
        raise BadSetting("feeds: the source file has no file", hint="name it: file below [prices], source in [carbon]")
    return FileSource(site.file, site.layout or PriceFileLayout())


def _weather(site: SourceSettings, url: str, name: str) -> FeedSource:
    north, east = _degrees(site.feeds.place or "")
    return OpenMeteo(north, east, url, site.feeds.timeout_s, name)


def _degrees(text: str) -> tuple[float, float]:
    match = re.fullmatch(r"\s*(-?\d+\.?\d*)\s*,\s*(-?\d+\.?\d*)\s*", text)
    if match is None or abs(float(match[1])) > 90 or abs(float(match[2])) > 180:
        raise BadSetting(f"feeds.place: {text!r} is no place", hint="degrees north and east, such as 52.52,13.41")
    return float(match[1]), float(match[2])


SOURCES: Mapping[str, Mapping[str, Callable[[SourceSettings], FeedSource]]] = {
    "prices": {
        "file": _file,
        "tariff": lambda site: TariffSource(site_tariff(site.tariff, site.clock)),
        "energy-charts": lambda site: EnergyCharts(site.market.zone, timeout_s=site.feeds.timeout_s),
        "nord-pool": lambda site: NordPool(site.market.nord_pool, site.feeds.currency, timeout_s=site.feeds.timeout_s),
        "entso-e": lambda site: EntsoE(
            site.market.entsoe, site.feeds.currency, site.key("ENTSOE_API_KEY"), timeout_s=site.feeds.timeout_s
        ),
        "us-markets": lambda site: UsMarket(site.market.zone, site.market.place),
    },
    "carbon": {
        "file": _file,
        "electricity-maps": lambda site: ElectricityMaps(
            site.market.maps, site.key("ELECTRICITY_MAPS_TOKEN"), timeout_s=site.feeds.timeout_s
        ),
    },
    "temperature": {
        "open-meteo": lambda site: _weather(site, FORECAST_URL, "open-meteo"),
        "open-meteo-archive": lambda site: _weather(site, ARCHIVE_URL, "open-meteo-archive"),
    },
}


def price_feed(feeds: FeedSettings, prices: PriceSettings) -> Feed | None:
    """Return the feed of known prices, None if the settings name no source. Raises BadSetting for what cannot be."""
    site = SourceSettings(feeds, prices.file, parse_layout(prices.layout or ""), prices.tariff)
    return _feed("prices", feeds.prices, site, price_quantity(feeds.currency))


def carbon_feed(feeds: FeedSettings, carbon: CarbonSettings) -> Feed | None:
    """Return the feed of carbon intensity [g/kWh]."""
    site = SourceSettings(feeds, *parse_file_and_layout(carbon.source)) if carbon.source else SourceSettings(feeds)
    return _feed("carbon", feeds.carbon, site, CARBON)


def temperature_feed(feeds: FeedSettings) -> Feed | None:
    """Return the feed of the outside temperature [degC]."""
    return _feed("temperature", feeds.temperature, SourceSettings(feeds), OUTSIDE_TEMPERATURE)


def _feed(what: str, names: tuple[str, ...] | None, site: SourceSettings, quantity: FeedQuantity) -> Feed | None:
    if names is None:
        return None
    if "tariff" in names and len(names) > 1:
        raise BadSetting(
            "feeds.prices: tariff stands beside others", hint="name it alone, or not: it is what holds last"
        )
    sources = tuple(_builder(what, name)(site) for name in names)
    place = site.feeds.place if what == "temperature" else site.feeds.zone
    file = re.sub(r"[^A-Za-z0-9.-]", "_", f"{what} {place or _own_place(site)} {quantity.unit}") + ".csv"
    return Feed(sources, site.feeds.cache / file, quantity, site.clock, ASKS * site.feeds.timeout_s)


def _own_place(site: SourceSettings) -> str:
    """Return the text that distinguishes files of prices with the same name."""
    return f"{site.file.name} {zlib.crc32(bytes(site.file.resolve())):08x}" if site.file else "here"


def _builder(what: str, name: str) -> Callable[[SourceSettings], FeedSource]:
    if name not in SOURCES[what]:
        raise BadSetting(f"feeds.{what}: {name!r} is no source", hint=did_you_mean(name, SOURCES[what]))
    return SOURCES[what][name]
