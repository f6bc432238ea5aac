"""Day-ahead prices of auctions, without a key: Energy-Charts, Nord Pool, and the American markets.

Energy-Charts (Fraunhofer ISE) answers as https://api.energy-charts.info documents /price: unix_seconds, price and unit;
the zone is not repeated. Nord Pool's data portal has one delivery day an answer, some two months back. American markets
are read through gridstatus (extra `feeds-us`), which knows each market's own files and brings pandas, which ends in
this file; written against the signatures of gridstatus 0.37.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from pydantic import AwareDatetime, FiniteFloat

from offpeak.display import utc_minute_text
from offpeak.errors import BadInput
from offpeak.model.units import parse_price_unit
from offpeak.predictors.feeds.port import FeedCondition, FeedProblem, SourceAnswer, Window, build_series
from offpeak.predictors.feeds.web import TIMEOUT_S, AnswerShape, HttpRequest, get_json


class EnergyChartsAnswer(AnswerShape):
    """What is used of the answer."""

    unix_seconds: tuple[int, ...]
    price: tuple[FiniteFloat | None, ...]
    unit: str


@dataclass(frozen=True)
class EnergyCharts:
    """Prices of one bidding zone, by its name there ("DE-LU")."""

    zone: str
    url: str = "https://api.energy-charts.info"
    timeout_s: float = TIMEOUT_S
    name: str = "energy-charts"
    own: bool = False

    def fetch(self, window: Window) -> SourceAnswer:
        """Return the zone's prices around the window."""
        query = {"bzn": self.zone, "start": utc_minute_text(window.from_s), "end": utc_minute_text(window.until_s)}
        answer = get_json(
            HttpRequest(self.name, f"{self.url}/price", query, timeout_s=self.timeout_s), EnergyChartsAnswer
        )
        if isinstance(answer, FeedProblem):
            return answer
        try:
            unit, factor = parse_price_unit(answer.unit.replace(" ", ""))
        except BadInput:
            return FeedProblem(FeedCondition.WRONG_CURRENCY, self.name, f"answers in {answer.unit[:20]!r}")
        prices = [None if price is None else price * factor for price in answer.price]
        return build_series(self.name, unit, answer.unix_seconds, prices)


DAYS_OF = ZoneInfo("Europe/Brussels")


class NordPoolEntry(AnswerShape):
    """The price of one delivery period in each area [currency/MWh]."""

    deliveryStart: AwareDatetime  # noqa: N815
    deliveryEnd: AwareDatetime  # noqa: N815
    entryPerArea: dict[str, FiniteFloat | None]  # noqa: N815


class AreaState(AnswerShape):
    """Which areas' prices are final."""

    state: str
    areas: tuple[str, ...]


class NordPoolDay(AnswerShape):
    """What is used of the answer for one delivery day."""

    deliveryDateCET: str  # noqa: N815
    market: str
    currency: str
    multiAreaEntries: tuple[NordPoolEntry, ...]  # noqa: N815
    areaStates: tuple[AreaState, ...] = ()  # noqa: N815


@dataclass(frozen=True)
class NordPool:
    """Prices of one delivery area, by its name there ("GER")."""

    area: str
    currency: str
    url: str = "https://dataportal-api.nordpoolgroup.com"
    timeout_s: float = TIMEOUT_S
    name: str = "nord-pool"
    own: bool = False

    def fetch(self, window: Window) -> SourceAnswer:
        """Return the whole delivery days that the window touches, as far as they are published."""
        if not self.area:
            return FeedProblem(FeedCondition.WRONG_ZONE, self.name, "does not publish this zone")
        entries: list[NordPoolEntry] = []
        first = datetime.fromtimestamp(window.from_s, UTC).astimezone(DAYS_OF).date()
        last = datetime.fromtimestamp(window.until_s - 1, UTC).astimezone(DAYS_OF).date()
        for day in [first + timedelta(days=i) for i in range((last - first).days + 1)]:
            answer = self._day(day)
            if isinstance(answer, FeedProblem) and answer.condition is FeedCondition.NOT_YET_PUBLISHED and entries:
                break
            if isinstance(answer, FeedProblem):
                return answer
            entries += answer.multiAreaEntries
        start_s = [round(entry.deliveryStart.timestamp()) for entry in entries]
        end_s = np.array([round(entry.deliveryEnd.timestamp()) for entry in entries], np.int64)
        prices = [entry.entryPerArea[self.area] for entry in entries]
        return build_series(self.name, f"{self.currency}/MWh", start_s, prices, length_s=end_s - start_s)

    def _day(self, day: date) -> NordPoolDay | FeedProblem:
        query = {"date": f"{day}", "market": "DayAhead", "deliveryArea": self.area, "currency": self.currency}
        ask = HttpRequest(self.name, f"{self.url}/api/DayAheadPrices", query, timeout_s=self.timeout_s)
        answer = get_json(ask, NordPoolDay)
        return answer if isinstance(answer, FeedProblem) else self._checked(answer, day)

    def _checked(self, answer: NordPoolDay, day: date) -> NordPoolDay | FeedProblem:
        wrong: FeedCondition | None = None
        midnight = datetime(day.year, day.month, day.day, tzinfo=DAYS_OF)
        if any(self.area in state.areas and state.state != "Final" for state in answer.areaStates):
            wrong = FeedCondition.NOT_YET_PUBLISHED
        elif answer.market != "DayAhead":
            wrong = FeedCondition.WRONG_AUCTION
        elif answer.currency != self.currency:
            wrong = FeedCondition.WRONG_CURRENCY
        elif any(self.area not in entry.entryPerArea for entry in answer.multiAreaEntries):
            wrong = FeedCondition.WRONG_ZONE
        elif answer.deliveryDateCET != f"{day}":
            wrong = FeedCondition.GARBAGE
        elif answer.multiAreaEntries and answer.multiAreaEntries[0].deliveryStart != midnight:
            wrong = FeedCondition.SHIFTED_CLOCK
        return (
            FeedProblem(wrong, self.name, f"the answer for {day} in {self.area}, {self.currency}") if wrong else answer
        )


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
