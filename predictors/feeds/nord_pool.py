"""Day-ahead prices from Nord Pool's data portal: public, no key, one delivery day an answer, some two months back."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from pydantic import AwareDatetime, FiniteFloat

from predictors.feeds.port import FeedCondition, FeedProblem, SourceAnswer, Window, build_series
from predictors.feeds.web import TIMEOUT_S, AnswerShape, HttpRequest, get_json

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
        for day in _days(window):
            answer = self._day(day)
            if isinstance(answer, FeedProblem) and answer.condition is FeedCondition.NOT_YET_PUBLISHED and entries:
                break
            if isinstance(answer, FeedProblem):
                return answer
            entries += answer.multiAreaEntries
        return self._series(entries)

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

    def _series(self, entries: list[NordPoolEntry]) -> SourceAnswer:
        start_s = [round(entry.deliveryStart.timestamp()) for entry in entries]
        end_s = np.array([round(entry.deliveryEnd.timestamp()) for entry in entries], np.int64)
        prices = [entry.entryPerArea[self.area] for entry in entries]
        return build_series(self.name, f"{self.currency}/MWh", start_s, prices, length_s=end_s - start_s)


def _days(window: Window) -> list[date]:
    first = datetime.fromtimestamp(window.from_s, UTC).astimezone(DAYS_OF).date()
    last = datetime.fromtimestamp(window.until_s - 1, UTC).astimezone(DAYS_OF).date()
    return [first + timedelta(days=i) for i in range((last - first).days + 1)]
