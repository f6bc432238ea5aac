"""Where a site's prices come from, as its settings say: the feed, and the tariff behind it."""

from dataclasses import replace
from datetime import tzinfo
from importlib.util import find_spec

from offpeak.installation import missing_extra
from offpeak.model.local_time import machine_zone
from offpeak.prices.tariff import site_tariff
from offpeak.settings.feeds import FeedSettings
from offpeak.settings.replay import PriceSettings
from predictors.feeds.feed import Feed
from predictors.feeds.markets import market_of
from predictors.feeds.registry import price_feed
from predictors.price_forecast import PriceSource

EUROPEAN, AMERICAN = ("energy-charts", "nord-pool"), ("us-markets",)


LIBRARIES = {"entso-e": ("entsoe", "entsoe-py", "feeds-entsoe"), "us-markets": ("gridstatus", "gridstatus", "feeds-us")}
"""The module, the package and the extra of each source that has a library of its own."""


def check_libraries(feeds: FeedSettings) -> None:
    """Raise BadInput where the settings name a source whose library is missing.

    For commands that answer once. The agent goes on by the next source, or the tariff, and names what is missing.
    """
    for name in feeds.prices or ():
        module, package, extra = LIBRARIES.get(name, ("", "", ""))
        if module and find_spec(module) is None:
            raise missing_extra(f"feeds.prices: {name}", extra, package)


def feed_of(feeds: FeedSettings, prices: PriceSettings) -> Feed:
    """Return the feed of the settings; where they name no source, what the zone's is, else the file or the tariff.

    BadSetting for what cannot be.
    """
    names = feeds.prices or _usual(feeds, prices)
    feed = price_feed(replace(feeds, prices=names), prices)
    assert feed is not None
    return feed


def source_of(feeds: FeedSettings, prices: PriceSettings) -> tuple[PriceSource, tzinfo]:
    """Return what prices are known or forecast from, and on whose clock their days begin; BadInput as `feed_of`."""
    feed = feed_of(feeds, prices)
    zone = feed.clock if feeds.zone else machine_zone()
    holidays = market_of(feeds.zone).country if feeds.zone else ""
    own = any(each.own for each in feed.sources)
    model = None if own else feed.cache.with_suffix(".npz")
    return PriceSource(feed, site_tariff(prices.tariff, zone), model, holidays), zone


def _usual(feeds: FeedSettings, prices: PriceSettings) -> tuple[str, ...]:
    if feeds.zone is not None:
        return EUROPEAN if market_of(feeds.zone).entsoe else AMERICAN
    return ("file",) if prices.file else ("tariff",)
