"""Nord Pool's answers, a delivery day each: good ones, and those that are not what was asked for."""

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from offpeak.predictors.feeds.auctions import NordPool
from offpeak.predictors.feeds.port import FeedCondition, Window

BRUSSELS = ZoneInfo("Europe/Brussels")
WINDOW = Window(1_730_674_800, 1_730_674_800 + 48 * 3600)
DAY = {"date": "2024-11-04"}


def source(player) -> NordPool:
    return NordPool("GER", "EUR", player.url, timeout_s=5)


def plays_days(player, reply, answer, *, changed=None, published=("2024-11-04", "2024-11-05")):
    def of_day(path, query):
        if path != "/api/DayAheadPrices" or query["date"] not in published:
            return reply(status=204)
        return reply(json.dumps(answer(f"nord_pool_{query['date']}") | (changed or {})).encode())

    player.reply = of_day


def test_two_delivery_days(player, reply, answer):
    plays_days(player, reply, answer)
    series = source(player).fetch(WINDOW)
    assert (int(series.start_s[0]), series.end_s, len(series)) == (*WINDOW, 48)
    assert series.value.tolist() == answer("energy_charts")["price"]
    assert [query["date"] for _, query, _ in player.requests] == ["2024-11-04", "2024-11-05"]
    assert player.requests[0][1] | DAY == DAY | {"market": "DayAhead", "deliveryArea": "GER", "currency": "EUR"}


def test_tomorrow_is_not_yet_published(player, reply, answer):
    plays_days(player, reply, answer, published=("2024-11-04",))
    assert source(player).fetch(WINDOW).end_s == WINDOW.from_s + 24 * 3600
    plays_days(player, reply, answer, published=())
    assert source(player).fetch(WINDOW).condition is FeedCondition.NOT_YET_PUBLISHED


@pytest.mark.parametrize(
    ("changed", "condition"),
    [
        ({"market": "Intraday"}, FeedCondition.WRONG_AUCTION),
        ({"currency": "SEK"}, FeedCondition.WRONG_CURRENCY),
        ({"areaStates": [{"state": "Preliminary", "areas": ["GER"]}]}, FeedCondition.NOT_YET_PUBLISHED),
        ({"deliveryDateCET": "2023-11-04"}, FeedCondition.GARBAGE),
        ({"multiAreaEntries": [{"deliveryStart": "2024-11-04T00:00:00"}]}, FeedCondition.GARBAGE),
    ],
)
def test_other_answers(player, reply, answer, changed, condition):
    plays_days(player, reply, answer, changed=changed)
    assert source(player).fetch(WINDOW).condition is condition


def entries(start: datetime, hours: int, area: str = "GER"):
    starts = [start + timedelta(hours=i) for i in range(hours)]
    ends = [begin + timedelta(hours=1) for begin in starts]
    return [
        {"deliveryStart": f"{begin:%Y-%m-%dT%H:%M:%SZ}", "deliveryEnd": f"{end:%Y-%m-%dT%H:%M:%SZ}"}
        | {"entryPerArea": {area: 50.0 + i}}
        for i, (begin, end) in enumerate(zip(starts, ends, strict=True))
    ]


def test_another_area(player, reply, answer):
    other = entries(datetime(2024, 11, 3, 23, tzinfo=UTC), 24, "FR")
    plays_days(player, reply, answer, changed={"multiAreaEntries": other})
    assert source(player).fetch(WINDOW).condition is FeedCondition.WRONG_ZONE


def test_local_time_stamped_as_utc(player, reply, answer):
    shifted = entries(datetime(2024, 11, 4, 0, tzinfo=UTC), 24)
    plays_days(player, reply, answer, changed={"multiAreaEntries": shifted})
    assert source(player).fetch(WINDOW).condition is FeedCondition.SHIFTED_CLOCK


@pytest.mark.parametrize(("date", "hours"), [("2025-03-30", 23), ("2024-10-27", 25)])
def test_days_of_23_and_25_hours(player, answer, date, hours):
    midnight = datetime.fromisoformat(date).replace(tzinfo=BRUSSELS)
    day = entries(midnight.astimezone(UTC), hours)
    player.plays_json(answer("nord_pool_2024-11-04") | {"deliveryDateCET": date, "multiAreaEntries": day})
    window = Window(int(midnight.timestamp()), int(midnight.timestamp()) + hours * 3600)
    series = source(player).fetch(window)
    assert (int(series.start_s[0]), series.end_s, len(series)) == (*window, hours)
    assert len(player.requests) == 1


def test_a_zone_that_it_does_not_publish(player):
    assert NordPool("", "EUR", player.url).fetch(WINDOW).condition is FeedCondition.WRONG_ZONE
    assert not player.requests
