"""Energy-Charts' answers: the good one, and those that are not what was asked for."""

import pytest

from offpeak.predictors.feeds.auctions import EnergyCharts
from offpeak.predictors.feeds.port import FeedCondition, Window

pytestmark = pytest.mark.quick

WINDOW = Window(1_730_674_800, 1_730_674_800 + 48 * 3600)


def fetched(player):
    return EnergyCharts("DE-LU", player.url, timeout_s=5).fetch(WINDOW)


def test_a_good_answer(player, answer):
    player.plays_json(answer("energy_charts"))
    series = fetched(player)
    assert (int(series.start_s[0]), series.end_s) == WINDOW
    assert (series.unit, series.source, len(series)) == ("EUR/MWh", "energy-charts", 48)
    assert series.value.tolist() == answer("energy_charts")["price"]
    path, query, _ = player.requests[0]
    assert (path, query["bzn"]) == ("/price", "DE-LU")
    assert (query["start"], query["end"]) == ("2024-11-03T23:00Z", "2024-11-05T23:00Z")


def test_prices_per_kilowatt_hour_are_converted(player, answer):
    player.plays_json(answer("energy_charts") | {"unit": "EUR/kWh", "price": [0.25] * 48})
    assert set(fetched(player).value) == {250.0}


def test_null_is_a_gap(player, answer):
    good = answer("energy_charts")
    player.plays_json(good | {"price": good["price"][:24] + [None] * 24})
    assert fetched(player).gaps() == ((WINDOW.from_s + 24 * 3600, WINDOW.until_s),)


@pytest.mark.parametrize(
    ("other", "condition"),
    [
        ({"unit": "EUR/t"}, FeedCondition.WRONG_CURRENCY),
        ({"unix_seconds": [], "price": []}, FeedCondition.NOT_YET_PUBLISHED),
        ({"price": [1.0]}, FeedCondition.GARBAGE),
        ({"unix_seconds": None}, FeedCondition.GARBAGE),
        ({"price": ["NaN"] * 48}, FeedCondition.GARBAGE),
    ],
)
def test_other_answers(player, answer, other, condition):
    player.plays_json(answer("energy_charts") | other)
    assert fetched(player).condition is condition
