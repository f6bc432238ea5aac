"""Day-ahead prices of European bidding zones from Energy-Charts (Fraunhofer ISE): public, no key.

Answers as https://api.energy-charts.info documents /price: unix_seconds, price and unit; the zone is not repeated.
"""

from dataclasses import dataclass

import numpy as np
from pydantic import FiniteFloat

from offpeak.errors import BadInput
from offpeak.model.units import parse_price_unit
from predictors.feeds.condition import Condition, Trouble
from predictors.feeds.json_answer import Shape, get_json
from predictors.feeds.port import Answer, Window
from predictors.feeds.rows import series_of
from predictors.feeds.web import TIMEOUT_S, Ask


class Prices(Shape):
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

    def fetch(self, window: Window) -> Answer:
        """Return the zone's prices around the window."""
        query = {"bzn": self.zone, "start": utc_text(window.from_s), "end": utc_text(window.until_s)}
        answer = get_json(Ask(self.name, f"{self.url}/price", query, timeout_s=self.timeout_s), Prices)
        if isinstance(answer, Trouble):
            return answer
        try:
            unit, factor = parse_price_unit(answer.unit.replace(" ", ""))
        except BadInput:
            return Trouble(Condition.WRONG_CURRENCY, self.name, f"answers in {answer.unit[:20]!r}")
        prices = [None if price is None else price * factor for price in answer.price]
        return series_of(self.name, unit, answer.unix_seconds, prices)


def utc_text(unix_s: int) -> str:
    """Return an instant as 2024-11-04T23:00Z."""
    return str(np.datetime64(unix_s, "s"))[:16] + "Z"
