"""The answers of WattTime: a login, then the forecast of a region in pounds per MWh."""

import json
from base64 import b64encode

import numpy as np
import pytest

from offpeak.errors import BadSetting
from offpeak.model.constants import DAY_S
from offpeak.predictors.feeds.port import FeedCondition, Window
from offpeak.predictors.feeds.registry import SOURCES, SourceSettings
from offpeak.predictors.feeds.watt_time import WattTime
from offpeak.predictors.feeds.web import KeyLocation
from offpeak.settings.replay import FeedSettings

BEGIN_S = 1_777_593_600
"""2026-05-01T00:00Z."""
META = {"region": "CAISO_NORTH", "signal_type": "co2_moer", "units": "lbs_co2_per_mwh", "model": {"date": "2026-03-01"}}
DATA = [
    {"point_time": "2026-05-01T00:00:00+00:00", "value": 1000.0},
    {"point_time": "2026-05-01T00:05:00+00:00", "value": 870.5, "version": "2026-03-01"},
]
WINDOW = Window(BEGIN_S - DAY_S, BEGIN_S + DAY_S)


@pytest.fixture
def source(player, monkeypatch):
    monkeypatch.setenv("WATTTIME_LOGIN", "ann:secret")
    return WattTime("CAISO_NORTH", KeyLocation("WATTTIME_LOGIN"), player.url, 5)


def answers(reply, forecast):
    def answer(path, *_):
        return reply(json.dumps({"token": "abc"} if path.startswith("/login") else forecast).encode())

    return answer


def test_the_forecast_is_in_grams_per_kwh(player, reply, source):
    player.reply = answers(reply, {"meta": META, "data": DATA})
    series = source.fetch(WINDOW)
    assert series.unit == "g/kWh"
    assert series.start_s.tolist()[:2] == [BEGIN_S, BEGIN_S + 300]
    np.testing.assert_allclose(series.value[:2], [453.59237, 394.85216], rtol=1e-6)
    query = {"region": "CAISO_NORTH", "signal_type": "co2_moer", "horizon_hours": "72"}
    assert [(path, asked, headers["Authorization"]) for path, asked, headers in player.requests] == [
        ("/login", {}, f"Basic {b64encode(b'ann:secret').decode()}"),
        ("/v3/forecast", query, "Bearer abc"),
    ]


@pytest.mark.parametrize(
    ("forecast", "condition"),
    [
        ({"meta": META, "data": []}, FeedCondition.NOT_YET_PUBLISHED),
        ({"meta": META | {"region": "PJM_DC"}, "data": DATA}, FeedCondition.WRONG_ZONE),
        ({"meta": META | {"units": "percent"}, "data": DATA}, FeedCondition.GARBAGE),
        ({"meta": META | {"signal_type": "health_damage"}, "data": DATA}, FeedCondition.GARBAGE),
        ({"meta": META, "data": DATA[::-1]}, FeedCondition.GARBAGE),
        ({"error": "Invalid region"}, FeedCondition.GARBAGE),
    ],
)
def test_other_answers(player, reply, source, forecast, condition):
    player.reply = answers(reply, forecast)
    assert source.fetch(WINDOW).condition is condition


def test_a_refused_login_asks_for_nothing_more(player, reply, source):
    player.reply = lambda *_: reply(b"{}", status=401)
    assert source.fetch(WINDOW).condition is FeedCondition.KEY_REFUSED
    assert len(player.requests) == 1


def test_the_settings_name_the_region():
    made = SOURCES["carbon"]["watttime"](SourceSettings(FeedSettings(watttime_region="PJM_DC", timeout_s=7)))
    assert (made.region, made.timeout_s) == ("PJM_DC", 7)
    with pytest.raises(BadSetting, match="watttime_region: is not set"):
        SOURCES["carbon"]["watttime"](SourceSettings(FeedSettings()))
