"""A service is asked once for weeks of prices, then each day for that day."""

from zoneinfo import ZoneInfo

from offpeak.predictors.feeds.auctions import EnergyCharts
from offpeak.predictors.feeds.feed import Feed
from offpeak.predictors.feeds.port import Window, price_quantity
from offpeak.predictors.price_forecast import PriceSource, forecast_prices
from offpeak.prices.tariff import parse_tariff

HOUR, DAY = 3600, 86_400
MIDNIGHT = 1_730_674_800
NOW = MIDNIGHT + 15 * HOUR
BRUSSELS = ZoneInfo("Europe/Brussels")


def answer(from_s, until_s):
    seconds = list(range(from_s, until_s, HOUR))
    return {"unix_seconds": seconds, "price": [50 + s // HOUR % 24 for s in seconds], "unit": "EUR / MWh"}


def test_only_what_is_new_is_requested(tmp_path, player):
    feed = Feed((EnergyCharts("BE", url=player.url),), tmp_path / "prices.csv", price_quantity("EUR"), BRUSSELS)
    source = PriceSource(feed, parse_tariff("on=90EUR/MWh,off=30EUR/MWh"), tmp_path / "model.npz", "BE")
    player.plays_json(answer(MIDNIGHT - 56 * DAY, MIDNIGHT + DAY))
    forecast_prices(source, Window(NOW, NOW + 36 * HOUR), NOW)
    player.plays_json(answer(MIDNIGHT + DAY, MIDNIGHT + 2 * DAY))
    forecast = forecast_prices(source, Window(NOW + DAY, NOW + 2 * DAY), NOW + DAY)
    assert player.requests[0][1]["start"] == "2024-09-09T14:00Z"
    assert player.requests[1][1]["start"] == "2024-11-04T23:00Z"
    assert forecast.prediction.basis[:9] == ("published",) * 9
    assert forecast.origin.last_s == MIDNIGHT + 2 * DAY
