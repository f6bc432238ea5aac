"""Electricity Maps' answers: what was measured, then the forecast if the plan has it."""

import json

import pytest

from offpeak.predictors.feeds.electricity_maps import ElectricityMaps
from offpeak.predictors.feeds.port import FeedCondition, Window
from offpeak.predictors.feeds.web import KeyLocation

WINDOW = Window(1_730_674_800, 1_730_674_800 + 48 * 3600)


@pytest.fixture
def source(player, key_file) -> ElectricityMaps:
    return ElectricityMaps("DE", KeyLocation("ELECTRICITY_MAPS_TOKEN", key_file), player.url, timeout_s=5)


@pytest.fixture
def plays(player, reply, answer):
    def of(*, history=None, forecast=None):
        bodies = {"history": answer("electricity_maps_history"), "forecast": answer("electricity_maps_forecast")}
        changed = {"history": history, "forecast": forecast}

        def by_path(path, _):
            which = path.rpartition("/")[2]
            other = changed[which]
            return (
                reply(status=other)
                if isinstance(other, int)
                else reply(json.dumps(bodies[which] | (other or {})).encode())
            )

        player.reply = by_path

    return of


def test_history_and_forecast(player, plays, source, answer):
    plays()
    series = source.fetch(WINDOW)
    assert (int(series.start_s[0]), series.end_s, len(series), series.unit) == (*WINDOW, 48, "g/kWh")
    assert series.value[23] == answer("electricity_maps_history")["history"][23]["carbonIntensity"]
    assert [headers["auth-token"] for *_, headers in player.requests] == ["the-secret-key"] * 2
    assert "the-secret-key" not in repr(source)


def test_a_plan_without_the_forecast(plays, source):
    plays(forecast=403)
    assert source.fetch(WINDOW).end_s == WINDOW.from_s + 24 * 3600


@pytest.mark.parametrize(
    ("history", "condition"),
    [
        (401, FeedCondition.KEY_REFUSED),
        ({"zone": "FR"}, FeedCondition.WRONG_ZONE),
        ({"history": [{"carbonIntensity": 3, "datetime": "2024-11-04T00:00:00"}]}, FeedCondition.GARBAGE),
    ],
)
def test_other_answers(plays, source, history, condition):
    plays(history=history)
    assert source.fetch(WINDOW).condition is condition


def test_no_key(player):
    assert ElectricityMaps("DE", KeyLocation("NOT_SET"), player.url).fetch(WINDOW).condition is FeedCondition.NO_KEY
    assert not player.requests
