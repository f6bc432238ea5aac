"""Builds the sources of prices and of carbon intensity that a site's settings name.

Prices come from a feed with the tariff behind it. Carbon intensity is a fixed figure, a file or a feed.
"""

from dataclasses import replace
from datetime import tzinfo
from importlib.util import find_spec

import numpy as np

from offpeak.errors import BadSetting
from offpeak.installation import missing_extra
from offpeak.model.step_series import Series
from offpeak.model.units import parse_carbon_g_per_kwh
from offpeak.predictors.feeds.feed import Feed
from offpeak.predictors.feeds.markets import find_market, site_zone
from offpeak.predictors.feeds.port import FeedProblem, Window
from offpeak.predictors.feeds.registry import carbon_feed, input_feeds, price_feed
from offpeak.predictors.price_forecast import PriceSource
from offpeak.prices.layout import parse_file_and_layout
from offpeak.prices.tariff import Tariff, check_market
from offpeak.prices.tariff_file import is_file, site_tariff
from offpeak.settings.replay import CarbonSettings, FeedSettings, PriceSettings

TARIFF = "tariff"
EUROPEAN, AMERICAN = ("energy-charts", "nord-pool"), ("us-markets",)


_ENTSOE = ("entsoe", "entsoe-py", "feeds-entsoe")
LIBRARIES = {
    "entso-e": _ENTSOE,
    "entso-e-load": _ENTSOE,
    "entso-e-wind-solar": _ENTSOE,
    "us-markets": ("gridstatus", "gridstatus", "feeds-us"),
}
"""The module, the package and the extra of each source that has a library of its own."""


def check_libraries(feeds: FeedSettings) -> None:
    """Raise BadInput where the settings name a source whose library is missing.

    For commands that answer once: the agent uses the next source, or the tariff, and reports the missing library.
    """
    for setting, names in (("prices", feeds.prices), ("inputs", feeds.inputs)):
        for name in names or ():
            module, package, extra = LIBRARIES.get(name, ("", "", ""))
            if module and find_spec(module) is None:
                raise missing_extra(f"feeds.{setting}: {name}", extra, package)


def build_price_feed(feeds: FeedSettings, prices: PriceSettings) -> Feed:
    """Return the feed of the settings, else of the zone, else the file or the tariff. Raises BadSetting."""
    tariff = _file_tariff(prices, site_zone(feeds.zone))
    names = feeds.prices or _usual(feeds, prices)
    if tariff and not tariff.follows_market and not feeds.prices and not prices.file:
        # The zone is also that of the carbon intensity.
        names = (TARIFF,)
        feeds = replace(feeds, currency=tariff.currency)
    feed = price_feed(replace(feeds, prices=names), prices)
    assert feed is not None
    if tariff:
        check_market(tariff, has_prices=names != (TARIFF,))
    if tariff and feed.quantity.unit != f"{tariff.currency}/MWh":
        hint = f'write currency = "{tariff.currency}" below [feeds], or the tariff in the currency of the feed'
        raise BadSetting(f"{tariff.text}: is in {tariff.currency}, and the feed in {feed.quantity.unit}", hint=hint)
    return feed


def _file_tariff(prices: PriceSettings, zone: tzinfo) -> Tariff | None:
    """Return the tariff of a file, None for a rule of two prices, which the known prices replace."""
    return site_tariff(prices.tariff, zone) if prices.tariff and is_file(prices.tariff) else None


def build_price_source(feeds: FeedSettings, prices: PriceSettings) -> tuple[PriceSource, tzinfo]:
    """Return the source of known and forecast prices, and its days' time zone. Raises BadInput like `feed_of`."""
    feed = build_price_feed(feeds, prices)
    zone = site_zone(feeds.zone)
    holidays = find_market(feeds.zone).country if feeds.zone else ""
    own = any(source.own for source in feed.sources)
    # The values of an input before they were revised are in the model alone.
    inputs = tuple((each.cache.stem, each) for _, each in input_feeds(feeds))
    model = None if own and not inputs else feed.cache.with_suffix(".npz")
    tariff = site_tariff(prices.tariff, zone)
    if not tariff.follows_market:
        return PriceSource(feed, tariff, model, holidays, inputs), zone
    behind = replace(site_tariff(None, zone), currency=tariff.currency)
    return PriceSource(feed, behind, model, holidays, inputs, tariff), zone


def _usual(feeds: FeedSettings, prices: PriceSettings) -> tuple[str, ...]:
    if feeds.zone is not None:
        return EUROPEAN if find_market(feeds.zone).entsoe else AMERICAN
    return ("file",) if prices.file else (TARIFF,)


FILES = (".csv", ".gz")


def build_carbon_source(feeds: FeedSettings, carbon: CarbonSettings) -> Feed | float | None:
    """Return the feed, the figure [g/kWh], or None if the settings name nothing. Raises BadInput for what cannot be."""
    if feeds.carbon is None and carbon.source is not None:
        if parse_file_and_layout(carbon.source)[0].suffix not in FILES:
            return parse_carbon_g_per_kwh(carbon.source)
        feeds = replace(feeds, carbon=("file",))
    return carbon_feed(feeds, carbon)


def carbon_series(
    source: Feed | float | None, window: Window, now_s: int
) -> tuple[Series | None, tuple[FeedProblem, ...]]:
    """Return the known intensity over a window, and the problems. May query a service."""
    if source is None:
        return None, ()
    if isinstance(source, Feed):
        known = source.known(window, now_s)
        return known.series, known.problems
    start_s = np.array([window.from_s], np.int64)
    return Series(start_s, window.until_s, np.array([source]), "g/kWh", "declared"), ()
