"""Day-ahead prices of European bidding zones from Energy-Charts (Fraunhofer ISE): public, no key.

Answers as https://api.energy-charts.info documents /price: unix_seconds, price and unit; the zone is not repeated.
"""

from dataclasses import dataclass

from pydantic import FiniteFloat

from offpeak.display import utc_minute_text
from offpeak.errors import BadInput
from offpeak.model.units import parse_price_unit
from predictors.feeds.port import FeedCondition, FeedProblem, SourceAnswer, Window, build_series
from predictors.feeds.web import TIMEOUT_S, AnswerShape, HttpRequest, get_json


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
