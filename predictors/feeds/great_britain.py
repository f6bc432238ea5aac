"""Carbon intensity of Great Britain from its system operator: estimates of the past, and a forecast of two days.

Shapes after the documentation at carbonintensity.org.uk: half hours, g CO2 per kWh. No key is needed.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import AwareDatetime, Field, FiniteFloat

from offpeak.model.constants import DAY_S
from offpeak.predictors.feeds.port import FeedProblem, SourceAnswer, Window, build_series
from offpeak.predictors.feeds.web import TIMEOUT_S, AnswerShape, HttpRequest, get_json

MOST_S = 14 * DAY_S
"""A request for a longer time is refused."""


class Intensity(AnswerShape):
    """The intensity [g/kWh]: `actual` is unknown until the half hour is over."""

    forecast: FiniteFloat | None = None
    actual: FiniteFloat | None = None


class HalfHour(AnswerShape):
    """A half hour."""

    begin: AwareDatetime = Field(alias="from")
    intensity: Intensity


class HalfHours(AnswerShape):
    """What is used of the answer."""

    data: tuple[HalfHour, ...]


@dataclass(frozen=True)
class GreatBritain:
    """The carbon intensity of the whole system."""

    url: str = "https://api.carbonintensity.org.uk"
    timeout_s: float = TIMEOUT_S
    name: str = "great-britain"
    own: bool = False

    def fetch(self, window: Window) -> SourceAnswer:
        """Return the latest days of the window, as far ahead as there is a forecast."""
        begin_s = max(window.from_s, window.until_s - MOST_S)
        begin, end = (
            datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%MZ") for at_s in (begin_s, window.until_s)
        )
        answer = get_json(
            HttpRequest(self.name, f"{self.url}/intensity/{begin}/{end}", {}, {}, self.timeout_s), HalfHours
        )
        if isinstance(answer, FeedProblem):
            return answer
        # The answer begins with the half hour that ends when the window begins.
        rows = {round(each.begin.timestamp()): each.intensity for each in answer.data}
        rows = {at_s: intensity for at_s, intensity in rows.items() if at_s >= begin_s}
        known = [rows[at_s].forecast if rows[at_s].actual is None else rows[at_s].actual for at_s in sorted(rows)]
        return build_series(self.name, "g/kWh", sorted(rows), known)
