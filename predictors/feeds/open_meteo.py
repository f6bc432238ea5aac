"""Outside temperature from Open-Meteo: the forecast and the recent past, or the archive; public, no key.

Shapes after its documentation of /v1/forecast and /v1/archive. The forecast reaches some 90 days back and 16 ahead.
"""

from dataclasses import dataclass

from pydantic import FiniteFloat

from predictors.feeds.energy_charts import format_utc
from predictors.feeds.port import FeedCondition, FeedProblem, SourceAnswer, Window, build_series
from predictors.feeds.web import TIMEOUT_S, AnswerShape, HttpRequest, get_json

FORECAST_URL = "https://api.open-meteo.com/v1/forecast"
ARCHIVE_URL = "https://archive-api.open-meteo.com/v1/archive"
# It answers for the nearest point of its grid.
GRID_DEGREES = 1.0


class WeatherUnits(AnswerShape):
    """Units of the columns."""

    temperature_2m: str


class WeatherColumns(AnswerShape):
    """Start of each hour [Unix s] and its temperature."""

    time: tuple[int, ...]
    temperature_2m: tuple[FiniteFloat | None, ...]


class WeatherAnswer(AnswerShape):
    """What is used of the answer."""

    latitude: float
    longitude: float
    utc_offset_seconds: int
    hourly_units: WeatherUnits
    hourly: WeatherColumns


@dataclass(frozen=True)
class OpenMeteo:
    """Air temperature two metres above ground [degC] at a place, in degrees north and east."""

    latitude: float
    longitude: float
    url: str = FORECAST_URL
    timeout_s: float = TIMEOUT_S
    name: str = "open-meteo"
    own: bool = False

    def fetch(self, window: Window) -> SourceAnswer:
        """Return the hours of all UTC days that the window touches."""
        query = {"latitude": f"{self.latitude}", "longitude": f"{self.longitude}", "hourly": "temperature_2m"}
        days = {"start_date": format_utc(window.from_s)[:10], "end_date": format_utc(window.until_s - 1)[:10]}
        clock = {"timeformat": "unixtime", "timezone": "UTC"}
        answer = get_json(
            HttpRequest(self.name, self.url, query | days | clock, timeout_s=self.timeout_s), WeatherAnswer
        )
        return answer if isinstance(answer, FeedProblem) else self._series(answer)

    def _series(self, answer: WeatherAnswer) -> SourceAnswer:
        if answer.utc_offset_seconds:
            return FeedProblem(
                FeedCondition.SHIFTED_CLOCK, self.name, f"its times are {answer.utc_offset_seconds} s off UTC"
            )
        if answer.hourly_units.temperature_2m != "°C":
            return FeedProblem(
                FeedCondition.WRONG_CURRENCY, self.name, f"in {answer.hourly_units.temperature_2m[:9]!r}, not °C"
            )
        away = max(abs(answer.latitude - self.latitude), abs(answer.longitude - self.longitude))
        if away > GRID_DEGREES:
            return FeedProblem(FeedCondition.WRONG_ZONE, self.name, f"answers for a place {away:.1f} degrees away")
        return build_series(self.name, "degC", answer.hourly.time, answer.hourly.temperature_2m)
