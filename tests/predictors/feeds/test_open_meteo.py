"""Open-Meteo's answers: the hours of the UTC days, and those of another place, unit or clock."""

from dataclasses import replace

import numpy as np
import pytest

from offpeak.model.step_series import value_at
from offpeak.predictors.feeds.open_meteo import SUNSHINE, TEMPERATURE, WIND_AT_120_M, OpenMeteo
from offpeak.predictors.feeds.port import FeedCondition, Window
from offpeak.predictors.feeds.registry import input_feeds
from offpeak.settings.replay import FeedSettings

WINDOW = Window(1_730_678_400, 1_730_678_400 + 48 * 3600)


HOUR = 3600


def fetched(player, variable=TEMPERATURE, window=WINDOW):
    return OpenMeteo(52.5, 13.4, player.url, timeout_s=5, variable=variable).fetch(window)


def column(variable, values, *, first_s=WINDOW.from_s):
    """Return the parts of an answer about one column, hour by hour."""
    times = [first_s + hour * HOUR for hour in range(len(values))]
    units = {"time": "unixtime", variable.column: variable.answer_unit}
    return {"hourly_units": units, "hourly": {"time": times, variable.column: values}}


def test_a_good_answer(player, answer):
    player.plays_json(answer("open_meteo"))
    series = fetched(player)
    assert (int(series.start_s[0]), series.end_s, len(series), series.unit) == (*WINDOW, 48, "degC")
    query = player.requests[0][1]
    assert (query["start_date"], query["end_date"]) == ("2024-11-04", "2024-11-05")
    assert (query["timeformat"], query["timezone"], query["hourly"]) == ("unixtime", "UTC", "temperature_2m")


@pytest.mark.parametrize(
    ("other", "condition"),
    [
        ({"utc_offset_seconds": 3600}, FeedCondition.SHIFTED_CLOCK),
        ({"hourly_units": {"temperature_2m": "°F"}}, FeedCondition.WRONG_CURRENCY),
        ({"latitude": 48.1}, FeedCondition.WRONG_ZONE),
        ({"hourly": {"time": ["2024-11-04T00:00"], "temperature_2m": [1.0]}}, FeedCondition.GARBAGE),
        ({"hourly": {"time": [], "temperature_2m": []}}, FeedCondition.NOT_YET_PUBLISHED),
    ],
)
def test_other_answers(player, answer, other, condition):
    player.plays_json(answer("open_meteo") | other)
    assert fetched(player).condition is condition


def test_wind_speed_in_metres_per_second(player, answer):
    player.plays_json(answer("open_meteo") | column(WIND_AT_120_M, [5, 7.5, None, 9.0]))
    series = fetched(player, WIND_AT_120_M)
    assert (series.unit, series.start_s[0]) == ("m/s", WINDOW.from_s)
    assert series.gaps() == ((WINDOW.from_s + 2 * HOUR, WINDOW.from_s + 3 * HOUR),)
    query = player.requests[0][1]
    assert (query["hourly"], query["wind_speed_unit"]) == ("wind_speed_120m", "ms")


def test_radiation_holds_for_the_hour_before_its_time(player, answer):
    values = [float(hour) for hour in range(72)]
    player.plays_json(answer("open_meteo") | column(SUNSHINE, values))
    series = fetched(player, SUNSHINE)
    assert (series.unit, int(series.start_s[0]), series.end_s) == (
        "W/m2",
        WINDOW.from_s - HOUR,
        WINDOW.from_s + 71 * HOUR,
    )
    assert value_at(series, np.array([WINDOW.from_s])).tolist() == [1.0]
    query = player.requests[0][1]
    # The last hour of the window has its value at midnight, which begins the next day.
    assert (query["start_date"], query["end_date"]) == ("2024-11-04", "2024-11-06")
    fetched(player, SUNSHINE, Window(WINDOW.from_s + 23 * HOUR, WINDOW.from_s + 30 * HOUR))
    query = player.requests[1][1]
    assert (query["start_date"], query["end_date"]) == ("2024-11-05", "2024-11-05")


@pytest.mark.parametrize("variable", [WIND_AT_120_M, SUNSHINE])
@pytest.mark.parametrize(
    ("change", "condition"),
    [
        ({"hourly_units": {}}, FeedCondition.WRONG_CURRENCY),
        ({"hourly_units": {"wind_speed_120m": "km/h", "shortwave_radiation": "MJ/m²"}}, FeedCondition.WRONG_CURRENCY),
        ({"hourly": {"time": [WINDOW.from_s, WINDOW.from_s + HOUR], "other": [1.0, 2.0]}}, FeedCondition.GARBAGE),
        ({"hourly": {"time": [], "wind_speed_120m": [], "shortwave_radiation": []}}, FeedCondition.NOT_YET_PUBLISHED),
        ({"hourly": {"time": [1], "wind_speed_120m": ["5"], "shortwave_radiation": ["5"]}}, FeedCondition.GARBAGE),
        ({"latitude": 48.1}, FeedCondition.WRONG_ZONE),
    ],
)
def test_other_answers_about_other_variables(player, answer, variable, change, condition):
    player.plays_json(answer("open_meteo") | column(variable, [1.0, 2.0]) | change)
    assert fetched(player, variable).condition is condition


def test_a_slow_or_empty_answer_about_the_wind(player, reply):
    player.plays(reply(b""))
    assert fetched(player, WIND_AT_120_M).condition is FeedCondition.GARBAGE
    player.plays(reply(hangs=True))
    slow = OpenMeteo(52.5, 13.4, player.url, timeout_s=0.2, variable=WIND_AT_120_M)
    assert slow.fetch(WINDOW).condition is FeedCondition.HANGING


def test_a_night_without_sun_through_its_feed(player, answer, tmp_path):
    ((_, made),) = input_feeds(FeedSettings(inputs=("open-meteo-sun",), place="52.5,13.4", cache=tmp_path))
    feed = replace(made, sources=(replace(made.sources[0], url=player.url),))
    player.plays_json(answer("open_meteo") | column(SUNSHINE, [0.0] * 72))
    known = feed.known(WINDOW, WINDOW.from_s)
    assert (known.basis, known.problems, set(known.series.value.tolist())) == ("published", (), {0.0})
    player.plays_json(answer("open_meteo") | column(SUNSHINE, [0.0] * 71 + [2000.0]))
    assert [problem.condition for problem in feed.known(WINDOW, WINDOW.from_s).problems] == [FeedCondition.IMPLAUSIBLE]
    far = Window(WINDOW.from_s - 365 * 24 * HOUR, WINDOW.until_s + 365 * 24 * HOUR)
    feed.known(far, WINDOW.from_s)
    query = player.requests[-1][1]
    assert (query["start_date"], query["end_date"]) == ("2024-08-06", "2024-11-18")
