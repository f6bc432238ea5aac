"""How much CO2 a kilowatt-hour stands for, as a site's settings say: one figure, a file, or a feed."""

from dataclasses import replace

import numpy as np

from offpeak.model.step_series import Series
from offpeak.model.units import parse_carbon_g_per_kwh
from offpeak.prices.layout import parse_file_and_layout
from offpeak.settings.feeds import FeedSettings
from offpeak.settings.replay import CarbonSettings
from predictors.feeds.condition import Trouble
from predictors.feeds.feed import Feed
from predictors.feeds.port import Window
from predictors.feeds.registry import carbon_feed

FILES = (".csv", ".gz")


def carbon_of(feeds: FeedSettings, carbon: CarbonSettings) -> Feed | float | None:
    """Return the feed, the figure [g/kWh], or None where the settings name nothing; BadInput for what cannot be."""
    if feeds.carbon is None and carbon.source is not None:
        if parse_file_and_layout(carbon.source)[0].suffix not in FILES:
            return parse_carbon_g_per_kwh(carbon.source)
        feeds = replace(feeds, carbon=("file",))
    return carbon_feed(feeds, carbon)


def carbon_series(source: Feed | float | None, window: Window, now_s: int) -> tuple[Series | None, tuple[Trouble, ...]]:
    """Return the intensity over a window as far as it is known, and what was wrong. It may ask a service."""
    if source is None:
        return None, ()
    if isinstance(source, Feed):
        known = source.known(window, now_s)
        return known.series, known.troubles
    start_s = np.array([window.from_s], np.int64)
    return Series(start_s, window.until_s, np.array([source]), "g/kWh", "declared"), ()
