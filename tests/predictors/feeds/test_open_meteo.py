"""Open-Meteo's answers: the hours of the UTC days, and those of another place, unit or clock."""

import pytest

from predictors.feeds.open_meteo import OpenMeteo
from predictors.feeds.port import FeedCondition, Window

WINDOW = Window(1_730_678_400, 1_730_678_400 + 48 * 3600)


def fetched(player):
    return OpenMeteo(52.5, 13.4, player.url, timeout_s=5).fetch(WINDOW)


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
