"""Weather from Open-Meteo: the forecast and the recent past, or the archive; public, no key.

Shapes after its documentation of /v1/forecast and /v1/archive. The forecast reaches 92 days back and 16 ahead.
"""

from dataclasses import dataclass

from pydantic import ConfigDict, Field, FiniteFloat

from offpeak.display import utc_minute_text
from offpeak.model.constants import HOUR_S
from offpeak.predictors.feeds.port import (
    OUTSIDE_TEMPERATURE,
    FeedCondition,
    FeedProblem,
    FeedQuantity,
    SourceAnswer,
    Window,
    build_series,
)
from offpeak.predictors.feeds.web import TIMEOUT_S, AnswerShape, HttpRequest, get_json

FORECAST_URL = "https://api.open-meteo.com/v1/forecast"
ARCHIVE_URL = "https://archive-api.open-meteo.com/v1/archive"
# It answers for the nearest point of its grid.
GRID_DEGREES = 1.0


@dataclass(frozen=True)
class WeatherVariable:
    """A column of the answer and its unit there; a value holds for an hour that begins `early_s` before its time."""

    column: str
    answer_unit: str
    quantity: FeedQuantity
    early_s: int = 0


TEMPERATURE = WeatherVariable("temperature_2m", "°C", OUTSIDE_TEMPERATURE)
WIND_AT_120_M = WeatherVariable("wind_speed_120m", "m/s", FeedQuantity("m/s", 0.0, 75.0, final=False))
# Radiation is the mean of the hour before its time; above the atmosphere it is 1361 W/m2.
SUNSHINE = WeatherVariable(
    "shortwave_radiation", "W/m²", FeedQuantity("W/m2", 0.0, 1400.0, final=False), early_s=HOUR_S
)


class WeatherColumns(AnswerShape):
    """The times [Unix s] and the values of each column beside them."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, tuple[FiniteFloat | None, ...]] = Field(init=False)

    time: tuple[int, ...]


class WeatherAnswer(AnswerShape):
    """What is used of the answer."""

    latitude: float
    longitude: float
    utc_offset_seconds: int
    hourly_units: dict[str, str]
    hourly: WeatherColumns


@dataclass(frozen=True)
class OpenMeteo:
    """The weather at a place, in degrees north and east."""

    latitude: float
    longitude: float
    url: str = FORECAST_URL
    timeout_s: float = TIMEOUT_S
    name: str = "open-meteo"
    variable: WeatherVariable = TEMPERATURE
    own: bool = False

    def fetch(self, window: Window) -> SourceAnswer:
        """Return the hours of all UTC days that the window touches."""
        query = {"latitude": f"{self.latitude}", "longitude": f"{self.longitude}", "hourly": self.variable.column}
        first_s, last_s = (edge_s + self.variable.early_s for edge_s in (window.from_s, window.until_s - 1))
        days = {"start_date": utc_minute_text(first_s)[:10], "end_date": utc_minute_text(last_s)[:10]}
        form = {"timeformat": "unixtime", "timezone": "UTC", "wind_speed_unit": "ms"}
        ask = HttpRequest(self.name, self.url, query | days | form, timeout_s=self.timeout_s)
        answer = get_json(ask, WeatherAnswer)
        return answer if isinstance(answer, FeedProblem) else self._series(answer)

    def _series(self, answer: WeatherAnswer) -> SourceAnswer:
        if answer.utc_offset_seconds:
            return FeedProblem(
                FeedCondition.SHIFTED_CLOCK, self.name, f"its times are {answer.utc_offset_seconds} s off UTC"
            )
        wanted, unit = self.variable, answer.hourly_units.get(self.variable.column, "")
        if unit != wanted.answer_unit:
            return FeedProblem(FeedCondition.WRONG_CURRENCY, self.name, f"in {unit[:9]!r}, not {wanted.answer_unit}")
        away = max(abs(answer.latitude - self.latitude), abs(answer.longitude - self.longitude))
        if away > GRID_DEGREES:
            return FeedProblem(FeedCondition.WRONG_ZONE, self.name, f"answers for a place {away:.1f} degrees away")
        start_s = [time_s - wanted.early_s for time_s in answer.hourly.time]
        values = answer.hourly.__pydantic_extra__.get(wanted.column, ())
        return build_series(self.name, wanted.quantity.unit, start_s, values)
