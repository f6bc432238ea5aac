"""Day-ahead prices of American markets, through gridstatus, which knows each market's own files. Extra `feeds-us`.

Written against the signatures of gridstatus 0.37. It brings pandas, which ends in this file.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from predictors.feeds.port import FeedCondition, FeedProblem, SourceAnswer, Window, build_series

# What gridstatus calls the markets, and the column that holds the price [USD/MWh].
CLASSES = {"CAISO": "CAISO", "ERCOT": "Ercot", "ISONE": "ISONE", "MISO": "MISO", "NYISO": "NYISO", "PJM": "PJM"}
PRICE = {"ERCOT": "SPP"}


@dataclass(frozen=True)
class UsMarket:
    """Prices of one hub or load zone of a market, by its name there; PJM's key is what gridstatus finds."""

    market: str
    place: str
    name: str = "us-markets"
    own: bool = False

    def fetch(self, window: Window) -> SourceAnswer:
        """Return the place's prices around the window. Without time-outs of its own: the feed stops waiting."""
        if self.market not in CLASSES:
            return FeedProblem(FeedCondition.WRONG_ZONE, self.name, f"{self.market} is no American market")
        try:
            gridstatus, pandas = import_module("gridstatus"), import_module("pandas")
        except ImportError:
            return FeedProblem(FeedCondition.NOT_INSTALLED, self.name, "it needs gridstatus", extra="feeds-us")
        market = getattr(gridstatus, CLASSES[self.market])()
        ask = market.get_spp if self.market == "ERCOT" else market.get_lmp
        start, end = (
            pandas.Timestamp(edge_s, unit="s", tz="UTC").tz_convert(market.default_timezone) for edge_s in window
        )
        rows = ask(date=start, end=end, market="DAY_AHEAD_HOURLY", locations=[self.place])
        return self.series(rows[rows["Location"] == self.place])

    def series(self, rows: Any) -> SourceAnswer:
        """Return the rows of one place (columns "Interval Start" and the price) as a series."""
        if len(rows) == 0:
            return FeedProblem(FeedCondition.WRONG_ZONE, self.name, f"{self.market} has no row of {self.place}")
        ordered = rows.sort_values("Interval Start")
        start_s = [round(time.timestamp()) for time in ordered["Interval Start"]]
        values = [None if price != price else float(price) for price in ordered[PRICE.get(self.market, "LMP")]]
        return build_series(self.name, "USD/MWh", start_s, values)
