"""The answers of Great Britain's system operator: estimates of the past take precedence over forecasts."""

import json

import numpy as np
import pytest

from offpeak.model.constants import DAY_S
from offpeak.predictors.feeds.great_britain import GreatBritain
from offpeak.predictors.feeds.markets import find_market
from offpeak.predictors.feeds.port import FeedCondition, Window
from offpeak.predictors.feeds.registry import SOURCES, SourceSettings
from offpeak.settings.replay import FeedSettings

NOON_S = 1_516_449_600
"""2018-01-20T12:00Z."""


def half_hour(at: str, forecast: int | None, actual: int | None) -> dict:
    return {"from": at, "to": at, "intensity": {"forecast": forecast, "actual": actual, "index": "moderate"}}


ANSWER = [
    half_hour("2018-01-20T11:30Z", 250, 255),
    half_hour("2018-01-20T12:00Z", 266, 263),
    half_hour("2018-01-20T12:30Z", 271, None),
    half_hour("2018-01-20T13:00Z", None, None),
    half_hour("2018-01-20T13:30Z", 280, None),
]


def test_estimates_then_the_forecast(player, reply):
    player.reply = lambda *_: reply(json.dumps({"data": ANSWER}).encode())
    series = GreatBritain(player.url, timeout_s=5).fetch(Window(NOON_S - 30 * DAY_S, NOON_S + 2 * DAY_S))
    assert series.unit == "g/kWh"
    assert (series.start_s[series.start_s >= NOON_S] - NOON_S).tolist() == [0, 1800, 3600, 5400]
    np.testing.assert_array_equal(series.value[series.start_s >= NOON_S], [263, 271, np.nan, 280])
    # A fortnight is the most that it answers.
    assert player.requests[0][0] == "/intensity/2018-01-08T12:00Z/2018-01-22T12:00Z"


def test_a_window_begins_where_it_was_requested(player, reply):
    player.reply = lambda *_: reply(json.dumps({"data": ANSWER}).encode())
    assert GreatBritain(player.url, timeout_s=5).fetch(Window(NOON_S, NOON_S + DAY_S)).start_s[0] == NOON_S


@pytest.mark.parametrize(
    ("body", "condition"),
    [
        (b'{"data": []}', FeedCondition.NOT_YET_PUBLISHED),
        (b'{"data": [{"from": "noon", "intensity": {}}]}', FeedCondition.GARBAGE),
        (b'{"error": {"code": "400 Bad Request"}}', FeedCondition.GARBAGE),
    ],
)
def test_other_answers(player, reply, body, condition):
    player.reply = lambda *_: reply(body)
    assert GreatBritain(player.url, timeout_s=5).fetch(Window(NOON_S, NOON_S + DAY_S)).condition is condition


def test_the_settings_name_it():
    source = SOURCES["carbon"]["great-britain"](SourceSettings(FeedSettings(timeout_s=7)))
    assert source == GreatBritain(timeout_s=7)
    assert find_market("GB").clock == "Europe/London"
