"""Marginal carbon intensity from WattTime: the forecast of a grid region. Needs a login.

Shapes after the documentation of /login and /v3/forecast. A marginal intensity (MOER) is that of the power plants that
follow the load: it says what a shifted job saves, and is not the mean of all electricity.
"""

from base64 import b64encode
from dataclasses import dataclass
from typing import Literal

from pydantic import AwareDatetime, Field, FiniteFloat

from offpeak.predictors.feeds.port import FeedCondition, FeedProblem, SourceAnswer, Window, build_series
from offpeak.predictors.feeds.web import TIMEOUT_S, AnswerShape, HttpRequest, KeyLocation, get_json, read_key

G_PER_KWH_OF_LB_PER_MWH = 453.59237 / 1000
SIGNAL = "co2_moer"
HORIZON_HOURS = "72"
"""The longest forecast that the service gives."""


class Token(AnswerShape):
    """The answer to a login. It holds for half an hour."""

    token: str = Field(min_length=1)


class Meta(AnswerShape):
    """What the values are."""

    region: str
    signal_type: Literal["co2_moer"]
    units: Literal["lbs_co2_per_mwh"]


class Point(AnswerShape):
    """The intensity from that time on [lb/MWh]."""

    point_time: AwareDatetime
    value: FiniteFloat


class Forecast(AnswerShape):
    """What is used of the answer."""

    meta: Meta
    data: tuple[Point, ...]


@dataclass(frozen=True)
class WattTime:
    """The marginal intensity of one region, by its name there ("CAISO_NORTH"). The key is "user:password"."""

    region: str
    key: KeyLocation
    url: str = "https://api.watttime.org"
    timeout_s: float = TIMEOUT_S
    name: str = "watttime"
    own: bool = False

    def fetch(self, window: Window) -> SourceAnswer:  # noqa: ARG002
        """Return the forecast from now on, in steps of five minutes: the service chooses its begin."""
        login = read_key(self.key, self.name)
        if isinstance(login, FeedProblem):
            return login
        token = get_json(self._ask("login", {}, f"Basic {b64encode(login.encode()).decode()}"), Token)
        if isinstance(token, FeedProblem):
            return token
        query = {"region": self.region, "signal_type": SIGNAL, "horizon_hours": HORIZON_HOURS}
        answer = get_json(self._ask("v3/forecast", query, f"Bearer {token.token}"), Forecast)
        if isinstance(answer, FeedProblem):
            return answer
        if answer.meta.region != self.region:
            other = f"answers for {answer.meta.region[:20]!r}, asked for {self.region}"
            return FeedProblem(FeedCondition.WRONG_ZONE, self.name, other)
        times = [round(point.point_time.timestamp()) for point in answer.data]
        return build_series(self.name, "g/kWh", times, [point.value * G_PER_KWH_OF_LB_PER_MWH for point in answer.data])

    def _ask(self, path: str, query: dict[str, str], authorization: str) -> HttpRequest:
        return HttpRequest(self.name, f"{self.url}/{path}", query, {"Authorization": authorization}, self.timeout_s)
