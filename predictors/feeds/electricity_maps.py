"""Carbon intensity from Electricity Maps: the last 24 hours, and with a plan that has it the forecast. Needs a key.

Shapes after the documentation of /v3/carbon-intensity/history and /forecast: life-cycle g CO2 per kWh, hour by hour.
"""

from dataclasses import dataclass

from pydantic import AwareDatetime, FiniteFloat

from offpeak.predictors.feeds.port import FeedCondition, FeedProblem, SourceAnswer, Window, build_series
from offpeak.predictors.feeds.web import TIMEOUT_S, AnswerShape, HttpRequest, KeyLocation, get_json, read_key


class IntensityHour(AnswerShape):
    """The intensity of the hour that begins then [g/kWh]."""

    carbonIntensity: FiniteFloat | None  # noqa: N815
    datetime: AwareDatetime


class IntensityHours(AnswerShape):
    """What is used of either answer."""

    zone: str
    history: tuple[IntensityHour, ...] = ()
    forecast: tuple[IntensityHour, ...] = ()


@dataclass(frozen=True)
class ElectricityMaps:
    """Carbon intensity of one zone, by its name there ("DE")."""

    zone: str
    key: KeyLocation
    url: str = "https://api.electricitymap.org"
    timeout_s: float = TIMEOUT_S
    name: str = "electricity-maps"
    own: bool = False

    def fetch(self, window: Window) -> SourceAnswer:  # noqa: ARG002
        """Return the last 24 hours and, if the plan has it, the forecast: the service chooses the time."""
        key = read_key(self.key, self.name)
        if isinstance(key, FeedProblem):
            return key
        past, ahead = self._hours("history", key), self._hours("forecast", key)
        if isinstance(past, FeedProblem):
            return past
        intensity = {} if isinstance(ahead, FeedProblem) else {hour.datetime: hour.carbonIntensity for hour in ahead}
        # Measured values take precedence over forecasts.
        intensity |= {hour.datetime: hour.carbonIntensity for hour in past}
        times = sorted(intensity)
        return build_series(self.name, "g/kWh", [round(t.timestamp()) for t in times], [intensity[t] for t in times])

    def _hours(self, which: str, key: str) -> tuple[IntensityHour, ...] | FeedProblem:
        url = f"{self.url}/v3/carbon-intensity/{which}"
        answer = get_json(
            HttpRequest(self.name, url, {"zone": self.zone}, {"auth-token": key}, self.timeout_s), IntensityHours
        )
        if isinstance(answer, FeedProblem):
            return answer
        if answer.zone != self.zone:
            return FeedProblem(
                FeedCondition.WRONG_ZONE, self.name, f"answers for {answer.zone[:20]!r}, asked for {self.zone}"
            )
        return answer.history or answer.forecast
