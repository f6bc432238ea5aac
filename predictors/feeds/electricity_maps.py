"""Carbon intensity from Electricity Maps: the last 24 hours, and with a plan that has it the forecast. Needs a key.

Shapes after the documentation of /v3/carbon-intensity/history and /forecast: life-cycle g CO2 per kWh, hour by hour.
"""

from dataclasses import dataclass

from pydantic import AwareDatetime, FiniteFloat

from predictors.feeds.condition import Condition, Trouble
from predictors.feeds.json_answer import Shape, get_json
from predictors.feeds.key import KeyPlace, read_key
from predictors.feeds.port import Answer, Window
from predictors.feeds.rows import series_of
from predictors.feeds.web import TIMEOUT_S, Ask


class Hour(Shape):
    """The intensity of the hour that begins then [g/kWh]."""

    carbonIntensity: FiniteFloat | None  # noqa: N815
    datetime: AwareDatetime


class Hours(Shape):
    """What is used of either answer."""

    zone: str
    history: tuple[Hour, ...] = ()
    forecast: tuple[Hour, ...] = ()


@dataclass(frozen=True)
class ElectricityMaps:
    """Carbon intensity of one zone, by its name there ("DE")."""

    zone: str
    key: KeyPlace
    url: str = "https://api.electricitymap.org"
    timeout_s: float = TIMEOUT_S
    name: str = "electricity-maps"
    own: bool = False

    def fetch(self, window: Window) -> Answer:  # noqa: ARG002
        """Return the last 24 hours and, if the plan has it, the forecast: the service chooses the time."""
        key = read_key(self.key, self.name)
        if isinstance(key, Trouble):
            return key
        past, ahead = self._hours("history", key), self._hours("forecast", key)
        if isinstance(past, Trouble):
            return past
        intensity = {} if isinstance(ahead, Trouble) else {hour.datetime: hour.carbonIntensity for hour in ahead}
        # What was measured stands above what was forecast.
        intensity |= {hour.datetime: hour.carbonIntensity for hour in past}
        times = sorted(intensity)
        return series_of(self.name, "g/kWh", [round(t.timestamp()) for t in times], [intensity[t] for t in times])

    def _hours(self, which: str, key: str) -> tuple[Hour, ...] | Trouble:
        url = f"{self.url}/v3/carbon-intensity/{which}"
        answer = get_json(Ask(self.name, url, {"zone": self.zone}, {"auth-token": key}, self.timeout_s), Hours)
        if isinstance(answer, Trouble):
            return answer
        if answer.zone != self.zone:
            return Trouble(Condition.WRONG_ZONE, self.name, f"answers for {answer.zone[:20]!r}, asked for {self.zone}")
        return answer.history or answer.forecast
